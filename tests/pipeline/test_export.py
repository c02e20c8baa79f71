"""A file for finance while PostgreSQL goes down under it: the client learns that it has not got all of it, and asks again for
the very same bytes. Real web server, real database, both killed as a machine would lose them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import psycopg
import pytest
import requests

from gpuportal.launcher import processes
from gpuportal.launcher.redis_server import free_port
from gpuportal.launcher.testing import temporary_folder

from .plant import Plant, happens, servers, stop

LINES = 60_000
WAIT = 60


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[Plant, str]]:
    with temporary_folder() as folder:
        plant = servers(folder)
        try:
            yield plant, _serve(plant)
        finally:
            stop(plant)


def _serve(plant: Plant) -> str:
    plant.manage("shell", "--no-imports", "-c", CLOSED.format(lines=LINES))
    port = free_port()
    plant.start(processes.web(plant.folders, plant.environment, port))
    base = f"http://127.0.0.1:{port}"
    assert happens(lambda: _answers(base), WAIT), plant.log("web")
    return base


CLOSED = """
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from django.utils import timezone
from apps.accounts.models import Team, User
from apps.chargeback.models import BillingPeriod, LedgerEntry
from apps.chargeback.rate_cards import draft, publish
from apps.fleet.models import Cluster

begin, end, now = datetime(2025, 1, 1, tzinfo=UTC), datetime(2025, 2, 1, tzinfo=UTC), timezone.now()
east = Cluster.objects.create(slug="east", name="East", kubeconfig_path="/nowhere", enabled=False)
red = Team.objects.create(slug="red", name="Red")
finance = User.objects.create(username="finance", role="finance")
finance.set_password("of the test")
finance.save()
card = draft(valid_from=begin, currency="USD", prices=[{{"model": "H100", "amount": Decimal(3600)}}])
publish(card.pk, by=finance, now=now)
price = card.prices.get()
period = BillingPeriod.objects.create(
    month="2025-01", zone="UTC", starts_at=begin, ends_at=end, created_at=begin, updated_at=now
)
hour = timedelta(hours=1)
LedgerEntry.objects.bulk_create(
    [
        LedgerEntry(
            sequence=number, period=period, cluster=east, team=red, basis="reserved", kind="Workload", queue="q",
            resource="nvidia.com/gpu", model="H100", weight_over=1, weight_under=1, seen="observed",
            starts_at=begin + number % 744 * hour, ends_at=begin + (number % 744 + 1) * hour, unit_seconds=number,
            version=card, price=price, currency="USD", price_per_hour=3600, factor=1, priced_over=1, priced_under=1,
            amount=number,
        )
        for number in range(1, {lines} + 1)
    ],
    batch_size=5000,
)
period.state, period.closed_at, period.digest, period.entries = "closed", now, "d" * 64, {lines}
period.names = {{"teams": {{red.pk: "red"}}, "clusters": {{east.pk: "east"}}}}
period.save()
"""


def _answers(base: str) -> bool:
    try:
        return requests.get(f"{base}/healthz/ready", timeout=5).status_code == 200
    except requests.RequestException:
        return False


def _file(base: str, *, stream: bool = False) -> requests.Response:
    answer = requests.get(
        f"{base}/api/v1/focus/?period=2025-01&format=csv",
        auth=("finance", "of the test"),
        timeout=WAIT,
        stream=stream,
    )
    assert answer.status_code == 200, answer.text[:500]
    return answer


def test_a_file_that_the_database_cuts_short_is_known_to_be_and_comes_again(site: tuple[Plant, str]) -> None:
    plant, base = site
    whole = _file(base)
    assert whole.text.count("\r\n") == LINES + 1
    cut = _file(base, stream=True)
    pieces = cut.iter_content(1 << 16)
    got = [next(pieces)]
    plant.kill("postgres")
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        got += pieces
    assert 0 < sum(map(len, got)) < len(whole.content)
    assert whole.content.startswith(b"".join(got))
    plant.start_postgres()
    assert happens(lambda: _answers(base), WAIT), plant.log("web")
    again = _file(base)
    assert again.headers["ETag"] == whole.headers["ETag"]
    assert hashlib.sha256(again.content).digest() == hashlib.sha256(whole.content).digest()


def test_without_a_database_it_is_said_at_once(site: tuple[Plant, str]) -> None:
    plant, base = site
    plant.kill("postgres")
    with pytest.raises(psycopg.OperationalError):
        plant.number("SELECT 1")
    answer = requests.get(
        f"{base}/api/v1/focus/?period=2025-01&format=csv", auth=("finance", "of the test"), timeout=WAIT
    )
    assert answer.status_code in (500, 503)
    plant.start_postgres()
    assert happens(lambda: _answers(base), WAIT), plant.log("web")
    assert _file(base).text.count("\r\n") == LINES + 1
