"""Edits laid on specs and taken back: by hand, and for every kind by chance."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings

from apps.changes.edits import ChangeError, Edit, parse_edits
from apps.changes.patching import Conflicts, edited_fields, lay, operations_between, reverse, yaml_diff
from apps.changes.specs import GROUPS, ObjectSeen, amount, same
from apps.changes.tests.json_patch import apply_patch
from apps.changes.tests.strategies import pairs_of_every_kind

API = "kueue.x-k8s.io/v1beta2"


def queue(**more: Any) -> ObjectSeen:
    spec = {
        "cohortName": "org",
        "resourceGroups": [
            {
                "coveredResources": ["memory", "nvidia.com/gpu"],
                "flavors": [
                    {
                        "name": "h100",
                        "resources": [
                            {"name": "memory", "nominalQuota": "64Gi"},
                            {"name": "nvidia.com/gpu", "nominalQuota": "8", "lendingLimit": "4"},
                        ],
                    }
                ],
            }
        ],
        **more,
    }
    return ObjectSeen("ClusterQueue", "", "red", "u1", "42", API, "/p", spec)


def edit(wanted: dict[str, Any], kind: str = "ClusterQueue", name: str = "red") -> Edit:
    return parse_edits([{"kind": kind, "name": name, "set": wanted}])[0]


def quota(nominal: str, **more: Any) -> dict[str, Any]:
    return {"quotas": [{"flavor": "h100", "resource": "nvidia.com/gpu", "nominal": nominal, **more}]}


GPU = "/spec/resourceGroups/0/flavors/0/resources/1"
BY_HAND: list[tuple[str, dict[str, Any], list[dict[str, Any]]]] = [
    ("one number", quota("12"), [{"op": "replace", "path": f"{GPU}/nominalQuota", "value": "12"}]),
    ("the same value in other words", quota("8000m", lending_limit="4"), []),
    (
        "a limit comes",
        quota("8", borrowing_limit="2"),
        [{"op": "add", "path": f"{GPU}/borrowingLimit", "value": "2"}],
    ),
    ("a limit goes", quota("8", lending_limit=None), [{"op": "remove", "path": f"{GPU}/lendingLimit"}]),
    (
        "leaving takes the limits along",
        {"cohort": None},
        [{"op": "remove", "path": "/spec/cohortName"}, {"op": "remove", "path": f"{GPU}/lendingLimit"}],
    ),
    ("weight", {"fair_weight": "2"}, [{"op": "add", "path": "/spec/fairSharing", "value": {"weight": "2"}}]),
    ("what is usual already", {"stop_policy": "None", "fair_weight": "1", "strategy": "BestEffortFIFO"}, []),
    (
        "a resource comes to every flavor of its group",
        {"quotas": [{"flavor": "h100", "resource": "cpu", "nominal": "10"}]},
        [
            {
                "op": "replace",
                "path": "/spec/resourceGroups",
                "value": [
                    {
                        "coveredResources": ["memory", "nvidia.com/gpu", "cpu"],
                        "flavors": [
                            {
                                "name": "h100",
                                "resources": [
                                    {"name": "memory", "nominalQuota": "64Gi"},
                                    {"name": "nvidia.com/gpu", "nominalQuota": "8", "lendingLimit": "4"},
                                    {"name": "cpu", "nominalQuota": "10"},
                                ],
                            }
                        ],
                    }
                ],
            }
        ],
    ),
]


@pytest.mark.parametrize(("said", "wanted", "expected"), BY_HAND, ids=[row[0] for row in BY_HAND])
def test_operations_by_hand(said: str, wanted: dict[str, Any], expected: list[dict[str, Any]]) -> None:
    assert lay(queue(), edit(wanted)).operations == expected


def test_the_field_of_the_served_version_is_patched() -> None:
    old = replace(queue(), api_version="kueue.x-k8s.io/v1beta1")
    spec = {key: value for key, value in old.spec.items() if key != "cohortName"}
    laid = lay(replace(old, spec=spec), edit({"cohort": "lab"}))
    assert laid.operations == [{"op": "add", "path": "/spec/cohort", "value": "lab"}]


def test_an_object_without_a_spec_gets_one() -> None:
    seen = ObjectSeen("Cohort", "", "org", "u", "1", API, "/p", {}, has_spec=False)
    laid = lay(seen, edit({"parent": "all"}, "Cohort", "org"))
    assert laid.operations == [{"op": "add", "path": "/spec", "value": {"parentName": "all"}}]


def test_what_is_not_listed_cannot_be_taken_away() -> None:
    with pytest.raises(ChangeError) as caught:
        lay(queue(), edit({"remove": [{"flavor": "nope"}]}))
    assert [(fault.field, fault.code) for fault in caught.value.faults] == [
        ("edits.0.set.remove.0", "not_listed")
    ]


def test_open_and_close_are_commands() -> None:
    seen = ObjectSeen("VolcanoQueue", "", "q", "u", "1", "", "/p", {"weight": 1}, status_state="Open")
    for wanted, state, command in [
        ("Closed", "Open", "CloseQueue"),
        ("Closed", "Closed", ""),
        ("Closed", "Closing", "CloseQueue"),
        ("Open", "Closing", "OpenQueue"),
        ("Open", "", ""),
    ]:
        laid = lay(replace(seen, status_state=state), edit({"state": wanted}, "VolcanoQueue", "q"))
        assert (laid.operations, laid.command) == ([], command), (wanted, state)


def test_a_changed_field_that_was_edited_conflicts_and_one_beside_it_does_not() -> None:
    before = queue().spec
    after = lay(queue(), edit(quota("12"))).after_spec
    beside = deepcopy(after)
    beside["resourceGroups"][0]["flavors"].insert(
        0,
        {
            "name": "a100",
            "resources": [
                {"name": "memory", "nominalQuota": "1"},
                {"name": "nvidia.com/gpu", "nominalQuota": "1"},
            ],
        },
    )
    assert reverse(before, after, beside) == [
        {"op": "replace", "path": "/spec/resourceGroups/0/flavors/1/resources/1/nominalQuota", "value": "8"}
    ]
    there = deepcopy(after)
    there["resourceGroups"][0]["flavors"][0]["resources"][1]["nominalQuota"] = "16"
    with pytest.raises(Conflicts) as caught:
        reverse(before, after, there)
    assert [(one.path, one.before, one.after) for one in caught.value.fields] == [
        ("/spec/resourceGroups/h100/nvidia.com~1gpu/nominalQuota", "12", "16")
    ]


def test_yaml_diff_shows_the_line() -> None:
    diff = yaml_diff(queue().spec, lay(queue(), edit(quota("12"))).after_spec, context=0)
    assert [line for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in ("---", "+++")] == [
        "-        nominalQuota: '8'",
        "+        nominalQuota: '12'",
    ]


@settings(max_examples=400, deadline=None)
@given(pairs_of_every_kind)
def test_laying_and_taking_back(pair: tuple[ObjectSeen, Edit]) -> None:
    seen, wanted = pair
    body = {"spec": seen.spec} if seen.has_spec else {}
    original = deepcopy(seen.spec)
    try:
        laid = lay(seen, wanted)
    except ChangeError:
        return
    assert seen.spec == original
    assert all(one["path"] == "/spec" or one["path"].startswith("/spec/") for one in laid.operations)
    patched = apply_patch(body, laid.operations)
    assert patched.get("spec", {}) == laid.after_spec
    assert bool(edited_fields(original, laid.after_spec)) == bool(laid.operations)
    undo = reverse(original, laid.after_spec, laid.after_spec)
    assert apply_patch({"spec": laid.after_spec}, undo)["spec"] == original
    again = lay(replace(seen, spec=laid.after_spec, has_spec=True), wanted) if _listed_still(wanted) else laid
    assert again.after_spec == laid.after_spec
    assert operations_between(laid.after_spec, laid.after_spec) == []


def _listed_still(wanted: Edit) -> bool:
    """What was taken away cannot be taken away again."""
    return not getattr(wanted, "removals", ())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.0000000001", "0.000000001"), ("1n", "0.000000001"), ("0.5n", "0.000000001"), ("1.5n", "0.000000002"),
        ("-0.1n", "-0.000000001"), ("0.0000000010", "0.000000001"), ("1e-12", "0.000000001"), ("0e-12", "0"),
        ("123456789.0000000001", "123456789.000000001"), ("1.5", "1.5"), ("1e36", "1e36"),
    ],
)  # fmt: skip
def test_amounts_finer_than_a_billionth_are_read_as_the_server_stores_them(text: str, value: str) -> None:
    assert amount(text) == Decimal(value)
    assert same(f"{GROUPS}/h100/cpu/nominalQuota", text, value)


def test_a_flavor_taken_away_and_put_back_as_it_was_is_no_change() -> None:
    """The same amount in other words is none; what is not asked for again is gone."""
    again = [
        {"flavor": "h100", "resource": "memory", "nominal": "65536Mi"},
        {"flavor": "h100", "resource": "nvidia.com/gpu", "nominal": "8000m", "lending_limit": "4"},
    ]
    wanted = {"remove": [{"flavor": "h100"}], "quotas": again}
    (edit,) = parse_edits([{"kind": "ClusterQueue", "name": "red", "set": wanted}])
    assert lay(queue(), edit).operations == []
    del again[1]["lending_limit"]
    (edit,) = parse_edits([{"kind": "ClusterQueue", "name": "red", "set": wanted}])
    assert [change.path for change in edited_fields(queue().spec, lay(queue(), edit).after_spec)] == [
        f"{GROUPS}/h100/nvidia.com~1gpu/lendingLimit"
    ]
