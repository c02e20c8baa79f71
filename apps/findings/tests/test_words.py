"""Every code that a finding can have says why it matters and what to do."""

from __future__ import annotations

import pytest

from apps.capacity.notes import NODE_CODES
from apps.findings import between, demand, idle, quota, supply
from apps.findings.rows import Finding
from apps.findings.words import WORDS, words

KEYS = [
    *(f"source-{state}/east/pods" for state in ("failed", "stale", "partial")),
    "quarantine/east/pods",
    *(f"waiting-{code}/red" for code in demand._SENTENCES),
    *(f"queue-{code}/east/ClusterQueue/q" for code in ("broken", "stopped")),
    *(f"{code}/east" for code in idle._TEXTS),
    *(f"coverage-{code}/east" for code in ("beyond", "unseen")),
    *(f"bucket/east/{bucket}" for bucket in supply._SEVERITY),
    *(f"capacity/{code}/east" for code in {*supply._NOTES, *NODE_CODES} - supply._OF_QUOTA.keys()),
    *(f"quota/{code}/east" for code in supply._OF_QUOTA.values()),
    *(
        f"quota/{what.partition('.')[0]}/east/ClusterQueue/q/{what.partition('.')[2]}"
        for what in quota._TEXTS
    ),
    *(f"between/{code}/east/ClusterQueue/q/red" for code in between.TEXTS),
    "between/node_refuses/east/n1",
    "between/device_unregistered/east",
    "quota/never_admits/east/Cohort/c/cohort_cycle",
    "quota/larger_than_ceiling/east/ClusterQueue/q",
]


@pytest.mark.parametrize("key", sorted(KEYS))
def test_why_and_advice(key: str) -> None:
    why, advice = words(Finding(key=key, severity="note", text=""))
    assert why.endswith(".")
    assert advice.endswith(".")


def test_causes_of_queues_that_admit_nothing_have_words_of_their_own() -> None:
    causes = {what for what in quota._TEXTS if what.startswith("never_admits.")}
    assert causes <= WORDS.keys()


def test_a_queue_called_like_a_cause_is_told_its_own() -> None:
    named = Finding("quota/never_admits/east/ClusterQueue/stopped/no_selector", "warn", "")
    other = Finding("quota/never_admits/east/ClusterQueue/q/no_selector", "warn", "")
    assert words(named) == words(other)
