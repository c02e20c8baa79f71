"""The narrow read of everything that waits now: one tuple per piece of work, classified, in waiting order.

Input: clusters and criteria; output: `Pending` tuples with just what filtering, counting and sorting need. The
wide rows of a page are read afterwards, for the shown slice only (apps.admissions.selectors).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from apps.admissions.classifier import Verdict
from apps.admissions.labels import NO_REASON
from apps.admissions.reach import PLACE, Reach
from apps.admissions.surroundings import Surroundings, decoded
from apps.fleet.models import Cluster
from apps.fleet.registry import registry
from apps.fleet.selectors import BindingIndex
from apps.observations.models import Workload

# `Criteria.team` of work that no team owns.
WAITING_STATES = ("pending", "reserved")


@dataclass(frozen=True, slots=True)
class Criteria:
    """What waiting work is narrowed to; "" means any. `reason` is the cluster's own token, `NO_REASON` none at
    all; `deactivated` also takes work that was given up."""

    cluster: str = ""
    team: str = ""
    queue: str = ""
    cause: str = ""
    reason: str = ""
    kind: str = ""
    q: str = ""
    deactivated: bool = False


@dataclass(frozen=True, slots=True)
class Pending:
    """One piece of waiting work. `key`: primary key in its table (Workload, or Pod for kind "Pod"). What costs
    time (the JSON, the classification) is worked out when asked for."""

    key: int
    cluster_id: int
    kind: str
    namespace: str
    name: str
    queue_name: str
    queue: str
    state: str
    reason: str
    message: str
    message_source: str
    waits_since: datetime
    requests: str
    checks: str
    one_pod: str
    team_id: int | None
    surroundings: Surroundings

    @property
    def asked(self) -> dict[str, str]:
        found: dict[str, str] = decoded(self.requests)
        return found

    @property
    def verdict(self) -> Verdict:
        return self.surroundings.verdict(
            cluster_id=self.cluster_id,
            queue=self.queue,
            state=self.state,
            reason=self.reason,
            message=self.message,
            checks=decoded(self.checks) if self.checks != "[]" else (),
            one_pod=self.one_pod,
            requests=self.requests if self.kind == "PodGroup" else "{}",
        )


# `{here}` narrows them.
_LOCAL_QUEUES = """
SELECT DISTINCT ON (cluster_id, namespace, name) cluster_id, namespace, name, spec->>'cluster_queue' AS queue
FROM observations_clusterobject
WHERE cluster_id = ANY(%(clusters)s) AND kind = 'LocalQueue' AND gone_at IS NULL {here}
ORDER BY cluster_id, namespace, name, id DESC
"""

_WORKLOADS = """
SELECT w.id, w.cluster_id, w.kind, w.namespace, w.name, w.queue_name,
  coalesce(nullif(w.cluster_queue, ''), q.queue, '') AS queue, w.state, w.reason, w.message,
  CASE WHEN w.message = '' THEN '' WHEN w.state = 'reserved' THEN 'check' ELSE 'condition' END AS message_source,
  coalesce(w.queued_at, w.created_at, w.first_seen_at) AS waits_since, w.requests, w.checks, '{}'::jsonb AS one_pod
FROM observations_workload w
LEFT JOIN local_queues q ON q.cluster_id = w.cluster_id AND q.namespace = w.namespace AND q.name = w.queue_name
WHERE w.cluster_id = ANY(%(clusters)s) AND w.gone_at IS NULL AND w.state = ANY(%(states)s)
  AND w.kind = 'Workload'
"""

# A PodGroup that Volcano has not let in has no condition: its reason stands in an Event, and of these the Normal
# ones name the cause, while Warnings are written for healthy groups, too.
_GROUPS = """
SELECT w.id, w.cluster_id, w.kind, w.namespace, w.name, w.queue_name, w.queue_name AS queue, w.state,
  coalesce(e.reason, w.reason) AS reason, coalesce(e.message, w.message) AS message,
  CASE WHEN e.message IS NOT NULL THEN 'event' WHEN w.message = '' THEN '' ELSE 'condition' END AS message_source,
  coalesce(w.queued_at, w.created_at, w.first_seen_at) AS waits_since, w.requests, w.checks,
  coalesce(o.one_pod, '{}'::jsonb) AS one_pod
FROM observations_workload w
LEFT JOIN LATERAL (
  SELECT jsonb_build_object('requests', p.requests, 'placement', p.placement) AS one_pod FROM observations_pod p
  WHERE w.message LIKE '%%nodes are%%' AND p.cluster_id = w.cluster_id AND p.namespace = w.namespace
    AND p.pod_group = w.name AND p.gone_at IS NULL AND p.node_name = ''
  ORDER BY position(p.name || ': ' IN w.message) > 0 DESC, p.id LIMIT 1
) o ON true
LEFT JOIN LATERAL (
  SELECT e.reason, e.message FROM observations_event e
  WHERE w.message = '' AND e.cluster_id = w.cluster_id AND e.object_uid = w.uid AND e.reason = 'Unschedulable'
  ORDER BY (e.type = 'Normal' AND w.state = 'pending') DESC, coalesce(e.last_at, e.created_at) DESC LIMIT 1
) e ON true
WHERE w.cluster_id = ANY(%(clusters)s) AND w.gone_at IS NULL AND w.state = ANY(%(states)s)
  AND w.kind = 'PodGroup'
"""

# What a pod's claims ask for, as {"deviceclass/<class>": devices}; classes of what is no accelerator, admin access and
# what stands in the pod's own requests are left out. Of alternatives, the first counts.
_CLAIMED = """
SELECT jsonb_object_agg('deviceclass/' || class, devices::text) AS asked FROM (
  SELECT class, sum(devices) AS devices FROM (
    SELECT DISTINCT ON (o.id, split_part(r.value->>'name', '/', 1))
      r.value->>'device_class' AS class, coalesce((r.value->>'count')::numeric, 1) AS devices
    FROM jsonb_array_elements(p.claims) c
    JOIN observations_clusterobject o ON o.cluster_id = p.cluster_id AND o.kind = 'ResourceClaim'
      AND o.namespace = p.namespace AND o.name = c->>'claim' AND o.gone_at IS NULL
    CROSS JOIN LATERAL jsonb_array_elements(o.spec->'requests') WITH ORDINALITY r(value, place)
    JOIN observations_clusterobject d ON d.cluster_id = p.cluster_id AND d.kind = 'DeviceClass'
      AND d.namespace = '' AND d.name = r.value->>'device_class' AND d.gone_at IS NULL
    WHERE d.spec->'drivers' ?| %(drivers)s AND NOT (r.value->>'admin')::boolean AND c->'resources' = '[]'
    ORDER BY o.id, split_part(r.value->>'name', '/', 1), r.place) asking
  GROUP BY class) classes
"""

# GPU pods that no queue holds: bare pods, and pods whose workload was let in but that found no node. The pods of
# a waiting Workload or PodGroup are not counted beside it.
_PODS = f"""
SELECT p.id, p.cluster_id, 'Pod' AS kind, p.namespace, p.name, coalesce(w.queue_name, '') AS queue_name,
  coalesce(w.cluster_queue, '') AS queue, '' AS state,
  coalesce(p.conditions->'PodScheduled'->>'reason', '') AS reason,
  coalesce(p.conditions->'PodScheduled'->>'message', '') AS message,
  CASE WHEN coalesce(p.conditions->'PodScheduled'->>'message', '') = '' THEN '' ELSE 'pod' END AS message_source,
  coalesce(p.created_at, p.first_seen_at) AS waits_since,
  p.requests || coalesce(claimed.asked, '{{}}'::jsonb) AS requests, '[]'::jsonb AS checks,
  jsonb_build_object('requests', p.requests, 'placement', p.placement) AS one_pod
FROM observations_pod p
LEFT JOIN LATERAL ({_CLAIMED}) claimed ON true
LEFT JOIN LATERAL (
  SELECT w.queue_name, w.cluster_queue, w.state FROM observations_workload w
  WHERE w.cluster_id = p.cluster_id AND w.namespace = p.namespace AND w.gone_at IS NULL
    AND w.kind = 'Workload' AND w.owner_uid = p.owner_uid AND p.owner_uid <> ''
  ORDER BY w.id DESC LIMIT 1) w ON true
WHERE p.cluster_id = ANY(%(clusters)s) AND p.gone_at IS NULL AND p.phase = 'Pending'
  AND (p.devices > 0 OR claimed.asked IS NOT NULL)
  AND p.node_name = '' AND p.deleting_since IS NULL AND p.queue_name = '' AND p.pod_group = ''
  AND coalesce(w.state, '') NOT IN ('pending', 'reserved', 'deactivated')
"""  # noqa: S608 - constants

# Ownership has one implementation, in Python: it is asked once per distinct place, not once per workload.
_POD_PLACES = f"SELECT DISTINCT cluster_id, kind, namespace, queue_name, queue FROM ({_PODS}) pods"  # noqa: S608 - constants
_PLACES = f"""
WITH local_queues AS MATERIALIZED ({_LOCAL_QUEUES.format(here="")}),
found AS (
  SELECT DISTINCT w.cluster_id, w.kind, w.namespace, w.queue_name, w.cluster_queue FROM observations_workload w
  WHERE w.cluster_id = ANY(%(clusters)s) AND w.gone_at IS NULL AND w.state = ANY(%(states)s)
    AND w.kind IN ('Workload', 'PodGroup'))
SELECT w.cluster_id, w.kind, w.namespace, w.queue_name, CASE WHEN w.kind = 'PodGroup' THEN w.queue_name
  ELSE coalesce(nullif(w.cluster_queue, ''), q.queue, '') END AS queue
FROM found w
LEFT JOIN local_queues q ON q.cluster_id = w.cluster_id AND q.namespace = w.namespace AND q.name = w.queue_name
UNION
{_POD_PLACES}
"""  # noqa: S608 - constants

_IN_PLACES = """IN (
    SELECT * FROM unnest(%(place_cluster)s::bigint[], %(place_namespace)s::text[], %(place_queue_name)s::text[]))
"""
_HERE = f"AND (w.cluster_id, w.namespace, w.queue_name) {_IN_PLACES}"
_WORK = f"""
WITH local_queues AS MATERIALIZED ({_LOCAL_QUEUES.format(here=f"AND (cluster_id, namespace, name) {_IN_PLACES}")}),
work AS MATERIALIZED ({_WORKLOADS} {_HERE} UNION ALL {_GROUPS} {_HERE} UNION ALL {_PODS})
"""

_ALL = (
    _WORK
    + """
SELECT work.id, cluster_id, kind, namespace, name, queue_name, queue, state, reason, message, message_source,
  waits_since, requests, checks, one_pod, p.team_id
FROM work
JOIN unnest(%(place_cluster)s::bigint[], %(place_kind)s::text[], %(place_namespace)s::text[],
  %(place_queue_name)s::text[], %(place_queue)s::text[], %(place_team)s::bigint[])
  AS p(cluster_id, kind, namespace, queue_name, queue, team_id) USING (cluster_id, kind, namespace, queue_name, queue)
WHERE (%(kind)s = '' OR kind = %(kind)s)
  AND (%(queue)s = '' OR queue = %(queue)s OR queue_name = %(queue)s)
  AND (%(reason)s = '' OR coalesce(nullif(reason, ''), %(no_reason)s) = %(reason)s)
  AND (%(q)s = '' OR namespace || '/' || name || ' ' || queue_name || ' ' || queue || ' ' || message
    ILIKE '%%' || %(q)s || '%%')
ORDER BY waits_since, cluster_id, namespace, name, id
"""
)


def chosen_clusters(criteria: Criteria) -> list[int]:
    """Ids of the collected clusters, or of the named one."""
    clusters = Cluster.objects.filter(enabled=True)
    if criteria.cluster:
        clusters = clusters.filter(slug=criteria.cluster)
    return list(clusters.values_list("pk", flat=True))


def escape_like(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def pending_work(
    *,
    now: datetime,
    team_ids: Collection[int] | None,
    criteria: Criteria,
    team_id: int | None,
    bindings: BindingIndex | None = None,
) -> list[Pending]:
    """Waiting work in the order of its wait, longest first. `team_id`: the team that `criteria.team` names, None for work
    that no team owns; `bindings`: who owns what now, where the caller knows it already."""
    clusters = chosen_clusters(criteria)
    states = [*WAITING_STATES, "deactivated"] if criteria.deactivated else list(WAITING_STATES)
    params: dict[str, Any] = {
        "clusters": clusters,
        "states": states,
        "kind": criteria.kind,
        "queue": criteria.queue,
        "reason": criteria.reason,
        "no_reason": NO_REASON,
        "q": escape_like(criteria.q.strip()),
        "drivers": [name for name, (_, driver) in registry().drivers.items() if driver.counts],
    }
    owners = bindings or BindingIndex.load(now, clusters=clusters)
    wanted: set[int | None] | None = None if team_ids is None else set(team_ids)
    if criteria.team:
        wanted = {team_id} if wanted is None else wanted & {team_id}
    with connection.cursor() as cursor:
        found_places = _places_of(cursor, params, owners, wanted)
        owned = [(place, _owner(owners, place)) for place in found_places]
        if wanted is not None:
            owned = [item for item in owned if item[1] in wanted]
        if not owned:
            return []
        cursor.execute(_ALL, {**params, **_places(owned)})
        names = ["key", *(column.name for column in cursor.description[1:])]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    queues = None if wanted is None else {row["queue"] for row in rows}
    surroundings = Surroundings(clusters, queues=queues)
    found = [Pending(**row, surroundings=surroundings) for row in rows]
    if criteria.cause:
        found = [row for row in found if row.verdict.cause == criteria.cause]
    return found


# (cluster, kind, namespace, queue name, the queue that it leads to): kind "Pod" too.
Place = tuple[int, str, str, str, str]


def _places_of(
    cursor: Any, params: Mapping[str, Any], owners: BindingIndex, wanted: set[int | None] | None
) -> Collection[Place]:
    """Where something waits: everywhere, or as far as the bindings of the wanted teams reach."""
    if wanted is None or None in wanted:
        cursor.execute(_PLACES, params)
        return list(cursor.fetchall())
    reach = Reach(owners, [team for team in wanted if team is not None])
    if not reach.things:
        return []
    work = Workload.objects.filter(
        reach.work, cluster_id__in=params["clusters"], state__in=params["states"], gone_at=None
    )
    found = {(*at[:4], reach.queue_of(at)) for at in work.order_by().values_list(*PLACE).distinct()}
    cursor.execute(_POD_PLACES, params)
    return found | set(cursor.fetchall())


def _owner(owners: BindingIndex, place: Place) -> int | None:
    cluster_id, kind, namespace, queue_name, queue = place
    return owners.team_id_for(
        cluster_id, namespace=namespace, queue_name=queue_name, queue=queue, volcano=kind == "PodGroup"
    )


def _places(owned: Sequence[tuple[Place, int | None]]) -> dict[str, Any]:
    names = ("cluster", "kind", "namespace", "queue_name", "queue")
    arrays: dict[str, Any] = {
        f"place_{name}": [place[i] for place, _t in owned] for i, name in enumerate(names)
    }
    return {**arrays, "place_team": [team for _place, team in owned]}
