"""What a piece of work's own text leaves out, read once for all of it. Input: clusters; output: `Surroundings`, which
classifies with it."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any

from django.db import connection

from apps.admissions.classifier import Check, NodeFacts, Verdict, classify
from apps.admissions.node_facts import NodeShape, amounts, facts_for, keys_of, merged
from apps.fleet.registry import is_device


def decoded(value: Any) -> Any:
    """Django switches psycopg's JSON decoding off for its own fields: raw queries give text."""
    return json.loads(value) if isinstance(value, str) else value


_BROKEN_QUEUES = """
SELECT cluster_id, name, status->'conditions'->'Active'->>'reason' FROM observations_clusterobject
WHERE cluster_id = ANY(%(clusters)s) AND kind = 'ClusterQueue' AND gone_at IS NULL
  AND (%(queues)s::text[] IS NULL OR namespace = '' AND name = ANY(%(queues)s))
  AND status->'conditions'->'Active'->>'status' = 'False'
"""
# A queue under a cycle of cohorts says that it is active, while its work is told that it is not.
_IN_CYCLES = """
WITH RECURSIVE up AS (
  SELECT cluster_id, name AS queue, spec->>'cohort' AS cohort, ARRAY[spec->>'cohort'] AS path, false AS loops
  FROM observations_clusterobject
  WHERE cluster_id = ANY(%(clusters)s) AND kind = 'ClusterQueue' AND gone_at IS NULL AND spec->>'cohort' <> ''
    AND (%(queues)s::text[] IS NULL OR namespace = '' AND name = ANY(%(queues)s))
  UNION ALL
  SELECT up.cluster_id, up.queue, c.spec->>'parent', up.path || (c.spec->>'parent'), c.spec->>'parent' = ANY(up.path)
  FROM up JOIN observations_clusterobject c ON c.cluster_id = up.cluster_id AND c.kind = 'Cohort'
    AND c.name = up.cohort AND c.gone_at IS NULL
  WHERE NOT up.loops AND c.spec->>'parent' <> ''
)
SELECT cluster_id, queue FROM up WHERE loops
"""
_CEILINGS = """
SELECT cluster_id, name, coalesce(nullif(spec->'capability', 'null'), '{}') FROM observations_clusterobject
WHERE cluster_id = ANY(%s) AND kind = 'VolcanoQueue' AND gone_at IS NULL
"""
_CONTROLLERS = """
SELECT cluster_id, name, coalesce(spec->>'controller', '') FROM observations_clusterobject
WHERE cluster_id = ANY(%s) AND kind = 'AdmissionCheck' AND gone_at IS NULL
"""


_NODES = """
SELECT cluster_id, name, labels, taints, conditions->'Ready'->>'status' = 'True', unschedulable, capacity, allocatable,
  dense_rank() OVER (ORDER BY taints, conditions->'Ready'->>'status', unschedulable, capacity, allocatable)
FROM observations_node WHERE cluster_id = ANY(%s) AND gone_at IS NULL
"""


def _nodes(cluster_ids: Sequence[int]) -> dict[int, list[NodeShape]]:
    """{cluster: its nodes now}."""
    found: dict[int, list[NodeShape]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_NODES, [list(cluster_ids)])
        for (
            cluster_id,
            name,
            labels,
            taints,
            ready,
            cordoned,
            capacity,
            allocatable,
            kind,
        ) in cursor.fetchall():
            shape = NodeShape(
                name,
                decoded(labels),
                decoded(taints),
                bool(ready),
                cordoned,
                amounts(decoded(capacity)),
                amounts(decoded(allocatable)),
                kind=kind,
            )
            found.setdefault(cluster_id, []).append(shape)
    return found


class Surroundings:
    """What a workload's own text leaves out: why its queue is inactive, who answers its checks, which nodes could take
    its pods at all. Read once; checks and nodes only when a piece of work speaks of them. `queues`: the ClusterQueues that
    will be asked about, None for all."""

    def __init__(self, cluster_ids: Sequence[int], *, queues: Collection[str] | None = None) -> None:
        self.cluster_ids = list(cluster_ids)
        self.queue_reasons = self._queue_reasons(queues)
        self._ceilings: dict[tuple[int, str], dict[str, Decimal]] | None = None
        self._nodes: dict[int, list[NodeShape]] | None = None
        self._alike: dict[tuple[int, frozenset[str]], list[NodeShape]] = {}
        self._facts: dict[tuple[int, str], NodeFacts | None] = {}

    def _queue_reasons(self, queues: Collection[str] | None) -> dict[tuple[int, str], str]:
        """Why (cluster, ClusterQueue) admits nothing, of those that do not."""
        asked = {"clusters": self.cluster_ids, "queues": None if queues is None else sorted(queues)}
        with connection.cursor() as cursor:
            cursor.execute(_BROKEN_QUEUES, asked)
            found = {(row[0], row[1]): row[2] or "" for row in cursor.fetchall()}
            cursor.execute(_IN_CYCLES, asked)
            for cluster_id, queue in cursor.fetchall():
                found.setdefault((cluster_id, queue), "CohortCycle")
        return found

    @cached_property
    def controllers(self) -> dict[tuple[int, str], str]:
        """Who answers (cluster, check)."""
        with connection.cursor() as cursor:
            cursor.execute(_CONTROLLERS, [self.cluster_ids])
            return {(row[0], row[1]): row[2] for row in cursor.fetchall()}

    def nodes_for(self, cluster_id: int, one_pod: str) -> NodeFacts | None:
        """What the nodes are for a pod {requests, placement}; None for one that asks for no device."""
        key = (cluster_id, one_pod)
        if key not in self._facts:
            asked = decoded(one_pod)
            requests = amounts(asked["requests"])
            devices = {name: amount for name, amount in requests.items() if is_device(name)}
            if self._nodes is None and devices:
                self._nodes = _nodes(self.cluster_ids)
            placement = asked["placement"]
            self._facts[key] = (
                facts_for(
                    self._alike_for(cluster_id, keys_of(placement)),
                    devices=devices,
                    requests=requests,
                    placement=placement,
                )
                if devices
                else None
            )
        return self._facts[key]

    def over_ceiling(self, cluster_id: int, queue: str, requests: str) -> tuple[str, ...]:
        """Resources of which these requests, as JSON, are more than the Volcano queue's own capability."""
        if self._ceilings is None:
            with connection.cursor() as cursor:
                cursor.execute(_CEILINGS, [self.cluster_ids])
                self._ceilings = {(row[0], row[1]): amounts(decoded(row[2])) for row in cursor.fetchall()}
        ceiling = self._ceilings.get((cluster_id, queue), {})
        asked = amounts(decoded(requests))
        return tuple(
            sorted(name for name, amount in asked.items() if name in ceiling and amount > ceiling[name])
        )

    def _alike_for(self, cluster_id: int, keys: frozenset[str]) -> list[NodeShape]:
        """The cluster's nodes, those alike in these labels as one: many shapes of pods look at few labels."""
        if (cluster_id, keys) not in self._alike:
            self._alike[cluster_id, keys] = merged((self._nodes or {}).get(cluster_id, ()), keys)
        return self._alike[cluster_id, keys]

    def verdict(
        self,
        *,
        cluster_id: int,
        queue: str,
        state: str,
        reason: str,
        message: str,
        checks: Sequence[Any],
        one_pod: str = "{}",
        requests: str = "{}",
    ) -> Verdict:
        """`one_pod`: {requests, placement} of a pod that waits for a node, as JSON; "{}" for none; `requests`: what
        all of a PodGroup asks for, as JSON."""
        return classify(
            state=state,
            reason=reason,
            message=message,
            checks=tuple(
                Check(c["name"], c["state"], c["message"], self.controllers.get((cluster_id, c["name"]), ""))
                for c in checks
            ),
            queue_reason=self.queue_reasons.get((cluster_id, queue), ""),
            nodes=self.nodes_for(cluster_id, one_pod) if one_pod != "{}" and "nodes are" in message else None,
            over_ceiling=self.over_ceiling(cluster_id, queue, requests)
            if requests != "{}" and message.startswith("queue resource quota insufficient")
            else (),
        )
