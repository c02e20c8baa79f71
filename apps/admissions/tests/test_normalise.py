"""Texts that differ in numbers, names and quotes alone are one group."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.admissions.normalise import LONGEST_GROUP, normalised


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("the moon is 3 days late", "the moon is <n> days late"),
        ("needs 12 more nvidia.com/gpu in flavor h100-80g", "needs <n> more <name> in flavor <name>"),
        ("needs 500m cpu and 64Gi memory", "needs <n> cpu and <n> memory"),
        ('workload "team-a/job 1" is odd', "workload <text> is odd"),
        ("queue `dormant` is odd", "queue <text> is odd"),
        ("group 'a-group' is odd, but doesn't say why", "group <text> is odd, but doesn't say why"),
        (
            "preempted by (UID: d1a3f0c2-7b1e-4f57-9a55-0c9d2f6f7e11)",
            "preempted by (UID: <uid>)",
        ),
        ('resources={"cpu":"1","memory":"2Gi"}, requirements=a', "resources=<json>, requirements=a"),
        ("team-a/job-train-1d7d8: no luck", "<name>: no luck"),
        ("pod-to-pod traffic", "<name> traffic"),
        ("after 15m30s or 12.5%", "after <n> or <n>%"),
        ("two   spaces\nand a line", "two spaces and a line"),
        ("", ""),
    ],
)
def test_what_differs_is_taken_out(text: str, group: str) -> None:
    assert normalised(text) == group


def test_two_wordings_of_one_statement_meet() -> None:
    one = 'pod "a-1" of team-a/train waits for 3 of 8 leases since 2026-12-02T17:00:00Z'
    other = 'pod "b-22" of nlp/llama waits for 1 of 64 leases since 2026-12-03T01:10:59Z'
    assert normalised(one) == normalised(other)


@given(st.text(max_size=400))
def test_it_never_raises_and_is_stable(text: str) -> None:
    group = normalised(text)
    assert len(group) <= LONGEST_GROUP
    assert normalised(group) == group


@pytest.mark.parametrize("piece", ["a", "1", '"', "{", "a.", "<n>", "'", "0a-", " "])
def test_time_is_linear(piece: str) -> None:
    def seconds(length: int) -> float:
        text = (piece * length)[:length]
        began = time.perf_counter()
        for _ in range(5):
            normalised(text)
        return time.perf_counter() - began

    assert seconds(2_000) < max(10 * seconds(500), 0.05)
