"""Changes seen by the collectors, and changed back by somebody else."""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.changes import audit
from apps.changes.models import AuditEntry, ChangeRequest, ChangeStep, Notice, State
from apps.changes.observing import SURELY, observe, watch_drift
from apps.changes.patching import operations_between
from apps.observations.models import ClusterObject, SourceState
from tests.changes.conftest import NOMINAL, Desk

MINUTE = timedelta(minutes=1)
PATH = "/spec/resourceGroups/h100/nvidia.com~1gpu/nominalQuota"
GPU = "nvidia.com/gpu"


def spec(nominal: str, **more: Any) -> dict[str, Any]:
    cell = {"name": GPU, "nominalQuota": nominal}
    groups = [{"coveredResources": [GPU], "flavors": [{"name": "h100", "resources": [cell]}]}]
    return {"cohortName": "all", "resourceGroups": groups, **more}


def step(before: dict[str, Any], after: dict[str, Any], at: datetime | None, **more: Any) -> ChangeStep:
    given: dict[str, Any] = {
        "position": 0,
        "kind": "ClusterQueue",
        "name": "red-cq",
        "path": "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/red-cq",
        "resource_version": "42",
        "body": operations_between(before, after),
        "before": before,
        "after": after,
        "sent_at": at,
        "done_at": at,
    }
    return ChangeStep(**given | more)


def applied(desk: Desk, *steps: ChangeStep, **more: Any) -> ChangeRequest:
    request = desk.do("note_check", desk.ask(**more), fields={"report": _CLEAN}, steps=steps)
    request = desk.do("approve", desk.do("submit", request, "red_lead"), "admin")
    request = desk.do("begin", request)
    return desk.do("finish", request)


_CLEAN: dict[str, Any] = {"refusals": [], "warnings": [], "what_if": None, "dry_run": []}


def collected(
    desk: Desk, found: dict[str, Any] | None, at: datetime, *, version: str = "50", **more: Any
) -> None:
    """What the collectors last saw of red-cq, and when its content was new. None: it is gone."""
    row = ClusterObject.objects.get(cluster=desk.world.east, kind="ClusterQueue", name="red-cq")
    if found is None:
        row.gone_at = at
    else:
        row.gone_at, row.observed_at, row.resource_version = None, at, version
        row.raw = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "metadata": {"name": "red-cq"},
            "spec": found,
            **more,
        }
    row.save()


def pulled(desk: Desk, at: datetime) -> None:
    SourceState.objects.filter(cluster=desk.world.east, source="kueue").update(last_ok_at=at)


def state(request: ChangeRequest) -> str:
    return str(ChangeRequest.objects.get(pk=request.pk).state)


def drift(request: ChangeRequest) -> list[tuple[str, Any, Any]] | None:
    found = request.steps.order_by("position").last()
    assert found is not None
    assert (found.drift is None) == (found.drift_since is None)
    if found.drift is None:
        return None
    return [(one["path"], one["was"], one["now"]) for one in found.drift]


# ---- observed -------------------------------------------------------------------------------------------------------

SEEN: list[tuple[str, str, int, str, bool]] = [
    ("the same, read before it was written", "12", -1, "50", False),
    ("read after it was sent", "12", 1, "50", True),
    ("the amount in Kueue's words", "12000m", 1, "50", True),
    ("read by a pull that began before, of the written version", "12", -1, "43", True),
    ("still as before", "8", -1, "41", False),
    ("changed by somebody else", "16", 1, "50", False),
]


@pytest.mark.parametrize(
    ("words", "nominal", "minutes", "version", "seen"), SEEN, ids=[row[0] for row in SEEN]
)
def test_when_a_change_is_observed(
    desk: Desk, words: str, nominal: str, minutes: int, version: str, seen: bool
) -> None:
    now = desk.world.now
    request = applied(desk, step(spec("8"), spec("12"), now, written_version="43"))
    collected(desk, spec(nominal), now + minutes * MINUTE, version=version)
    assert observe(now + 2 * MINUTE) == ([request.pk] if seen else [])
    assert state(request) == (State.OBSERVED if seen else State.APPLIED)
    assert (request.steps.get().observed_at is not None) is seen
    assert observe(now + 3 * MINUTE) == []


def test_a_pull_that_surely_began_later_says_so_too(desk: Desk) -> None:
    now = desk.world.now
    request = applied(desk, step(spec("8"), spec("12"), now))
    collected(desk, spec("12"), now - MINUTE)
    pulled(desk, now + SURELY - MINUTE)
    assert observe(now + SURELY) == []
    pulled(desk, now + SURELY)
    assert observe(now + SURELY) == [request.pk]


def test_every_step_has_to_be_seen(desk: Desk) -> None:
    now = desk.world.now
    steps = (
        step(spec("8"), spec("12"), now),
        step(spec("8"), spec("4"), now, position=1, name="blue-cq"),
    )
    request = applied(desk, *steps)
    collected(desk, spec("12"), now + MINUTE)
    assert observe(now + MINUTE) == []
    assert [one.observed_at is not None for one in request.steps.order_by("position")] == [True, False]
    ClusterObject.objects.filter(name="blue-cq", kind="ClusterQueue").update(
        raw={"spec": spec("4")}, observed_at=now + MINUTE
    )
    assert observe(now + 2 * MINUTE) == [request.pk]


def test_two_writes_to_one_object_are_seen_at_the_second(desk: Desk) -> None:
    now, middle = desk.world.now, spec("4")
    after = spec("4", stopPolicy="Hold")
    request = applied(desk, step(spec("8"), middle, now), step(middle, after, now, position=1))
    collected(desk, middle, now + MINUTE)
    assert observe(now + MINUTE) == []
    collected(desk, after, now + 2 * MINUTE)
    assert observe(now + 2 * MINUTE) == [request.pk]


@pytest.mark.parametrize(("action", "now_is", "seen"), [
    ("CloseQueue", "Closing", True), ("CloseQueue", "Open", False), ("OpenQueue", "Open", True),
])  # fmt: skip
def test_a_command_is_seen_by_the_state(desk: Desk, action: str, now_is: str, seen: bool) -> None:
    now = desk.world.now
    command = step({}, {}, now, method="command", body={"action": action})
    request = applied(desk, command)
    collected(desk, {}, now + MINUTE, status={"state": now_is})
    assert observe(now + MINUTE) == ([request.pk] if seen else [])


def test_a_row_from_before_objects_were_kept_whole_says_nothing(desk: Desk) -> None:
    now = desk.world.now
    request = applied(desk, step(spec("8"), spec("12"), now))
    ClusterObject.objects.filter(name="red-cq").update(raw={}, observed_at=now + MINUTE)
    assert (observe(now + MINUTE), watch_drift(now + MINUTE)) == ([], [])
    assert drift(request) is None


# ---- drift ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def hooked(settings: Any) -> None:
    settings.WEBHOOK_URL, settings.WEBHOOK_SECRET = "http://127.0.0.1:1/", "x" * 16


def observed(desk: Desk) -> ChangeRequest:
    now = desk.world.now
    request = applied(desk, step(spec("8"), spec("12"), now))
    collected(desk, spec("12"), now + MINUTE)
    assert observe(now + MINUTE) == [request.pk]
    return request


@pytest.mark.usefixtures("hooked")
def test_a_change_that_is_changed_back_drifts_once_and_until_it_is_over(desk: Desk) -> None:
    now, request = desk.world.now, observed(desk)
    assert watch_drift(now + 2 * MINUTE) == []
    collected(desk, spec("8", stopPolicy="Hold"), now + 3 * MINUTE)
    for since in (None, now + 3 * MINUTE):
        for _again in range(2):
            watch_drift(now + 4 * MINUTE, since=since)
    assert drift(request) == [(PATH, "12", "8")]
    assert request.steps.get().drift_since == now + 4 * MINUTE
    collected(desk, spec("9"), now + 5 * MINUTE)
    watch_drift(now + 5 * MINUTE)
    assert drift(request) == [(PATH, "12", "9")]
    assert request.steps.get().drift_since == now + 4 * MINUTE
    collected(desk, spec("12000m"), now + 6 * MINUTE)
    watch_drift(now + 6 * MINUTE)
    watch_drift(now + 7 * MINUTE)
    assert drift(request) is None
    assert state(request) == State.OBSERVED
    told = AuditEntry.objects.filter(action__startswith="change.drift").order_by("sequence")
    fields = {"path": PATH, "was": "12"}
    assert [(one.action, one.actor_name, one.before, one.after) for one in told] == [
        ("change.drift", "portal", None, {"object": "ClusterQueue/red-cq", "fields": [{**fields, "now": "8"}]}),
        ("change.drift_over", "portal", {"object": "ClusterQueue/red-cq", "fields": [{**fields, "now": "9"}]}, None),
    ]  # fmt: skip
    assert audit.verify() is None
    notices = Notice.objects.filter(payload__event="change.drift")
    assert notices.count() == 1
    collected(desk, spec("8"), now + 8 * MINUTE)
    assert watch_drift(now + 8 * MINUTE) == [request.pk]
    assert notices.count() == 2


def test_an_object_that_somebody_deleted_drifts_and_its_request_stays_applied(desk: Desk) -> None:
    now = desk.world.now
    request = applied(desk, step(spec("8"), spec("12"), now))
    collected(desk, None, now + MINUTE)
    assert observe(now + 2 * MINUTE) == []
    assert watch_drift(now + 2 * MINUTE) == [request.pk]
    assert (drift(request), state(request)) == ([("", None, None)], State.APPLIED)


def test_what_was_read_before_the_write_is_no_drift(desk: Desk) -> None:
    now = desk.world.now
    request = applied(desk, step(spec("8"), spec("12"), now))
    collected(desk, spec("8"), now - MINUTE)
    assert watch_drift(now + MINUTE) == []
    assert drift(request) is None
    pulled(desk, now + SURELY)
    assert watch_drift(now + SURELY) == [request.pk]


def test_a_later_change_of_ours_answers_for_its_fields(desk: Desk) -> None:
    now, first = desk.world.now, observed(desk)
    after = spec("16")
    second = applied(desk, step(spec("12"), after, now + 2 * MINUTE))
    collected(desk, after, now + 3 * MINUTE)
    assert observe(now + 3 * MINUTE) == [second.pk]
    assert watch_drift(now + 3 * MINUTE) == []
    collected(desk, spec("12"), now + 4 * MINUTE)
    assert watch_drift(now + 4 * MINUTE) == [second.pk]
    assert (drift(first), drift(second)) == (None, [(PATH, "16", "12")])


def test_a_write_that_is_under_way_is_no_drift_of_the_one_before(desk: Desk) -> None:
    now, first = desk.world.now, observed(desk)
    coming = step(spec("12"), spec("16"), None)
    request = desk.do("note_check", desk.ask(), fields={"report": _CLEAN}, steps=[coming])
    desk.do("begin", desk.do("approve", desk.do("submit", request, "red_lead"), "admin"))
    ChangeStep.objects.filter(request=request).update(sent_at=now + 2 * MINUTE)
    collected(desk, spec("16"), now + 3 * MINUTE)
    assert watch_drift(now + 3 * MINUTE) == []
    assert drift(first) is None


def test_a_change_over_a_drift_ends_it(desk: Desk) -> None:
    now, first = desk.world.now, observed(desk)
    collected(desk, spec("8"), now + 2 * MINUTE)
    watch_drift(now + 2 * MINUTE)
    second = applied(desk, step(spec("8"), spec("10"), now + 3 * MINUTE))
    collected(desk, spec("10"), now + 4 * MINUTE)
    watch_drift(now + 4 * MINUTE)
    assert (drift(first), drift(second)) == (None, None)


def test_the_field_of_an_older_api_version_is_the_same_field(desk: Desk) -> None:
    now = desk.world.now
    old = {name.replace("cohortName", "cohort"): value for name, value in spec("8").items()}
    moved = {**deepcopy(old), "cohort": "lab"}
    request = applied(desk, step(old, moved, now))
    collected(desk, {**spec("8"), "cohortName": "lab"}, now + MINUTE)
    assert observe(now + MINUTE) == [request.pk]
    assert watch_drift(now + MINUTE) == []


def test_a_tick_takes_the_same_number_of_queries_for_many_requests(desk: Desk) -> None:
    now = desk.world.now

    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as caught:
            observe(now)
            watch_drift(now)
            watch_drift(now, since=now - MINUTE)
        return len(caught)

    applied(desk, step(spec("8"), spec("12"), now))
    few = queries()
    for place in range(5):
        applied(desk, step(spec("8"), spec("12"), now + place * MINUTE), edits=[NOMINAL])
    assert queries() == few
