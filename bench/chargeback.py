"""From what was held to the bill, at the size of a large fleet: a million spells of holding in one month.

Input: a made-up month (_month.py) in databases of their own, which are removed afterwards; output: ratios. Floors, all in
this run, right before and after what they are compared with: one COPY of the same spans into a table like theirs, and one
of the ledger's lines into a table like its own. Rollup and close run in a fresh process like the worker's, so that its peak
memory is theirs; once more with a quarter of the spells, from which it must not differ."""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from bench._page import django_setup, seconds
from bench._pull import read_by_finance
from bench._report import Result, report

SPELLS = 1_000_000
ROOT = Path(__file__).resolve().parent.parent
MIB = 2**20
BLOCK = 1 << 20


@dataclass(frozen=True)
class Done:
    """What the worker's process did. Peaks in MiB: `before` with everything loaded and nothing done."""

    rollup: float
    close: float
    hours: int
    lines: int
    before: float
    peak: float


@dataclass(frozen=True)
class Month:
    """A month whose period is closed, and what that took. `url`: its database."""

    url: str
    done: Done
    spans_copy: float
    lines_copy: float


# ---- parts that measure more on the closed month: add one here -------------------------------------------------------

PARTS: tuple[Callable[[Month], list[Result]], ...] = (read_by_finance,)


# ---- databases ------------------------------------------------------------------------------------------------------


def url_of(database: str) -> str:
    return urlunsplit(urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{database}"))


@contextmanager
def database(name: str, *, template: str = "template0") -> Iterator[str]:
    """Made, and removed afterwards; its address."""
    made = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as server:
        server.execute(made)
        try:
            yield url_of(name)
        finally:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def run(url: str, *arguments: str) -> str:
    """One command of Python on that database, in a fresh process; what it printed."""
    environment = {**os.environ, "DATABASE_URL": url, "PORTAL_PROCESS": "bench"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


# ---- floors ---------------------------------------------------------------------------------------------------------


def copies(connection: psycopg.Connection[Any], table: str, rows: IO[bytes]) -> float:
    """Seconds of a COPY of the rows into an empty table like it, with the same indexes."""
    like = sql.SQL("CREATE TABLE bench_copy (LIKE {} INCLUDING ALL)").format(sql.Identifier(table))
    connection.execute(like)
    connection.execute("CHECKPOINT")
    rows.seek(0)

    def work() -> None:
        with connection.cursor() as cursor, cursor.copy("COPY bench_copy FROM STDIN") as into:
            while block := rows.read(BLOCK):
                into.write(block)

    took = seconds(work)
    connection.execute("DROP TABLE bench_copy")
    return took


def keep(connection: psycopg.Connection[Any], table: str, file: IO[bytes]) -> None:
    """All rows of the table, as COPY has them."""
    everything = sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(table))
    with connection.cursor() as cursor, cursor.copy(everything) as out:
        for block in out:
            file.write(block)


# ---- the month ------------------------------------------------------------------------------------------------------


def roll_and_close() -> Done:
    """What the worker does when a month has ended."""
    from apps.chargeback.ledger import close, keep_periods
    from apps.fleet.models import Cluster
    from apps.usage.allocation_rollup import rollup_allocation
    from bench._month import BEGIN, END, NOW, SLUG

    cluster, hours, lines = Cluster.objects.get(slug=SLUG), 0, 0
    before = _peak()

    def roll() -> None:
        nonlocal hours
        hours = rollup_allocation(cluster=cluster, now=NOW, edges=(BEGIN, END)).rows

    rolled = seconds(roll)
    period = keep_periods(NOW)[0]

    def bill() -> None:
        nonlocal lines
        lines = close(period.pk, by=None, reason="", now=NOW).entries

    return Done(rolled, seconds(bill), hours, lines, before, _peak())


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def closed_month(name: str, template: str, spells: int) -> Iterator[Month]:
    """Written, rolled up and closed, with its floors around it."""
    with database(name, template=template) as url, psycopg.connect(url, autocommit=True) as connection:
        run(url, "-m", "bench.chargeback", "--write", str(spells))
        with TemporaryFile() as spans, TemporaryFile() as lines:
            keep(connection, "observations_statespan", spans)
            spans_copy = [copies(connection, "observations_statespan", spans)]
            done = Done(**json.loads(run(url, "-m", "bench.chargeback", "--close")))
            spans_copy.append(copies(connection, "observations_statespan", spans))
            keep(connection, "chargeback_ledgerentry", lines)
            lines_copy = [copies(connection, "chargeback_ledgerentry", lines) for _turn in range(2)]
        yield Month(url, done, statistics.mean(spans_copy), statistics.mean(lines_copy))


def results_of(month: Month, quarter: Done, spells: int) -> list[Result]:
    done = month.done
    print(
        f"{spells:,} spells: COPY {month.spans_copy:.2f} s, rollup {done.rollup:.2f} s ({done.hours:,} rows)\n"
        f"{done.lines:,} lines: COPY {month.lines_copy:.2f} s, close {done.close:.2f} s\n"
        f"peak memory: {done.before:.0f} MiB before, {done.peak:.0f} MiB after; a quarter of it {quarter.peak:.0f} MiB"
    )
    return [
        Result("rollup of a month / COPY of its spans", done.rollup / month.spans_copy, "ratio", 6, "lower"),
        Result("close of a period / COPY of its lines", done.close / month.lines_copy, "ratio", 3, "lower"),
        Result("peak memory of rollup and close", done.peak, "MiB", 400e6 / MIB, "lower"),
        Result(
            "peak memory / that of a quarter of the spells", done.peak / quarter.peak, "ratio", 1.2, "lower"
        ),
    ]


def measure(spells: int) -> list[Result]:
    prefix = f"portal_bench_{os.getpid()}"
    with database(f"{prefix}_empty") as url:
        run(url, "manage.py", "migrate", "--verbosity", "0")
        with closed_month(f"{prefix}_quarter", f"{prefix}_empty", spells // 4) as small:
            quarter = small.done
        with closed_month(f"{prefix}_month", f"{prefix}_empty", spells) as month:
            found = results_of(month, quarter, spells)
            return found + [result for part in PARTS for result in part(month)]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", action="store_true")
    options.add_argument("--spells", type=int, default=SPELLS, help="for a smaller run")
    options.add_argument("--write", type=int, help=argparse.SUPPRESS)
    options.add_argument("--close", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.write:
        from bench._month import write_month

        django_setup()
        write_month(chosen.write)
    elif chosen.close:
        django_setup()
        print(json.dumps(asdict(roll_and_close())))
    else:
        report("chargeback", measure(chosen.spells), as_json=chosen.json)


if __name__ == "__main__":
    main()
