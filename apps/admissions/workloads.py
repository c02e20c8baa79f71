"""Workloads and PodGroups as they stand, each with the team that owns it now.

Input: the reader's `team_ids` and a filter; output: a queryset in the order of ids and, per page, its owners.
Ownership is asked once per distinct place (cluster, kind, namespace, queues) and handed to SQL as arrays, so that a
lead's list never reads another team's rows.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.db.models import BooleanField, QuerySet
from django.db.models.expressions import RawSQL

from apps.accounts.models import Team
from apps.admissions.reach import PLACE, Place
from apps.fleet.models import Cluster
from apps.fleet.selectors import UNBOUND, BindingIndex
from apps.observations.models import Workload
from apps.observations.selectors import live_objects, live_workloads

_IN_PLACES = """(observations_workload.cluster_id, observations_workload.kind, observations_workload.namespace,
 observations_workload.queue_name, observations_workload.cluster_queue) IN (
 SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[]))"""


@dataclass(frozen=True, slots=True)
class WorkloadCriteria:
    """ "" means any; `team` "-" is work that no team owns, `queue` a LocalQueue, ClusterQueue or Volcano queue."""

    team: str = ""
    state: str = ""
    kind: str = ""
    namespace: str = ""
    queue: str = ""


class Owners:
    """Who owns a workload now, and which ClusterQueue a waiting one leads to through its LocalQueue."""

    def __init__(self, *, now: datetime, clusters: Collection[Cluster]) -> None:
        self.index = BindingIndex.load(now, clusters=[cluster.pk for cluster in clusters])
        self.leads_to: dict[tuple[int, str, str], str] = {
            (cluster_id, namespace, name): spec.get("cluster_queue") or ""
            for cluster_id, namespace, name, spec in live_objects(
                kind="LocalQueue", clusters=clusters
            ).values_list("cluster_id", "namespace", "name", "spec")
        }
        self.teams = {team.pk: team for team in Team.objects.all()}

    def team_id_of(self, place: Place) -> int | None:
        cluster_id, kind, namespace, queue_name, cluster_queue = place
        return self.index.team_id_for(
            cluster_id,
            namespace=namespace,
            queue_name=queue_name,
            queue=cluster_queue or self.queue_at(cluster_id, kind, namespace, queue_name),
            volcano=kind == Workload.Kind.POD_GROUP,
        )

    def queue_at(self, cluster_id: int, kind: str, namespace: str, queue_name: str) -> str:
        if kind == Workload.Kind.POD_GROUP:
            return queue_name
        return self.leads_to.get((cluster_id, namespace, queue_name), "")

    def team_of(self, workload: Workload) -> Team | None:
        return self.teams.get(self.team_id_of(place_of(workload)) or 0)

    def queue_of(self, workload: Workload) -> str:
        """The ClusterQueue or Volcano queue, "" when it cannot be told."""
        return workload.cluster_queue or self.queue_at(
            workload.cluster_id, workload.kind, workload.namespace, workload.queue_name
        )


def place_of(workload: Workload) -> Place:
    return (
        workload.cluster_id,
        workload.kind,
        workload.namespace,
        workload.queue_name,
        workload.cluster_queue,
    )


def workloads(
    *,
    team_ids: Collection[int] | None,
    criteria: WorkloadCriteria,
    clusters: Collection[Cluster],
    owners: Owners,
) -> QuerySet[Workload]:
    """Live workloads that the reader may see and the criteria match."""
    found = live_workloads(clusters=clusters).select_related("cluster")
    for name in ("state", "kind", "namespace"):
        if value := getattr(criteria, name):
            found = found.filter(**{name: value})
    if team_ids is None and not criteria.team and not criteria.queue:
        return found
    places = [
        place
        for place in found.order_by().values_list(*PLACE).distinct()
        if _wanted(place, team_ids=team_ids, criteria=criteria, owners=owners)
    ]
    return in_places(found, places)


def in_places(found: QuerySet[Workload], places: Collection[Place]) -> QuerySet[Workload]:
    """Of `found`, what is in one of these places."""
    columns = [list(column) for column in zip(*places, strict=True)] or [[], [], [], [], []]
    return found.filter(RawSQL(_IN_PLACES, columns, output_field=BooleanField()))  # noqa: S611 - constant text


def _wanted(
    place: Place, *, team_ids: Collection[int] | None, criteria: WorkloadCriteria, owners: Owners
) -> bool:
    team_id = owners.team_id_of(place)
    if team_ids is not None and team_id not in team_ids:
        return False
    if criteria.team and (owners.teams[team_id].slug if team_id else UNBOUND) != criteria.team:
        return False
    cluster_id, kind, namespace, queue_name, cluster_queue = place
    leads_to = cluster_queue or owners.queue_at(cluster_id, kind, namespace, queue_name)
    return not criteria.queue or criteria.queue in (queue_name, leads_to)


def find_workload(
    *, uid: str, now: datetime, team_ids: Collection[int] | None
) -> tuple[Workload, Owners] | None:
    """One workload by uid, also one that is gone and still stored; None when the reader may not see it."""
    found = Workload.objects.filter(uid=uid).select_related("cluster").order_by("-observed_at")
    for workload in found:
        owners = Owners(now=now, clusters=[workload.cluster])
        if team_ids is None or owners.team_id_of(place_of(workload)) in team_ids:
            return workload, owners
    return None
