"""What accelerators a node has, by what its plugin, labels and register say. Pure.

Input: labels, stored annotations, capacity and allocatable of one node, how many units it was last seen to offer,
and what telemetry saw of its cards; output: one `Group` per model and sharing mode, with whole cards and schedulable
units. The registry's `resolver` chooses the rules of a vendor: `nvidia.py`, `plain.py`, `register.py`.
Invariants: cards ≥ 0, 0 ≤ allocatable ≤ capacity; a label that outlives its plugin never adds allocatable units;
what was deduced says `estimated`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from functools import lru_cache

from apps.fleet.inventory.facts import VendorFacts, facts_by_vendor, seen_of
from apps.fleet.inventory.groups import Device, Group, Unit
from apps.fleet.inventory.nvidia import FOR_MACHINES, WORKLOAD_CONFIG, nvidia
from apps.fleet.inventory.plain import plain, registered
from apps.fleet.registry import first_label, registry

__all__ = ["Device", "Group", "Unit", "node_inventory", "shape"]

_RESOLVERS: dict[str, Callable[[VendorFacts], list[Group]]] = {
    "plain": plain,
    "nvidia": nvidia,
    "register": registered,
}


def node_inventory(
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    capacity: Mapping[str, str],
    allocatable: Mapping[str, str],
    last_known: Mapping[str, str] | None = None,
    seen_cards: int | None = None,
    seen_models: Collection[str] = (),
) -> tuple[list[Group], list[str]]:
    """The node's groups, and codes about the node as a whole ("present_without_devices", "vm_workloads").

    `seen_cards`: distinct cards that telemetry saw last, None without any; `seen_models`: their models."""
    groups: list[Group] = []
    for facts in facts_by_vendor(
        labels=labels,
        annotations=annotations,
        capacity=capacity,
        allocatable=allocatable,
        last_known=last_known or {},
        seen=seen_of(seen_cards, seen_models),
    ):
        groups.extend(_RESOLVERS[facts.vendor.resolver](facts))
    return groups, _node_codes(labels, groups)


def _node_codes(labels: Mapping[str, str], groups: list[Group]) -> list[str]:
    found = [
        "present_without_devices"
        for vendor in registry().vendors.values()
        if vendor.labels.present and first_label(labels, vendor.labels.present) == "true" and not groups
    ]
    machines = labels.get(WORKLOAD_CONFIG) in FOR_MACHINES and not groups
    return ["vm_workloads"] if machines else found


@lru_cache(maxsize=1)
def _label_keys() -> frozenset[str]:
    """Every label that an inventory can depend on, besides the dynamic ones of MIG profiles."""
    keys = {WORKLOAD_CONFIG}
    for vendor in registry().vendors.values():
        found = vendor.labels
        keys.update(found.model, found.count, found.memory, found.replicas, found.sharing)
        keys.update(found.partitioning, found.profile, found.present)
    return frozenset(keys)


@lru_cache(maxsize=1)
def _label_prefixes() -> tuple[str, ...]:
    return tuple(
        begin
        for vendor in registry().vendors.values()
        for begin in (*vendor.labels.model_in_key, *vendor.labels.count_parts)
    )


def shape(
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    capacity: Mapping[str, str],
    allocatable: Mapping[str, str],
    last_known: Mapping[str, str] | None = None,
    seen_cards: int | None = None,
    seen_models: Collection[str] = (),
) -> Hashable:
    """Equal for nodes whose inventory is equal: a fleet has thousands of nodes and few shapes."""
    keys = labels.keys() & _label_keys()
    if prefixes := _label_prefixes():
        keys |= {key for key in labels if key.startswith(prefixes)}
    if any("mig-" in resource for resource in (*capacity, *(last_known or ()))):
        keys |= {key for key in labels if key.startswith("nvidia.com/mig-")}
    return (
        frozenset((key, labels[key]) for key in keys),
        frozenset(annotations.items()),
        frozenset(item for item in capacity.items() if "/" in item[0]),
        frozenset(item for item in allocatable.items() if "/" in item[0]),
        frozenset((last_known or {}).items()),
        seen_cards,
        frozenset(seen_models),
    )
