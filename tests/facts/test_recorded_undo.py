"""Taking changes back, checked on the recorded clusters (see `test_recorded_checks` for what they hold)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from apps.accounts.models import User
from apps.changes.checking import Checked, check, keys_to_read
from apps.changes.models import ChangeRequest, ChangeStep, State
from apps.changes.specs import ObjectSeen
from apps.changes.tests.json_patch import apply_patch
from apps.fleet.models import Cluster

from .test_recorded_checks import GPU, amounts, kueue, live, nominal, volcano
from .test_recorded_quotas import AT

__all__ = ["kueue", "volcano"]
pytestmark = pytest.mark.django_db


def request_of(cluster: Cluster, edits: list[dict[str, Any]], **more: Any) -> ChangeRequest:
    person, _made = User.objects.get_or_create(username="asker")
    given: dict[str, Any] = {"state": State.DRAFT, "reason": "why", "created_by": person, "created_at": AT}
    return ChangeRequest.objects.create(cluster=cluster, edits=edits, **{**given, **more})


def done(request: ChangeRequest, seen: list[ObjectSeen], count: int = 99) -> list[ObjectSeen]:
    """The request's plan with its first steps done, and the objects after them."""
    found = {one.key: one for one in seen}
    for place, step in enumerate(check(request, seen, now=AT).steps):
        ChangeStep.objects.create(
            request=request,
            position=place,
            kind=step.kind,
            namespace=step.namespace,
            name=step.name,
            method=step.method,
            path=step.path,
            body=step.body,
            before=step.before,
            after=step.after,
            done_at=AT if place < count else None,
        )
        if place < count and isinstance(step.body, list):
            spec = apply_patch({"spec": found[step.key].spec}, step.body)["spec"]
            found[step.key] = replace(found[step.key], spec=spec)
    return list(found.values())


def undo_of(request: ChangeRequest, seen: list[ObjectSeen]) -> tuple[ChangeRequest, Checked]:
    origin = ChangeRequest.Origin.UNDO
    undo = request_of(request.cluster, request.edits, origin=origin, reverts=request)
    return undo, check(undo, seen, now=AT)


def test_what_is_asked_for_is_checked_planned_and_tried(kueue: Cluster) -> None:
    request = request_of(kueue, [nominal("team-a-cq", "4")])
    assert keys_to_read(request) == (("ClusterQueue", "", "team-a-cq"),)
    found = check(request, [live("ClusterQueue", "team-a-cq")], now=AT)
    assert found.report.refusals == ()
    assert found.report.what_if is not None
    assert found.report.dry_run == ()
    (step,) = found.steps
    assert isinstance(step.body, list)
    assert [one["value"] for one in step.body] == ["4"]


def test_a_rule_that_is_broken_leaves_the_patch_to_ask_the_server_about(kueue: Cluster) -> None:
    found = check(request_of(kueue, [nominal("team-a-cq", "3")]), [live("ClusterQueue", "team-a-cq")], now=AT)
    assert [one.code for one in found.report.refusals] == ["above_nominal"]
    assert found.report.what_if is None
    assert len(found.steps) == 1


def test_what_is_not_there_has_no_steps(kueue: Cluster) -> None:
    found = check(request_of(kueue, [nominal("team-a-cq", "4")]), [], now=AT)
    assert [(one.code, one.field) for one in found.report.refusals] == [("unknown", "edits.0.name")]
    assert found.steps == ()


def test_an_undo_is_checked_as_any_change(kueue: Cluster) -> None:
    """From 24 back to 8 the queue holds 12, 4 beyond its nominal quota, which is where it was."""
    request = request_of(kueue, [nominal("team-a-cq", "24")])
    before = live("ClusterQueue", "team-a-cq")
    after = done(request, [before])
    undo, found = undo_of(request, after)
    assert keys_to_read(undo) == (("ClusterQueue", "", "team-a-cq"),)
    assert found.report.refusals == ()
    below = {one.code: one for one in found.report.warnings}["below_use"]
    assert (below.field, below.params["beyond"]) == ("edits.0.set.quotas.0.nominal", "4")
    assert found.report.what_if is not None
    assert "refused" not in found.report.what_if
    (step,) = found.steps
    assert step.after == before.spec
    assert step.fields == ("edits.0",)


def test_an_undo_over_somebody_elses_change_is_refused(kueue: Cluster) -> None:
    request = request_of(kueue, [nominal("team-a-cq", "24")])
    done(request, [live("ClusterQueue", "team-a-cq")])
    _undo, found = undo_of(request, [live("ClusterQueue", "team-a-cq")])
    assert [one.code for one in found.report.refusals] == ["nothing"]
    other = request_of(kueue, [nominal("team-a-cq", "20")])
    (there,) = done(other, [live("ClusterQueue", "team-a-cq")])
    _undo, found = undo_of(request, [there])
    (refusal,) = found.report.refusals
    assert (refusal.code, refusal.field, refusal.params["was"], refusal.params["now"]) == (
        "changed_since",
        "edits.0.set.quotas.0.nominal",
        "24",
        "20",
    )
    assert found.steps == ()


def test_of_half_a_change_the_half_is_taken_back(kueue: Cluster) -> None:
    edits = [nominal("team-a-cq", "10"), nominal("team-b-cq", "6")]
    names = ("team-a-cq", "team-b-cq")
    request = request_of(kueue, edits)
    start = [live("ClusterQueue", name) for name in names]
    after = done(request, start, count=1)
    undo, found = undo_of(request, after)
    assert keys_to_read(undo) == (("ClusterQueue", "", "team-b-cq"),)
    (step,) = found.steps
    assert (step.name, step.after, step.fields) == ("team-b-cq", start[1].spec, ("edits.1",))


def test_volcanos_amounts_come_back(volcano: Cluster) -> None:
    request = request_of(volcano, [amounts("research", deserved="8")])
    before = live("VolcanoQueue", "research")
    after = done(request, [before])
    _undo, found = undo_of(request, after)
    assert found.report.refusals == ()
    assert found.report.what_if is not None
    (step,) = found.steps
    assert step.after == before.spec
    assert step.body == [{"op": "replace", "path": f"/spec/deserved/{GPU.replace('/', '~1')}", "value": "16"}]
