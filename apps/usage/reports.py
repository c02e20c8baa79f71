"""What was held and what of it did something, by any keys and by hour, day or month. Input: a `Question`; output: `Row`s.

Invariants
- What a unit is (resource, model, sharing mode, profile, weight) is always part of the key: kinds are never added up.
- Grouping by any keys and any step changes no sum of a kind.
- A measure is told by a key only where what it is made of has that key (`TOLD_BY`); elsewhere it is None in every row, as is
  what was not measured. Neither is ever zero.
- Rows have a total order, and a place in it that stays theirs while others come and go."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

from django.db import connection

from apps.core.gpu import PARTITIONED, SharingMode
from apps.core.windows import HOUR, Bucket, Window
from apps.fleet.selectors import UNBOUND
from apps.usage import report_sql as sql
from apps.usage.allocation import Basis, Unit
from apps.usage.kinds import unit_of
from apps.usage.use import gib_seconds, held_idle

Step = Literal["", "hour", "day", "month"]
KEYS = ("cluster", "team", "cost_centre", "kind", "queue", "flavor", "priority_class", "borrowed")
"""By which may be grouped, besides the kind of unit."""
UNIT_KEYS = ("resource", "model", "sharing_mode", "profile")
"""By which is always grouped."""
_OF_PODS = frozenset(KEYS) - {"flavor", "priority_class", "borrowed"}
TOLD_BY: Mapping[str, frozenset[str]] = {
    "reserved": frozenset(KEYS),
    # A promise is of a queue's flavor and of no work in it.
    "nominal": frozenset(KEYS) - {"priority_class", "borrowed"},
    # A pod is on a node, whatever flavor, class and borrowing its quota came by.
    "bound": _OF_PODS,
    "measured": _OF_PODS,
}
HOURS_UP_TO = timedelta(days=62)
MOST_ROWS = 50_000
Place = tuple[str, ...]
"""Of a row in the order: the start of its step ("" where there is only one) and its keys as text."""
PLACE_LENGTH = len(sql.AFTER)
_NINTH = Decimal("1e-9")


class TooManyRows(Exception):
    """An answer of `found` rows, which are more than MOST_ROWS."""

    def __init__(self, found: int) -> None:
        super().__init__(found)
        self.found = found


@dataclass(frozen=True, slots=True)
class Question:
    """`edges`: the bounds of the steps, in order. `narrowed`: {key: value}; of "team" UNBOUND is nobody. `team_ids` None:
    everything, what is of no team included. `nominal`: whether promises are told."""

    step: Step
    edges: Sequence[datetime]
    keys: frozenset[str]
    narrowed: Mapping[str, str]
    team_ids: Collection[int] | None
    nominal: bool = False

    @property
    def window(self) -> Window:
        return Window(self.edges[0], self.edges[-1])

    @property
    def untold(self) -> dict[str, list[str]]:
        """{measure: the keys for which it cannot be told}."""
        asked = (self.keys | set(self.narrowed)) & set(KEYS)
        return {name: sorted(asked - told) for name, told in TOLD_BY.items() if asked - told}


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of unit in one step and group. A key is None where nothing is grouped by it, and where there is none: no team,
    no cost centre. `reserved`, of it `bridged`, beside it `left_out`, `bound` and `nominal` in unit-seconds; `measured`
    and `busy` in seconds of cards or instances."""

    start: datetime
    end: datetime
    cluster: str | None
    team: str | None
    cost_centre: str | None
    kind: str | None
    queue: str | None
    flavor: str | None
    priority_class: str | None
    borrowed: bool | None
    resource: str
    unit: Unit
    reserved: Decimal
    bridged: Decimal
    left_out: Decimal
    bound: Decimal | None
    nominal: Decimal | None
    measured: Decimal | None
    busy: Decimal | None
    memory_byte_seconds: Decimal | None
    energy_joules: Decimal | None
    place: Place

    @property
    def held_idle(self) -> Decimal | None:
        return held_idle(self.measured, self.busy)

    @property
    def memory_gib_seconds(self) -> Decimal | None:
        return gib_seconds(self.memory_byte_seconds)


def edges_of(step: Step, window: Window, months: Sequence[datetime] = ()) -> list[datetime]:
    """Bounds of the whole steps that cover the window. Without a step one of whole hours, of a long window of whole days.
    `months`: bounds of billing periods that cover it."""
    if step == "month":
        return list(months)
    grid = Bucket(step) if step else Bucket.HOUR if window.length <= HOURS_UP_TO else Bucket.DAY
    whole = window.aligned(grid)
    if not step:
        return [whole.start, whole.end]
    return [*(one.start for one in whole.buckets(grid)), whole.end]


def report(question: Question, *, after: Place | None = None, most: int = MOST_ROWS) -> list[Row]:
    """The rows after a place, at most `most`. Raises TooManyRows. One query."""
    untold = question.untold
    bases = [Basis.RESERVED.value]
    bases += [Basis.POD.value] if "bound" not in untold else []
    bases += [Basis.NOMINAL.value] if question.nominal and "nominal" not in untold else []
    first, place = _from(question, after)
    given: dict[str, Any] = {
        "start": question.edges[max(first - 1, 0)],
        "end": question.edges[-1],
        "edges": list(question.edges),
        "bases": bases,
        "with_use": "measured" not in untold,
        "teams": None if question.team_ids is None else list(question.team_ids),
        "most": most,
        **question.narrowed,
        **dict(zip(sql.AFTER, place, strict=True)),
    }
    held = sql.HOURS if _by_hours(question) else sql.DAYS
    query = sql.grouped(held=held, keys=question.keys, conditions=" AND ".join(_conditions(question)))
    with connection.cursor() as cursor:
        cursor.execute(query, given)
        found = cursor.fetchall()
    if found and found[0][-1] > MOST_ROWS:
        raise TooManyRows(found[0][-1])
    return [_row(question, bases, values) for values in found]


def _by_hours(question: Question) -> bool:
    """Days begin and end at midnight, or where a billing period does."""
    return question.step == "hour" or (question.step == "" and question.window.length <= HOURS_UP_TO)


def _from(question: Question, after: Place | None) -> tuple[int, tuple[Any, ...]]:
    """The step to go on in (0: the first), and the last row's place in it."""
    nowhere = ("",) * (PLACE_LENGTH - 1)
    if after is None:
        return 0, (0, *nowhere)
    if not question.step:
        return 1, (1, *after[1:])
    index = bisect_left(question.edges, datetime.fromisoformat(after[0]))
    last = len(question.edges) - 1
    if index < last and instant(question.edges[index]) == after[0]:
        return index + 1, (index + 1, *after[1:])
    # The window moved on meanwhile: from the next step on, if there is one.
    return min(index + 1, last), (index if index < last else last + 1, *nowhere)


def _conditions(question: Question) -> Iterator[str]:
    yield "(%(teams)s::bigint[] IS NULL OR team_id = ANY(%(teams)s))"
    for name, value in question.narrowed.items():
        if name == "team":
            team = "team_id = (SELECT id FROM accounts_team WHERE slug = %(team)s)"
            yield "team_id IS NULL" if value == UNBOUND else team
        elif name == "cluster":
            yield "cluster_id = (SELECT id FROM fleet_cluster WHERE slug = %(cluster)s)"
        elif name in KEYS + UNIT_KEYS:
            yield f"{name} = %({name})s"


def instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()


def is_place(place: Place) -> bool:
    """Whether it may be one that `report` gave out."""
    try:
        return not place[0] or datetime.fromisoformat(place[0]).utcoffset() is not None
    except ValueError:
        return False


def _row(question: Question, bases: Collection[str], values: Sequence[Any]) -> Row:
    slot, keys, kind, amounts = values[0], values[1:9], values[9:15], values[15:-1]
    cluster, team, cost_centre, work, queue, flavor, priority_class, borrowed = (one or None for one in keys)
    resource, model, sharing_mode, profile = kind[:4]
    over, under = (int(one) if one else None for one in kind[4:])
    reserved, bridged, left_out, bound, nominal, measured, busy, memory, joules = amounts
    start = question.edges[slot - 1]
    return Row(
        start=start,
        end=question.edges[slot],
        cluster=cluster,
        team=team,
        cost_centre=cost_centre,
        kind=work,
        queue=queue,
        flavor=flavor,
        priority_class=priority_class,
        borrowed=None if borrowed is None else borrowed == "true",
        resource=resource,
        unit=unit_of(model, sharing_mode, profile, over, under),
        reserved=reserved,
        bridged=bridged,
        left_out=left_out,
        bound=bound if Basis.POD in bases else None,
        nominal=nominal if Basis.NOMINAL in bases else None,
        measured=measured,
        busy=busy,
        memory_byte_seconds=memory,
        energy_joules=joules,
        place=(instant(start) if question.step else "", *keys, *kind),
    )


def gpu_hours(unit_seconds: Decimal | None, cards: Fraction | None) -> Decimal | None:
    """Hours of whole cards, to nine digits. `cards`: of one unit; None: not known."""
    if unit_seconds is None or cards is None:
        return None
    return (unit_seconds * cards.numerator / (cards.denominator * HOUR // timedelta(seconds=1))).quantize(
        _NINTH
    )


def cards_per_device(unit: Unit) -> Fraction | None:
    """Of what `measured` counts. Cards that are shared by time are measured whole; which part of a card a shared instance is
    nobody says."""
    if unit.sharing_mode == SharingMode.EXCLUSIVE or unit.sharing_mode in PARTITIONED:
        return unit.equivalents
    shared_card = unit.sharing_mode in (SharingMode.TIME_SLICING, SharingMode.MPS) and not unit.profile
    return Fraction(1) if shared_card else None
