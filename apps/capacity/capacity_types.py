"""How a node was bought, by its labels. Pure; the table is `data/nodes.yaml`.

Output: "spot" (may be taken away at short notice), "on-demand", "reserved", or "" where no label says so."""

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
    capacity_types: tuple[CapacityRule, ...]


@lru_cache(maxsize=1)
def node_table() -> NodeTable:
    """The table that ships with the portal, read once. Raises msgspec.ValidationError naming the bad place."""
    return msgspec.convert(yaml.safe_load(TABLE.read_bytes()), NodeTable)


def capacity_type(labels: Mapping[str, str]) -> CapacityType:
    for rule in node_table().capacity_types:
        if found := rule.values.get(labels.get(rule.label, "")):
            return found
    return ""
