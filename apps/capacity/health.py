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

from apps.core.taints import KEEPS_AWAY, Toleration, tolerates
from apps.fleet.registry import registry

TABLE = Path(__file__).parent / "data" / "health.yaml"


class Bucket(StrEnum):
    """Where a card is that cannot be used, in the order in which the first match counts."""

    LOST = "lost"
    NODE_NOT_READY = "node_not_ready"
    PLUGIN_DOWN = "plugin_down"
    DEVICE_UNHEALTHY = "device_unhealthy"
    MAINTENANCE = "maintenance"
    CORDONED = "cordoned"
    TAINTED = "tainted"
    BEING_REMOVED = "being_removed"
    UNINITIALISED = "uninitialised"
    PLATFORM_RESERVE = "platform_reserve"


BUCKETS = tuple(Bucket)
TaintBucket = Literal["", "node_not_ready", "cordoned", "tainted", "being_removed", "uninitialised"]


class TaintRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Exactly one of `key` and `prefix`; `bucket` "" takes nothing out of use."""

    bucket: TaintBucket
    key: str = ""
    prefix: str = ""


class UntilLabel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node with the label `present` is uninitialised until `label` has this value."""

    present: str
    label: str
    value: str


class ConditionRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: str
    bad: Literal["True", "False", "Unknown"]
    bucket: Literal["", "device_unhealthy", "maintenance"] = ""


class SmallestShare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Quantities as Kubernetes writes them."""

    cpu: str
    memory: str
    pods: str


class HealthTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    smallest_share: SmallestShare
    plugin_down_minutes: int
    last_known_days: int
    taints: tuple[TaintRule, ...]
    until_labels: tuple[UntilLabel, ...]
    maintenance_labels: dict[str, frozenset[str]]
    conditions: tuple[ConditionRule, ...]


@lru_cache(maxsize=1)
def health_table() -> HealthTable:
    """The table that ships with the portal, read once. Raises msgspec.ValidationError naming the bad place."""
    return msgspec.convert(yaml.safe_load(TABLE.read_bytes()), HealthTable)


@lru_cache(maxsize=2048)
def _known_bucket(key: str) -> TaintBucket | None:
    """The bucket of a taint that the table or the registry knows; None for one of somebody's own making."""
    if key in registry().dedicated_taints:
        return ""
    for rule in health_table().taints:
        if key == rule.key or (rule.prefix and key.startswith(rule.prefix)):
            return rule.bucket
    return None


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


def _blocking(taints: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [taint for taint in taints if taint.get("effect") in KEEPS_AWAY]


def taint_text(taint: Mapping[str, Any]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def keeps_work_away(taint: Mapping[str, Any]) -> bool:
    """A taint of somebody's own making, that says neither what state the node is in nor what its purpose is."""
    return _known_bucket(str(taint.get("key"))) is None


def node_verdict(node: NodeHealth, *, tolerated: Iterable[Toleration] = ()) -> Verdict:
    """The first bucket that applies to the whole node. `tolerated`: tolerations and declared taints of the flavors
    that reach it. Lost, plugin-down and single unhealthy cards are the inventory's matter (waterfall.py)."""
    found = _tainted(node, tuple(tolerated))
    ready = node.conditions.get("Ready")
    if ready is not None and ready.get("status") != "True":
        return Verdict(Bucket.NODE_NOT_READY, _said("Ready", ready))
    if text := found.get(Bucket.NODE_NOT_READY):
        return Verdict(Bucket.NODE_NOT_READY, text)
    conditions = _bad_conditions(node)
    if text := conditions.get("device_unhealthy"):
        return Verdict(Bucket.DEVICE_UNHEALTHY, text)
    if text := conditions.get("maintenance") or _maintenance(node.labels):
        return Verdict(Bucket.MAINTENANCE, text)
    if node.unschedulable or Bucket.CORDONED in found:
        return Verdict(Bucket.CORDONED, "spec.unschedulable")
    for bucket in (Bucket.TAINTED, Bucket.BEING_REMOVED):
        if text := found.get(bucket):
            return Verdict(bucket, text)
    if node.deleting:
        return Verdict(Bucket.BEING_REMOVED, "metadata.deletionTimestamp")
    if text := found.get(Bucket.UNINITIALISED) or _waits_for(node.labels):
        return Verdict(Bucket.UNINITIALISED, text)
    return Verdict(Bucket.UNINITIALISED, "no Ready condition") if ready is None else Verdict(None)


def _tainted(node: NodeHealth, tolerated: tuple[Toleration, ...]) -> dict[Bucket, str]:
    """Bucket → the first taint that speaks for it. What flavors declare or tolerate keeps no work away."""
    found: dict[Bucket, str] = {}
    for taint in _blocking(node.taints):
        known = _known_bucket(str(taint.get("key")))
        bucket = Bucket.TAINTED if known is None else (Bucket(known) if known else None)
        if bucket is None or (bucket is Bucket.TAINTED and tolerates(tolerated, taint)):
            continue
        found.setdefault(bucket, taint_text(taint))
    return found


def _waits_for(labels: Mapping[str, str]) -> str:
    for rule in health_table().until_labels:
        if rule.present in labels and labels.get(rule.label) != rule.value:
            return f"{rule.label}={labels.get(rule.label, '')}"
    return ""


def _bad_conditions(node: NodeHealth) -> dict[str, str]:
    """Bucket → evidence of bad conditions that speak of the whole node; the table's first rule wins."""
    found: dict[str, str] = {}
    for rule in health_table().conditions:
        condition = node.conditions.get(rule.type)
        if rule.bucket and condition is not None and condition.get("status") == rule.bad:
            found.setdefault(rule.bucket, _said(rule.type, condition))
    return found


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
