"""Closing a period: its use becomes lines of the ledger, once and for good.

Input: lines as `charging` makes them; output: LedgerEntry rows and a closed BillingPeriod. Invariants
- A period is closed once, whoever asks and how often: its row is locked, and a closed one is given back as it is.
- Lines have a gapless sequence; all closes queue up on one lock.
- What is known to be missing (time without a price, time that nobody saw) is accepted with a reason or nothing is closed.
- `digest` is over every column of every line in order; `totals` are the sums of the statements."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from apps.accounts.models import Team, User
from apps.chargeback import lines_sql as sql
from apps.chargeback.charge_lines import last_sequence
from apps.chargeback.charging import Missing, add_corrections, add_use, price_use
from apps.chargeback.models import BillingPeriod, LedgerEntry, ProvisionalLine
from apps.chargeback.periods import months
from apps.chargeback.statements import Lines, totals_by_team, totals_of
from apps.chargeback.team_use import fill_use
from apps.core.windows import floor_hour
from apps.fleet.models import Cluster
from apps.usage.changed import changed_since, take_changed
from apps.usage.selectors import allocation_done_until, first_allocation

_LEDGER = "hashtextextended('chargeback ledger', 0)"
"""Key of the lock, as the triggers of `0007_ledger_keys` have it."""
Open, Closed = BillingPeriod.State.OPEN, BillingPeriod.State.CLOSED


class NotClosable(Exception):
    """Why a period cannot be closed. `code`: "running" (it has not ended), "before" (an earlier one is open), "behind"
    (hours of these clusters are not computed yet), "accept" (something is missing, see `missing`, and no reason was given to
    accept it)."""

    def __init__(self, code: str, missing: Mapping[str, Any]) -> None:
        super().__init__(code)
        self.code, self.missing = code, missing


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
        if period.is_closed:
            return period
        since = take_changed(now)
        _refuse_early(period, now)
        missing = price_use(period)
        if missing and not reason.strip():
            raise NotClosable("accept", missing.as_json())
        last = last_sequence()
        _set(sql.FOR_MANY)
        period.entries = add_use(period, LedgerEntry, after=last)
        period.entries += add_corrections(period, LedgerEntry, after=last + period.entries, since=since)
        ProvisionalLine.objects.filter(period=period).delete()
        _sum_up(period, LedgerEntry, missing)
        fill_use(period)
        period.digest, period.names = digest_of(period), names_of_today()
        period.state, period.closed_at, period.closed_by, period.reason = Closed, now, by, reason.strip()
        period.updated_at = now
        period.save()
    return period


def _set(settings: Iterable[str]) -> None:
    """For the rest of the transaction."""
    with connection.cursor() as cursor:
        for setting in settings:
            cursor.execute(f"SET LOCAL {setting}")


def _sum_up(period: BillingPeriod, lines: Lines, missing: Missing) -> None:
    _set(sql.FOR_SUMS)
    period.by_team = totals_by_team(period, lines)
    period.totals, period.missing = totals_of(period.by_team), missing.as_json()


def names_of_today() -> dict[str, dict[int, str]]:
    return {
        "teams": dict(Team.objects.values_list("pk", "slug")),
        "clusters": dict(Cluster.objects.values_list("pk", "slug")),
    }


def provide(period_id: int, *, now: datetime) -> BillingPeriod:
    """Compute an open period's provisional lines anew; a closed one is given back as it is."""
    with transaction.atomic():
        _lock_names()
        period = BillingPeriod.objects.select_for_update().get(pk=period_id)
        if period.is_closed:
            return period
        ProvisionalLine.objects.filter(period=period).delete()
        missing = price_use(period, until=floor_hour(now))
        _set(sql.FOR_MANY)
        period.entries = add_use(period, ProvisionalLine, after=0)
        if not BillingPeriod.objects.filter(state=Open, ends_at__lte=period.starts_at).exists():
            period.entries += add_corrections(
                period, ProvisionalLine, after=period.entries, since=changed_since()
            )
        _sum_up(period, ProvisionalLine, missing)
        fill_use(period)
        period.updated_at = now
        period.save()
    return period


def _lock() -> None:
    """One close at a time, and nothing that lines name is deleted meanwhile (`0007_ledger_keys`)."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_advisory_xact_lock({_LEDGER})")


def _lock_names() -> None:
    """For lines that are no close: nothing that they name is deleted meanwhile."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_advisory_xact_lock_shared({_LEDGER})")


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
