"""The queries that capacity rests on. Input: clusters, and nodes where only some are wanted; output: plain values.

A constant number of queries, whatever the number of nodes. What pods ask for is added up by the database, pods
without accelerators included, since they too leave a card without CPU, memory or room for a pod.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import connection
from django.db.models import Q

from apps.capacity.health import health_table
from apps.capacity.reserves import Rule
from apps.fleet.dra import ClaimObject, ClassObject, DraView, PoolKey, count_slices
from apps.fleet.models import Cluster, Reserve
from apps.fleet.registry import is_device
from apps.observations.cards import SeenCards, seen_cards
from apps.observations.models import ClusterObject, Node

Flavor = tuple[str, Mapping[str, Any]]
NodeKey = tuple[int, str]
"""(cluster, name of the node)."""
PODS = "pods"
_DRA = ("ResourceSlice", "DeviceTaintRule", "DeviceClass", "ResourceClaim")

# Pods that hold something: bound, living and not over. `pods` counts them; a resource that a ResourceClaim serves is
# held through the claim. What is no device and no part of a node's room is left out.
_USED = """
SELECT p.cluster_id, p.node_name, r.key, sum(r.value)
FROM observations_pod p CROSS JOIN LATERAL (
  SELECT key, value::numeric AS value FROM jsonb_each_text(p.requests)
  WHERE key IN ('cpu', 'memory') OR (p.devices > 0 AND strpos(key, '/') > 0 AND (p.claims = '[]' OR NOT EXISTS (
    SELECT 1 FROM jsonb_array_elements(p.claims) c WHERE c -> 'resources' ? key)))
  UNION ALL SELECT 'pods', 1
) r
WHERE p.cluster_id = ANY(%(clusters)s) AND p.gone_at IS NULL AND p.node_name <> ''
  AND (%(names)s::text[] IS NULL OR p.node_name = ANY(%(names)s)) AND p.phase NOT IN ('Succeeded', 'Failed')
GROUP BY 1, 2, 3
"""
_OFFERED = """
SELECT cluster_id, uid, from_value, observed_at FROM observations_transition
WHERE cluster_id = ANY(%s) AND uid = ANY(%s) AND kind = 'Node' AND facet = 'devices' AND from_value ~ '=[1-9]'
  AND observed_at > %s AND observed_at <= %s
ORDER BY observed_at DESC, id DESC
"""
_DEVICES_MARK = """
SELECT count(*), max(observed_at), max(gone_at) FROM observations_clusterobject
WHERE cluster_id = %s AND kind = ANY(%s) AND (gone_at IS NULL OR (kind = 'ResourceSlice' AND gone_at > %s))
"""
_IN_FORCE = """
SELECT cluster_id, id, selector, model, sharing_mode, devices, reason FROM fleet_reserve
WHERE cluster_id = ANY(%(clusters)s) AND valid_from <= %(now)s AND (valid_to IS NULL OR valid_to > %(now)s)
ORDER BY id
"""
# Longer values were cut when they were stored, in the middle of their last part.
_LONGEST_VALUE = 120
_COLUMNS = (
    "cluster_id", "uid", "name", "labels", "annotations", "capacity", "allocatable", "taints", "conditions",
    "unschedulable", "deleting_since", "observed_at", "created_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node as it was last seen."""

    cluster_id: int
    uid: str
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]
    taints: Sequence[Mapping[str, Any]]
    conditions: Mapping[str, Mapping[str, Any]]
    unschedulable: bool
    deleting_since: datetime | None
    observed_at: datetime
    created_at: datetime | None = None

    @property
    def offers(self) -> bool:
        """Whether its capacity names an accelerator with more than nothing."""
        return any(amount != "0" and is_device(resource) for resource, amount in self.capacity.items())


@dataclass(frozen=True, slots=True)
class LastOffered:
    """What a node that offers nothing offered before, and since when it does not."""

    amounts: Mapping[str, str]
    until: datetime


def read_nodes(*, cluster_ids: Iterable[int], uids: Sequence[str] | None = None) -> list[NodeFacts]:
    """Living nodes, by cluster and name (the portal's order, not the database's)."""
    rows = Node.objects.filter(cluster_id__in=list(cluster_ids), gone_at=None)
    if uids is not None:
        rows = rows.filter(uid__in=uids)
    found = [NodeFacts(*row) for row in rows.values_list(*_COLUMNS)]
    return sorted(found, key=lambda node: (node.cluster_id, node.name, node.uid))


def changed_nodes(*, cluster_id: int, since: datetime) -> list[tuple[NodeFacts, datetime | None]]:
    """Nodes whose content was first seen, or that went, after an instant, with when they went."""
    rows = Node.objects.filter(cluster_id=cluster_id).filter(Q(observed_at__gt=since) | Q(gone_at__gt=since))
    return [(NodeFacts(*row[:-1]), row[-1]) for row in rows.values_list(*_COLUMNS, "gone_at")]


def read_flavors(*, cluster_ids: Iterable[int]) -> dict[int, tuple[Flavor, ...]]:
    """The ResourceFlavors of each cluster, by name."""
    found: dict[int, list[Flavor]] = defaultdict(list)
    rows = ClusterObject.objects.filter(
        cluster_id__in=list(cluster_ids), kind="ResourceFlavor", gone_at=None
    ).values_list("cluster_id", "name", "spec")
    for cluster_id, name, spec in rows:
        found[cluster_id].append((name, spec))
    return {
        cluster_id: tuple(sorted(flavors, key=lambda item: item[0])) for cluster_id, flavors in found.items()
    }


def used_on_nodes(
    *, cluster_ids: Iterable[int], names: Sequence[str] | None = None
) -> dict[NodeKey, dict[str, Decimal]]:
    """What living, bound pods ask for per node: cpu, memory, "pods", and every extended resource."""
    used: dict[NodeKey, dict[str, Decimal]] = defaultdict(dict)
    with connection.cursor() as cursor:
        cursor.execute(
            _USED, {"clusters": list(cluster_ids), "names": None if names is None else list(names)}
        )
        for cluster_id, node, resource, amount in cursor.fetchall():
            used[cluster_id, node][resource] = amount
    return used


def read_seen(
    *, now: datetime, clusters: Sequence[Cluster], names: Sequence[str]
) -> dict[NodeKey, SeenCards]:
    """What telemetry saw last of these nodes, for as long as what a node offered is remembered."""
    if not names:
        return {}
    remember = timedelta(days=health_table().last_known_days)
    return seen_cards(now=now, clusters=clusters, nodes=names, remember=remember)


def last_offered(nodes: Iterable[NodeFacts], now: datetime) -> dict[tuple[int, str], LastOffered]:
    """By (cluster, uid), from our own history, for nodes that offer nothing now."""
    rows = [node for node in nodes if not node.offers]
    if not rows:
        return {}
    since = now - timedelta(days=health_table().last_known_days)
    with connection.cursor() as cursor:
        cursor.execute(
            _OFFERED, [list({node.cluster_id for node in rows}), [node.uid for node in rows], since, now]
        )
        history = cursor.fetchall()
    found: dict[tuple[int, str], LastOffered] = {}
    for cluster_id, uid, text, until in history:
        if (cluster_id, uid) not in found and (amounts := dict(_amounts(text))):
            found[cluster_id, uid] = LastOffered(amounts, until)
    return found


def _amounts(text: str) -> Iterator[tuple[str, str]]:
    parts = text.split(",")
    if len(text) >= _LONGEST_VALUE:
        parts.pop()
    for part in parts:
        resource, equals, amount = part.partition("=")
        if equals and amount != "0" and is_device(resource):
            yield resource, amount


def rules_in_force(*, now: datetime, cluster_ids: Iterable[int]) -> dict[int, tuple[Rule, ...]]:
    """The reserves of each cluster that are in force, in the order in which they were made."""
    found: dict[int, list[Rule]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_IN_FORCE, {"clusters": list(cluster_ids), "now": now})
        for cluster_id, pk, selector, model, mode, cards, reason in cursor.fetchall():
            found[cluster_id].append(Rule(pk, selector, model, mode, cards, reason))
    return {cluster_id: tuple(rules) for cluster_id, rules in found.items()}


def laid_together(*, now: datetime, cluster_id: int) -> bool:
    """Whether what a node has depends on the others: on reserves, or on slices that name nodes by labels."""
    slices = ClusterObject.objects.filter(cluster_id=cluster_id, kind="ResourceSlice", gone_at=None)
    return bool(rules_in_force(now=now, cluster_ids=[cluster_id])) or slices.exists()


def rule_of(row: Reserve) -> Rule:
    """A reserve as the pure rules read it; one that is not stored yet comes last, as if made now."""
    return Rule(row.pk or 0, row.selector, row.model, row.sharing_mode, row.devices, row.reason)


DevicesMark = tuple[int, datetime | None, datetime | None]


def devices_mark(*, cluster_id: int, now: datetime) -> DevicesMark:
    """Another one whenever `read_devices` would read something else: how many objects, and their newest changes."""
    with connection.cursor() as cursor:
        cursor.execute(
            _DEVICES_MARK, [cluster_id, list(_DRA), now - timedelta(days=health_table().last_known_days)]
        )
        objects, seen, gone = cursor.fetchone()
    return objects, seen, gone


def read_devices(
    *, cluster_ids: Iterable[int], nodes: Mapping[int, Mapping[str, Mapping[str, str]]], now: datetime
) -> dict[int, DraView]:
    """What DRA drivers list and claims hold, of each cluster that has slices. `nodes`: labels by cluster and name, of
    all nodes or of those that are asked about."""
    since = now - timedelta(days=health_table().last_known_days)
    former = Q(kind="ResourceSlice", gone_at__gt=since)
    rows = (
        ClusterObject.objects.filter(cluster_id__in=list(cluster_ids), kind__in=_DRA)
        .filter(Q(gone_at=None) | former)
        .order_by("cluster_id", "-gone_at", "namespace", "name", "uid")
        .values_list("cluster_id", "kind", "namespace", "name", "created_at", "gone_at", "spec", "status")
    )
    found: dict[int, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    withdrawn: dict[int, dict[PoolKey, datetime]] = defaultdict(dict)
    for cluster_id, kind, namespace, name, created_at, gone_at, spec, status in rows:
        made: Any = spec
        if kind == "DeviceClass":
            made = ClassObject(name, created_at, spec)
        elif kind == "ResourceClaim":
            made = ClaimObject(namespace, name, spec, status)
        elif gone_at is not None:
            withdrawn[cluster_id].setdefault(PoolKey(spec["driver"], spec["pool"]), gone_at)
        found[cluster_id][kind if gone_at is None else "former"].append(made)
    listing = {pk: kinds for pk, kinds in found.items() if kinds["ResourceSlice"] or kinds["former"]}
    choosy = [
        pk
        for pk, kinds in listing.items()
        if any(not spec["node"] for spec in (*kinds["ResourceSlice"], *kinds["former"]))
    ]
    labels = {**nodes, **_all_labels(choosy)}
    return {
        cluster_id: count_slices(
            slices=kinds["ResourceSlice"],
            taint_rules=kinds["DeviceTaintRule"],
            classes=kinds["DeviceClass"],
            claims=kinds["ResourceClaim"],
            nodes=labels.get(cluster_id, {}),
            last_good=kinds["former"],
            withdrawn_at=withdrawn[cluster_id],
        )
        for cluster_id, kinds in listing.items()
    }


def _all_labels(cluster_ids: Sequence[int]) -> dict[int, dict[str, Mapping[str, str]]]:
    """Labels of all nodes by name: only with all at hand can be told which ones a slice's selector reaches."""
    found: dict[int, dict[str, Mapping[str, str]]] = defaultdict(dict)
    if cluster_ids:
        rows = Node.objects.filter(cluster_id__in=cluster_ids, gone_at=None)
        for cluster_id, name, labels in rows.values_list("cluster_id", "name", "labels"):
            found[cluster_id][name] = labels
    return found
