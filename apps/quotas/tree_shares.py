"""The dominant resource share by which fair sharing compares queues and cohorts. Input: a node with its sums, and what
its parent could hold at most; output: `DominantShare`. Pure: Decimal only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal

from apps.quotas.tree_model import ZERO, FlavorResource, NodeState


@dataclass(frozen=True, slots=True)
class DominantShare:
    """`ratio`: what a node borrows of its dominant resource, in per mille of what its parent could lend; `borrowed`: the
    cells in which it borrows anything."""

    ratio: Decimal
    weight: Decimal
    borrowed: frozenset[FlavorResource] = frozenset()

    @property
    def weighted(self) -> Decimal:
        if not self.ratio:  # also of a borrower of what nobody could lend
            return ZERO
        return self.ratio / self.weight if self.weight else Decimal("Infinity")

    @property
    def rank(self) -> tuple[bool, Decimal]:
        """By which shares are compared, lower first: borrowers of weight 0 last, among themselves by ratio."""
        if self.ratio and not self.weight:
            return True, self.ratio
        return False, self.ratio / self.weight if self.ratio else ZERO


def dominant_share(
    state: NodeState, offered: Iterable[FlavorResource], ceiling: Callable[[FlavorResource], Decimal]
) -> DominantShare:
    """Of a node below a cohort. `offered`: what its root's tree quotes; `ceiling`: of the parent, in the same units."""
    weight = state.node.fair_weight
    cells: list[FlavorResource] = []
    borrowed: dict[str, Decimal] = {}
    for fr in state.subtree:  # Kueue leaves out flavors that the spec no longer lists
        if beyond := state.beyond(fr):
            cells.append(fr)
            borrowed[fr[1]] = borrowed.get(fr[1], ZERO) + beyond
    if not borrowed:
        return DominantShare(ZERO, weight)
    lendable: dict[str, Decimal] = {}
    for fr in offered:
        if fr[1] in borrowed:
            lendable[fr[1]] = lendable.get(fr[1], ZERO) + ceiling(fr)
    ratios = [
        amount * 1000 / lendable[resource]
        for resource, amount in borrowed.items()
        if lendable.get(resource, ZERO) > 0
    ]
    return DominantShare(max(ratios, default=ZERO), weight, frozenset(cells))
