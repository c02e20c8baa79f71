"""A closed month read by finance, over HTTP from the portal's own web server: files, and the whole ledger in pages.

Input: a month whose period is closed; output: ratios. Floors, in the same run and right before and after: `COPY TO` of the
same lines, and psql writing out the query of the same lines. The server runs as `./portal up` runs it, with one worker, so
that its peak memory is that of who answers."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import psycopg
import requests

from bench._month import BEGIN
from bench._page import seconds
from bench._report import Result
from gpuportal.launcher.redis_server import free_port

if TYPE_CHECKING:
    from bench.chargeback import Month

ROOT = Path(__file__).resolve().parent.parent
MONTH = f"{BEGIN:%Y-%m}"
PAGE = 10_000
BLOCK = 1 << 20
WAIT_SECONDS = 60
HOW = (
    "--workers",
    "1",
    "--worker-class",
    "gthread",
    "--threads",
    "4",
    "--no-control-socket",
    "--log-level",
    "error",
)
READER = """
from django.utils import timezone
from apps.accounts.models import User
from apps.accounts.tokens import make_token
user, _made = User.objects.get_or_create(username="bench-finance", defaults={"role": "finance"})
print(make_token(user, name="bench", scope="finance:read", days=1, now=timezone.now())[1])
"""
LINES = """SELECT e.sequence, p.month, e.correction, e.corrects, c.slug, t.slug, e.cost_centre, e.basis, e.kind, e.queue,
  e.flavor, e.resource, e.model, e.sharing_mode, e.profile, e.weight_over, e.weight_under, e.priority_class, e.borrowed,
  e.seen, e.starts_at, e.ends_at, e.unit_seconds, e.version_id, e.currency, e.price_per_hour, e.factor, e.priced_over,
  e.priced_under, e.amount
FROM chargeback_ledgerentry e JOIN chargeback_billingperiod p ON p.id = e.period_id
JOIN fleet_cluster c ON c.id = e.cluster_id LEFT JOIN accounts_team t ON t.id = e.team_id ORDER BY e.sequence"""


class Site:
    """A running web server on the month's database, and a token of finance."""

    def __init__(self, base: str, token: str, pid: int) -> None:
        self.base, self.pid = base, pid
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {token}"

    def file(self, kind: str) -> int:
        """Read a period's file; its bytes."""
        size = 0
        with self.session.get(
            f"{self.base}/api/v1/focus/?period={MONTH}&format={kind}", stream=True, timeout=3600
        ) as answer:
            answer.raise_for_status()
            for block in answer.iter_content(BLOCK):
                size += len(block)
        return size

    def lines(self) -> int:
        """Read the ledger page by page, as JSON; how many lines."""
        count, after = 0, 0
        while True:
            answer = self.session.get(
                f"{self.base}/api/v1/charges/?after_seq={after}&page_size={PAGE}", timeout=600
            )
            answer.raise_for_status()
            page = answer.json()
            count += len(page["results"])
            if page["next"] is None:
                return count
            after = page["results"][-1]["sequence"]

    def peak(self) -> float:
        """MiB, of the worker that answered."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return max(_peak_of(pid) for pid in children)


def _peak_of(pid: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@contextmanager
def serving(url: str) -> Iterator[Site]:
    """The web server on that database."""
    with TemporaryDirectory() as static:
        environment = {
            **os.environ,
            "DATABASE_URL": url,
            "PORTAL_PROCESS": "web",
            "PORTAL_STATIC_ROOT": static,
            "PORTAL_API_RATE": "1000000/min",
        }
        token = subprocess.run(
            [sys.executable, "manage.py", "shell", "--no-imports", "-c", READER],
            cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True,
        ).stdout.split()[-1]  # fmt: skip
        port = free_port()
        command = [sys.executable, "-m", "gunicorn", "gpuportal.wsgi", "--bind", f"127.0.0.1:{port}"]
        web = subprocess.Popen(
            [*command, *HOW],
            cwd=ROOT,
            env=environment,
        )
        try:
            _wait(port)
            yield Site(f"http://127.0.0.1:{port}", token, web.pid)
        finally:
            web.terminate()
            web.wait(WAIT_SECONDS)


def _wait(port: int) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit("bench: the web server does not answer")


# ---- floors ---------------------------------------------------------------------------------------------------------


def copied(url: str) -> float:
    """Seconds of COPY TO of the ledger's lines."""
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:

        def work() -> None:
            with cursor.copy("COPY chargeback_ledgerentry TO STDOUT (FORMAT csv)") as out:
                for _block in out:
                    pass

        return seconds(work)


def selected(url: str) -> float:
    """Seconds of psql writing out the lines that the API tells."""
    command = ["psql", "--no-psqlrc", "--quiet", "--csv", "-o", os.devnull, "-c", LINES, url]
    return seconds(lambda: subprocess.run(command, check=True))


# ---- parts ----------------------------------------------------------------------------------------------------------


def read_by_finance(month: Month) -> list[Result]:
    """Both files and a full pull, each between its floors."""
    found: list[Result] = []
    with serving(month.url) as site:
        site.session.get(f"{site.base}/api/v1/billing-periods/", timeout=60).raise_for_status()
        before = site.peak()
        for kind in ("csv", "parquet"):
            found.append(_file(site, month.url, kind))
        floors, counts = [selected(month.url)], []
        took = seconds(lambda: counts.append(site.lines()))
        floors.append(selected(month.url))
        if counts != [month.done.lines]:
            raise SystemExit(f"bench: pulled {counts[0]:,} lines of {month.done.lines:,}")
        floor, peak = statistics.mean(floors), site.peak()
        print(
            f"pull of {counts[0]:,} lines {took:.2f} s ({counts[0] / took:,.0f} a second), psql {floor:.2f} s"
        )
        print(f"peak memory of the web worker: {before:.0f} MiB before, {peak:.0f} MiB after")
    found.append(Result("pull of all lines, rows per second / psql's", floor / took, "ratio", 0.1, "higher"))
    found.append(Result("peak memory of the web worker", peak, "MiB", 400e6 / 2**20, "lower"))
    return found


def _file(site: Site, url: str, kind: str) -> Result:
    floors, sizes = [copied(url)], []
    took = seconds(lambda: sizes.append(site.file(kind)))
    floors.append(copied(url))
    floor = statistics.mean(floors)
    print(
        f"FOCUS as {kind}: {sizes[0] / 2**20:,.0f} MiB in {took:.2f} s; COPY TO {floor:.2f} s; "
        f"peak memory so far {site.peak():.0f} MiB"
    )
    return Result(f"FOCUS as {kind} / COPY TO of its lines", took / floor, "ratio", 3, "lower")
