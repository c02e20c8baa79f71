"""Which cards a flavor's quota stands for. Input: flavors' specs and node labels; output: models and modes.

A flavor reaches a node when the node carries all its labels; a flavor without labels reaches every node. What
a unit of a resource is (a card, a slice, an instance) depends on the node, not on the resource's name. Nodes are
read as their distinct shapes (labels that matter, accelerator capacity), so that cost follows kinds of nodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from apps.core.gpu import short_model, unit_of
from apps.fleet.inventory import node_inventory
from apps.fleet.registry import classify_resource, model_named_in, registry
from apps.quotas.volcano_reading import DEVICE_CLASS

_SHAPES = """
SELECT DISTINCT n.cluster_id,
  (SELECT coalesce(jsonb_object_agg(k.key, n.labels -> k.key), '{}'::jsonb)
   FROM unnest(%(labels)s::text[]) AS k(key) WHERE n.labels -> k.key IS NOT NULL)::text,
  (SELECT coalesce(jsonb_object_agg(c.key, c.value), '{}'::jsonb)
   FROM jsonb_each(n.capacity) AS c WHERE strpos(c.key, '/') > 0)::text,
  n.annotations::text
FROM observations_node n WHERE n.cluster_id = ANY(%(clusters)s) AND n.gone_at IS NULL
"""


@dataclass(frozen=True, slots=True)
class Reached:
    """One kind of unit that a (flavor, resource) stands for."""

    mode: str
    model: str
    profile: str


Reach = Mapping[tuple[int, str, str], frozenset[Reached]]
"""(cluster, flavor, resource) → what it reaches; flavor "" is every node of the cluster."""


def carries(labels: Mapping[str, str], flavor: Mapping[str, Any]) -> bool:
    """Whether a node with these labels carries a flavor (its normalised spec)."""
    return all(labels.get(key) == value for key, value in (flavor.get("node_labels") or {}).items())


def _label_keys(flavors: Iterable[Mapping[str, Any]]) -> list[str]:
    keys = {key for flavor in flavors for key in flavor.get("node_labels") or {}}
    for vendor in registry().vendors.values():
        found = vendor.labels
        keys.update(
            found.model, found.count, found.replicas, found.sharing, found.partitioning, found.profile
        )
    return sorted(keys)


def flavor_reach(
    *, cluster_ids: Sequence[int], flavors: Mapping[tuple[int, str], Mapping[str, Any]]
) -> Reach:
    """One query. `flavors`: (cluster, name) → spec."""
    with connection.cursor() as cursor:
        cursor.execute(_SHAPES, {"labels": _label_keys(flavors.values()), "clusters": list(cluster_ids)})
        shapes = cursor.fetchall()
    found: dict[tuple[int, str, str], set[Reached]] = {}
    by_cluster: dict[int, list[tuple[str, Mapping[str, Any]]]] = {}
    for (cluster_id, name), spec in flavors.items():
        by_cluster.setdefault(cluster_id, []).append((name, spec))
    for cluster_id, *texts in shapes:
        labels, capacity, annotations = (json.loads(text) for text in texts)
        groups, _ = node_inventory(
            labels=labels, annotations=annotations, capacity=capacity, allocatable=capacity
        )
        names = [name for name, spec in by_cluster.get(cluster_id, ()) if carries(labels, spec)]
        for group in groups:
            for unit in group.units:
                reached = Reached(str(group.mode), group.model, unit.profile)
                for name in ("", *names):
                    found.setdefault((cluster_id, name, unit.resource), set()).add(reached)
    return {key: frozenset(value) for key, value in found.items()}


@dataclass(frozen=True, slots=True)
class Meaning:
    """What one (flavor, resource) counts. `unit` "" for cpu, memory and the like; "device" where no node or
    several modes are reached, so that the kind is not known. `model_label` "" when several models are."""

    accelerator: bool
    unit: str
    model_label: str
    profile: str


def meaning(*, reached: frozenset[Reached], resource: str, flavor: Mapping[str, Any] | None) -> Meaning:
    if resource.startswith(DEVICE_CLASS):  # Volcano's quota of what DRA gives out
        return Meaning(True, "device", resource.removeprefix(DEVICE_CLASS), "")
    known = classify_resource(resource)
    if known is None or not known.counted:
        return Meaning(False, "", "", "")
    modes, models = {found.mode for found in reached}, {found.model for found in reached}
    if len(modes) == 1:
        unit = unit_of(next(iter(modes)))
    else:
        part = "mig_instance" if known.vendor == "nvidia" else "card_partition"
        unit = {"partition": part, "share": "vgpu_share"}.get(known.unit, "device")
    model = next(iter(models)) if len(models) == 1 else ""
    if not models:
        model = model_named_in((flavor or {}).get("node_labels") or {})
    profiles = {found.profile for found in reached}
    profile = known.profile or (next(iter(profiles)) if len(profiles) == 1 else "")
    return Meaning(True, unit, short_model(model), profile)
