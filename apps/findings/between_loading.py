"""What the database tells of work between layers. Input: one cluster and the clock; output: `Loaded`, the `Held` work of
which something may be wrong and the pods that kubelets refused lately.

Invariants: SQL picks the work that may have a case (the limits are decided in apps.admissions.between_layers), so that
the life relation is asked for a few uids only; a fixed number of queries per cluster; copies of work are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from apps.admissions.between_layers import (
    EMPTY_LIMIT,
    LOOP_WINDOW,
    PLACING_LIMIT,
    PREEMPTIONS,
    READY_TIMEOUTS,
    REJECTION_WINDOW,
    Held,
    Misplaced,
    Pods,
    Rejection,
)
from apps.admissions.life import Eviction, preemption_in
from apps.admissions.life_relation import LIFE, life_params
from apps.admissions.life_sources import JOBSET_UID
from apps.admissions.surroundings import decoded
from apps.admissions.work import asked_devices, held_devices
from apps.core.working_memory import sorted_in_memory
from apps.findings.flavor_models import WrongPlaces, wrong_places
from apps.findings.scale_ups import Waiting, scale_up_texts
from apps.fleet.models import Cluster
from apps.observations.models import Workload
from apps.observations.selectors import live_objects
from apps.quotas.gaps import MULTIKUEUE

_TOKENS = ("UnexpectedAdmissionError", "TopologyAffinityError", "NodeAffinity", "InvalidNodeInfo")
_INDIRECT = ("RayJob", "AppWrapper", "LeaderWorkerSet", "TrainJob", "SparkApplication")
"""Owners whose pods belong to objects that they make: the portal does not find them by the owner."""
_POD_UIDS = 3

_FACTS = f"""
WITH holding AS MATERIALIZED (
  SELECT id, uid, namespace, name, nullif(owner_uid, '') AS owner_uid, usage,
    requests ?| %(devices)s::text[] AS asks, coalesce(admitted_at, reserved_at, created_at, first_seen_at) AS since
  FROM observations_workload
  WHERE cluster_id = %(cluster)s AND gone_at IS NULL AND state IN ('reserved', 'admitted')
), pods AS MATERIALIZED (
  SELECT id, uid, namespace, pod_group, owner_uid, labels->>'{JOBSET_UID}' AS jobset, node_name, devices > 0 AS holds,
    gone_at IS NULL AND phase NOT IN ('Succeeded', 'Failed') AS lives, scheduling_gates <> '[]' AS gated,
    phase, reason, observed_at, coalesce(finished_at, started_at, observed_at) AS over_at,
    coalesce(created_at, first_seen_at) AS created
  FROM observations_pod WHERE cluster_id = %(cluster)s AND (gone_at IS NULL OR gone_at > %(rejected_since)s)
), members AS MATERIALIZED (
  SELECT w.id AS work, p.id FROM holding w JOIN pods p
    ON p.namespace = w.namespace AND p.pod_group = w.name AND p.pod_group <> ''
  UNION
  SELECT w.id, p.id FROM holding w JOIN (
    SELECT id, namespace, unnest(ARRAY[uid::text, owner_uid::text, jobset]) AS key FROM pods) p
    ON p.namespace = w.namespace AND p.key = w.owner_uid
), places AS (
  SELECT * FROM unnest(%(place_nodes)s::text[], %(place_kinds)s::int[]) AS n(node, kind)
), wrong AS (
  SELECT * FROM unnest(%(wrong_flavors)s::text[], %(wrong_kinds)s::int[]) AS f(flavor, kind)
), told AS (
  SELECT m.work, p.*, p.lives AND p.node_name = '' AND NOT p.gated AS waits,
    p.phase = 'Failed' AND p.node_name <> '' AND p.over_at > %(rejected_since)s
      AND (p.reason LIKE 'OutOf%%' OR p.reason = ANY(%(tokens)s)) AS is_rejected,
    p.lives AND p.holds AND p.phase = 'Running' AND EXISTS (SELECT FROM places n WHERE n.node = p.node_name
      AND EXISTS (SELECT FROM jsonb_array_elements(w.usage) u WHERE u->>'resource' = ANY(%(devices)s))
      AND NOT EXISTS (SELECT FROM jsonb_array_elements(w.usage) u
        WHERE u->>'resource' = ANY(%(devices)s) AND NOT EXISTS (
          SELECT FROM wrong f WHERE f.flavor = u->>'flavor' AND f.kind = n.kind))) AS is_misplaced
  FROM members m JOIN pods p USING (id) JOIN holding w ON w.id = m.work
)
SELECT w.uid, count(t.id) FILTER (WHERE t.lives), count(t.id) FILTER (WHERE t.lives AND t.node_name <> ''),
  count(t.id) FILTER (WHERE t.waits), min(t.created) FILTER (WHERE t.waits),
  (array_agg(t.uid ORDER BY t.created, t.id) FILTER (WHERE t.waits))[1:{_POD_UIDS}],
  array_agg(DISTINCT t.node_name) FILTER (WHERE t.is_misplaced),
  jsonb_agg(jsonb_build_array(t.uid, t.node_name, t.over_at, t.reason)) FILTER (WHERE t.is_rejected)
FROM holding w LEFT JOIN told t ON t.work = w.id GROUP BY w.id, w.uid, w.since, w.asks
HAVING (count(t.id) FILTER (WHERE t.waits) > 0 AND min(t.created) FILTER (WHERE t.waits) < %(placing_before)s)
  OR (count(t.id) FILTER (WHERE t.lives) = 0 AND w.asks AND w.since < %(empty_before)s)
  OR bool_or(t.is_misplaced) OR bool_or(t.is_rejected)
"""  # noqa: S608 - constants of this module only

# Pods of work that has none alive, long gone ones too: when the last was over.
_GONE = f"""
SELECT w.uid, max(coalesce(p.finished_at, p.gone_at, p.observed_at)) FROM observations_workload w
JOIN observations_pod p ON p.cluster_id = w.cluster_id AND p.namespace = w.namespace
  AND ((p.pod_group = w.name AND p.pod_group <> '')
    OR (w.owner_uid <> '' AND w.owner_uid IN (p.uid, p.owner_uid, p.labels->>'{JOBSET_UID}')))
WHERE w.cluster_id = %(cluster)s AND w.uid = ANY(%(uids)s) GROUP BY w.uid
"""  # noqa: S608 - constants of this module only

# Work that lives and was evicted for one of these reasons as often as a case needs; an event tells of several.
_EVICTIONS = """
SELECT e.object_uid, e.reason, e.message, coalesce(e.first_at, e.created_at) AS at,
  CASE WHEN e.first_at > %(since)s THEN greatest(e.count, 1) ELSE 1 END AS times,
  coalesce(e.last_at, e.created_at) AS last_at
FROM observations_event e
WHERE e.cluster_id = %(cluster)s AND e.reason = ANY(%(reasons)s) AND e.object_uid IN (
  SELECT f.object_uid FROM observations_event f JOIN observations_workload w
    ON w.cluster_id = f.cluster_id AND w.uid = f.object_uid AND w.gone_at IS NULL
      AND w.state IN ('pending', 'reserved', 'admitted')
  WHERE f.cluster_id = %(cluster)s AND f.reason = ANY(%(reasons)s) AND coalesce(f.last_at, f.created_at) > %(since)s
    AND f.created_at > %(stored_since)s
  GROUP BY f.object_uid, f.reason HAVING sum(greatest(f.count, 1)) >= %(least)s)
  AND coalesce(e.last_at, e.created_at) > %(since)s AND e.created_at > %(stored_since)s
"""

_NODE_REJECTIONS = """
SELECT uid, node_name, coalesce(finished_at, started_at, observed_at), reason FROM observations_pod
WHERE cluster_id = %(cluster)s AND observed_at > %(rejected_since)s AND phase = 'Failed' AND node_name <> ''
  AND (reason LIKE 'OutOf%%' OR reason = ANY(%(tokens)s))
"""

_DEVICES = """
SELECT DISTINCT u FROM observations_workload w, jsonb_object_keys(w.requests) u
WHERE w.cluster_id = %(cluster)s AND w.gone_at IS NULL AND w.state IN ('reserved', 'admitted')
"""

# The stretch that lasts, and when the attempt that it belongs to began to be placed.
_LIVES = f"""
SELECT uid, phase, queue, until_at, began FROM (
  SELECT uid, phase, queue, until_at, ended_at,
    min(started_at) FILTER (WHERE phase IN ('unplaced', 'provisioning')) OVER (PARTITION BY uid, attempt) AS began
  FROM {LIFE} l) lives
WHERE ended_at IS NULL
"""  # noqa: S608 - constants of this module only


@dataclass(frozen=True, slots=True)
class Loaded:
    work: tuple[Held, ...] = ()
    rejections: tuple[Rejection, ...] = ()


@dataclass(slots=True)
class _Facts:
    pods: Pods = field(default_factory=Pods)
    waiting_uids: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    rejections: tuple[Rejection, ...] = ()


def load(now: datetime, cluster: Cluster) -> Loaded:
    """Everything about one cluster; about ten queries."""
    places = wrong_places(cluster)
    with sorted_in_memory():
        facts = _facts(now, cluster, places)
        evictions = _evictions(now, cluster)
        rejections = _rejections(now, cluster)
        uids = sorted({*facts, *evictions})
        lives = _lives(now, cluster, uids)
        gone = _rows(
            _GONE, {"cluster": cluster.pk, "uids": [uid for uid, each in facts.items() if not each.pods.live]}
        )
    gone_at = dict(gone)
    works = Workload.objects.filter(cluster=cluster, uid__in=list(lives), gone_at=None).defer("pod_sets")
    texts = scale_up_texts(cluster, [*_waiting(works, facts)], now=now)
    elsewhere = {
        name
        for name, spec in live_objects(kind="AdmissionCheck", clusters=[cluster]).values_list("name", "spec")
        if spec.get("controller") == MULTIKUEUE
    }
    held = []
    for work in works:
        found = facts.get(work.uid, _Facts())
        phase, queue, seen_until, began = lives[work.uid]
        pods = found.pods if found.pods.live else Pods(gone_at=gone_at.get(work.uid))
        held.append(
            Held(
                uid=work.uid,
                kind=work.kind,
                namespace=work.namespace,
                name=work.name,
                queue_name=work.queue_name,
                queue=work.cluster_queue or queue or "",
                phase=phase,
                seen_until=seen_until,
                devices=_devices(work),
                placing_since=began,
                held_since=work.reserved_at or work.admitted_at or began,
                pods=pods,
                shows_pods=_shows_pods(work, elsewhere) and work.uid in facts,
                rejections=found.rejections,
                misplaced=tuple(_misplaced(work, found.nodes, places)),
                evictions=tuple(evictions.get(work.uid, ())),
                said=texts.get(work.uid, ""),
            )
        )
    return Loaded(tuple(held), tuple(rejections))


def _rows(sql: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _facts(now: datetime, cluster: Cluster, places: WrongPlaces) -> dict[str, _Facts]:
    resources = [name for (name,) in _rows(_DEVICES, {"cluster": cluster.pk})]
    wrong = sorted(places.wrong)
    values = {
        "cluster": cluster.pk,
        "rejected_since": now - REJECTION_WINDOW,
        "placing_before": now - PLACING_LIMIT,
        "empty_before": now - EMPTY_LIMIT,
        "tokens": list(_TOKENS),
        "devices": sorted(asked_devices(dict.fromkeys(resources, "1"))),
        "place_nodes": list(places.kinds),
        "place_kinds": list(places.kinds.values()),
        "wrong_flavors": [flavor for flavor, _kind in wrong],
        "wrong_kinds": [kind for _flavor, kind in wrong],
    }
    found = {}
    for uid, live, bound, waiting, since, pod_uids, nodes, rejected in _rows(_FACTS, values):
        found[uid] = _Facts(
            Pods(live, bound, waiting, since),
            tuple(pod_uids or ()),
            tuple(nodes or ()),
            tuple(
                Rejection(pod, node, datetime.fromisoformat(at), reason)
                for pod, node, at, reason in decoded(rejected) or ()
            ),
        )
    return found


def _evictions(now: datetime, cluster: Cluster) -> dict[str, list[Eviction]]:
    values = {
        "cluster": cluster.pk,
        "since": now - LOOP_WINDOW,
        "stored_since": now - 2 * LOOP_WINDOW,
        "reasons": ["EvictedDueToPodsReadyTimeout", "EvictedDueToPreempted"],
        "least": min(READY_TIMEOUTS, PREEMPTIONS),
    }
    found: defaultdict[str, list[Eviction]] = defaultdict(list)
    for uid, reason, message, at, times, last_at in _rows(_EVICTIONS, values):
        began = max(at, now - LOOP_WINDOW + timedelta(seconds=1)) if times > 1 else last_at
        found[uid] += [Eviction(began, reason, message, preemption_in(message))] * times
    return found


def _rejections(now: datetime, cluster: Cluster) -> Iterable[Rejection]:
    values = {"cluster": cluster.pk, "rejected_since": now - REJECTION_WINDOW, "tokens": list(_TOKENS)}
    return [Rejection(*row) for row in _rows(_NODE_REJECTIONS, values)]


def _lives(
    now: datetime, cluster: Cluster, uids: Sequence[str]
) -> dict[str, tuple[str, str, datetime, datetime | None]]:
    """{uid: (phase, queue, seen until, began to be placed)} of originals that last; copies have none."""
    if not uids:
        return {}
    end = now + timedelta(days=1)
    values = life_params([cluster.pk], start=now - LOOP_WINDOW, end=end, now=now, uids=uids)
    return {uid: (phase, queue, until, began) for uid, phase, queue, until, began in _rows(_LIVES, values)}


def _waiting(works: Iterable[Workload], facts: Mapping[str, _Facts]) -> Iterable[Waiting]:
    for work in works:
        found = facts.get(work.uid)
        if found is not None and found.waiting_uids:
            yield Waiting(work.uid, work.namespace, work.name, found.waiting_uids)


def _devices(work: Workload) -> dict[str, Any]:
    """What it holds, or what a pod group, which reserves nothing by flavors, asks for; nothing while it waits."""
    if work.state not in (Workload.State.RESERVED, Workload.State.ADMITTED):
        return {}
    return held_devices(work.usage) or asked_devices(work.requests)


def _shows_pods(work: Workload, elsewhere: Collection[str]) -> bool:
    """Work that a check still holds back has no pods yet; that of other clusters, and what makes objects that make
    pods, has none that are found here; what asks for no device may have pods that nobody collects."""
    if work.owner_kind in _INDIRECT or not _devices(work):
        return False
    return not any(check["state"] != "Ready" or check["name"] in elsewhere for check in work.checks)


def _misplaced(work: Workload, nodes: Iterable[str], places: WrongPlaces) -> Iterable[Misplaced]:
    flavors = {cell["flavor"] for cell in work.usage if asked_devices({cell["resource"]: "1"})}
    promised = tuple(sorted({model for flavor in flavors for model in places.promised.get(flavor, ())}))
    for node in nodes:
        yield Misplaced(node, places.models.get(node, ""), promised)
