"""Tests of the simulated cluster, with the real client libraries over real HTTP."""
