"""What a quota tree is made of. Quota as a spec says it, and a node with its sums. Pure: plain values, Decimal only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

FlavorResource = tuple[str, str]
Kind = Literal["ClusterQueue", "Cohort"]
Key = tuple[Kind, str]

ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Cell:
    """Quota of one (flavor, resource) on one node. A limit of None is no limit; 0 is a limit."""

    nominal: Decimal
    borrowing_limit: Decimal | None = None
    lending_limit: Decimal | None = None


@dataclass(frozen=True, slots=True)
class QuotaNode:
    """A ClusterQueue or a Cohort as its spec says; `parent` is a cohort's name."""

    name: str
    kind: Kind
    parent: str | None
    cells: Mapping[FlavorResource, Cell]
    fair_weight: Decimal = Decimal(1)
    stopped: bool = False


EMPTY = Cell(ZERO)


@dataclass(slots=True)
class NodeState:
    """A node in the tree, with its sums. `kept`: what the nodes below keep at home, which `subtree` leaves out."""

    node: QuotaNode
    parent: Key | None
    children: list[Key] = field(default_factory=list)
    subtree: dict[FlavorResource, Decimal] = field(default_factory=dict)
    local: dict[FlavorResource, Decimal] = field(default_factory=dict)
    kept: dict[FlavorResource, Decimal] = field(default_factory=dict)
    usage: dict[FlavorResource, Decimal] = field(default_factory=dict)

    def beyond(self, fr: FlavorResource) -> Decimal:
        """Held beyond the own subtree's quota."""
        return max(ZERO, self.usage.get(fr, ZERO) - self.subtree.get(fr, ZERO))

    def unused_lendable(self, fr: FlavorResource) -> Decimal:
        """What may be lent upward and is not held."""
        local = self.local.get(fr, ZERO)
        lendable = self.subtree.get(fr, ZERO) - local
        return max(ZERO, lendable - max(ZERO, self.usage.get(fr, ZERO) - local))
