"""The simulation: work arrives, waits, is admitted, runs and ends, driven by a heap of timed steps.

Input: a scenario, a seed and an epoch; output: changes in a Store and uses in a Telemetry. The same three give the
same changes, however often it is stopped on the way: nothing here reads a clock or a global random source.
"""
