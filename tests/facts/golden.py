"""The golden fleet (tests/data/golden): its nodes as Kubernetes objects, and what was expected of them by hand."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).resolve().parents[1] / "data" / "golden"
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Wanted:
    """One group as the file expects it; units: resource → (physical, usable, equivalents, memory of one unit)."""

    model: str
    mode: str
    cards: int
    out: dict[str, int]
    usable: int
    units: dict[str, tuple[Decimal, Decimal, Fraction, int | None]]
    card_memory: int | None
    stranded: tuple[int, int]
    estimated: bool
    codes: frozenset[str]


@functools.lru_cache(maxsize=1)
def fleet() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DATA / "fleet.yaml").read_text("utf-8"))
    return found


def nodes() -> dict[str, dict[str, Any]]:
    return {node["name"]: node for node in fleet()["nodes"]}


def bytes_of(memory: str | int | None) -> int | None:
    """ "81559 MiB" or plain bytes."""
    if isinstance(memory, str):
        match = re.fullmatch(r"(\d+) MiB", memory)
        assert match, memory
        return int(match[1]) * MIB
    return memory


def wanted(node: dict[str, Any]) -> list[Wanted]:
    return [_wanted(group) for group in node["expect"]]


def _wanted(group: dict[str, Any]) -> Wanted:
    stranded = group.get("stranded", [0, 0])
    return Wanted(
        group["model"],
        group["mode"],
        group["cards"],
        group.get("out", {}),
        group["usable"],
        {
            resource: (Decimal(physical), Decimal(usable), Fraction(weight), bytes_of(memory))
            for resource, (physical, usable, weight, memory) in group["units"].items()
        },
        bytes_of(group.get("card")),
        (stranded[0], stranded[1]),
        group.get("estimated", False),
        frozenset(group.get("codes", ())),
    )


# ------------------------------------------------------------------------------------------ Kubernetes objects


def node_object(node: dict[str, Any], *, before: bool = False) -> dict[str, Any]:
    """`before`: as it was while it last offered something."""
    capacity = dict(node["capacity"])
    allocatable = dict(node.get("allocatable", capacity))
    if before:
        capacity = allocatable = dict(node["before"])
    machine = {"cpu": "192", "memory": "2Ti", "pods": "110"}
    return {
        "metadata": {
            "name": node["name"],
            "uid": f"uid-{node['name']}",
            "resourceVersion": "1" if before else "2",
            "creationTimestamp": "2026-11-01T00:00:00Z",
            "labels": {"kubernetes.io/hostname": node["name"], **node.get("labels", {})},
            "annotations": {"node.alpha.kubernetes.io/ttl": "0", **node.get("annotations", {})},
        },
        "spec": {
            "taints": [{"key": k, "value": v, "effect": e} for k, v, e in node.get("taints", ())],
            "unschedulable": node.get("cordoned", False),
        },
        "status": {
            "capacity": {**machine, **capacity},
            "allocatable": {**machine, **allocatable},
            "conditions": [
                {"type": type_, "status": status, "lastTransitionTime": "2026-11-01T00:00:00Z"}
                for type_, status in node.get("conditions", {"Ready": "True"}).items()
            ],
        },
    }


def pod_objects(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "metadata": {
                "name": name,
                "namespace": "golden",
                "uid": f"uid-{node['name']}-{name}",
                "resourceVersion": "1",
                "creationTimestamp": "2026-11-02T00:00:00Z",
            },
            "spec": {
                "nodeName": node["name"],
                "containers": [{"name": "main", "resources": {"requests": requests, "limits": requests}}],
            },
            "status": {"phase": phase},
        }
        for name, (phase, requests) in node.get("pods", {}).items()
    ]
