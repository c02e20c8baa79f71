"""What a cluster's queues would admit: Kueue's scheduler over the quota tree, without a cluster. Pure.

`model.py` says what goes in and comes out; `scheduler.py` does one cycle after the other; `settle.py` runs cycles until
nothing moves. Used by the what-if (apps/quotas/what_if.py), by tests against a real Kueue, and by simcluster.
"""
