"""What ResourceClaims held when. Input: claims as they stand and what of them was written down; output: the steps that are new.

Pure. Invariants
- A claim holds its devices once, whoever shares it: from when it was allocated, or its first pod bound, until it is seen
  released or gone, with or without a pod. Admin access holds nothing.
- A claim that pods of one queue use is of their queue; one that pods of several have used since it was allocated, of its
  namespace alone. Once the pods are gone it stays whose it was.
- The same claims again give no step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from apps.usage.allocation import ZERO


class On(NamedTuple):
    """A kind of unit on a node."""

    node: str
    resource: str


class Whose(NamedTuple):
    """What its owner is told by beside the namespace: as of `allocation.Place`."""

    kind: str = "Workload"
    queue_name: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """From `at` on the claim held `units` there; 0: none any more."""

    uid: str
    namespace: str
    on: On
    whose: Whose
    units: Decimal
    at: datetime


@dataclass(frozen=True, slots=True)
class ClaimNow:
    """`held`: {} when it is not allocated or holds nothing; `since`: of the present allocation; `changed_at`: when it was
    seen to be as it is; `gone_at`: `held` is what it held last; `users`: of the pods that reserve it now."""

    uid: str
    namespace: str
    held: Mapping[On, Decimal]
    since: datetime
    changed_at: datetime
    gone_at: datetime | None = None
    users: Collection[Whose] = ()


def new_steps(
    known: Mapping[str, Collection[Step]], present: Iterable[ClaimNow], now: datetime
) -> Iterator[Step]:
    """`known`: each claim's newest step per kind of unit, those with 0 units among them; claims that are not `present` any more
    hold nothing from now on."""
    seen: set[str] = set()
    for claim in present:
        seen.add(claim.uid)
        yield from _of_claim(claim, {step.on: step for step in known.get(claim.uid, ())}, now)
    for uid in known.keys() - seen:
        yield from (_released(step, now) for step in known[uid] if step.units)


def _of_claim(claim: ClaimNow, known: Mapping[On, Step], now: datetime) -> Iterator[Step]:
    """An allocation that is newer than what is known began when it says, any other change when it is seen."""
    last = max((step.at for step in known.values()), default=None)
    begins = last is None or claim.since > last
    before = {step.whose for step in known.values() if step.at == last}
    whose = _only((set(claim.users) or before) if begins else before | set(claim.users))
    held: Collection[On] = [on for on, step in known.items() if step.units]
    if claim.held and (claim.gone_at is None or (begins and claim.since < claim.gone_at)):
        yield from _holding(claim, known, whose, claim.since if begins else now)
        held = claim.held.keys()
    over = claim.gone_at if claim.held else claim.changed_at
    if over is not None:
        at = over if last is None else max(over, last)
        yield from (Step(claim.uid, claim.namespace, on, whose, ZERO, at) for on in sorted(held))


def _holding(claim: ClaimNow, known: Mapping[On, Step], whose: Whose, at: datetime) -> Iterator[Step]:
    for on in sorted(known.keys() | claim.held.keys()):
        units, old = claim.held.get(on, ZERO), known.get(on)
        before = old.units if old is not None else ZERO
        if units != before or (units and old is not None and old.whose != whose):
            yield Step(claim.uid, claim.namespace, on, whose, units, at)


def _released(step: Step, now: datetime) -> Step:
    return replace(step, units=ZERO, at=max(now, step.at))


def _only(found: Collection[Whose]) -> Whose:
    """The one that there is; of nobody but the namespace when there are several."""
    return next(iter(found)) if len(found) == 1 else Whose()
