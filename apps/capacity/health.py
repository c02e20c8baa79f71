"""Which taints, conditions and labels take a node's cards out of use. Pure; the tables are `data/health.yaml`.

Output: at most one bucket for the whole node with its evidence. Invariant: a taint that only keeps other work
away (a vendor's own dedicated taint, or one that a flavor declares or tolerates) takes nothing out of use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from apps.fleet.registry import registry

TABLE = Path(__file__).parent / "data" / "health.yaml"


class Bucket(StrEnum):
    """Where a card is that cannot be used, in the order in which the first match counts."""

    LOST = "lost"
    NODE_NOT_READY = "node_not_ready"
    DEVICE_UNHEALTHY = "device_unhealthy"
    MAINTENANCE = "maintenance"
    CORDONED = "cordoned"
    TAINTED = "tainted"
    BEING_REMOVED = "being_removed"
    UNINITIALISED = "uninitialised"
    PLATFORM_RESERVE = "platform_reserve"
    PLUGIN_DOWN = "plugin_down"


BUCKETS = tuple(Bucket)


class ConditionRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: str
    bad: Literal["True", "False", "Unknown"]
    bucket: Literal["", "device_unhealthy", "maintenance"] = ""


class HealthTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    not_ready_taints: frozenset[str]
    cordon_taints: frozenset[str]
    removal_taints: frozenset[str]
    startup_taints: frozenset[str]
    startup_taint_prefixes: tuple[str, ...]
    maintenance_labels: dict[str, frozenset[str]]
    conditions: tuple[ConditionRule, ...]


@lru_cache(maxsize=1)
def health_table() -> HealthTable:
    """The table that ships with the portal, read once. Raises msgspec.ValidationError naming the bad place."""
    return msgspec.convert(yaml.safe_load(TABLE.read_bytes()), HealthTable)


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """Everything about a node that its bucket depends on; taints and conditions as the node table stores them."""

    labels: Mapping[str, str]
    taints: tuple[Mapping[str, Any], ...]
    conditions: Mapping[str, Mapping[str, Any]]
    unschedulable: bool = False
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """`bucket` None: the node is in use. `evidence`: the object's own words (a taint, a condition, a label)."""

    bucket: Bucket | None
    evidence: str = ""


Toleration = Mapping[str, Any]


def tolerates(tolerations: Iterable[Toleration], taint: Mapping[str, Any]) -> bool:
    """Kubernetes' rule: operator Exists (an empty key matches all) or Equal; an empty effect matches all."""
    for toleration in tolerations:
        effect, key = toleration.get("effect") or "", toleration.get("key") or ""
        if effect and effect != taint.get("effect"):
            continue
        exists = toleration.get("operator") == "Exists"
        if not key and exists:
            return True
        if key == taint.get("key") and (
            exists or (toleration.get("value") or "") == (taint.get("value") or "")
        ):
            return True
    return False


def _blocking(taints: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [taint for taint in taints if taint.get("effect") in ("NoSchedule", "NoExecute")]


def taint_text(taint: Mapping[str, Any]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def keeps_work_away(taint: Mapping[str, Any]) -> bool:
    """A taint of somebody's own making, that says neither what state the node is in nor what its purpose is."""
    table, key = health_table(), str(taint.get("key"))
    known = (
        table.not_ready_taints
        | table.cordon_taints
        | table.removal_taints
        | table.startup_taints
        | registry().dedicated_taints
    )
    return key not in known and not key.startswith(table.startup_taint_prefixes)


def node_verdict(node: NodeHealth, *, tolerated: Iterable[Toleration] = ()) -> Verdict:
    """The first bucket that applies to the whole node. `tolerated`: tolerations and declared taints of the flavors
    that reach it. Lost, plugin-down and single unhealthy cards are the inventory's matter (waterfall.py)."""
    table, taints = health_table(), _blocking(node.taints)
    ready = node.conditions.get("Ready")
    if ready is not None and ready.get("status") != "True":
        return Verdict(Bucket.NODE_NOT_READY, _said("Ready", ready))
    for taint in taints:
        if taint.get("key") in table.not_ready_taints:
            return Verdict(Bucket.NODE_NOT_READY, taint_text(taint))
    conditions = _bad_conditions(node)
    if text := conditions.get("device_unhealthy"):
        return Verdict(Bucket.DEVICE_UNHEALTHY, text)
    if text := conditions.get("maintenance") or _maintenance(node.labels):
        return Verdict(Bucket.MAINTENANCE, text)
    return _taken_out(node, taints, tuple(tolerated), ready is None)


def _bad_conditions(node: NodeHealth) -> dict[str, str]:
    """Bucket → evidence of bad conditions that speak of the whole node; the table's first rule wins."""
    found: dict[str, str] = {}
    for rule in health_table().conditions:
        condition = node.conditions.get(rule.type)
        if rule.bucket and condition is not None and condition.get("status") == rule.bad:
            found.setdefault(rule.bucket, _said(rule.type, condition))
    return found


def _taken_out(
    node: NodeHealth, taints: list[Mapping[str, Any]], tolerated: tuple[Toleration, ...], never_ready: bool
) -> Verdict:
    table = health_table()
    if node.unschedulable or any(taint.get("key") in table.cordon_taints for taint in taints):
        return Verdict(Bucket.CORDONED, "spec.unschedulable")
    for taint in taints:
        if keeps_work_away(taint) and not tolerates(tolerated, taint):
            return Verdict(Bucket.TAINTED, taint_text(taint))
    for taint in taints:
        if taint.get("key") in table.removal_taints:
            return Verdict(Bucket.BEING_REMOVED, taint_text(taint))
    if node.deleting:
        return Verdict(Bucket.BEING_REMOVED, "metadata.deletionTimestamp")
    for taint in taints:
        key = str(taint.get("key"))
        if key in table.startup_taints or key.startswith(table.startup_taint_prefixes):
            return Verdict(Bucket.UNINITIALISED, taint_text(taint))
    return Verdict(Bucket.UNINITIALISED, "no Ready condition") if never_ready else Verdict(None)


def _maintenance(labels: Mapping[str, str]) -> str:
    for label, states in health_table().maintenance_labels.items():
        if labels.get(label) in states:
            return f"{label}={labels[label]}"
    return ""


def _said(type_: str, condition: Mapping[str, Any]) -> str:
    reason = condition.get("reason")
    return f"{type_}={condition.get('status')}" + (f" ({reason})" if reason else "")


def warnings(node: NodeHealth) -> list[str]:
    """Bad conditions that do not say how many cards they concern: shown, not subtracted."""
    return [
        _said(rule.type, condition)
        for rule in health_table().conditions
        if not rule.bucket
        and (condition := node.conditions.get(rule.type)) is not None
        and condition.get("status") == rule.bad
    ]
