"""Each rule of the webhooks by hand: an object that is right, changed in one way, and the one rule that it breaks."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from apps.changes.rules import broken, is_label_key
from apps.changes.rules_volcano import broken_volcano

GPU = "nvidia.com/gpu"
Spec = dict[str, Any]


def group(flavors: list[str], covered: list[str]) -> Spec:
    cells = [{"name": name, "nominalQuota": "8"} for name in covered]
    return {
        "coveredResources": covered,
        "flavors": [{"name": name, "resources": deepcopy(cells)} for name in flavors],
    }


def right() -> Spec:
    return {
        "cohortName": "org",
        "queueingStrategy": "BestEffortFIFO",
        "stopPolicy": "None",
        "namespaceSelector": {},
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "Never"},
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "resourceGroups": [group(["h100", "a100"], ["cpu", GPU])],
    }


def cell(spec: Spec, flavor: int = 0, resource: int = 1) -> Spec:
    found: Spec = spec["resourceGroups"][0]["flavors"][flavor]["resources"][resource]
    return found


def put(path: str, value: Any) -> Callable[[Spec], None]:
    def change(spec: Spec) -> None:
        here = spec
        *parts, last = path.split(".")
        for part in parts:
            here = here.setdefault(part, {})
        here[last] = value

    return change


def in_cell(**fields: Any) -> Callable[[Spec], None]:
    return lambda spec: cell(spec).update(fields)


def groups(*found: Spec) -> Callable[[Spec], None]:
    return put("resourceGroups", list(found))


H = ("cell", "h100", GPU)
CQ: list[tuple[str, Callable[[Spec], Any], list[tuple[str, tuple[str, ...]]]]] = [
    ("nothing", lambda _spec: None, []),
    ("nominal -1", in_cell(nominalQuota="-1"), [("negative", (*H, "nominal"))]),
    ("borrowing -1", in_cell(borrowingLimit="-1"), [("negative", (*H, "borrowing_limit"))]),
    ("lending -1", in_cell(lendingLimit="-1"), [("negative", (*H, "lending_limit"))]),
    ("no quantity", in_cell(nominalQuota="eight"), [("quantity", (*H, "nominal"))]),
    ("lending 9 of 8", in_cell(lendingLimit="9"), [("above_nominal", (*H, "lending_limit"))]),
    ("lending 8 of 8", in_cell(lendingLimit="8"), []),
    ("nominal below lending", in_cell(nominalQuota="7900m", lendingLimit="8"), [("above_nominal", (*H, "lending_limit"))]),
    ("borrowing alone", lambda s: (s.pop("cohortName"), in_cell(borrowingLimit="1")(s)), [("no_cohort", (*H, "borrowing_limit"))]),
    ("lending alone", lambda s: (s.pop("cohortName"), in_cell(lendingLimit="1")(s)), [("no_cohort", (*H, "lending_limit"))]),
    ("0 is a limit too", lambda s: (s.pop("cohortName"), in_cell(borrowingLimit="0")(s)), [("no_cohort", (*H, "borrowing_limit"))]),
    ("one resource less", lambda s: s["resourceGroups"][0]["flavors"][0]["resources"].pop(), [("resource_count", ("flavor", "h100"))]),
    ("other order", lambda s: s["resourceGroups"][0]["flavors"][1]["resources"].reverse(), [("resource_order", ("flavor", "a100"))]),
    ("flavor twice", groups(group(["h100", "h100"], ["cpu"])), [("duplicate_flavor", ("flavor", "h100"))]),
    ("flavor in two groups", groups(group(["h100"], ["cpu"]), group(["h100"], [GPU])), [("duplicate_flavor", ("flavor", "h100"))]),
    ("resource in two groups", groups(group(["h100"], [GPU]), group(["a100"], [GPU])), [("duplicate_resource", ("resource", GPU))]),
    ("flavor's name", groups(group(["H100"], ["cpu"])), [("object_name", ("flavor", "H100"))]),
    ("flavor's name of 253", groups(group(["x" * 253], ["cpu"])), []),
    ("flavor's name of 254", groups(group(["x" * 254], ["cpu"])), [("object_name", ("flavor", "x" * 254))]),
    ("cohort's name", put("cohortName", "a_b"), [("object_name", ("value", "parent"))]),
    ("cohort's name with a point", put("cohortName", "a.b-1"), []),
    ("resource's name", groups(group(["h100"], ["a b"])), [("resource_name", ("resource", "a b"))]),
    ("17 groups", groups(*(group([f"f{n}"], [f"r{n}"]) for n in range(17))), [("too_many_groups", ())]),
    ("16 groups", groups(*(group([f"f{n}"], [f"r{n}"]) for n in range(16))), []),
    ("65 flavors in a group", groups(group([f"f{n}" for n in range(65)], ["cpu"])), [("too_many_flavors_of_a_group", ("flavor", "f0"))]),
    ("64 flavors in a group", groups(group([f"f{n}" for n in range(64)], ["cpu"])), []),
    ("65 resources in a group", groups(group(["h100"], [f"r{n}" for n in range(65)])), [("too_many_resources_of_a_group", ("flavor", "h100"))]),
    ("257 flavors", groups(*(group([f"f{g}-{n}" for n in range(64 if g < 4 else 1)], [f"r{g}"]) for g in range(5))), [("too_many_flavors_of_the_queue", ())]),
    ("257 resources", groups(*(group([f"f{g}"], [f"r{g}-{n}" for n in range(64 if g < 4 else 1)]) for g in range(5))), [("too_many_resources_of_the_queue", ())]),
    ("513 cells in a group", groups(group([f"f{n}" for n in range(27)], [f"r{n}" for n in range(19)])), [("too_many_cells_of_a_group", ("flavor", "f0"))]),
    ("512 cells in a group", groups(group([f"f{n}" for n in range(32)], [f"r{n}" for n in range(16)])), []),
    ("borrow without reclaim", put("preemption", {"borrowWithinCohort": {"policy": "LowerPriority"}}), [("borrow_needs_reclaim", ("value", "borrow_within_cohort"))]),
    ("threshold of 32 bits", put("preemption.borrowWithinCohort", {"policy": "LowerPriority", "maxPriorityThreshold": 2**31}), [("number", ("value", "borrow_within_cohort"))]),
    ("threshold of 31 bits", put("preemption.borrowWithinCohort", {"policy": "LowerPriority", "maxPriorityThreshold": -(2**31)}), []),
    ("preference", put("flavorFungibility.preference", "BorrowingOverPreemption"), [("preference_needs_search", ("value", "preference"))]),
    ("preference and both searches", put("flavorFungibility", {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor", "preference": "BorrowingOverPreemption"}), []),
    ("weight -1", put("fairSharing.weight", "-1"), [("negative", ("value", "fair_weight"))]),
    ("weight 1n", put("fairSharing.weight", "1n"), [("weight_too_small", ("value", "fair_weight"))]),
    ("weight 2n", put("fairSharing.weight", "2n"), []),
    ("weight 0", put("fairSharing.weight", "0"), []),
    ("stop policy", put("stopPolicy", "Pause"), [("choice", ("value", "stop_policy"))]),
    ("strategy", put("queueingStrategy", "LIFO"), [("choice", ("value", "strategy"))]),
    ("check for a flavor that is gone: for later versions only", put("admissionChecksStrategy.admissionChecks", [{"name": "c", "onFlavors": ["h100", "old"]}]), []),
    ("selector's operator", put("namespaceSelector.matchExpressions", [{"key": "team", "operator": "Is", "values": ["a"]}]), [("selector", ())]),
    ("selector's values", put("namespaceSelector.matchExpressions", [{"key": "team", "operator": "Exists", "values": ["a"]}]), [("selector", ())]),
    ("selector", put("namespaceSelector.matchExpressions", [{"key": "team", "operator": "In", "values": ["a"]}]), []),
    ("selector's label", put("namespaceSelector.matchLabels", {"team": "a b"}), [("selector", ())]),
    ("selector's empty label", put("namespaceSelector.matchLabels", {"team": ""}), []),
    ("selector's key", put("namespaceSelector.matchLabels", {"a/b/c": "x"}), [("selector", ())]),
    ("selector's value", put("namespaceSelector.matchExpressions", [{"key": "team", "operator": "In", "values": ["a", "-a"]}]), [("selector", ())]),
    ("variants changed", put("concurrentAdmissionPolicy", {"x": 1}), [("immutable", ())]),
]  # fmt: skip


@pytest.mark.parametrize(("words", "change", "expected"), CQ, ids=[row[0] for row in CQ])
def test_a_cluster_queue(words: str, change: Callable[[Spec], Any], expected: list[tuple[str, Any]]) -> None:
    spec = right()
    change(spec)
    assert [(one.code, one.place) for one in broken("ClusterQueue", right(), spec)] == expected


def test_variants_of_admission() -> None:
    policy = {"concurrentAdmissionPolicy": {"x": 1}}
    before = {**right(), **policy}
    wrong: list[tuple[Spec, str]] = [
        ({"queueingStrategy": "StrictFIFO"}, "variants_strict"),
        ({"resourceGroups": [group(["a"], ["cpu"]), group(["b"], [GPU])]}, "variants_one_group"),
        ({"resourceGroups": [group([f"f{n}" for n in range(17)], ["cpu"])]}, "variants_flavors"),
    ]
    assert broken("ClusterQueue", before, before) == []
    for change, code in wrong:
        assert [one.code for one in broken("ClusterQueue", before, {**before, **change})] == [code]


def test_a_cohort_needs_a_parent_for_limits_and_may_lend_more_than_it_has() -> None:
    spec = {"parentName": "all", "resourceGroups": [group(["h100"], ["cpu", GPU])]}
    cell(spec)["lendingLimit"] = "99"
    assert broken("Cohort", {}, spec) == []
    del spec["parentName"]
    assert [(one.code, one.place) for one in broken("Cohort", {}, spec)] == [
        ("no_parent", (*H, "lending_limit"))
    ]


COHORTS: list[tuple[str, Spec, list[tuple[str, Any]]]] = [
    ("1024 flavors", {"resourceGroups": [group([f"f{g}-{n}" for n in range(64)], [f"r{g}"]) for g in range(16)]}, []),
    ("4096 cells in a group", {"resourceGroups": [group([f"f{n}" for n in range(64)], [f"r{n}" for n in range(64)])]}, []),
    ("17 groups", {"resourceGroups": [group([f"f{n}"], [f"r{n}"]) for n in range(17)]}, [("too_many_groups", ())]),
    ("65 flavors in a group", {"resourceGroups": [group([f"f{n}" for n in range(65)], ["cpu"])]}, [("too_many_flavors_of_a_group", ("flavor", "f0"))]),
    ("parent's name", {"parentName": "All"}, [("object_name", ("value", "parent"))]),
    ("flavor's name", {"resourceGroups": [group(["h100-"], ["cpu"])]}, [("object_name", ("flavor", "h100-"))]),
    ("no spec", {}, []),
]  # fmt: skip


@pytest.mark.parametrize(("words", "spec", "expected"), COHORTS, ids=[row[0] for row in COHORTS])
def test_a_cohort(words: str, spec: Spec, expected: list[tuple[str, Any]]) -> None:
    assert [(one.code, one.place) for one in broken("Cohort", {}, spec)] == expected


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("cpu", True), (GPU, True), ("a/b/c", False), ("/gpu", False), ("x" * 63, True), ("x" * 64, False),
        ("Upper.example/x", False), ("example.com/Upper", True), ("-a", False), ("a-", False), ("", False),
    ],
)  # fmt: skip
def test_label_keys(name: str, good: bool) -> None:
    assert is_label_key(name) is good


# ---- Volcano --------------------------------------------------------------------------------------------------------


def volcano(parent: str = "root", **parts: str) -> Spec:
    spec: Spec = {"parent": parent} if parent else {}
    for part, text in parts.items():
        spec[part] = {"resource": {GPU: text}} if part == "guarantee" else {GPU: text}
    return spec


TREE: dict[str, Spec] = {
    "root": {},
    "eng": volcano(capability="40", deserved="20", guarantee="8"),
    "a": volcano("eng", capability="20", deserved="10", guarantee="4"),
    "b": volcano("eng", capability="30", deserved="10", guarantee="4"),
}
VOLCANO: list[tuple[str, str, Spec, list[tuple[str, str]]]] = [
    ("as it is", "a", TREE["a"], []),
    ("guarantee over deserved", "a", volcano("eng", deserved="3", guarantee="4"), [("guarantee_above_deserved", "guarantee")]),
    ("guarantee without deserved", "a", volcano("eng", guarantee="4"), [("guarantee_above_deserved", "guarantee")]),
    ("deserved over capability", "a", volcano("eng", capability="9", deserved="10"), [("deserved_above_capability", "deserved")]),
    ("deserved without capability", "a", volcano("eng", deserved="10"), []),
    ("negative", "a", volcano("eng", deserved="-1"), [("negative", "deserved")]),
    ("no quantity", "a", volcano("eng", capability="x"), [("quantity", "capability")]),
    ("above its ancestor", "a", volcano("eng", capability="41", deserved="10"), [("above_ancestor", "capability")]),
    ("below a descendant", "eng", volcano(capability="29", deserved="20", guarantee="8"), [("below_descendant", "capability")]),
    ("children deserve more", "eng", volcano(capability="40", deserved="19", guarantee="8"), [("below_children", "deserved")]),
    ("more than the parent is guaranteed", "a", volcano("eng", deserved="10", guarantee="5"), [("children_above_parent", "guarantee")]),
    ("a parent that sets nothing counts as 0", "eng", volcano(), [("below_children", "guarantee"), ("below_children", "deserved")]),
    ("its own parent", "a", volcano("a"), [("own_parent", "")]),
    ("no such parent", "a", volcano("nope"), [("no_such_parent", "")]),
    ("root", "root", volcano("", capability="9"), [("root_amounts", "capability")]),
    ("weight 0", "a", {**volcano("eng"), "weight": 0}, [("number", "weight")]),
    ("priority -1", "a", {**volcano("eng"), "priority": -1}, [("number", "priority")]),
]  # fmt: skip


@pytest.mark.parametrize(("words", "name", "spec", "expected"), VOLCANO, ids=[row[0] for row in VOLCANO])
def test_a_volcano_queue(words: str, name: str, spec: Spec, expected: list[tuple[str, str]]) -> None:
    found = broken_volcano(name, TREE[name], {**TREE, name: spec})
    assert [(one.code, one.place[1] if one.place else "") for one in found] == expected


def test_depth() -> None:
    chain: dict[str, Spec] = {"root": {}, "q1": volcano()}
    for depth in range(2, 7):
        chain[f"q{depth}"] = volcano(f"q{depth - 1}")
    assert broken_volcano("q5", {}, chain) == []
    assert [one.code for one in broken_volcano("q6", {}, chain)] == ["too_deep"]
    del chain["root"]  # it counts although the cluster's own queue is not there to be read
    assert broken_volcano("q5", {}, chain) == []
    assert [one.code for one in broken_volcano("q6", {}, chain)] == ["too_deep"]


def test_sums_are_looked_at_only_when_an_amount_changes() -> None:
    crooked = {**TREE, "eng": volcano(capability="40")}
    assert broken_volcano("eng", crooked["eng"], {**crooked, "eng": {**crooked["eng"], "weight": 2}}) == []
