"""The portal's rules and the simulated API server's, of which neither is made from the other: the same verdict on every
vector, and on what chance makes; and the words of the recorded refusals of Volcano's tree."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.changes.edits import ChangeError
from apps.changes.patching import lay
from apps.changes.rules import broken
from apps.changes.rules_volcano import broken_volcano
from apps.changes.specs import ObjectSeen
from apps.changes.tests import test_rules as vectors
from apps.changes.tests.strategies import kueue_edits, kueue_seen
from apps.changes.tests.test_planning import SHAPE, valid_tree
from apps.changes.tests.test_recorded_refusals import DATA, VOLCANO
from simcluster.kinds import KINDS
from simcluster.statuses import Refused
from simcluster.validation import check


def refused(kind: str, name: str, before: Any, after: Any, queues: Any = None) -> str:
    """What the simulated server says; "" when it takes the edit."""
    objects = [{"metadata": {"name": name, "resourceVersion": "1"}, "spec": spec} for spec in (before, after)]
    try:
        check(KINDS[kind], objects[0], objects[1], queues=queues)
    except Refused as error:
        body = error.body if isinstance(error.body, dict) else json.loads(error.body)
        return str(body["message"])
    return ""


@pytest.mark.parametrize(("words", "change", "expected"), vectors.CQ, ids=[row[0] for row in vectors.CQ])
def test_cluster_queues(words: str, change: Callable[[Any], Any], expected: list[Any]) -> None:
    spec = vectors.right()
    change(spec)
    assert bool(refused("ClusterQueue", "q", vectors.right(), spec)) == bool(expected)


@pytest.mark.parametrize(
    ("words", "name", "spec", "expected"), vectors.VOLCANO, ids=[row[0] for row in vectors.VOLCANO]
)
def test_volcano_queues(words: str, name: str, spec: Any, expected: list[Any]) -> None:
    said = refused("VolcanoQueue", name, vectors.TREE[name], spec, {**vectors.TREE, name: spec})
    assert bool(said) == bool(expected)


@pytest.mark.parametrize("file", VOLCANO)
def test_the_words_of_recorded_refusals(file: str) -> None:
    items = json.loads((DATA / "volcano-capacity" / "queues.json").read_text())["items"]
    queues = {item["metadata"]["name"]: item["spec"] for item in items}
    name, spec, _codes = VOLCANO[file]
    after = {**queues.get(name, {}), **spec}
    recorded = json.loads((DATA / "volcano-capacity" / file).read_text())["message"]
    names = {"child-capability": "bad-child", "parent-missing": "bad-parent-missing"}
    called = next((other for part, other in names.items() if part in file), name)
    said = refused("VolcanoQueue", called, queues.get(name, {}), after, {**queues, called: after})
    assert said == recorded


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["ClusterQueue", "Cohort"]).flatmap(
        lambda kind: st.tuples(kueue_seen(kind), kueue_edits(kind))
    )
)
def test_kueue_by_chance(pair: tuple[ObjectSeen, Any]) -> None:
    seen, edit = pair
    if seen.api_version.endswith("v1beta1"):  # the server stores v1beta2
        return
    try:
        after = lay(seen, edit).after_spec
    except ChangeError:
        return
    ours = broken(seen.kind, seen.spec, after, seen.api_version)
    assert bool(refused(seen.kind, "q", seen.spec, after)) == bool(ours), ours


@settings(max_examples=300, deadline=None)
@given(valid_tree(), valid_tree(), st.sampled_from(list(SHAPE)))
def test_volcano_by_chance(start: Any, other: Any, name: str) -> None:
    after = {**start, name: deepcopy(other[name])}
    ours = broken_volcano(name, start[name], after)
    assert bool(refused("VolcanoQueue", name, start[name], after[name], after)) == bool(ours), ours
