"""Reads of what people maintain: which clusters are collected, and which team owns what at an instant.

Input: `TeamBinding` and `Cluster` rows; output: plain values. Ownership is effective-dated, so every question
names its instant; after one query the answers come from dictionaries.

Invariants
- A period is half-open: at `valid_to` the next owner, or nobody, owns the thing.
- The most exact binding wins: LocalQueue, then ClusterQueue or Volcano queue, then namespace.
- Nobody is `None`, never a default team.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from django.db.models import Q, QuerySet

from apps.fleet.models import Cluster, TeamBinding

Kind = TeamBinding.Kind
# In filters and series: what no team owns.
UNBOUND = "-"


@dataclass(frozen=True, slots=True)
class BoundThing:
    """Something a team can own. `namespace` is set for a LocalQueue only."""

    cluster_id: int
    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class BindingIndex:
    """Who owns what at the instant `at`."""

    at: datetime
    owners: dict[BoundThing, int] = field(repr=False)

    @classmethod
    def load(cls, at: datetime, *, clusters: Collection[int] | None = None) -> BindingIndex:
        """One query. `clusters`: ids, None for all."""
        rows = _in_force(at=at)
        if clusters is not None:
            rows = rows.filter(cluster_id__in=list(clusters))
        return cls(at, _owners(rows.values_list(*_FIELDS)))

    def owner_of(self, cluster_id: int, kind: str, name: str, *, namespace: str = "") -> int | None:
        """The team bound to exactly this thing, without falling back to a wider one."""
        return self.owners.get(BoundThing(cluster_id, kind, namespace, name))

    def team_id_for(
        self, cluster_id: int, *, namespace: str = "", queue_name: str = "", queue: str = "", volcano: bool
    ) -> int | None:
        """The team of a piece of work.

        `queue_name` is the name that the work carries (LocalQueue, or Volcano queue), `queue` the ClusterQueue
        or Volcano queue that it leads to ("" when not known)."""
        if volcano:
            found = self.owner_of(cluster_id, Kind.VOLCANO_QUEUE, queue or queue_name)
        else:
            found = self.owner_of(cluster_id, Kind.LOCAL_QUEUE, queue_name, namespace=namespace)
            if found is None:
                found = self.owner_of(cluster_id, Kind.CLUSTER_QUEUE, queue)
        return self.owner_of(cluster_id, Kind.NAMESPACE, namespace) if found is None else found

    def things_of(self, team_ids: Collection[int]) -> set[BoundThing]:
        """Everything that these teams own at `at`."""
        wanted = set(team_ids)
        return {thing for thing, team_id in self.owners.items() if team_id in wanted}


@dataclass(frozen=True, slots=True)
class OwnershipPiece:
    """A stretch [start, end) in which no ownership changes."""

    start: datetime
    end: datetime
    index: BindingIndex


def ownership_pieces(
    *, start: datetime, end: datetime, clusters: Collection[int] | None = None
) -> list[OwnershipPiece]:
    """[start, end) cut at every instant where some ownership changes; the pieces are gapless and in order.

    Rollups add up each piece under its own owners, so that a change of team at 10:20 splits the hour."""
    rows = TeamBinding.objects.filter(valid_from__lt=end).filter(
        Q(valid_to__isnull=True) | Q(valid_to__gt=start)
    )
    if clusters is not None:
        rows = rows.filter(cluster_id__in=list(clusters))
    periods = list(rows.values_list(*_FIELDS, "valid_from", "valid_to"))
    edges = {start, end}
    for *_, opens, closes in periods:
        edges.update(edge for edge in (opens, closes) if edge is not None and start < edge < end)
    cuts = sorted(edges)
    return [
        OwnershipPiece(
            low,
            high,
            BindingIndex(
                low,
                _owners(row[:5] for row in periods if row[5] <= low and (row[6] is None or row[6] > low)),
            ),
        )
        for low, high in pairwise(cuts)
    ]


def enabled_clusters() -> QuerySet[Cluster]:
    """The clusters that are collected, in display order."""
    return Cluster.objects.filter(enabled=True)


def owner_of(*, cluster_id: int, kind: str, name: str, namespace: str = "", at: datetime) -> int | None:
    """The team bound to exactly this thing at `at`: one query, for single look-ups."""
    return (
        _in_force(at=at)
        .filter(cluster_id=cluster_id, kind=kind, namespace=namespace, name=name)
        .values_list("team_id", flat=True)
        .first()
    )


def queues_of_teams(team_ids: Collection[int], now: datetime) -> set[BoundThing]:
    """The LocalQueues, ClusterQueues and Volcano queues bound to these teams; namespaces are not queues."""
    rows = _in_force(at=now).filter(team_id__in=list(team_ids)).exclude(kind=Kind.NAMESPACE)
    return set(_owners(rows.values_list(*_FIELDS)))


def queues_of_team(team_id: int, now: datetime) -> set[BoundThing]:
    return queues_of_teams([team_id], now)


def bindings_of_team(team_id: int, now: datetime) -> QuerySet[TeamBinding]:
    """The bindings in force, with their cluster, for showing."""
    return _in_force(at=now).filter(team_id=team_id).select_related("cluster")


_FIELDS = ("cluster_id", "kind", "namespace", "name", "team_id")


def _in_force(*, at: datetime) -> QuerySet[TeamBinding]:
    return TeamBinding.objects.filter(valid_from__lte=at).filter(
        Q(valid_to__isnull=True) | Q(valid_to__gt=at)
    )


def _owners(rows: Iterable[tuple[int, str, str, str, int]]) -> dict[BoundThing, int]:
    return {BoundThing(*row[:4]): row[4] for row in rows}
