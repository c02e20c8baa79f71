"""What Volcano's queue plugins make of the queues' specs: the most a queue can get, and what it deserves. Pure.

Input: specs of one cluster's queues, what its nodes can give, what each queue's pods ask for; output: per queue and
resource `real_capability` and `deserved`. A resource that is not in a mapping has no limit.

proportion (flat; `parent` does not count)
  real(q)     = min(capability(q), total − Σ guarantees + guarantee(q))
  deserved    by filling up: what remains is laid on the queues that are not satisfied yet, by weight; each takes at
              most real(q) and what it asks for, and at least its guarantee; until nothing is left to lay out. So it
              moves with demand: a queue that asks for nothing deserves nothing.
capacity
  real(q)     = min(capability(q), real(parent) − Σ guarantees of the parent's children + guarantee(q)); a root's is
              its capability. Without a hierarchy (no queue has a parent but root) the cluster's total stands for the
              parent's.
  deserved(q) = max(min(deserved, real(q)), guarantee(q)) as configured; a queue with children and nothing configured
              deserves the sum of its children.
Invariants: exact (Fractions inside, Decimal outside, cut off below a thousandth as Volcano's milli-units are); a queue
whose ancestors form a circle counts as a root.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

ROOT = "root"
ZERO = Decimal(0)
Amounts = Mapping[str, Decimal]


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """One queue as configured. A capability of 0 for cpu or memory means no limit, as Volcano reads it."""

    name: str
    parent: str = ""
    weight: int = 1
    capability: Amounts = field(default_factory=dict)
    deserved: Amounts = field(default_factory=dict)
    guarantee: Amounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Share:
    """What one queue can get at most and what it deserves; a resource that is left out has no limit, and no share."""

    real_capability: Amounts
    deserved: Amounts


def shares(
    plugin: str, queues: Iterable[QueueSpec], *, total: Amounts, asked: Mapping[str, Amounts]
) -> dict[str, Share]:
    """`plugin`: "proportion" or "capacity". `total`: allocatable of all nodes, out of use or not, as Volcano counts
    them; `asked`: by queue, what the queue's living pods ask for, bound or not."""
    found = {queue.name: queue for queue in queues}
    return _proportion(found, total, asked) if plugin == "proportion" else _capacity(found, total)


def _limits(queue: QueueSpec) -> dict[str, Decimal]:
    return {
        resource: amount
        for resource, amount in queue.capability.items()
        if amount > 0 or resource not in ("cpu", "memory")
    }


def _lowest(limits: Mapping[str, Decimal], room: Mapping[str, Decimal]) -> dict[str, Decimal]:
    return {
        resource: min(found)
        for resource in limits.keys() | room.keys()
        if (found := [amounts[resource] for amounts in (limits, room) if resource in amounts])
    }


def _beside(room: Amounts, guarantees: Amounts, own: Amounts) -> dict[str, Decimal]:
    """What is left of `room` when everybody else has what is guaranteed to them; never below zero."""
    return {
        resource: max(ZERO, amount - guarantees.get(resource, ZERO) + own.get(resource, ZERO))
        for resource, amount in room.items()
    }


def _sum(parts: Iterable[Amounts]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for amounts in parts:
        for resource, amount in amounts.items():
            total[resource] = total.get(resource, ZERO) + amount
    return total


# ---- capacity -----------------------------------------------------------------------------------------------------


def _parents(queues: Mapping[str, QueueSpec]) -> dict[str, str]:
    """The queue above each, "" for a root; a circle is cut at its first name."""
    parents: dict[str, str] = {}
    for name, queue in sorted(queues.items()):
        above = queue.parent if queue.parent in queues and queue.parent != name else ""
        step = above
        while step and step != name:
            step = parents.get(step, "")
        parents[name] = "" if step == name else above
    return parents


def _capacity(queues: Mapping[str, QueueSpec], total: Amounts) -> dict[str, Share]:
    parents = _parents(queues)
    hierarchy = any(above not in ("", ROOT) for above in parents.values())
    children: dict[str, list[str]] = {}
    for name, above in parents.items():
        children.setdefault(above, []).append(name)
    real: dict[str, dict[str, Decimal]] = {}
    order = sorted(children.get("", ()))
    for name in order:  # grows while it is walked: parents before their children
        room = real.get(parents[name], {}) if parents[name] else {}
        if not hierarchy and name != ROOT:
            room = dict(total)
        beside = [
            queues[other].guarantee for other in _beside_whom(name, parents, children, hierarchy=hierarchy)
        ]
        real[name] = _lowest(_limits(queues[name]), _beside(room, _sum(beside), queues[name].guarantee))
        order.extend(sorted(children.get(name, ())))
    found: dict[str, Share] = {}
    for name in reversed(order):
        below = [found[child].deserved for child in children.get(name, ())]
        found[name] = Share(real[name], _configured(queues[name], real[name], below))
    return found


def _beside_whom(
    name: str, parents: Mapping[str, str], children: Mapping[str, list[str]], *, hierarchy: bool
) -> list[str]:
    """Whose guarantees are taken off first, the queue's own included."""
    return children[parents[name]] if hierarchy else [other for other in parents if other != ROOT]


def _configured(queue: QueueSpec, real: Amounts, below: list[Amounts]) -> dict[str, Decimal]:
    said = queue.deserved or (_sum(below) if below else {})
    capped = {resource: min(amount, real.get(resource, amount)) for resource, amount in said.items()}
    return {
        resource: max(capped.get(resource, ZERO), queue.guarantee.get(resource, ZERO))
        for resource in capped.keys() | queue.guarantee.keys()
    }


# ---- proportion ---------------------------------------------------------------------------------------------------


def _proportion(
    queues: Mapping[str, QueueSpec], total: Amounts, asked: Mapping[str, Amounts]
) -> dict[str, Share]:
    everybody = _sum(queue.guarantee for queue in queues.values())
    real = {
        name: _lowest(_limits(queue), _beside(total, everybody, queue.guarantee))
        for name, queue in queues.items()
    }
    takes_part = {name: queue for name, queue in queues.items() if asked.get(name)}
    deserved = _filled(takes_part, real, total, asked)
    return {name: Share(real[name], deserved.get(name, dict(queues[name].guarantee))) for name in queues}


def _filled(
    queues: Mapping[str, QueueSpec],
    real: Mapping[str, Amounts],
    total: Amounts,
    asked: Mapping[str, Amounts],
) -> dict[str, dict[str, Decimal]]:
    """Fill up by weight until everybody has what it asks for or may have, or nothing remains."""
    resources = sorted({resource for name in queues for resource in asked[name]})
    remaining = {resource: Fraction(total.get(resource, ZERO)) for resource in resources}
    given = {name: dict.fromkeys(resources, Fraction(0)) for name in queues}
    open_ = sorted(queues)
    while open_ and any(amount > 0 for amount in remaining.values()):
        weights = sum(max(1, queues[name].weight) for name in open_)
        before = {resource: sum(shares[resource] for shares in given.values()) for resource in resources}
        still = []
        for name in open_:
            part = Fraction(max(1, queues[name].weight), weights)
            new = {
                resource: _bounded(
                    given[name][resource] + remaining[resource] * part, resource, queues[name], real, asked
                )
                for resource in resources
            }
            satisfied = all(new[resource] >= asked[name].get(resource, ZERO) for resource in resources)
            if not satisfied and new != given[name]:
                still.append(name)
            given[name] = new
        after = {resource: sum(shares[resource] for shares in given.values()) for resource in resources}
        if after == before:
            break
        remaining = {
            resource: max(Fraction(0), remaining[resource] - after[resource] + before[resource])
            for resource in resources
        }
        open_ = still
    return {
        name: {resource: _decimal(amount) for resource, amount in amounts.items() if amount}
        for name, amounts in given.items()
    }


def _bounded(
    amount: Fraction,
    resource: str,
    queue: QueueSpec,
    real: Mapping[str, Amounts],
    asked: Mapping[str, Amounts],
) -> Fraction:
    limit = real[queue.name].get(resource)
    if limit is not None:
        amount = min(amount, Fraction(limit))
    amount = min(amount, Fraction(asked[queue.name].get(resource, ZERO)))
    return max(amount, Fraction(queue.guarantee.get(resource, ZERO)))


def _decimal(amount: Fraction) -> Decimal:
    return Decimal(amount.numerator * 1000 // amount.denominator) / 1000
