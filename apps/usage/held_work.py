"""The work behind the hours of what was held: which object held how much, from when to when. Input: a cluster and a short
stretch; output: `HeldWork`, cut to the stretch, as the hours sum it.

Invariant: by kind of unit, owner and `seen`, these intervals add up to the hours of the same stretch as long as the observations
are kept; of older hours only the sums are left."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from apps.accounts.models import Team
from apps.core.windows import Window
from apps.fleet.models import Cluster
from apps.fleet.selectors import UNBOUND
from apps.observations.models import ClusterObject, Pod, StateSpan
from apps.usage.allocation import Basis, Interval, Unit, clip, intervals
from apps.usage.allocation_loading import fill_held, spells
from apps.usage.remembering import watched_by
from apps.usage.services import observed_until


@dataclass(frozen=True, slots=True)
class HeldWork:
    """`name`: "" where the object is not kept any more; `team`, `team_name`: "" of no team."""

    of: Interval
    name: str
    team: str
    team_name: str

    @property
    def resource(self) -> str:
        return self.of.resource

    @property
    def unit(self) -> Unit:
        return self.of.unit


def held_work(
    *,
    cluster: Cluster,
    window: Window,
    now: datetime,
    basis: Basis,
    team_ids: Collection[int] | None = None,
    team: str = "",
    queue: str = "",
) -> list[HeldWork]:
    """What held the most for longest first. `team_ids` None: everything, what is of no team included; `team` "-": only
    that."""
    start, end = window.start, window.end
    with transaction.atomic():
        until = observed_until(cluster=cluster, now=now, sources=watched_by(cluster))
        loaded = fill_held(cluster=cluster, start=start, end=end, until=until)
        found = intervals((one for one in spells(cluster) if one.basis is basis), loaded.around)
    teams = {one.pk: one for one in Team.objects.all()}
    slugs: dict[int | None, str] = {None: UNBOUND, **{pk: one.slug for pk, one in teams.items()}}
    kept = [
        item
        for item in clip(found, start, end)
        if (team_ids is None or item.team_id in team_ids)
        and team in ("", slugs[item.team_id])
        and queue in ("", item.place.queue)
    ]
    names = _names(cluster, basis, {item.uid for item in kept})
    rows = [_row(item, names, teams) for item in kept]
    return sorted(rows, key=lambda row: (-row.of.unit_seconds, key_of(row)))


def key_of(row: HeldWork) -> tuple[str, str, str, str, str]:
    """What tells rows apart, as text."""
    item = row.of
    return (item.uid, item.resource, item.on, item.start.isoformat(), item.seen + str(item.borrowed))


def _names(cluster: Cluster, basis: Basis, uids: Iterable[str]) -> dict[str, str]:
    """Of workloads as their states name them; of pods and of claims from what is kept of them."""
    wanted = list(uids)
    if basis is Basis.RESERVED:
        spans = StateSpan.objects.filter(cluster=cluster, uid__in=wanted)
        return dict(spans.values_list("uid", "name").distinct())
    claims = ClusterObject.objects.filter(cluster=cluster, kind="ResourceClaim", uid__in=wanted)
    pods = Pod.objects.filter(cluster=cluster, uid__in=wanted)
    return {**dict(claims.values_list("uid", "name")), **dict(pods.values_list("uid", "name"))}


def _row(item: Interval, names: Mapping[str, str], teams: Mapping[int, Team]) -> HeldWork:
    owner = None if item.team_id is None else teams[item.team_id]
    return HeldWork(
        of=item,
        name=names.get(item.uid, ""),
        team="" if owner is None else owner.slug,
        team_name="" if owner is None else owner.name,
    )
