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
            "a: h100 gpu nominal 8",
        ),
        (
            {"kind": "LocalQueue", "namespace": "n", "name": "q", "set": {"stop_policy": "Hold"}},
            "n/q: stop_policy Hold",
        ),
        (
            {"kind": "VolcanoQueue", "name": "v", "set": {"deserved": {"gpu": "4", "cpu": None}, "weight": 2}},
            "v: deserved gpu 4, deserved cpu –, weight 2",
        ),
        ({"kind": "Cohort", "name": "c", "set": {"remove": [{"flavor": "x"}]}}, "c: without x"),
        ({"kind": "Cohort", "name": "c", "set": "broken"}, "c: "),
    ],
)  # fmt: skip
def test_an_edit_is_told_in_a_line(edit: dict[str, Any], text: str) -> None:
    assert describe(edit, {}) == text
