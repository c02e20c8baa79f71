"""What queues were promised when. Input: nominal quota over time, and how queues stood; output: `Spell`s of basis "nominal".

Pure. Invariants
- A promise lasts from when its number was first known until the next one; nothing is promised before the first, unlike
  what is borrowed, for which that is the best that is known.
- While a queue is stopped, or its numbers are not its own to count (`PromiseSeen.LeftOut`), it promises nothing; before the
  first that is known of it, it stood as it did then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from apps.usage.allocation import Basis, Place, Spell
from apps.usage.limits import Limit

KIND_OF_WORK: Mapping[str, str] = {"ClusterQueue": "Workload", "VolcanoQueue": "PodGroup"}
"""What work of a queue of this kind is: the same pulls tell of both."""


@dataclass(frozen=True, slots=True, order=True)
class Promised:
    """What a number of nominal quota is of. `flavor` "" for Volcano."""

    kind: str
    queue: str
    flavor: str
    resource: str


@dataclass(frozen=True, slots=True)
class Standing:
    """From `at` on until the next; `left_out` "": the queue's quota is a promise."""

    at: datetime
    left_out: str


def commitments(
    cluster_id: int,
    nominal: Mapping[Promised, Sequence[Limit]],
    standings: Mapping[tuple[str, str], Sequence[Standing]],
    until: Mapping[str, datetime],
) -> Iterator[Spell]:
    """`nominal` and `standings` in order, the latter by (kind, queue); `until`: how far work of each kind, and with it
    its queues, are known."""
    for what, steps in nominal.items():
        if not steps:
            continue
        kind = KIND_OF_WORK[what.kind]
        own = standings.get((what.kind, what.queue), ())
        edges = {step.at for step in steps} | {standing.at for standing in own} | {until[kind]}
        for low, high in pairwise(sorted(edges)):
            units = next((step.units for step in reversed(steps) if step.at <= low), None)
            if units and high <= until[kind] and not _left_out(own, low):
                yield Spell(
                    basis=Basis.NOMINAL,
                    uid=f"{what.kind}/{what.queue}",
                    place=Place(cluster_id, kind, "", "", what.queue),
                    on=what.flavor,
                    resource=what.resource,
                    quantity=units,
                    start=low,
                    end=high,
                    since=steps[0].at,
                )


def _left_out(standings: Sequence[Standing], at: datetime) -> str:
    if not standings:
        return ""
    return next((one.left_out for one in reversed(standings) if one.at <= at), standings[0].left_out)
