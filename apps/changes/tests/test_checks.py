"""Warnings and refusals of whole requests, by hand; the report as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.changes.checks import CheckInput, DryRun, Finding, Report, report_from_json, report_json, run
from apps.changes.edits import ChangeError, parse_edits
from apps.changes.specs import FieldManager, ObjectSeen
from apps.changes.tests.test_planning import GPU, amounts, nominal, queue, volcano

HELD = {("ClusterQueue", "red"): {("h100", GPU): Decimal(6)}}
TEAMS = {("ClusterQueue", "red"): {7: {("h100", GPU): Decimal(4)}, 0: {("h100", GPU): Decimal(2)}}}


def checked(edits: list[dict[str, Any]], *seen: ObjectSeen, **more: Any) -> Report:
    objects = {one.key: one for one in seen}
    given: dict[str, Any] = {"held": HELD, "held_by_team": TEAMS, "flavors": frozenset({"h100"}), **more}
    return run(CheckInput(edits=parse_edits(edits), objects=objects, **given))


def said(findings: tuple[Finding, ...]) -> list[tuple[str, str]]:
    return [(one.code, one.field) for one in findings]


ORG = queue("org", "", "0", kind="Cohort")
RED, BLUE = queue("red", "org", "8"), queue("blue", "org", "8")


# ---- refusals -------------------------------------------------------------------------------------------------------

REFUSED: list[tuple[str, dict[str, Any], list[tuple[str, str]]]] = [
    (
        "nominal below the lending limit, said where it was asked for",
        {"quotas": [{"flavor": "h100", "resource": GPU, "nominal": "2"}]},
        [("above_nominal", "edits.0.set.quotas.0.nominal")],
    ),
    (
        "a limit above",
        {"quotas": [{"flavor": "h100", "resource": GPU, "lending_limit": "9"}]},
        [("above_nominal", "edits.0.set.quotas.0.lending_limit")],
    ),
    (
        "leaving with a limit asked for",
        {"cohort": None, "quotas": [{"flavor": "h100", "resource": GPU, "borrowing_limit": "1"}]},
        [("no_cohort", "edits.0.set.quotas.0.borrowing_limit")],
    ),
    (
        "borrowing preemption without reclaim",
        {"preemption": {"borrow_within_cohort": {"policy": "LowerPriority"}}},
        [("borrow_needs_reclaim", "edits.0.set.preemption.borrow_within_cohort")],
    ),
    ("not listed", {"remove": [{"flavor": "a100"}]}, [("not_listed", "edits.0.set.remove.0")]),
    ("nothing", {"quotas": [{"flavor": "h100", "resource": GPU, "nominal": "8"}]}, [("nothing", "edits")]),
]


@pytest.mark.parametrize(("words", "wanted", "expected"), REFUSED, ids=[row[0] for row in REFUSED])
def test_refusals(words: str, wanted: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    report = checked(
        [{"kind": "ClusterQueue", "name": "red", "set": wanted}],
        ORG,
        queue("red", "org", "8", lendingLimit="4"),
    )
    assert said(report.refusals) == expected
    assert report.refused


def test_an_object_that_does_not_exist_is_refused() -> None:
    report = checked([nominal("Cohort", "gone", "4")], RED)
    assert said(report.refusals) == [("unknown", "edits.0.name")]


def test_volcano_refusals_name_the_amount() -> None:
    tree = (volcano("root", ""), volcano("a", "root", capability="8", deserved="4"))
    report = checked([amounts("a", deserved="9")], *tree)
    assert said(report.refusals) == [("deserved_above_capability", f"edits.0.set.deserved.{GPU}")]
    closing = {"kind": "VolcanoQueue", "name": "root", "set": {"state": "Closed"}}
    assert said(checked([closing], *tree).refusals) == [("root_closed", "edits.0.set.state")]


def test_faults_of_the_language() -> None:
    with pytest.raises(ChangeError) as caught:
        parse_edits(
            [
                {"kind": "Workload", "action": "remove", "uid": "u"},
                {"kind": "LocalQueue", "name": "main", "set": {"stop_policy": "Never"}},
                {
                    "kind": "VolcanoQueue",
                    "name": "q",
                    "set": {"weight": 0, "state": "Ajar", "capability": {"cpu": "-1"}},
                },
                {"kind": "VolcanoQueue", "name": "q", "set": {"parent": "x"}},
            ]
        )
    assert [(one.field, one.code) for one in caught.value.faults] == [
        ("edits.0.kind", "choice"),
        ("edits.1.set.stop_policy", "choice"),
        ("edits.1.namespace", "required"),
        ("edits.2.set.state", "choice"),
        ("edits.2.set.weight", "number"),
        ("edits.2.set.capability.cpu", "negative"),
        ("edits.3.set.parent", "unknown_field"),
    ]


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["kind", "name", "namespace", "set", "weight", "state", "capability", "x"]), inner | st.sampled_from(["VolcanoQueue", "LocalQueue"]), max_size=4), max_leaves=12))  # fmt: skip
def test_whatever_is_sent_is_read_or_refused(data: Any) -> None:
    try:
        found = parse_edits(data)
    except ChangeError as error:
        if not error.faults:
            raise
    else:
        assert found


# ---- warnings -------------------------------------------------------------------------------------------------------


def test_below_use_says_who_and_what_follows() -> None:
    """red holds 6; 4 remain nominal, org's other 8 can be borrowed: ceiling 12, nobody is over it."""
    report = checked([nominal("ClusterQueue", "red", "4")], ORG, RED, BLUE)
    assert report.refusals == ()
    (warning,) = report.warnings
    assert (warning.code, warning.field) == ("below_use", "edits.0.set.quotas.0.nominal")
    assert warning.params == {
        "queue": "red",
        "flavor": "h100",
        "resource": GPU,
        "held": "6",
        "nominal": "4",
        "beyond": "2",
        "ceiling": "12",
        "over": "0",
        "then": "stays",
        "teams": [{"team": "7", "held": "4"}, {"team": "", "held": "2"}],
    }


def test_below_use_without_a_cohort_is_over_and_with_one_that_reclaims_is_taken_back() -> None:
    (alone,) = checked([nominal("ClusterQueue", "red", "4")], queue("red", "", "8")).warnings
    assert (alone.params["ceiling"], alone.params["over"], alone.params["then"]) == ("4", "2", "stays")
    reclaims = queue("blue", "org", "8")
    reclaims.spec["preemption"] = {"reclaimWithinCohort": "Any"}
    (taken,) = checked([nominal("ClusterQueue", "red", "4")], ORG, RED, reclaims).warnings
    assert taken.params["then"] == "reclaimable"
    drains = checked([nominal("ClusterQueue", "red", "4", stop_policy="HoldAndDrain")], ORG, RED).warnings
    assert [(one.code, one.params.get("then")) for one in drains] == [
        ("drains", None),
        ("below_use", "drains"),
    ]
    assert drains[0].params["held"] == [{"flavor": "h100", "resource": GPU, "held": "6"}]


def test_what_another_queue_loses_is_told_too() -> None:
    """red has 2, borrows 4 of blue's 8, and blue keeps all but 1 at home from now on: 6 held of at most 3."""
    edits = [
        {
            "kind": "ClusterQueue",
            "name": "blue",
            "set": {"quotas": [{"flavor": "h100", "resource": GPU, "lending_limit": "1"}]},
        }
    ]
    (warning,) = checked(edits, ORG, queue("red", "org", "2"), BLUE).warnings
    assert (warning.code, warning.field, warning.params["queue"]) == (
        "below_use",
        "edits.0.set.quotas.0.lending_limit",
        "red",
    )
    assert (warning.params["ceiling"], warning.params["over"]) == ("3", "3")


def test_growing_is_not_warned_of() -> None:
    assert checked([nominal("ClusterQueue", "red", "9")], ORG, queue("red", "org", "2"), BLUE).warnings == ()


def test_above_allocatable() -> None:
    there = {"h100": {GPU: Decimal(16)}}
    assert (
        checked(
            [nominal("ClusterQueue", "blue", "8"), nominal("Cohort", "org", "0")],
            ORG,
            RED,
            queue("blue", "org", "6"),
            allocatable=there,
        ).warnings
        == ()
    )
    (warning,) = checked([nominal("ClusterQueue", "blue", "10")], ORG, RED, BLUE, allocatable=there).warnings
    assert (warning.code, warning.field) == ("above_allocatable", "edits.0.set.quotas.0.nominal")
    assert warning.params == {
        "flavor": "h100",
        "resource": GPU,
        "sum": "18",
        "before": "16",
        "allocatable": "16",
    }
    # Less than before, though still too much, is no warning; a flavor of which nothing is known neither.
    assert (
        checked(
            [nominal("ClusterQueue", "blue", "10")], ORG, RED, queue("blue", "org", "12"), allocatable=there
        ).warnings
        == ()
    )
    assert checked([nominal("ClusterQueue", "blue", "99")], ORG, RED, BLUE, allocatable={}).warnings == ()


def test_flavors_that_come_and_go() -> None:
    edits = [
        {
            "kind": "ClusterQueue",
            "name": "red",
            "set": {
                "quotas": [{"flavor": "h200", "resource": GPU, "nominal": "8"}],
                "remove": [{"flavor": "h100"}],
            },
        }
    ]
    report = checked(edits, ORG, RED)
    assert report.refusals == ()
    assert said(report.warnings) == [
        ("unknown_flavor", "edits.0.set.quotas.0.flavor"),
        ("flavor_in_use", "edits.0.set.remove.0"),
    ]
    assert report.warnings[1].params["held"] == "6"
    assert checked(edits, ORG, RED, flavors=None).warnings[0].code == "flavor_in_use"


def test_a_flavor_that_an_admission_check_names() -> None:
    """Only what the edit brings about: a check that named an absent flavor before says nothing new."""
    seen = queue("red", "org", "8")
    checks = [{"name": "budget", "onFlavors": ["h100", "old"]}, {"name": "all"}]
    seen = replace(seen, spec={**seen.spec, "admissionChecksStrategy": {"admissionChecks": checks}})
    gone = [{"kind": "ClusterQueue", "name": "red", "set": {"remove": [{"flavor": "h100"}]}}]
    report = checked(gone, ORG, seen, held={})
    (warning,) = [one for one in report.warnings if one.code == "check_names_flavor"]
    assert (warning.field, warning.params) == ("edits.0.set.remove.0", {"check": "budget", "flavor": "h100"})
    assert report.refusals == ()
    grown = checked([nominal("ClusterQueue", "red", "9")], ORG, seen)
    assert "check_names_flavor" not in {one.code for one in grown.warnings}


def test_a_circle_of_cohorts() -> None:
    lab = queue("lab", "org", "0", kind="Cohort")
    edits = [{"kind": "Cohort", "name": "org", "set": {"parent": "lab"}}]
    (warning,) = checked(edits, ORG, lab, RED, held={}).warnings
    assert (warning.code, warning.field) == ("cycle", "edits.0.set.parent")
    assert warning.params == {"cohorts": "lab → org → lab", "queues": "red"}
    own = [{"kind": "Cohort", "name": "org", "set": {"parent": "org"}}]
    (warning,) = checked(own, ORG, RED, held={}).warnings
    assert warning.params["cohorts"] == "org → org"


@pytest.mark.parametrize(
    ("asked", "theirs", "warned"),
    [
        ("1", "20096Mi", True),
        ("20096Mi", "1", True),
        ("20Gi", "64Gi", False),
        ("1", "8", False),
        ("1500Mi", "1073741824", False),
        ("0", "64Gi", False),
    ],
)
def test_units_that_do_not_fit(asked: str, theirs: str, warned: bool) -> None:
    seen = (ORG, queue("red", "org", "3"), queue("blue", "org", theirs))
    report = checked([nominal("ClusterQueue", "red", asked)], *seen, held={})
    assert report.refusals == ()
    assert said(report.warnings) == ([("unit_mismatch", "edits.0.set.quotas.0.nominal")] if warned else [])


def managed(name: str, operation: str, path: str, subresource: str = "") -> ObjectSeen:
    seen = queue("red", "org", "8")
    manager = FieldManager(name, operation, subresource, (path,))
    return ObjectSeen(seen.kind, "", "red", "u", "1", seen.api_version, "/p", seen.spec, (manager,))


MANAGED: list[tuple[ObjectSeen, bool]] = [
    (managed("argocd-controller", "Update", "/spec/resourceGroups"), True),
    (managed("kubectl", "Apply", "/spec/resourceGroups"), True),
    (managed("kubectl", "Update", "/spec/resourceGroups"), False),
    (managed("gitops", "Apply", "/spec/stopPolicy"), False),
    (managed("gpu-portal", "Apply", "/spec/resourceGroups"), False),
    (managed("gitops", "Apply", "/spec/resourceGroups", "status"), False),
    (managed("gitops", "Apply", "/spec"), True),
]


@pytest.mark.parametrize(("seen", "warned"), MANAGED)
def test_fields_of_another_manager(seen: ObjectSeen, warned: bool) -> None:
    report = checked([nominal("ClusterQueue", "red", "9")], ORG, seen)
    expected = [("managed", "edits.0.set.quotas.0.nominal")] if warned else []
    assert said(report.warnings) == expected


def test_leaving_and_entering_cohorts() -> None:
    limited = queue("red", "org", "8", borrowingLimit="4")
    leave = [{"kind": "ClusterQueue", "name": "red", "set": {"cohort": None}}]
    report = checked(leave, ORG, limited)
    assert (report.refusals, said(report.warnings)) == ((), [("limits_dropped", "edits.0.set.cohort")])
    assert report.warnings[0].params == {"cells": f"h100/{GPU}"}
    move = [{"kind": "ClusterQueue", "name": "red", "set": {"cohort": "lab"}}]
    assert said(checked(move, ORG, RED).warnings) == [("new_cohort", "edits.0.set.cohort")]


def test_stops() -> None:
    edits = [{"kind": "LocalQueue", "namespace": "team", "name": "main", "set": {"stop_policy": "Hold"}}]
    seen = ObjectSeen("LocalQueue", "team", "main", "u", "1", "", "/p", {"clusterQueue": "red"})
    held = {("LocalQueue", "team/main"): {("h100", GPU): Decimal(3)}}
    (warning,) = checked(edits, seen, held=held).warnings
    assert (warning.code, warning.params) == (
        "stops",
        {"held": [{"flavor": "h100", "resource": GPU, "held": "3"}]},
    )


def test_volcano_warnings() -> None:
    tree = (
        volcano("root", ""),
        volcano("a", "root", capability="16", deserved="8"),
        volcano("b", "a", "Closed"),
    )
    held = {("VolcanoQueue", "a"): {("", GPU): Decimal(6)}}
    found = checked([amounts("a", capability="4", deserved="2")], *tree, held=held, held_by_team={}).warnings
    assert [
        (one.code, one.field, one.params["part"], one.params["beyond"], one.params["then"]) for one in found
    ] == [
        ("below_use", f"edits.0.set.capability.{GPU}", "capability", "2", "stays"),
        ("below_use", f"edits.0.set.deserved.{GPU}", "deserved", "4", "reclaimable"),
    ]
    (more,) = checked(
        [amounts("a", deserved="10")], *tree, held={}, allocatable={"": {GPU: Decimal(9)}}
    ).warnings
    assert (more.code, more.params["sum"], more.params["before"]) == ("above_allocatable", "10", "8")
    close = {"kind": "VolcanoQueue", "name": "a", "set": {"state": "Closed"}}
    (closes,) = checked([close], *tree, held={}).warnings
    assert (closes.code, closes.params) == ("closes", {"queue": "a", "below": "b"})
    shut = (volcano("root", ""), volcano("a", "root", "Closed"), volcano("b", "a", "Closed"))
    open_b = {"kind": "VolcanoQueue", "name": "b", "set": {"state": "Open"}}
    (opens,) = checked([open_b], *shut, held={}).warnings
    assert (opens.code, opens.params) == ("opens_below_closed", {"queue": "b", "parent": "a"})
    open_a = {"kind": "VolcanoQueue", "name": "a", "set": {"state": "Open"}}
    assert checked([open_b, open_a], *shut, held={}).warnings == ()


def test_what_is_written_twice_is_told() -> None:
    tree = (
        volcano("root", ""),
        volcano("eng", "root", capability="40", deserved="20", guarantee="8"),
        volcano("a", "eng", capability="20", deserved="10", guarantee="4"),
        volcano("b", "eng", capability="20", deserved="10", guarantee="4"),
    )
    edits = [amounts("a", guarantee="6", capability="18"), amounts("b", guarantee="2")]
    report = checked(edits, *tree, held={})
    assert report.refusals == ()
    assert [(one.code, one.field, one.params) for one in report.warnings] == [
        ("two_writes", "edits.0.set", {"name": "a"})
    ]


# ---- the report -----------------------------------------------------------------------------------------------------

params = st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=3)), max_size=2), max_size=3)  # fmt: skip
findings = st.lists(st.builds(Finding, st.text(), st.text(), params), max_size=3).map(tuple)
dry_runs = st.lists(st.builds(DryRun, st.integers(), st.sampled_from(["accepted", "refused", "unknown"]), st.integers(0, 599), st.text()), max_size=2).map(tuple)  # fmt: skip


@given(
    st.builds(Report, findings, findings, st.none() | st.fixed_dictionaries({"teams": st.just([])}), dry_runs)
)
def test_a_report_survives_json(report: Report) -> None:
    assert report_from_json(json.loads(json.dumps(report_json(report)))) == report
