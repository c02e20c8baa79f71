"""Closing a period: its use becomes lines of the ledger, once and for good.

Input: allocation hours and published rate cards; output: LedgerEntry rows and a closed BillingPeriod. Invariants
- A period is closed once, whoever asks and how often: its row is locked, and a closed one is given back as it is.
- Lines have a gapless sequence; all closes queue up on one lock.
- What is known to be missing (time without a price, time that nobody saw) is accepted with a reason or nothing is closed.
- Facts that came after a close become correction lines of the next period that closes: the difference between what the
  hours say now and all that was billed of them, at the rate card of then.
- `digest` is over every column of every line in order; `totals` are the sums of the statements."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from apps.accounts.models import User
from apps.chargeback import lines_sql as sql
from apps.chargeback.models import BillingPeriod, LedgerEntry
from apps.chargeback.periods import months
from apps.chargeback.rate_cards import load_tariff
from apps.chargeback.statement import lines
from apps.chargeback.tariff import Tariff, Use
from apps.core.quantity import plain
from apps.fleet.models import Cluster
from apps.usage.selectors import allocation_done_until, first_allocation

Open, Closed = BillingPeriod.State.OPEN, BillingPeriod.State.CLOSED


class NotClosable(Exception):
    """Why a period cannot be closed. `code`: "running" (it has not ended), "before" (an earlier one is open), "behind"
    (hours of these clusters are not computed yet), "accept" (something is missing, see `missing`, and no reason was given to
    accept it)."""

    def __init__(self, code: str, missing: Mapping[str, Any]) -> None:
        super().__init__(code)
        self.code, self.missing = code, missing


@dataclass(frozen=True, slots=True)
class Missing:
    """Unit-hours per resource, as text: `unpriced` have no price, `left_out` nobody saw."""

    unpriced: Mapping[str, str]
    left_out: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.unpriced or self.left_out)


def keep_periods(now: datetime) -> list[BillingPeriod]:
    """Make the months from the first use until now that are not there yet; all of them, in order."""
    first = first_allocation()
    last = BillingPeriod.objects.last()
    start = last.ends_at if last else first
    if start is not None:
        for month in months(start, now, settings.BILLING_ZONE):
            # The zone may have changed: the first month of the new one begins where the last of the old one ended.
            BillingPeriod.objects.get_or_create(
                month=str(month),
                defaults={
                    "zone": month.zone,
                    "starts_at": max(month.start, start),
                    "ends_at": month.end,
                    "created_at": now,
                    "updated_at": now,
                },
            )
    return list(BillingPeriod.objects.all())


def close(period_id: int, *, by: User | None, reason: str, now: datetime) -> BillingPeriod:
    """Close a period. `reason`: why what is missing is accepted ("": it is not). Raises NotClosable."""
    with transaction.atomic():
        _lock()
        period = BillingPeriod.objects.select_for_update().get(pk=period_id)
        if period.state == Closed:
            return period
        _refuse_early(period, now)
        tariff = load_tariff()
        missing = _price(tariff, period.starts_at, period.ends_at, billed=False)
        if missing and not reason.strip():
            raise NotClosable("accept", {"unpriced": missing.unpriced, "left_out": missing.left_out})
        _add(sql.ADD_USE, period, period.starts_at, period.ends_at)
        _correct(tariff, period)
        period.entries = LedgerEntry.objects.filter(period=period).count()
        period.totals = {code: plain(total) for code, total in totals_of(period).items()}
        period.digest = digest_of(period)
        period.accepted = {"unpriced": missing.unpriced, "left_out": missing.left_out} if missing else {}
        period.state, period.closed_at, period.closed_by, period.reason = Closed, now, by, reason.strip()
        period.updated_at = now
        period.save()
    return period


def _lock() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('chargeback ledger', 0))")


def _refuse_early(period: BillingPeriod, now: datetime) -> None:
    if period.ends_at > now:
        raise NotClosable("running", {"ends_at": period.ends_at.isoformat()})
    earlier = BillingPeriod.objects.filter(state=Open, ends_at__lte=period.starts_at).first()
    if earlier is not None:
        raise NotClosable("before", {"month": earlier.month})
    done = allocation_done_until()
    behind = [
        cluster.slug
        for cluster in Cluster.objects.filter(enabled=True, pk__in=done).order_by("slug")
        if done[cluster.pk] < period.ends_at
    ]
    if behind:
        raise NotClosable("behind", {"clusters": behind})


# ---- prices ---------------------------------------------------------------------------------------------------------


def _price(tariff: Tariff, start: datetime, end: datetime, *, billed: bool) -> Missing:
    """Fill `charge_kinds` for [start, end), with `billed` for what has been billed of it as well."""
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS charge_kinds")
        cursor.execute(sql.MAKE_KINDS)
        edges = [start, *tariff.changes(start, end), end]
        for low, high in pairwise(edges):
            uses = set(_kinds(cursor, sql.KINDS_OF, low, high))
            if billed:
                uses |= set(_kinds(cursor, sql.KINDS_BILLED, low, high))
            rows = [(low, high, *row) for row in _priced(tariff, low, uses)]
            cursor.executemany(
                f"INSERT INTO charge_kinds VALUES ({', '.join(['%s'] * 18)})",  # noqa: S608
                rows,
            )
        cursor.execute("ANALYZE charge_kinds")
        bounds = {"low": start, "high": end}
        return Missing(_hours(cursor, sql.UNPRICED, bounds), _hours(cursor, sql.LEFT_OUT, bounds))


Row = tuple[Any, ...]


def _kinds(cursor: Any, statement: str, low: datetime, high: datetime) -> list[Row]:
    cursor.execute(statement, {"low": low, "high": high})
    found: list[Row] = cursor.fetchall()
    return found


def _priced(tariff: Tariff, at: datetime, uses: Iterable[Row]) -> list[Row]:
    """Of a basis that the rate card does not price at all nothing is billed; without any rate card reserved quota is
    billed without a price."""
    version = tariff.at(at)
    bases = {price.basis for price in version.prices} if version else {"reserved"}
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
    weight = Fraction(over, under) if over is not None and under else None
    return Use(basis, cluster_id, model, mode, profile, weight, priority_class, borrowed)


def _hours(cursor: Any, statement: str, bounds: Mapping[str, datetime]) -> dict[str, str]:
    cursor.execute(statement, bounds)
    return {resource: plain(seconds / 3600) for resource, seconds in cursor.fetchall()}


# ---- lines ----------------------------------------------------------------------------------------------------------


def _add(statement: str, period: BillingPeriod, low: datetime, high: datetime) -> int:
    last = LedgerEntry.objects.order_by("-sequence").values_list("sequence", flat=True).first() or 0
    with connection.cursor() as cursor:
        cursor.execute(statement, {"after": last, "period": period.pk, "low": low, "high": high})
        return int(cursor.rowcount)


def _correct(tariff: Tariff, period: BillingPeriod) -> None:
    """Of closed periods, the latest first: facts come late by days, not by years, but all are looked at."""
    for earlier in BillingPeriod.objects.filter(state=Closed, ends_at__lte=period.starts_at):
        _price(tariff, earlier.starts_at, earlier.ends_at, billed=True)
        _add(sql.ADD_CORRECTIONS, period, earlier.starts_at, earlier.ends_at)


def totals_of(period: BillingPeriod) -> Mapping[str, Decimal]:
    """{currency: sum of the statements}, from the lines that are there."""
    by_team: defaultdict[int | None, list[tuple[Row, str, Fraction | None]]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(sql.STATEMENT_PARTS, {"period": period.pk})
        for team_id, *key, currency, price, factor, over, under, seconds, _count in cursor.fetchall():
            exact = None if price is None else exact_amount(seconds, price, factor, over, under)
            by_team[team_id].append((tuple(key), currency, exact))
    found: defaultdict[str, Decimal] = defaultdict(Decimal)
    for parts in by_team.values():
        for currency, total in lines(parts)[1].items():
            found[currency] += total
    return dict(sorted(found.items()))


def exact_amount(seconds: Decimal, price: Decimal, factor: Decimal, over: int, under: int) -> Fraction:
    return Fraction(seconds) * Fraction(price) * Fraction(factor) * Fraction(over, under) / 3600


def digest_of(period: BillingPeriod) -> str:
    """SHA-256 over every column of every line, in order."""
    digest = hashlib.sha256()
    with (
        connection.cursor() as cursor,
        cursor.copy(sql.COPY_LINES.format(period=int(period.pk))) as copy,
    ):
        for block in copy:
            digest.update(block)
    return digest.hexdigest()
