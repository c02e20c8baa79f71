"""A change in a line: every kind of edit, and what is malformed."""

from __future__ import annotations

from typing import Any

import pytest

from apps.console.edit_words import describe


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (
            {"kind": "ClusterQueue", "name": "a", "set": {"quotas": [{"flavor": "h100", "resource": "gpu", "nominal": "8"}]}},
            "a: h100 gpu nominal quota 8",
        ),
        (
            {"kind": "LocalQueue", "namespace": "n", "name": "q", "set": {"stop_policy": "Hold"}},
            "n/q: stop policy Hold",
        ),
        (
            {"kind": "VolcanoQueue", "name": "v", "set": {"deserved": {"gpu": "4", "cpu": None}, "weight": 2}},
            "v: gpu deserved 4, cpu deserved –, weight 2",
        ),
        ({"kind": "Cohort", "name": "c", "set": {"remove": [{"flavor": "x"}]}}, "c: without x"),
        ({"kind": "Cohort", "name": "c", "set": "broken"}, "c: "),
    ],
)  # fmt: skip
def test_an_edit_is_told_in_a_line(edit: dict[str, Any], text: str) -> None:
    assert describe(edit, {}) == text


def test_every_field_of_the_language_has_its_name() -> None:
    """What could not be named would read as code."""
    edits: list[dict[str, Any]] = [
        {
            "kind": "ClusterQueue",
            "name": "a",
            "set": {
                "cohort": "x",
                "fair_weight": "x",
                **dict.fromkeys(("stop_policy", "strategy"), "x"),
                "preemption": {
                    "within_cluster_queue": "x",
                    "reclaim_within_cohort": "x",
                    "borrow_within_cohort": {"policy": "x", "max_priority_threshold": "1"},
                },
                "fungibility": dict.fromkeys(("when_can_borrow", "when_can_preempt", "preference"), "x"),
                "quotas": [
                    {
                        "flavor": "f",
                        "resource": "r",
                        "nominal": "1",
                        "borrowing_limit": None,
                        "lending_limit": "1",
                    }
                ],
            },
        },
        {"kind": "Cohort", "name": "a", "set": {"parent": "x"}},
        {
            "kind": "VolcanoQueue",
            "name": "a",
            "set": {
                **dict.fromkeys(("weight", "priority", "state"), "x"),
                **{key: {"r": "1"} for key in ("capability", "deserved", "guarantee")},
            },
        },
    ]
    assert [text for text in (describe(edit, {}) for edit in edits) if "_" in text] == []
