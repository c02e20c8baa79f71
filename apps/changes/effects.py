"""What a change did to the queues that it is about: what they have before it, and some time after. Input: a request, a
moment, the clock; output: ChangeEffect rows, once per moment.

Invariants
- Numbers are those of the quota pages (`apps.quotas.selectors`); nothing is worked out anew.
- A queue counts when it is written to, when one of its LocalQueues is, or when it lies below a cohort that is.
- Nothing is noted from before the moment: a number is taken once the collectors have been there after it; when they do
  not come, the moment is noted as unknown, so that it is not waited for for ever.
- Waiting work has no flavor yet: it stands on the flavor where `QuotaRow` counts it and is unknown on the others.

`ChangeEffect.resource`: "FLAVOR RESOURCE", or "RESOURCE" of Volcano; "" where nothing is known of the queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from django.db import transaction

from apps.changes.edits import ObjectKey
from apps.changes.models import ChangeEffect, ChangeRequest
from apps.changes.selectors import EFFECT_GRACE, EFFECTS, effects_due
from apps.observations.models import Source, SourceState
from apps.observations.selectors import stale_after
from apps.quotas.held import Counts, admitted_counts
from apps.quotas.kueue import KueueCluster
from apps.quotas.rows import QuotaRow
from apps.quotas.selectors import System, systems
from apps.quotas.snapshot import ClusterView, load_snapshot
from apps.quotas.volcano import VolcanoCluster

BEFORE = "before"
LAST_CALL = timedelta(minutes=30)
"""So long before it would be too late, what is not known is noted as such."""


def note_due(now: datetime) -> list[tuple[int, str]]:
    """Note every effect that is due; returns which (request, moment)."""
    noted = []
    for pk, moment in effects_due(now):
        request = ChangeRequest.objects.select_related("cluster").get(pk=pk)
        if note_effects(request, moment, now):
            noted.append((pk, moment))
    return noted


def note_effects(request: ChangeRequest, moment: str, now: datetime) -> bool:
    """`moment`: "before", or of `selectors.EFFECTS`. False: noted already, or the collectors have not been there yet."""
    if request.effects.filter(moment=moment).exists():
        return False
    keys = list(dict.fromkeys(request.steps.values_list("kind", "namespace", "name")))
    seen = _collected(request, moment, keys, now)
    if not seen and not _too_late(request, moment, now):
        return False
    found = list(_effects(request, keys, now)) if seen else []
    known = {effect.queue for effect in found}
    found += [ChangeEffect(queue=name) for name in sorted({key[2] for key in keys if _is_queue(key)} - known)]
    for effect in found:
        effect.request, effect.moment, effect.at = request, moment, now
    with transaction.atomic():
        # Two workers may be here at once: the first one's numbers stay whole.
        ChangeRequest.objects.select_for_update(of=("self",)).get(pk=request.pk)
        if request.effects.filter(moment=moment).exists():
            return False
        ChangeEffect.objects.bulk_create(found)
    return bool(found)


def _is_queue(key: ObjectKey) -> bool:
    return key[0] in ("ClusterQueue", "VolcanoQueue")


def _too_late(request: ChangeRequest, moment: str, now: datetime) -> bool:
    if moment == BEFORE:
        return True
    assert request.applied_at is not None  # noqa: S101  effects are due of what was applied
    return now >= request.applied_at + EFFECTS[moment] + EFFECT_GRACE - LAST_CALL


def _collected(request: ChangeRequest, moment: str, keys: Iterable[ObjectKey], now: datetime) -> bool:
    """The collectors have read the queues' system since the moment; of what was before, lately."""
    since = now - stale_after()
    if moment != BEFORE and request.applied_at is not None:
        since = request.applied_at + EFFECTS[moment]
    needed = {Source.VOLCANO if key[0] == "VolcanoQueue" else Source.KUEUE for key in keys}
    read = SourceState.objects.filter(cluster=request.cluster_id, source__in=needed, last_ok_at__gte=since)
    return read.count() == len(needed)


# ---- numbers --------------------------------------------------------------------------------------------------------


def _effects(request: ChangeRequest, keys: Iterable[ObjectKey], now: datetime) -> Iterator[ChangeEffect]:
    snapshot = load_snapshot(now=now, clusters=[request.cluster])
    counts = admitted_counts(cluster_id=request.cluster_id)
    chosen = list(keys)
    for system in systems(snapshot):
        for name in _queues(system, snapshot.views[request.cluster_id], chosen):
            admitted = _admitted(system, name, counts)
            for row in system.queue_rows(name):
                if row.matters:
                    yield _effect(row, admitted)


def _queues(system: System, view: ClusterView, keys: Iterable[ObjectKey]) -> list[str]:
    """The names of the system's queues that these objects are about, each once."""
    found: dict[str, None] = {}
    local = {(item.namespace, item.name): item for item in view.local_queues}
    for kind, namespace, name in keys:
        if isinstance(system, VolcanoCluster):
            names = [name] if kind == "VolcanoQueue" else []
        elif kind == "Cohort":
            names = system.queues_below(name)
        elif kind == "LocalQueue":
            item = local.get((namespace, name))
            names = [str(item.spec.get("cluster_queue") or "")] if item else []
        else:
            names = [name] if kind == "ClusterQueue" else []
        found |= dict.fromkeys(names)
    known = set(system.queues(None))
    return [name for name in found if name in known]


def _admitted(system: System, name: str, counts: Counts) -> Mapping[tuple[str, str], int]:
    """Per (flavor, resource); of a Volcano queue with those of the queues below it, as its other numbers."""
    if isinstance(system, KueueCluster):
        return counts.get(("ClusterQueue", name), {})
    found: dict[tuple[str, str], int] = {}
    for queue in system.below(name):
        for cell, count in counts.get(("VolcanoQueue", queue), {}).items():
            found[cell] = found.get(cell, 0) + count
    return found


def _effect(row: QuotaRow, admitted: Mapping[tuple[str, str], int]) -> ChangeEffect:
    elsewhere = bool(row.pending_on)
    return ChangeEffect(
        queue=row.queue,
        resource=f"{row.flavor} {row.resource}".strip(),
        nominal=row.nominal,
        held=row.reserved,
        borrowed=row.borrowed,
        admitted_workloads=admitted.get((row.flavor, row.resource), 0),
        waiting_workloads=None if elsewhere else row.waiting,
        waiting_units=None if elsewhere else row.pending,
    )
