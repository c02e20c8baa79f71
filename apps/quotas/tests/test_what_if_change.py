"""Reading a proposed change: what is accepted, and where each fault is said to be."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.quotas.what_if_change import ChangeError, NewWork, NodeEdit, WorkEdit, parse_changes


def faults(*changes: Any) -> list[tuple[str, str]]:
    with pytest.raises(ChangeError) as caught:
        parse_changes(list(changes))
    return [(fault.field, fault.code) for fault in caught.value.faults]


def queue(**wanted: Any) -> dict[str, Any]:
    return {"kind": "ClusterQueue", "name": "red", "set": wanted}


def job(**fields: Any) -> dict[str, Any]:
    pod_sets = [{"count": 2, "requests": {"nvidia.com/gpu": "8", "memory": "64Gi"}}]
    return {"kind": "Workload", "action": "add", "queue": "red", "pod_sets": pod_sets, **fields}


def test_a_queue_edit_is_read_with_everything_that_it_may_name() -> None:
    (edit,) = parse_changes(
        [
            queue(
                cohort="ml",
                fair_weight="2",
                stop_policy="Hold",
                strategy="StrictFIFO",
                preemption={
                    "within_cluster_queue": "LowerPriority",
                    "reclaim_within_cohort": "Any",
                    "borrow_within_cohort": {"policy": "LowerPriority", "max_priority_threshold": 5},
                },
                fungibility={"when_can_borrow": "TryNextFlavor"},
                quotas=[{"flavor": "h100", "resource": "cpu", "nominal": "500m", "lending_limit": None}],
                remove=[{"flavor": "a100"}],
            )
        ]
    )
    assert isinstance(edit, NodeEdit)
    assert edit.values == {
        "parent": "ml",
        "fair_weight": Decimal(2),
        "stop_policy": "Hold",
        "strategy": "StrictFIFO",
        "within_cluster_queue": "LowerPriority",
        "reclaim_within_cohort": "Any",
        "borrow_within_cohort": "LowerPriority",
        "max_priority_threshold": 5,
        "when_can_borrow": "TryNextFlavor",
    }
    assert dict(edit.quotas[0].cells) == {"nominal": Decimal("0.5"), "lending_limit": None}
    assert edit.removals[0].flavor == "a100"


def test_no_cohort_is_a_value() -> None:
    (edit,) = parse_changes([queue(cohort=None)])
    assert isinstance(edit, NodeEdit)
    assert edit.values == {"parent": None}


def test_work_is_added_changed_and_taken_away() -> None:
    added, changed, gone = parse_changes(
        [
            job(priority=-5, name="mine"),
            {"kind": "Workload", "action": "priority", "uid": "u1", "priority": 7},
            {"kind": "Workload", "action": "remove", "uid": "u2"},
        ]
    )
    assert isinstance(added, NewWork)
    assert (added.queue, added.priority, added.name) == ("red", -5, "mine")
    assert added.pod_sets[0].requests == {"nvidia.com/gpu": Decimal(8), "memory": Decimal(64 * 2**30)}
    assert added.pod_sets[0].name == "main"
    assert changed == WorkEdit("changes.1", "u1", 7)
    assert gone == WorkEdit("changes.2", "u2", None)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("no object", [("changes.0", "shape"), ("changes.0.kind", "choice")]),
        ({"kind": "Pod"}, [("changes.0.kind", "choice")]),
        (queue(), [("changes.0.set", "nothing")]),
        ({"kind": "ClusterQueue", "set": {"cohort": "a"}}, [("changes.0.name", "required")]),
        (queue(colour="red"), [("changes.0.set.colour", "unknown_field")]),
        (queue(stop_policy="Pause"), [("changes.0.set.stop_policy", "choice")]),
        (queue(strategy=None), [("changes.0.set.strategy", "choice")]),
        (queue(fair_weight="-1"), [("changes.0.set.fair_weight", "negative")]),
        (queue(preemption=[]), [("changes.0.set.preemption", "shape")]),
        (
            queue(preemption={"reclaim_within_cohort": "Always"}),
            [("changes.0.set.preemption.reclaim_within_cohort", "choice")],
        ),
        (
            queue(preemption={"borrow_within_cohort": {"policy": "Any"}}),
            [("changes.0.set.preemption.borrow_within_cohort.policy", "choice")],
        ),
        (
            queue(fungibility={"when_can_borrow": "Borrow"}),
            [("changes.0.set.fungibility.when_can_borrow", "choice")],
        ),
        (
            queue(quotas=[{"flavor": "h100", "resource": "cpu", "nominal": "-1"}]),
            [("changes.0.set.quotas.0.nominal", "negative")],
        ),
        (
            queue(quotas=[{"flavor": "h100", "resource": "cpu", "nominal": "many"}]),
            [("changes.0.set.quotas.0.nominal", "quantity")],
        ),
        (
            queue(quotas=[{"flavor": "h100", "resource": "cpu", "nominal": True}]),
            [("changes.0.set.quotas.0.nominal", "quantity")],
        ),
        (
            queue(quotas=[{"flavor": "h100", "resource": "cpu", "nominal": 1}] * 2),
            [("changes.0.set.quotas.1", "repeated")],
        ),
        (
            queue(quotas=[{"resource": "cpu", "nominal": 1}]),
            [("changes.0.set.quotas.0.flavor", "required")],
        ),
        (queue(remove=[{"flavor": "a", "resource": "b"}]), [("changes.0.set.remove.0", "shape")]),
        (
            {"kind": "Cohort", "name": "ml", "set": {"cohort": "all"}},
            [("changes.0.set.cohort", "unknown_field"), ],
        ),
        ({"kind": "Workload", "action": "stop"}, [("changes.0.action", "choice")]),
        ({"kind": "Workload", "action": "remove"}, [("changes.0.uid", "required")]),
        (
            {"kind": "Workload", "action": "priority", "uid": "u"},
            [("changes.0.priority", "required")],
        ),
        (job(queue=None), [("changes.0.queue", "required")]),
        (job(local_queue="ns/lq"), [("changes.0.local_queue", "not_allowed_together")]),
        (job(queue=None, local_queue="lq"), [("changes.0.local_queue", "shape")]),
        (job(priority="high"), [("changes.0.priority", "number")]),
        (job(priority=2**31), [("changes.0.priority", "number")]),
        (job(pod_sets=[]), [("changes.0.pod_sets", "required")]),
        (job(pod_sets=[{"requests": {}}]), [("changes.0.pod_sets.0.requests", "required")]),
        (
            job(pod_sets=[{"count": 0, "requests": {"cpu": 1}}]),
            [("changes.0.pod_sets.0.count", "number")],
        ),
        (
            job(pod_sets=[{"count": 2, "min_count": 3, "requests": {"cpu": 1}}]),
            [("changes.0.pod_sets.0.min_count", "number")],
        ),
        (
            job(pod_sets=[{"name": "a", "requests": {"cpu": 1}}] * 2),
            [("changes.0.pod_sets", "repeated")],
        ),
    ],
)  # fmt: skip
def test_each_fault_is_said_at_its_field(change: Any, expected: list[tuple[str, str]]) -> None:
    assert faults(change) == expected


def test_all_faults_are_said_at_once() -> None:
    found = faults(queue(strategy="x"), job(priority="x"), {"kind": "y"})
    assert found == [
        ("changes.0.set.strategy", "choice"),
        ("changes.1.priority", "number"),
        ("changes.2.kind", "choice"),
    ]


def test_nothing_at_all_and_too_much_are_faults() -> None:
    assert faults() == [("changes", "nothing")]
    assert faults(*[queue(cohort="a")] * 51) == [("changes", "too_many")]
    with pytest.raises(ChangeError):
        parse_changes({"kind": "ClusterQueue"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["kind", "name", "set", "quotas", "flavor", "action", "uid", "pod_sets", "requests", "preemption",
             "borrow_within_cohort", "remove", "local_queue", "count", "nominal", "priority", "fair_weight"]
        ),
        inner | st.sampled_from(["ClusterQueue", "Cohort", "Workload", "add", "remove", "priority"]),
        max_size=5,
    ),
    max_leaves=20,
)  # fmt: skip


@given(JSON)
def test_whatever_is_sent_is_read_or_refused(data: Any) -> None:
    try:
        fields = [change.field for change in parse_changes(data)]
    except ChangeError as error:
        fields = [fault.field for fault in error.faults]
    assert fields
    assert all(field.startswith("changes") for field in fields)
