"""What the quota lint reads and what it answers. Plain values, no Django; see lint.py for the checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from apps.quotas.tree import FlavorResource, QuotaTree


@dataclass(frozen=True, slots=True, order=True)
class Thing:
    """An object by kind, namespace ("" for cluster-wide ones) and name."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Problem:
    """`objects`: what it is about, the main one first. `cause` tells problems of one code apart. `cells`: the quota
    that it is about, of each (flavor, resource) in order. `values` fill the sentence; "above" is another queue's name, which a
    reader of single teams is not told."""

    code: str
    cause: str
    objects: tuple[Thing, ...]
    cells: tuple[FlavorResource, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    count: int = 1

    @property
    def main(self) -> Thing:
        return self.objects[0]


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """Of a ClusterQueue what the tree does not know. `selector`: namespaceSelector as served, None selects nothing."""

    selector: Mapping[str, Any] | None
    checks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VolcanoFacts:
    """A Volcano queue's spec and state; a resource that a share does not name is not set."""

    parent: str
    state: str = "Open"
    capability: Mapping[str, Decimal] = field(default_factory=dict)
    deserved: Mapping[str, Decimal] = field(default_factory=dict)
    guarantee: Mapping[str, Decimal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ask:
    """A piece of waiting work, its ClusterQueue and LocalQueue, and the least that each of its pod sets asks for, by
    resource, over its pods."""

    namespace: str
    name: str
    queue: str
    pod_sets: tuple[Mapping[str, Decimal], ...]
    local_queue: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """One cluster. `local_queues`: (namespace, name, ClusterQueue). `namespaces`: labels by name. `checks`: whether
    each admission check is active. `said`: what statuses say is held, `counted` our own
    count of the same, by (kind, queue)."""

    tree: QuotaTree
    queues: Mapping[str, QueueFacts] = field(default_factory=dict)
    local_queues: tuple[tuple[str, str, str], ...] = ()
    flavors: frozenset[str] = frozenset()
    checks: Mapping[str, bool] | None = None
    namespaces: Mapping[str, Mapping[str, str]] | None = None
    volcano: Mapping[str, VolcanoFacts] = field(default_factory=dict)
    asks: tuple[Ask, ...] = ()
    said: Mapping[tuple[str, str], Mapping[FlavorResource, Decimal]] = field(default_factory=dict)
    counted: Mapping[tuple[str, str], Mapping[FlavorResource, Decimal]] = field(default_factory=dict)


def plain_text(amount: Decimal | None) -> str:
    """ "" for what is not set."""
    return "" if amount is None else format(amount.normalize(), "f")
