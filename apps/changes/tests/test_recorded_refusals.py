"""Every edit of the recordings: what the real API server said, and what our rules say of the same patch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apps.changes.rules import broken
from apps.changes.rules_volcano import broken_volcano
from apps.changes.tests.json_patch import apply_patch, merge_patch

DATA = Path(__file__).parents[3] / "tests" / "data"
KUEUE = DATA / "kueue"
TREE, FLAT = DATA / "volcano-capacity", DATA / "volcano-proportion"
WEIGHT_ZERO = "refusal-queue-weight-zero.json"
KINDS = {"clusterqueues": "ClusterQueue", "cohorts": "Cohort", "localqueues": "LocalQueue"}
# What is refused, and which of our rules say so (found by hand in the bodies' messages).
EXPECTED = {
    "cq-403-negative-quota.json": {"negative", "above_nominal"},
    "cq-403-negative-borrow.json": {"negative"},
    "cq-403-lending-over-nominal.json": {"above_nominal"},
    "cq-422-bad-quantity.json": {"quantity"},
    "cq-422-leave-cohort-with-limits.json": {"no_cohort"},
    "cq-422-borrow-without-cohort.json": {"no_cohort"},
    "cq-403-lending-without-cohort.json": {"no_cohort"},
    "cq-422-duplicate-flavor.json": {"duplicate_flavor"},
    "cq-403-duplicate-flavor-two-groups.json": {"duplicate_flavor"},
    "cq-422-resource-count.json": {"resource_count"},
    "cq-403-resource-order.json": {"resource_order"},
    "cq-422-preemption.json": {"borrow_needs_reclaim"},
    "cq-422-enum.json": {"choice"},
    "cohort-403-limits-no-parent.json": {"no_parent"},
    "lq-422-immutable-cq.json": {"immutable"},
    "cq-patch-dryrun-ok.json": set(),
    "cq-patch-dryrun-ok-with-rv.json": set(),
    "cq-200-unknown-flavor-dryrun.json": set(),
    "cohort-200-self-parent.json": set(),
}


def _index() -> dict[str, dict[str, Any]]:
    lines = (KUEUE / "index.jsonl").read_text().splitlines()
    return {row["file"]: row for row in map(json.loads, lines)}


def _object(path: str) -> tuple[str, dict[str, Any]]:
    parts = path.split("?")[0].split("/")
    plural, name = parts[-2], parts[-1]
    items = json.loads((KUEUE / f"{plural}.json").read_text())["items"]
    namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts else None
    found = [
        item
        for item in items
        if item["metadata"]["name"] == name and item["metadata"].get("namespace") == namespace
    ]
    return KINDS[plural], found[0]


@pytest.mark.parametrize("file", EXPECTED)
def test_our_verdict_is_that_of_the_api_server(file: str) -> None:
    row = _index()[file]
    kind, live = _object(row["path"])
    merge = row["contentType"].startswith("application/merge")
    patched = (merge_patch if merge else apply_patch)(live, row["request"])
    found = {one.code for one in broken(kind, live.get("spec", {}), patched.get("spec", {}), "v1beta2")}
    assert found == EXPECTED[file]
    assert bool(found) == (row["status"] != 200)


@pytest.mark.parametrize(
    "file", ["clusterqueues", "clusterqueues-v1beta1", "cohorts", "localqueues", "fair-clusterqueues"]
)
def test_what_kueue_holds_breaks_no_rule(file: str) -> None:
    for item in json.loads((KUEUE / f"{file}.json").read_text())["items"]:
        kind = KINDS[file.removeprefix("fair-").removesuffix("-v1beta1")]
        assert broken(kind, item.get("spec", {}), item.get("spec", {}), item["apiVersion"]) == []


# ---- Volcano --------------------------------------------------------------------------------------------------------

_GPU = "nvidia.com/gpu"
# name, its spec as the recording's author posted it (from the amounts in the message), and our rules.
VOLCANO: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    "refusal-queue-deserved-over-capability.json": (
        "new",
        {"capability": {_GPU: "8"}, "deserved": {_GPU: "9"}},
        {"deserved_above_capability"},
    ),
    "refusal-queue-guarantee-over-deserved.json": (
        "new",
        {"deserved": {_GPU: "2"}, "guarantee": {"resource": {_GPU: "4"}}},
        {"guarantee_above_deserved"},
    ),
    "refusal-queue-negative.json": ("new", {"capability": {_GPU: "-1"}}, {"negative"}),
    "refusal-queue-root-capability.json": ("root", {"capability": {_GPU: "1"}}, {"root_amounts"}),
    "refusal-queue-parent-missing.json": ("new", {"parent": "nope"}, {"no_such_parent"}),
    "refusal-queue-child-capability.json": (
        "new",
        {"parent": "eng", "capability": {_GPU: "100"}},
        {"above_ancestor"},
    ),
    "refusal-queue-children-sum.json": (
        "new",
        {"parent": "eng", "deserved": {_GPU: "50"}, "guarantee": {"resource": {_GPU: "50"}}},
        {"children_above_parent"},
    ),
}


def _queues(folder: str = "volcano-capacity") -> dict[str, dict[str, Any]]:
    items = json.loads((DATA / folder / "queues.json").read_text())["items"]
    return {item["metadata"]["name"]: item["spec"] for item in items}


@pytest.mark.parametrize("file", VOLCANO)
def test_volcano_refusals(file: str) -> None:
    body = json.loads((DATA / "volcano-capacity" / file).read_text())
    name, spec, codes = VOLCANO[file]
    queues = _queues()
    before = queues.get(name, {})
    found = {one.code for one in broken_volcano(name, before, {**queues, name: {**before, **spec}})}
    assert (found, body["status"]) == (codes, "Failure")


@pytest.mark.parametrize("file", sorted(path.name for path in FLAT.glob("refusal-queue-*")))
def test_flat_queues_are_refused_in_the_same_words(file: str) -> None:
    """The webhook does not look at which plugin shares: what was recorded of flat queues is word for word the same."""
    words = [json.loads((folder / file).read_text()).get("message") for folder in (FLAT, TREE)]
    assert words[0] == words[1]


def test_every_recorded_refusal_of_a_queue_is_accounted_for() -> None:
    """But deletions, which nobody can ask for here, and a weight of 0, which was created as 1."""
    recorded = {path.name for folder in (FLAT, TREE) for path in folder.glob("refusal-queue-*")}
    others = {"refusal-queue-delete-default.json", "refusal-queue-delete-root.json", WEIGHT_ZERO}
    assert recorded == others | VOLCANO.keys()
    assert json.loads((TREE / WEIGHT_ZERO).read_text())["spec"]["weight"] == 1
    found = broken_volcano("new", {}, {**_queues(), "new": {"weight": 0}})
    assert [one.code for one in found] == ["number"]


@pytest.mark.parametrize("folder", ["volcano-capacity", "volcano-proportion"])
def test_what_volcano_holds_breaks_no_rule(folder: str) -> None:
    queues = _queues(folder)
    assert [found for name, spec in queues.items() for found in broken_volcano(name, spec, queues)] == []
