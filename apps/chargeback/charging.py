"""Lines of a period: what was held in it, priced, and what has to be corrected of the periods before.

Input: allocation hours, shares of idle capacity and published rate cards; output: rows of the ledger or of the
provisional lines. Invariants
- Both come about by the same statements: what a close would bill is what was shown before.
- Of a basis that the rate card does not price at all nothing is billed; what it prices in general and not in this case is
  a line without an amount.
- Facts that came after a close become correction lines of the next period that closes: the difference between what the
  hours say now and all that was billed of them, at the rate card of then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

from django.db import connection

from apps.chargeback import lines_sql as sql
from apps.chargeback.idle_shares import fill_shares
from apps.chargeback.models import BillingPeriod
from apps.chargeback.rate_cards import load_tariff
from apps.chargeback.statements import Lines
from apps.chargeback.tariff import Tariff, Use
from apps.core.quantity import plain
from apps.usage.kinds import weight_of


@dataclass(frozen=True, slots=True)
class Missing:
    """Unit-hours per resource, as text: `unpriced` have no price, `left_out` nobody saw."""

    unpriced: Mapping[str, str]
    left_out: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.unpriced or self.left_out)

    def as_json(self) -> dict[str, Mapping[str, str]]:
        return {"unpriced": self.unpriced, "left_out": self.left_out} if self else {}


def price_use(period: BillingPeriod, *, until: datetime | None = None) -> Missing:
    """Make the tables of prices and of idle shares for the period, as far as it has come by `until` (None: all of it);
    what is missing in it. Within a transaction."""
    tariff = load_tariff()
    _price(tariff, period.starts_at, period.ends_at, billed=False)
    _price_idle(tariff, period.starts_at, period.ends_at, until=until or period.ends_at, billed=False)
    return _missing(period.starts_at, period.ends_at)


def add_use(period: BillingPeriod, lines: Lines, *, after: int) -> int:
    """Lines of what was held in the period and then of what was idle, after `price_use`, numbered from `after` + 1; how
    many."""
    added = _add(sql.add_use, lines, period, after, period.starts_at, period.ends_at)
    return added + _add_shares(sql.add_use, lines, period, after + added, period)


def add_corrections(period: BillingPeriod, lines: Lines, *, after: int, since: datetime | None = None) -> int:
    """Corrections of closed periods, the earliest first, billed in `period`; how many. `since`: hours before it have not
    changed."""
    tariff, added = load_tariff(), 0
    closed = BillingPeriod.objects.filter(state=BillingPeriod.State.CLOSED, ends_at__lte=period.starts_at)
    for earlier in closed if since is None else closed.filter(ends_at__gt=since):
        low = earlier.starts_at if since is None else max(earlier.starts_at, since)
        _price(tariff, low, earlier.ends_at, billed=True)
        _price_idle(tariff, earlier.starts_at, earlier.ends_at, until=earlier.ends_at, billed=True)
        added += _add(sql.add_corrections, lines, period, after + added, low, earlier.ends_at)
        added += _add_shares(sql.add_corrections, lines, period, after + added, earlier)
    return added


AT_ONCE = timedelta(days=1)
"""What lines are added for in one statement: sorted in memory, and within the time of a statement. Their order begins with
when they start, so that it is that of all at once."""


Adding = Callable[[str, str], str]
"""The statement, of the table of lines and of what they are made of."""


def _add(
    adding: Adding, lines: Lines, period: BillingPeriod, after: int, start: datetime, end: datetime
) -> int:
    added, low = 0, start
    with connection.cursor() as cursor:
        while low < end:
            high = min(low + AT_ONCE, end)
            given: dict[str, Any] = {"after": after + added, "period": period.pk, "low": low, "high": high}
            cursor.execute(adding(lines._meta.db_table, sql.HOURS), given)
            added, low = added + int(cursor.rowcount), high
    return added


def _add_shares(adding: Adding, lines: Lines, period: BillingPeriod, after: int, of: BillingPeriod) -> int:
    """Shares of idle capacity are few: those of a whole period at once."""
    with connection.cursor() as cursor:
        given: dict[str, Any] = {"after": after, "period": period.pk, "low": of.starts_at, "high": of.ends_at}
        cursor.execute(adding(lines._meta.db_table, sql.SHARES), given)
        return int(cursor.rowcount)


# ---- prices ---------------------------------------------------------------------------------------------------------


def _price(tariff: Tariff, start: datetime, end: datetime, *, billed: bool) -> None:
    """Fill `charge_kinds` for [start, end), with `billed` for what has been billed of it as well."""
    with connection.cursor() as cursor:
        cursor.execute(sql.MAKE_KINDS)
        cursor.execute(
            "TRUNCATE charge_kinds"
        )  # kept: each table that is made and dropped holds locks until the end
        edges = [start, *tariff.changes(start, end), end]
        for low, high in pairwise(edges):
            uses = set(_kinds(cursor, sql.KINDS_OF, low, high))
            if billed:
                uses |= set(_kinds(cursor, sql.KINDS_BILLED, low, high))
            _insert(cursor, low, high, _priced(tariff, low, uses))
        cursor.execute("ANALYZE charge_kinds")


def _price_idle(tariff: Tariff, start: datetime, end: datetime, *, until: datetime, billed: bool) -> None:
    """Fill `idle_shares` for a whole period, and `charge_kinds` with what they cost, `billed` as of `_price`."""
    shared = fill_shares(tariff, start, end, until=until)
    with connection.cursor() as cursor:
        for one in shared:
            uses = set(_kinds(cursor, sql.IDLE_KINDS, one.low, one.high))
            if billed:
                uses |= set(_kinds(cursor, sql.IDLE_KINDS_BILLED, one.low, one.high))
            _insert(cursor, one.low, one.high, _priced(tariff, one.low, uses))


def _missing(start: datetime, end: datetime) -> Missing:
    bounds = {"low": start, "high": end}
    unpriced: defaultdict[str, Decimal] = defaultdict(Decimal)
    with connection.cursor() as cursor:
        for statement in sql.UNPRICED.values():
            for resource, seconds in _seconds(cursor, statement, bounds).items():
                unpriced[resource] += seconds
        return Missing(_hours(unpriced), _hours(_seconds(cursor, sql.LEFT_OUT, bounds)))


Row = tuple[Any, ...]


def _insert(cursor: Any, low: datetime, high: datetime, priced: Iterable[Row]) -> None:
    cursor.executemany(
        f"INSERT INTO charge_kinds VALUES ({', '.join(['%s'] * 18)})",  # noqa: S608
        [(low, high, *row) for row in priced],
    )


def _kinds(cursor: Any, statement: str, low: datetime, high: datetime) -> list[Row]:
    cursor.execute(statement, {"low": low, "high": high})
    found: list[Row] = cursor.fetchall()
    return found


def _priced(tariff: Tariff, at: datetime, uses: Iterable[Row]) -> list[Row]:
    """Without any rate card reserved quota is billed without a price."""
    version = tariff.at(at)
    bases = version.bases if version else {"reserved"}
    found = []
    for row in uses:
        use = _use(row)
        if use.basis not in bases:
            continue
        applied = version.applied_to(use) if version else None
        if applied is None:
            priced: Row = (None, None, "", None, None, None, None)
        else:
            weight = applied.weight
            priced = (
                *(applied.version_id, applied.price.id, applied.currency, applied.price.amount),
                *(applied.factor, weight.numerator, weight.denominator),
            )
        found.append((*row, *priced))
    return found


def _use(row: Row) -> Use:
    cluster_id, basis, model, mode, profile, over, under, priority_class, borrowed = row
    weight = weight_of(over, under)
    return Use(basis, cluster_id, model, mode, profile, weight, priority_class, borrowed)


def _seconds(cursor: Any, statement: str, bounds: Mapping[str, datetime]) -> dict[str, Decimal]:
    cursor.execute(statement, bounds)
    return dict(cursor.fetchall())


def _hours(seconds: Mapping[str, Decimal]) -> dict[str, str]:
    return {resource: plain(round(found / 3600, 6)) for resource, found in sorted(seconds.items())}
