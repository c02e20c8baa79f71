"""What became of changes in the cluster: seen there, and changed back by somebody else. Input: the clock; output: requests
that are observed now, steps that drift or do not any more.

Invariants
- What counts is what the collectors saw, never what a write was answered. A row shows a step when its edited fields are
  as the step made them and it was read after the step was sent; it contradicts the step only when it was read after the
  step was done.
- Fields that a later change of the portal edited are that one's to answer for (`owning`).
- A drift is noted, told and entered in the trail once, and so is its end. It moves no state.
- A constant number of queries beside those for what has changed.

`ChangeStep.drift`: [{"path", "was", "now"}], flat paths of the spec ("/status/state": of a Volcano queue, "": the object
is gone), `was` as the change made it. Who did it is not known: what is collected does not keep managers of fields."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from apps.changes import audit, notices
from apps.changes.acting import Acting
from apps.changes.errors import ChangeRefused
from apps.changes.models import ChangeRequest, ChangeStep, State
from apps.changes.owning import Written, differences, owned_fields
from apps.changes.patching import FieldChange
from apps.changes.requests import subject_of
from apps.changes.transitions import perform
from apps.observations.models import ClusterObject, Source, SourceState

WATCHED_DAYS = 400
SURELY = timedelta(minutes=3)
"""No pull lasts that long: one that ended this much later than a write began after it."""
WATCHED = (State.APPLIED, State.OBSERVED)
_WROTE = (State.APPLYING, *WATCHED, State.FAILED)
Key = tuple[int, str, str, str]
"""(cluster, kind, namespace, name)."""


@dataclass(slots=True)
class _Look:
    """What is known of a step's object. `raw` None: it is gone; `unknown`: nothing can be said."""

    raw: Mapping[str, Any] | None = None
    unknown: bool = True
    version: str = ""
    at: datetime | None = None
    pulled_at: datetime | None = None

    def read_after(self, moment: datetime) -> bool:
        """It tells how the object was after `moment`."""
        return (self.at is not None and self.at >= moment) or (
            self.pulled_at is not None and self.pulled_at >= moment + SURELY
        )


@dataclass(slots=True)
class _Scene:
    steps: dict[Key, list[ChangeStep]] = field(default_factory=lambda: defaultdict(list))
    looks: dict[Key, _Look] = field(default_factory=dict)

    def states(self) -> Iterable[tuple[ChangeStep, _Look, tuple[FieldChange, ...]]]:
        """Each step that was done, what is known of its object, and in what its fields differ."""
        for key, steps in self.steps.items():
            look = self.looks.get(key, _Look())
            owned = owned_fields([_written(step) for step in steps], key[1])
            for step in steps:
                if step.done_at is not None:
                    found = () if look.unknown else differences(owned[step.pk], key[1], look.raw)
                    yield step, look, found


def observe(now: datetime) -> list[int]:
    """Close applied requests whose every step the collectors have seen; returns which."""
    waiting = ChangeStep.objects.filter(request__state=State.APPLIED)
    scene = _load(_keys(waiting.filter(observed_at=None)), now)
    seen = [step for step, look, found in scene.states() if _is_seen(step, look, found)]
    if seen:
        ChangeStep.objects.filter(pk__in=[step.pk for step in seen]).update(observed_at=now)
    applied = ChangeRequest.objects.filter(state=State.APPLIED)
    ready = applied.filter(~Exists(waiting.filter(request=OuterRef("pk"), observed_at=None)))
    closed = []
    for pk in ready.order_by("pk").values_list("pk", flat=True):
        try:
            perform("observe", pk, actor=None, seen_version=None, now=now)
        except ChangeRefused:  # another worker was first
            continue
        closed.append(pk)
    return closed


def _is_seen(step: ChangeStep, look: _Look, found: Collection[FieldChange]) -> bool:
    if step.request.state != State.APPLIED or step.observed_at is not None or look.unknown or found:
        return False
    wrote = bool(step.written_version) and look.version == step.written_version
    sent = step.sent_at or step.done_at
    return wrote or (sent is not None and look.read_after(sent))


def watch_drift(now: datetime, *, since: datetime | None = None) -> list[int]:
    """Note steps whose fields somebody else has changed, and those that are as they were made again; returns the
    requests that began to drift. `since`: look only at objects that changed then or later, and at what drifts."""
    watched = ChangeStep.objects.filter(
        request__state__in=WATCHED, done_at__gte=now - timedelta(days=WATCHED_DAYS)
    )
    if since is not None:
        watched = watched.filter(
            Exists(_rows_of(OuterRef).filter(Q(observed_at__gte=since) | Q(gone_at__gte=since)))
            | Q(drift_since__isnull=False)
            | Q(request__state=State.APPLIED)
        )
    begun: dict[int, list[tuple[ChangeStep, tuple[FieldChange, ...]]]] = defaultdict(list)
    over: dict[int, list[ChangeStep]] = defaultdict(list)
    for step, look, found in _load(_keys(watched), now).states():
        if step.request.state not in WATCHED or look.unknown:
            continue
        if found and step.done_at is not None and look.read_after(step.done_at):
            if step.drift_since is None:
                begun[step.request_id].append((step, found))
            elif step.drift != _json(found):
                ChangeStep.objects.filter(pk=step.pk).update(drift=_json(found))
        elif not found and step.drift_since is not None:
            over[step.request_id].append(step)
    for ended in over.values():
        _note_over(ended, now)
    return [pk for pk, drifting in begun.items() if _note_begun(drifting, now)]


def _json(found: Iterable[FieldChange]) -> list[dict[str, Any]]:
    return [{"path": one.path, "was": one.before, "now": one.after} for one in found]


def _note_begun(drifting: list[tuple[ChangeStep, tuple[FieldChange, ...]]], now: datetime) -> bool:
    request = drifting[0][0].request
    with transaction.atomic():
        audit.lock()
        noted = [
            (step, found)
            for step, found in drifting
            if ChangeStep.objects.filter(pk=step.pk, drift_since=None).update(
                drift_since=now, drift=_json(found)
            )
        ]
        for step, found in noted:
            _record("change.drift", step, now, after=_json(found))
        if noted:
            notices.write("drift", request, actor=None, reason="", now=now)
    return bool(noted)


def _note_over(steps: list[ChangeStep], now: datetime) -> None:
    with transaction.atomic():
        audit.lock()
        for step in steps:
            drifts = ChangeStep.objects.filter(pk=step.pk, drift_since__isnull=False)
            if drifts.update(drift_since=None, drift=None):
                _record("change.drift_over", step, now, before=step.drift)


def _record(action: str, step: ChangeStep, now: datetime, *, before: Any = None, after: Any = None) -> None:
    name = "/".join(part for part in (step.kind, step.namespace, step.name) if part)
    audit.record(
        action,
        subject_of(step.request),
        by=Acting(),
        at=now,
        before=None if before is None else {"object": name, "fields": before},
        after=None if after is None else {"object": name, "fields": after},
    )


# ---- reading --------------------------------------------------------------------------------------------------------


def _keys(steps: QuerySet[ChangeStep]) -> set[Key]:
    return set(steps.values_list("request__cluster_id", "kind", "namespace", "name").distinct())


def _named(keys: Collection[Key]) -> dict[str, Any]:
    """A condition that holds for every key, and for few other objects."""
    return {"kind__in": {key[1] for key in keys}, "name__in": {key[3] for key in keys}}


def _rows_of(outer: type[OuterRef]) -> QuerySet[ClusterObject]:
    return ClusterObject.objects.filter(
        cluster=outer("request__cluster"),
        kind=outer("kind"),
        namespace=outer("namespace"),
        name=outer("name"),
    )


def _load(keys: set[Key], now: datetime) -> _Scene:
    """All that was written to these objects (a command that found its queue so was never sent), and what the collectors know of them."""
    scene = _Scene()
    if not keys:
        return scene
    since = now - timedelta(days=WATCHED_DAYS)
    rows = ChangeStep.objects.filter(
        Q(sent_at__gte=since) | Q(done_at__gte=since),
        request__state__in=_WROTE,
        request__cluster__in={key[0] for key in keys},
        **_named(keys),
    )
    for step in rows.select_related("request__cluster", "request__team", "request__created_by"):
        key = (step.request.cluster_id, step.kind, step.namespace, step.name)
        if key in keys:
            scene.steps[key].append(step)
    _look_at(scene, keys)
    return scene


def _look_at(scene: _Scene, keys: set[Key]) -> None:
    clusters = {key[0] for key in keys}
    pulled = {
        (cluster, source): at
        for cluster, source, at in SourceState.objects.filter(
            cluster__in=clusters, source__in=(Source.KUEUE, Source.VOLCANO)
        ).values_list("cluster_id", "source", "last_ok_at")
    }
    rows = ClusterObject.objects.filter(cluster__in=clusters, **_named(keys))
    # Of several objects that had the name one after the other, the one that is there or was there last.
    for row in rows.order_by(F("gone_at").desc(nulls_first=True), "-pk"):
        key = (row.cluster_id, row.kind, row.namespace, row.name)
        if key not in keys or key in scene.looks:
            continue
        source = Source.VOLCANO if row.kind == "VolcanoQueue" else Source.KUEUE
        gone = row.gone_at is not None
        scene.looks[key] = _Look(
            raw=None if gone else row.raw,
            unknown=not gone and not row.raw,
            version="" if gone else row.resource_version,
            at=row.gone_at or row.observed_at,
            pulled_at=pulled.get((row.cluster_id, source)),
        )


def _written(step: ChangeStep) -> Written:
    command = str(step.body["action"]) if step.method == "command" else ""
    sent = step.sent_at or step.done_at
    assert sent is not None  # noqa: S101  only steps that were sent are read
    return Written(step.pk, (sent, step.request_id, step.position), step.before, step.after, command)
