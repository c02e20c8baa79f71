"""The same observations give the same ledger: told in any order, in any number of parts with hours computed between them, and
with any of them cut in two."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from apps.chargeback.ledger import close, keep_periods
from apps.chargeback.models import BillingPeriod, LedgerEntry
from apps.chargeback.tests.test_ledger import LATER, PERIOD, REASON, close_until_march, filled, march
from apps.fleet.models import Cluster
from apps.observations.models import StateSpan
from apps.usage.allocation_rollup import rollup_allocation
from apps.usage.models import ALLOCATION, AllocationDay, AllocationHour, SupplyHour, Watermark
from apps.usage.services import REDO_AT_MOST

EDGES = (PERIOD["start"], PERIOD["end"])
RECENT = LATER - REDO_AT_MOST + timedelta(hours=1)
"""What begins after it may come late."""
Fields = dict[str, Any]
SLOW = settings(
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # a month in a database is too slow to look for a smaller one
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def month(db: None, settings: object) -> Cluster:
    """The month worked out by hand, and in its last three days four more pieces of work, one of them evicted once."""
    cluster = filled(settings)
    like = next(span for span in spans() if span["uid"] == "w02b")
    for uid, begins, ends in (
        ("x1", 70, 40),
        ("x1", 39.5, 20),
        ("x2", 66, 65.75),
        ("x3", 30, 2),
        ("x4", 12, 6),
    ):
        start, end = (PERIOD["end"] - timedelta(hours=before) for before in (begins, ends))
        told([like | {"uid": uid, "name": uid, "started_at": start, "ended_at": end}])
    roll(cluster)
    keep_periods(LATER)
    return cluster


def spans() -> list[Fields]:
    return [
        {f.attname: getattr(span, f.attname) for f in span._meta.concrete_fields if not f.primary_key}
        for span in StateSpan.objects.order_by("started_at", "uid")
    ]


def cut(span: Fields, part: float) -> list[Fields]:
    """In two that follow each other, or as it is where it has not ended."""
    if span["ended_at"] is None:
        return [span]
    middle = span["started_at"] + (span["ended_at"] - span["started_at"]) * part
    return [span | {"ended_at": middle}, span | {"started_at": middle}]


def told(found: list[Fields]) -> None:
    for span in found:
        StateSpan.objects.create(**span)


def roll(cluster: Cluster) -> None:
    rollup_allocation(cluster=cluster, now=LATER, edges=EDGES)


def forget() -> None:
    StateSpan.objects.all().delete()
    for model in (AllocationHour, AllocationDay, SupplyHour, Watermark):
        model.objects.all().delete()


@settings(SLOW, max_examples=12)
@given(data=st.data())
def test_the_same_observations_in_any_order_give_the_same_ledger(month: Cluster, data: st.DataObject) -> None:
    with transaction.atomic():
        expected = close_until_march()
        transaction.set_rollback(True)
    given_spans = spans()
    cuts = data.draw(st.dictionaries(st.integers(0, len(given_spans) - 1), st.floats(0.01, 0.99), max_size=5))
    pieces = [
        one for n, span in enumerate(given_spans) for one in (cut(span, cuts[n]) if n in cuts else [span])
    ]
    first = data.draw(st.permutations([one for one in pieces if one["started_at"] < RECENT]))
    late = data.draw(st.permutations([one for one in pieces if one["started_at"] >= RECENT]))
    parts = data.draw(st.integers(1, 4))
    with transaction.atomic():
        forget()
        told(first)
        roll(month)
        for part in range(parts):
            told(late[part::parts])
            roll(month)
        period = close_until_march()
        found = (period.digest, period.totals, period.by_team, period.missing, period.entries)
        transaction.set_rollback(True)
    assert found == (
        expected.digest, expected.totals, expected.by_team, expected.missing, expected.entries
    )  # fmt: skip


@settings(SLOW, max_examples=8)
@given(data=st.data())
def test_what_comes_after_the_close_is_corrected_to_the_same_sums(
    month: Cluster, data: st.DataObject
) -> None:
    """Whatever of the last days was told late: the closed month keeps every byte, and with its corrections it comes to
    what it would have been."""
    with transaction.atomic():
        close_until_march()
        whole = sums()
        transaction.set_rollback(True)
    given_spans = spans()
    recent = [n for n, span in enumerate(given_spans) if span["started_at"] >= RECENT]
    late = data.draw(st.sets(st.sampled_from(recent), min_size=1))
    with transaction.atomic():
        forget()
        told([span for n, span in enumerate(given_spans) if n not in late])
        roll(month)
        closed = close_until_march()
        told([given_spans[n] for n in sorted(late)])
        roll(month)
        after = LATER + timedelta(days=31)
        april = next(one for one in keep_periods(after) if one.month == "2026-04")
        Watermark.objects.filter(rollup=ALLOCATION).update(done_until=april.ends_at)
        close(april.pk, by=None, reason=REASON, now=after)
        assert BillingPeriod.objects.get(pk=march().pk).digest == closed.digest
        found = sums()
        transaction.set_rollback(True)
    assert found == whole


def sums() -> dict[tuple[Any, ...], Any]:
    """Of what was held in March, by whom, of what and in which hour; what was corrected to nothing is nothing."""
    found: dict[tuple[Any, ...], Any] = {}
    for line in LedgerEntry.objects.filter(starts_at__lt=PERIOD["end"]):
        key = (line.starts_at, line.team_id, line.queue, line.flavor, line.resource, line.borrowed, line.seen)
        found[key] = found.get(key, 0) + line.unit_seconds
    return {key: units for key, units in found.items() if units}
