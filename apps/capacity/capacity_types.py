"""What node labels say beside health: how a node was bought, whether it has RDMA. Pure; the table is `data/nodes.yaml`.

`capacity_type`: "spot" (may be taken away at short notice), "on-demand", "reserved", or "" where no label says so."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec
import yaml

TABLE = Path(__file__).parent / "data" / "nodes.yaml"

CapacityType = Literal["spot", "on-demand", "reserved", ""]
SPOT: CapacityType = "spot"


class CapacityRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    label: str
    values: dict[str, Literal["spot", "on-demand", "reserved"]]


class NodeTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`job_labels` and what follows: which pods are one job (notes_work.py)."""

    capacity_types: tuple[CapacityRule, ...]
    rdma_labels: dict[str, str]
    numa_labels: dict[str, str]
    job_labels: tuple[str, ...]
    replica_owners: tuple[str, ...]
    rdma_from_cards: int


@lru_cache(maxsize=1)
def node_table() -> NodeTable:
    """The table that ships with the portal, read once. Raises msgspec.ValidationError naming the bad place."""
    return msgspec.convert(yaml.safe_load(TABLE.read_bytes()), NodeTable)


def capacity_type(labels: Mapping[str, str]) -> CapacityType:
    for rule in node_table().capacity_types:
        if found := rule.values.get(labels.get(rule.label, "")):
            return found
    return ""


def has_rdma_label(labels: Mapping[str, str]) -> bool:
    return _says(node_table().rdma_labels, labels)


def has_numa_label(labels: Mapping[str, str]) -> bool:
    return _says(node_table().numa_labels, labels)


def _says(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return any(labels.get(label) == value for label, value in wanted.items())
