"""The ledger: the month worked out by hand is closed to the last decimal, once, and never changes again."""

from __future__ import annotations

import threading
from collections import defaultdict
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from django.db import DatabaseError, connection, transaction

from apps.accounts.models import User
from apps.chargeback.ledger import NotClosable, close, digest_of, keep_periods
from apps.chargeback.models import BillingPeriod, LedgerEntry, RatePrice, RateVersion
from apps.chargeback.rate_cards import publish
from apps.chargeback.statements import exact_amount
from apps.fleet.models import Cluster
from apps.observations.models import SourceState, StateSpan
from apps.usage.allocation_rollup import rollup_allocation
from apps.usage.models import Watermark
from apps.usage.tests import golden_month
from apps.usage.tests.test_allocation_rollup import make_month

D = Decimal
PERIOD = golden_month.month()["period"]
LATER = PERIOD["end"] + timedelta(days=2)
REASON = "the outage of the 10th is known; the new model gets its price in April"


@pytest.fixture
def month(db: None, settings: object) -> Cluster:
    return filled(settings)


def filled(settings: object) -> Cluster:
    settings.BILLING_ZONE = PERIOD["zone"]  # type: ignore[attr-defined]
    cluster = make_month()
    publish_rates()
    SourceState.objects.update(last_ok_at=LATER)
    rollup_allocation(cluster=cluster, now=LATER, edges=[PERIOD["start"], PERIOD["end"]])
    return cluster


def publish_rates() -> None:
    rates = golden_month.month()["rates"]
    admin = User.objects.create(username="finance-lead", role=User.Role.FINANCE)
    for row in rates["versions"]:
        version = RateVersion.objects.create(
            valid_from=row["valid_from"],
            currency=rates["currency"],
            borrowed_factor=D(rates["borrowed_factor"]),
            priority_factors=rates["priority_factors"],
        )
        for price in row["prices"]:
            RatePrice.objects.create(
                version=version,
                model=price["model"],
                sharing_mode=price["mode"],
                profile=price["profile"],
                amount=D(price["price"]),
            )
        publish(version.pk, by=admin, now=LATER)


def march() -> BillingPeriod:
    return next(one for one in keep_periods(LATER) if one.month == "2026-03")


def close_until_march() -> BillingPeriod:
    for period in keep_periods(LATER):
        if period.starts_at < PERIOD["start"]:
            close(period.pk, by=None, reason=REASON, now=LATER)
    return close(march().pk, by=None, reason=REASON, now=LATER)


def test_the_period_has_the_bounds_of_its_zone(month: Cluster) -> None:
    found = march()
    assert (found.starts_at, found.ends_at) == (PERIOD["start"], PERIOD["end"])
    assert (found.ends_at - found.starts_at) == timedelta(hours=PERIOD["hours"])


def test_the_month_is_closed_to_the_last_decimal(month: Cluster) -> None:
    period = close_until_march()
    expected = golden_month.month()["expected"]
    assert period.totals == {"EUR": expected["total"]}
    hours: defaultdict[tuple[str, ...], Fraction] = defaultdict(Fraction)
    amounts: defaultdict[tuple[str, ...], Fraction] = defaultdict(Fraction)
    unpriced: defaultdict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for line in LedgerEntry.objects.filter(period=period).select_related("team"):
        team, units = line.team.slug if line.team else "", Fraction(line.unit_seconds) / 3600
        if line.price_per_hour is None or line.factor is None:
            unpriced[team, line.resource] += units
            assert (line.amount, line.currency) == (None, "")
            continue
        weight = Fraction(line.priced_over or 0, line.priced_under or 1)
        exact = exact_amount(line.unit_seconds, line.price_per_hour, line.factor, weight)
        assert line.amount is not None
        assert abs(Fraction(line.amount) - exact) <= Fraction(1, 2 * 10**18)
        key = (team, line.model, line.profile, f"{line.price_per_hour:.2f}", f"{line.factor.normalize():f}")
        hours[key] += units
        amounts[key] += exact
    lines = {
        (team, model, profile, price, f"{D(factor).normalize():f}"): (Fraction(units), Fraction(amount))
        for team, model, profile, price, factor, units, amount in expected["lines"]
    }
    assert {key: (hours[key], amounts[key]) for key in hours} == lines
    assert dict(unpriced) == {(team, what): Fraction(units) for team, what, units in expected["unpriced"]}


def test_lines_have_no_holes_and_one_digest(month: Cluster) -> None:
    period = close_until_march()
    sequences = list(LedgerEntry.objects.order_by("sequence").values_list("sequence", flat=True))
    assert sequences == list(range(1, len(sequences) + 1))
    assert (period.entries, period.digest) == (
        LedgerEntry.objects.filter(period=period).count(),
        digest_of(period),
    )
    again = close(period.pk, by=None, reason="once more", now=LATER + timedelta(days=1))
    assert (again.closed_at, again.reason, again.digest) == (LATER, REASON, period.digest)


def test_what_is_missing_has_to_be_accepted(month: Cluster) -> None:
    for period in keep_periods(LATER):
        if period.starts_at < PERIOD["start"]:
            close(period.pk, by=None, reason="", now=LATER)
    with pytest.raises(NotClosable) as caught:
        close(march().pk, by=None, reason=" ", now=LATER)
    assert caught.value.code == "accept"
    assert caught.value.missing == {
        "unpriced": {"example.com/npu": "10"},
        "left_out": {"nvidia.com/gpu": "12"},
    }
    assert march().state == "open"
    assert not LedgerEntry.objects.filter(period=march()).exists()


@pytest.mark.parametrize(
    ("code", "now"), [("running", PERIOD["end"] - timedelta(hours=1)), ("before", LATER)]
)
def test_a_period_is_not_closed_too_early(month: Cluster, code: str, now: datetime) -> None:
    with pytest.raises(NotClosable) as caught:
        close(march().pk, by=None, reason=REASON, now=now)
    assert caught.value.code == code


def test_hours_that_are_not_computed_keep_a_period_open(month: Cluster) -> None:
    Watermark.objects.update(done_until=PERIOD["start"])
    first = keep_periods(LATER)[0]
    assert first.ends_at <= PERIOD["start"]
    close(first.pk, by=None, reason=REASON, now=LATER)
    for period in keep_periods(LATER)[1:]:
        if period.starts_at < PERIOD["start"]:
            close(period.pk, by=None, reason=REASON, now=LATER)
    with pytest.raises(NotClosable) as caught:
        close(march().pk, by=None, reason=REASON, now=LATER)
    assert (caught.value.code, caught.value.missing) == ("behind", {"clusters": [month.slug]})


FROZEN = [
    "UPDATE chargeback_ledgerentry SET unit_seconds = 0",
    "DELETE FROM chargeback_ledgerentry",
    "UPDATE chargeback_billingperiod SET state = 'open' WHERE state = 'closed'",
    "DELETE FROM chargeback_billingperiod WHERE state = 'closed'",
    "UPDATE chargeback_rateversion SET borrowed_factor = 9",
    "DELETE FROM chargeback_rateversion",
    "UPDATE chargeback_rateprice SET amount = 0",
    "DELETE FROM chargeback_rateprice",
    "INSERT INTO chargeback_rateprice (version_id, basis, model, sharing_mode, profile, per, amount)"
    " SELECT id, 'reserved', 'new', '', '', 'unit', 1 FROM chargeback_rateversion LIMIT 1",
]


@pytest.mark.parametrize("statement", FROZEN)
def test_the_database_itself_refuses_to_change_it(month: Cluster, statement: str) -> None:
    close_until_march()
    with pytest.raises(DatabaseError, match="refused"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


def test_the_ledger_is_not_emptied_either(month: Cluster) -> None:
    close_until_march()
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # nothing may be pending when a table is altered
        # The tests' own database lets a flush empty it (conftest).
        cursor.execute("ALTER TABLE chargeback_ledgerentry ENABLE TRIGGER chargeback_ledger_never_emptied")
        with pytest.raises(DatabaseError, match="truncate refused"), transaction.atomic():
            cursor.execute("TRUNCATE chargeback_ledgerentry")


def test_late_facts_are_corrected_in_the_next_period(month: Cluster) -> None:
    """w07 (2 cards at 4.00) did not run from 05:00 to 08:00 of the 4th but to 07:00; t12's model stays unpriced; t02 had a
    card for another hour on the 5th that nobody had told of."""
    before = close_until_march()
    digest = digest_of(before)
    StateSpan.objects.filter(uid="w07", started_at__hour=5).update(
        ended_at=datetime.fromisoformat("2026-03-04T07:00:00+00:00")
    )
    late = StateSpan.objects.get(uid="w02b")
    late.pk, late.uid = None, "w02c"
    late.started_at = datetime.fromisoformat("2026-03-05T10:00:00+00:00")
    late.ended_at = late.started_at + timedelta(hours=1)
    late.save(force_insert=True)
    Watermark.objects.update(done_until=PERIOD["start"])
    may = datetime.fromisoformat("2026-05-02T00:00:00+00:00")
    SourceState.objects.update(last_ok_at=may)
    StateSpan.objects.filter(ended_at=None).update(ended_at=PERIOD["end"])
    rollup_allocation(cluster=month, now=may, edges=[PERIOD["start"], PERIOD["end"]])
    april = next(one for one in keep_periods(may) if one.month == "2026-04")
    closed = close(april.pk, by=None, reason=REASON, now=may)
    found = [
        (
            line.team.slug if line.team else "",
            line.starts_at.day,
            line.starts_at.hour,
            line.unit_seconds,
            line.amount,
        )
        for line in LedgerEntry.objects.filter(period=closed, correction=True)
        .select_related("team")
        .order_by("starts_at")
    ]
    assert found == [
        ("t07", 4, 7, D(-7200), D(-8)),
        ("t02", 5, 10, D(3600), D(4)),
    ]
    first = LedgerEntry.objects.filter(period=closed, correction=True).order_by("starts_at")
    original = LedgerEntry.objects.get(period=before, team__slug="t07", starts_at=first[0].starts_at)
    assert [one.corrects for one in first] == [original.sequence, None]
    assert closed.totals == {"EUR": "-4"}
    assert digest_of(before) == digest


def test_a_second_correction_corrects_what_is_left(month: Cluster) -> None:
    test_late_facts_are_corrected_in_the_next_period(month)
    june = datetime.fromisoformat("2026-06-02T00:00:00+00:00")
    SourceState.objects.update(last_ok_at=june)
    rollup_allocation(cluster=month, now=june)
    may = next(one for one in keep_periods(june) if one.month == "2026-05")
    closed = close(may.pk, by=None, reason=REASON, now=june)
    assert (closed.entries, closed.totals) == (0, {})


@pytest.mark.django_db(transaction=True)
def test_two_closes_at_once_are_one(settings: object) -> None:
    filled(settings)
    for period in keep_periods(LATER):
        if period.starts_at < PERIOD["start"]:
            close(period.pk, by=None, reason=REASON, now=LATER)
    pk, found = march().pk, []

    def run(number: int) -> None:
        try:
            found.append(
                close(pk, by=None, reason=f"{REASON} {number}", now=LATER + timedelta(seconds=number))
            )
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(one.closed_at, one.digest, one.entries) for one in found}) == 1
    assert len(found) == 3
    assert LedgerEntry.objects.filter(period_id=pk).count() == found[0].entries
