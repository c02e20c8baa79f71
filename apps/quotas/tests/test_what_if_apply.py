"""Laying a change on a situation: Kueue's own rules for edits, what is only noted, and who may name what."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from apps.quotas.engine.model import Group, Policy, Situation
from apps.quotas.tests.what_if_world import GPU, H100, a_cohort, a_queue, cell, job, situation
from apps.quotas.what_if_apply import Applied, Names, apply_changes, focused, with_activity
from apps.quotas.what_if_change import ChangeError, parse_changes

EVERYTHING = Names(local_queues={("red-ns", "red-lq"): ("red", False), ("red-ns", "halted"): ("red", True)})


def tried(base: Situation, *changes: dict[str, Any], names: Names = EVERYTHING) -> Applied:
    return apply_changes(base, parse_changes(list(changes)), names=names, beyond={}, now=100.0)


def refused(base: Situation, *changes: dict[str, Any], names: Names = EVERYTHING) -> list[tuple[str, str]]:
    with pytest.raises(ChangeError) as caught:
        tried(base, *changes, names=names)
    return [(fault.field, fault.code) for fault in caught.value.faults]


def edit(name: str, /, kind: str = "ClusterQueue", **wanted: Any) -> dict[str, Any]:
    return {"kind": kind, "name": name, "set": wanted}


def quota(nominal: object = ..., flavor: str = "h100", resource: str = GPU, **limits: Any) -> dict[str, Any]:
    return {
        "flavor": flavor,
        "resource": resource,
        **({} if nominal is ... else {"nominal": nominal}),
        **limits,
    }


def queue_of(applied: Applied, name: str) -> Any:
    return next(queue for queue in applied.situation.queues if queue.name == name)


def notes(applied: Applied) -> list[tuple[str, str]]:
    return [(note.code, note.part) for note in applied.notes]


BASE = situation(a_queue("red", 8, lend=4), a_queue("blue", 4, borrow=2), job("r1", "red", 8, holds=True))


def test_only_what_is_named_changes() -> None:
    found = tried(BASE, edit("red", quotas=[quota(12)]))
    assert queue_of(found, "red").node.cells == {H100: cell(12, None, 4)}
    assert queue_of(found, "blue") == replace(BASE.queues[1], inactive="")
    assert found.touched == {("ClusterQueue", "red")}
    assert found.notes == ()


def test_a_limit_is_set_and_taken_away() -> None:
    found = tried(BASE, edit("blue", quotas=[quota(borrowing_limit=None, lending_limit="1")]))
    assert queue_of(found, "blue").node.cells == {H100: cell(4, None, 1)}


def test_policy_weight_and_stop_policy() -> None:
    found = tried(
        BASE,
        edit(
            "red",
            fair_weight="0.5",
            stop_policy="HoldAndDrain",
            strategy="StrictFIFO",
            preemption={"reclaim_within_cohort": "Any", "borrow_within_cohort": {"policy": "LowerPriority"}},
        ),
    )
    queue = queue_of(found, "red")
    assert queue.policy == Policy(
        strategy="StrictFIFO", reclaim_within_cohort="Any", borrow_within_cohort="LowerPriority"
    )
    assert (queue.node.fair_weight, queue.node.stopped, queue.drains, queue.inactive) == (
        Decimal("0.5"),
        True,
        True,
        "Stopped",
    )
    assert notes(found) == [("stops", "")]


def test_a_stopped_queue_starts_again() -> None:
    base = with_activity(tried(BASE, edit("red", stop_policy="Hold")).situation, {})
    assert [queue.inactive for queue in base.queues] == ["Stopped", ""]
    assert queue_of(tried(base, edit("red", stop_policy="None")), "red").inactive == ""


def test_what_no_change_lifts_stays() -> None:
    found = apply_changes(
        BASE,
        parse_changes([edit("red", quotas=[quota(9)])]),
        names=EVERYTHING,
        beyond={"red": "AdmissionCheckInactive"},
        now=0,
    )
    assert queue_of(found, "red").inactive == "AdmissionCheckInactive"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (edit("none", cohort="ml"), [("changes.0.name", "unknown")]),
        (edit("none", kind="Cohort", parent="ml"), [("changes.0.name", "unknown")]),
        # 4 may be lent: with 3 there would be less than that.
        (edit("red", quotas=[quota(3)]), [("changes.0.set.quotas.0.nominal", "above_nominal")]),
        (
            edit("red", quotas=[quota(lending_limit=9)]),
            [("changes.0.set.quotas.0.lending_limit", "above_nominal")],
        ),
        # Out of the cohort, but the limit that only has a meaning inside stays.
        (edit("blue", cohort=None), [("changes.0.set", "no_cohort")]),
        (
            edit("blue", cohort=None, quotas=[quota(borrowing_limit=3)]),
            [("changes.0.set.quotas.0.borrowing_limit", "no_cohort")],
        ),
        (edit("red", fair_weight="1e-9"), [("changes.0.set.fair_weight", "number")]),
        (
            edit("red", preemption={"borrow_within_cohort": {"policy": "LowerPriority"}}),
            [("changes.0.set.preemption.borrow_within_cohort", "not_allowed_together")],
        ),
        (
            edit("red", fungibility={"preference": "BorrowingOverPreemption"}),
            [("changes.0.set.fungibility.preference", "not_allowed_together")],
        ),
        (edit("red", remove=[{"flavor": "l4"}]), [("changes.0.set.remove.0", "not_listed")]),
        (
            edit("all", kind="Cohort", remove=[{"flavor": "l4"}]),
            [("changes.0.set.remove.0", "not_listed")],
        ),
        (
            edit("all", kind="Cohort", quotas=[quota(1, borrowing_limit=1)]),
            [("changes.0.set.quotas.0.borrowing_limit", "no_cohort")],
        ),
        ({"kind": "Workload", "action": "remove", "uid": "none"}, [("changes.0.uid", "unknown")]),
        (
            {"kind": "Workload", "action": "add", "queue": "none", "pod_sets": [{"requests": {"cpu": 1}}]},
            [("changes.0.queue", "unknown")],
        ),
        (
            {
                "kind": "Workload",
                "action": "add",
                "local_queue": "red-ns/none",
                "pod_sets": [{"requests": {"cpu": 1}}],
            },
            [("changes.0.local_queue", "unknown")],
        ),
    ],
)
def test_what_kueue_would_refuse_is_refused_at_its_field(
    change: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert refused(BASE, change) == expected


def test_leaving_the_cohort_works_once_the_limits_are_gone() -> None:
    found = tried(BASE, edit("blue", cohort="", quotas=[quota(borrowing_limit=None)]))
    assert queue_of(found, "blue").node.parent is None
    assert found.touched == {("ClusterQueue", "blue"), ("Cohort", "all")}


def test_a_cohort_may_lend_more_than_its_own_quota() -> None:
    base = situation(a_queue("red", 8, cohort="ml"), a_cohort("ml", "all", 2), a_cohort("all"))
    found = tried(base, edit("ml", kind="Cohort", quotas=[quota(lending_limit=7)]))
    assert found.situation.cohorts[0].cells == {H100: cell(2, None, 7)}


class TestFlavorsAndResources:
    base = situation(a_queue("red", 8, flavors=("h100", "a100")), a_queue("blue", 4))

    def test_a_flavor_joins_the_group_of_its_resource_as_the_last_to_be_tried(self) -> None:
        queue = queue_of(tried(self.base, edit("blue", quotas=[quota(2, "a100")])), "blue")
        assert queue.groups == (Group((GPU,), ("h100", "a100")),)
        assert list(queue.node.cells) == [H100, ("a100", GPU)]

    def test_a_resource_joins_the_group_of_its_flavor_and_counts_zero_in_the_others(self) -> None:
        found = tried(self.base, edit("red", quotas=[quota(64, "h100", "cpu")]))
        queue = queue_of(found, "red")
        assert queue.groups == (Group((GPU, "cpu"), ("h100", "a100")),)
        assert queue.node.cells["a100", "cpu"] == cell(0)
        assert notes(found) == [("filled", "a100/cpu")]

    def test_new_flavor_and_new_resource_are_a_new_group(self) -> None:
        found = tried(self.base, edit("blue", quotas=[quota(1, "l4", "cpu")]))
        assert queue_of(found, "blue").groups == (Group((GPU,), ("h100",)), Group(("cpu",), ("l4",)))
        # Kueue accepts a flavor without an object, and stops the queue.
        assert notes(found) == [("unknown_flavor", "l4"), ("inactive", "blue")]
        assert queue_of(found, "blue").inactive == "FlavorNotFound"

    def test_a_flavor_is_in_one_group_only(self) -> None:
        two = tried(self.base, edit("blue", quotas=[quota(1, "a100", "cpu")])).situation
        assert refused(two, edit("blue", quotas=[quota(1, "a100")])) == [
            ("changes.0.set.quotas.0.flavor", "other_group")
        ]

    def test_a_flavor_or_a_resource_is_taken_away(self) -> None:
        queue = queue_of(tried(self.base, edit("red", remove=[{"flavor": "h100"}])), "red")
        assert queue.groups == (Group((GPU,), ("a100",)),)
        assert list(queue.node.cells) == [("a100", GPU)]
        found = tried(self.base, edit("red", remove=[{"resource": GPU}]))
        assert queue_of(found, "red").groups == ()
        assert notes(found) == [("emptied", "")]


class TestCohorts:
    def test_a_cohort_that_only_queues_name_gets_quota_of_its_own(self) -> None:
        found = tried(BASE, edit("all", kind="Cohort", quotas=[quota(16)]))
        assert [(node.name, node.cells) for node in found.situation.cohorts] == [("all", {H100: cell(16)})]
        assert notes(found) == [("new_cohort", "all")]

    def test_a_circle_is_accepted_and_said(self) -> None:
        base = situation(a_queue("red", 8, cohort="b"), a_cohort("a"), a_cohort("b", "a"))
        found = tried(base, edit("a", kind="Cohort", parent="b"))
        assert queue_of(found, "red").inactive == "HasCycle"
        assert notes(found) == [("cycle", "red")]

    def test_a_cohort_that_nobody_knows_is_said(self) -> None:
        found = tried(BASE, edit("red", cohort="new"))
        assert notes(found) == [("new_cohort", "new")]

    def test_a_later_change_sees_what_an_earlier_one_made(self) -> None:
        found = tried(BASE, edit("red", cohort="new"), edit("new", kind="Cohort", quotas=[quota(1)]))
        assert [node.name for node in found.situation.cohorts] == ["new"]


class TestWork:
    def test_a_hypothetical_job_is_queued_now(self) -> None:
        found = tried(
            BASE,
            {
                "kind": "Workload",
                "action": "add",
                "local_queue": "red-ns/red-lq",
                "priority": 3,
                "pod_sets": [{"count": 2, "min_count": 1, "requests": {GPU: 4}}],
            },
        )
        (work,) = [work for work in found.situation.work if work.uid in found.added]
        assert (work.queue, work.namespace, work.local_queue, work.queued, work.priority, work.holds) == (
            "red",
            "red-ns",
            "red-lq",
            100.0,
            3,
            None,
        )
        assert (work.pod_sets[0].count, work.pod_sets[0].min_count) == (2, 1)

    def test_a_stopped_local_queue_takes_it_without_looking(self) -> None:
        found = tried(
            BASE,
            {
                "kind": "Workload",
                "action": "add",
                "local_queue": "red-ns/halted",
                "pod_sets": [{"requests": {GPU: 4}}],
            },
        )
        assert found.situation.work[-1].blocked == "QueueMissing"
        assert notes(found) == [("local_queue_stopped", "")]

    def test_work_is_taken_away_or_gets_another_priority(self) -> None:
        gone = tried(BASE, {"kind": "Workload", "action": "remove", "uid": "r1"})
        assert (len(gone.situation.work), gone.removed) == (0, frozenset({"r1"}))
        assert gone.touched == {("ClusterQueue", "red")}
        other = tried(BASE, {"kind": "Workload", "action": "priority", "uid": "r1", "priority": 9})
        assert [work.priority for work in other.situation.work] == [9]


class TestRestricted:
    names = Names(local_queues={}, queues={"red"}, cohorts={"all"}, work={"r1"})
    base = situation(
        a_queue("red", 8), a_queue("blue", 4), a_cohort("all"), a_cohort("other"), job("b1", "blue", 4)
    )

    @pytest.mark.parametrize(
        "change",
        [
            edit("blue", quotas=[quota(1)]),
            edit("all", kind="Cohort", quotas=[quota(1)]),
            edit("other", kind="Cohort", quotas=[quota(1)]),
            {"kind": "Workload", "action": "remove", "uid": "b1"},
            {"kind": "Workload", "action": "add", "queue": "blue", "pod_sets": [{"requests": {GPU: 1}}]},
            {
                "kind": "Workload",
                "action": "add",
                "local_queue": "red-ns/red-lq",
                "pod_sets": [{"requests": {GPU: 1}}],
            },
        ],
    )
    def test_what_belongs_to_others_is_unknown(self, change: dict[str, Any]) -> None:
        ((_field, code),) = refused(self.base, change, names=self.names)
        assert code == "unknown"

    @pytest.mark.parametrize("cohort", ["other", "nowhere"])
    def test_a_cohort_that_is_not_above_is_unknown_whether_it_exists_or_not(self, cohort: str) -> None:
        assert refused(self.base, edit("red", cohort=cohort), names=self.names) == [
            ("changes.0.set.cohort", "unknown")
        ]

    def test_the_own_queue_may_be_changed(self) -> None:
        assert tried(self.base, edit("red", quotas=[quota(1)]), names=self.names).notes == ()


def test_only_the_trees_that_are_touched_are_looked_at() -> None:
    base = situation(
        a_queue("a", 1, cohort="one"),
        a_queue("b", 1, cohort="one"),
        a_queue("c", 1, cohort="two"),
        a_queue("d", 1, cohort=None),
        a_cohort("two", "top"),
        job("in-a", "a", 1),
        job("in-c", "c", 1),
        job("nowhere", "", 1),
    )
    found = tried(base, edit("a", quotas=[quota(2)]))
    before, after = focused(base, found.situation, found.touched)
    for side in (before, after):
        assert {queue.name for queue in side.queues} == {"a", "b"}
        assert [work.uid for work in side.work] == ["in-a"]
        assert side.cohorts == ()


def test_a_queue_that_moves_brings_both_trees() -> None:
    base = situation(
        a_queue("a", 1, cohort="one"), a_queue("b", 1, cohort="one"), a_queue("c", 1, cohort="two")
    )
    found = tried(base, edit("a", cohort="two"))
    before, after = focused(base, found.situation, found.touched)
    assert (
        {queue.name for queue in before.queues} == {queue.name for queue in after.queues} == {"a", "b", "c"}
    )
