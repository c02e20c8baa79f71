"""A close that is killed on its way, wherever it is: nothing of it stays, and the next one is the close.

The process that closes is a real one on a connection of its own. A lock that the test holds stops it at the point in
question; there it is killed as the kernel would."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from apps.chargeback.ledger import close, keep_periods, provide
from apps.chargeback.models import BillingPeriod, LedgerEntry, ProvisionalLine
from apps.chargeback.tests.test_ledger import LATER, PERIOD, REASON, filled
from apps.usage.tests import golden_month
from tests.database import database_url_of_tests

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parents[2]
EXPECTED = golden_month.month()["expected"]
SECONDS = 90
POINTS = {
    "before-anything": "SELECT 1 FROM chargeback_billingperiod WHERE month = '2026-03' FOR UPDATE",
    "at-the-first-line": "LOCK TABLE chargeback_ledgerentry IN SHARE MODE",
    "after-the-last-line": "LOCK TABLE chargeback_provisionalline IN SHARE MODE",
}
BLOCKED = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = %s)"


@pytest.fixture
def march(settings: object) -> BillingPeriod:
    filled(settings)
    for period in keep_periods(LATER):
        if period.starts_at < PERIOD["start"]:
            close(period.pk, by=None, reason=REASON, now=LATER)
    return provide(BillingPeriod.objects.get(month="2026-03").pk, now=LATER)


@contextmanager
def closing() -> Iterator[subprocess.Popen[str]]:
    environment = {
        **os.environ,
        "DATABASE_URL": database_url_of_tests(),
        "PORTAL_BILLING_ZONE": PERIOD["zone"],
    }
    command = [sys.executable, "manage.py", "close_period", "2026-03", "--reason", REASON]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def comes_about(what: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + SECONDS
    while not what():
        assert process.poll() is None, process.stdout and process.stdout.read()
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("lock", POINTS.values(), ids=POINTS)
def test_a_close_that_is_killed_has_not_been(march: BillingPeriod, lock: str) -> None:
    before = LedgerEntry.objects.count()
    provisional = ProvisionalLine.objects.filter(period=march).count()
    with psycopg.connect(database_url_of_tests()) as holder:
        holder.execute(lock)
        database = holder.info.dbname
        with psycopg.connect(database_url_of_tests(), autocommit=True) as looker, closing() as process:
            comes_about(lambda: looker.execute(BLOCKED, [database]).fetchone() != (0,), process)
            process.kill()
            process.wait()
        holder.rollback()
    assert BillingPeriod.objects.get(pk=march.pk).state == "open"
    assert LedgerEntry.objects.count() == before
    assert ProvisionalLine.objects.filter(period=march).count() == provisional > 0
    closed = close(march.pk, by=None, reason=REASON, now=LATER)
    assert closed.totals == {"EUR": EXPECTED["total"]}
    sequences = list(LedgerEntry.objects.order_by("sequence").values_list("sequence", flat=True))
    assert sequences == list(range(1, len(sequences) + 1))
    assert closed.entries == provisional


def test_a_close_by_another_process_is_the_close(march: BillingPeriod) -> None:
    with closing() as process:
        said, _nothing = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said
    closed = BillingPeriod.objects.get(pk=march.pk)
    assert closed.digest in said
    assert closed.totals == {"EUR": EXPECTED["total"]}
    assert close(march.pk, by=None, reason="again", now=LATER).digest == closed.digest
