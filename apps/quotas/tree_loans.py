"""Who lends to whom in a quota tree. Input: the nodes with their sums; output: what each lends, and loans. Pure.

Kueue keeps no book of who lent to whom. Borrowing is laid on a cohort's own quota first, then on the siblings' unused
lendable quota in proportion, then upward.
Invariants
- Σ borrowed by queues = Σ lent by queues + Σ taken from cohorts' own quota + what roots are over.
- Amounts are whole units where all are; the order is that of the keys, so that the same tree gives the same loans.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from apps.quotas.tree_model import EMPTY, ZERO, FlavorResource, Key, NodeState

_MILLI = Decimal("0.001")
States = Mapping[Key, NodeState]


@dataclass(frozen=True, slots=True)
class Loan:
    """`amount` of the lender's quota that the borrower, a queue, holds. Lender: a queue, or a cohort's own quota."""

    lender: Key
    borrower: Key
    amount: Decimal


def asked_inside(states: States, key: Key, fr: FlavorResource) -> Decimal:
    """What the children of a cohort borrow and find inside it."""
    state = states[key]
    children = sum((states[child].beyond(fr) for child in state.children), ZERO)
    return children - state.beyond(fr)


def lending(states: States, root: Key, fr: FlavorResource) -> dict[Key, Decimal]:
    """What each node at and below one root lends; other trees do not matter to it."""
    lent: dict[Key, Decimal] = {root: ZERO}
    queue = [root]
    while queue:
        key = queue.pop()
        state = states[key]
        if not state.children:
            continue
        own = state.node.cells.get(fr, EMPTY).nominal
        wanted = max(ZERO, asked_inside(states, key, fr) + lent[key] - own)
        unused = [states[child].unused_lendable(fr) for child in state.children]
        lent.update(zip(state.children, spread(wanted, unused), strict=True))
        queue.extend(state.children)
    return lent


def taken(states: States, cohort: Key, fr: FlavorResource, lent: Mapping[Key, Decimal]) -> Decimal:
    """The part of a cohort's own quota that is held. `lent`: of its tree, by `lending`."""
    own = states[cohort].node.cells.get(fr, EMPTY).nominal
    return min(own, asked_inside(states, cohort, fr) + lent[cohort])


def loans(
    states: States, upward: Iterable[Key], fr: FlavorResource, lent: Mapping[Key, Decimal]
) -> tuple[Loan, ...]:
    """Who holds whose quota: Σ over a lender is what it lends (a queue) or what is `taken` of it (a cohort). By lender,
    then borrower. `upward`: every node after its children; `lent`: of all trees."""
    inside = _inside(states, upward, fr)
    above: dict[Key, list[tuple[Key, Decimal]]] = {}
    found: list[Loan] = []
    stack = sorted(key for key, state in states.items() if state.parent is None)
    while stack:
        key = stack.pop()
        state = states[key]
        wanted = above.pop(key, [])
        if key[0] == "ClusterQueue":
            found.extend(Loan(key, borrower, amount) for borrower, amount in wanted)
            continue
        wanted = inside[key] + wanted
        lenders = [(key, taken(states, key, fr, lent)), *((child, lent[child]) for child in state.children)]
        for lender, borrower, amount in _match(lenders, wanted):
            if lender == key:
                found.append(Loan(key, borrower, amount))
            else:
                above.setdefault(lender, []).append((borrower, amount))
        stack.extend(state.children)
    return tuple(sorted(found, key=lambda loan: (loan.lender, loan.borrower)))


def _inside(
    states: States, upward: Iterable[Key], fr: FlavorResource
) -> dict[Key, list[tuple[Key, Decimal]]]:
    """Per cohort the borrowing that is met inside it; what passes on upward is shared in proportion."""
    inside: dict[Key, list[tuple[Key, Decimal]]] = {}
    passing: dict[Key, list[tuple[Key, Decimal]]] = {}
    for key in upward:
        state = states[key]
        beyond = state.beyond(fr)
        if key[0] == "ClusterQueue":
            passing[key] = [(key, beyond)] if beyond else []
            continue
        wanted = [want for child in state.children for want in passing[child]]
        passed = spread(beyond, [amount for _, amount in wanted])
        pairs = list(zip(wanted, passed, strict=True))
        passing[key] = [(who, up) for (who, _), up in pairs if up]
        inside[key] = [(who, amount - up) for (who, amount), up in pairs if amount - up]
    return inside


def _match(
    lenders: Iterable[tuple[Key, Decimal]], borrowers: Iterable[tuple[Key, Decimal]]
) -> Iterator[tuple[Key, Key, Decimal]]:
    """Lay borrowers on lenders, both in their order, each lender up to its amount."""
    waiting = iter(borrowers)
    who, left = next(waiting, (None, ZERO))
    for lender, amount in lenders:
        while amount > 0 and who is not None:
            part = min(amount, left)
            yield lender, who, part
            amount, left = amount - part, left - part
            if not left:
                who, left = next(waiting, (None, ZERO))


def spread(amount: Decimal, over: list[Decimal]) -> list[Decimal]:
    """Lay `amount` on parts in proportion to `over`, exactly and in whole units (thousandths where a part has
    them), never more on a part than it has. Units of GPUs stay whole: nobody lends 2.67 cards."""
    total = sum(over, ZERO)
    if amount <= 0 or total <= 0:
        return [ZERO for _ in over]
    amount = min(amount, total)
    whole = all(part == part.to_integral_value() for part in (amount, *over))
    unit = Decimal(1) if whole else _MILLI
    scaled, whole_amount, whole_total = (
        [int(part / unit) for part in over],
        int(amount / unit),
        int(total / unit),
    )
    parts: list[Decimal] = []
    run = given = 0
    for part in scaled:
        run += part
        upto = whole_amount * run // whole_total if whole_total else 0
        parts.append((upto - given) * unit)
        given = upto
    return parts
