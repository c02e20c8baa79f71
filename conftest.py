"""Shared by every test: the environment that settings need, before Django reads it, and who runs where.

`./portal test` starts PostgreSQL and Redis and sets DATABASE_URL and REDIS_URL; a plain `pytest` uses whatever
servers these variables name. With several pytest processes each has its own database (pytest-django) and its own
Redis database, and the tests of one file stay in one process (`tests/scheduling.py`).

What a machine lacks is reported as skipped with how to get it; PORTAL_TEST_REQUIRE=browser,prometheus,… makes that
a failure.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import hypothesis
import pytest
from django.conf import settings

os.environ.setdefault("PORTAL_SECRET_KEY", "only-for-tests-" + "x" * 40)
os.environ.setdefault("PORTAL_PROCESS", "test")
# pytest-playwright keeps an event loop in the main thread, where Django would refuse to query.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")

# How fast examples are made depends on what else the machine does; only what they show is judged.
hypothesis.settings.register_profile(
    "portal", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("portal")

NEEDS = {
    "browser": (("chromium",), "no Chromium: apt-get install chromium fonts-noto-cjk"),
    "prometheus": (("prometheus",), "no Prometheus: apt-get install prometheus"),
}
NAMED = {
    "cluster": (
        "PORTAL_TEST_KUBECONFIG",
        "set PORTAL_TEST_KUBECONFIG to a kubeconfig file to run this against a real API server",
    ),
    "focus": ("PORTAL_TEST_FOCUS", "./portal test --focus runs this with the validator"),
}
LONGEST_FIRST = (
    "tests/launcher/",
    "tests/browser/",
    "tests/pipeline/",
    "tests/cluster/",
    "tests/prometheus/",
)


def _own_redis_database() -> None:
    """Tell the pytest processes apart: gw0 → database 1, gw1 → 2, …"""
    process = os.environ.get("PYTEST_XDIST_WORKER", "")
    url = os.environ.get("REDIS_URL", "")
    if process.startswith("gw") and url.startswith("redis"):
        number = 1 + int(process.removeprefix("gw"))
        own = os.environ["REDIS_URL"] = urlunsplit(urlsplit(url)._replace(path=f"/{number}"))
        if settings.configured:  # pytest-django may have read the settings before this file
            settings.REDIS_URL = settings.CACHES["default"]["LOCATION"] = own


_own_redis_database()


def _place(item: pytest.Item) -> int:
    path = item.nodeid
    return next((n for n, folder in enumerate(LONGEST_FIRST) if path.startswith(folder)), len(LONGEST_FIRST))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """By file; other ways (`--dist`) stay what they are."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.scheduling import FilesAndFolders

    return FilesAndFolders(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that two processes end at about the same time."""
    items.sort(key=_place)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    """A test that commits is followed by a flush, which empties every table: in the tests' own database the audit trail and
    the ledger let it. What they refuse elsewhere is tested with this taken back."""
    from django.db import connection

    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE changes_auditentry DISABLE TRIGGER changes_audit_never_emptied")
        cursor.execute("ALTER TABLE chargeback_ledgerentry DISABLE TRIGGER chargeback_ledger_never_emptied")


@pytest.fixture(autouse=True)
def _own_language_and_zone() -> Iterator[None]:
    """A request leaves its language and time zone active in the thread: the next test starts without."""
    from django.utils import timezone, translation

    yield
    translation.deactivate()
    timezone.deactivate()


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    """Fleets that a test kept in memory are of its own rows."""
    yield
    if "apps.capacity.store" in sys.modules:
        from apps.capacity.reports import forget
        from apps.capacity.store import STORE

        STORE.clear()
        forget()


@pytest.fixture(autouse=True)
def _partitioned_rows_end_with_their_test(
    request: pytest.FixtureRequest, django_db_blocker: Any
) -> Iterator[None]:
    """A test that commits is followed by a flush, which does not know the partitioned tables."""
    yield
    marked = request.node.get_closest_marker("django_db")
    if "transactional_db" in request.fixturenames or (marked and marked.kwargs.get("transaction")):
        from tests.emptying import empty_partitioned_tables

        with django_db_blocker.unblock():
            empty_partitioned_tables()


def pytest_runtest_setup(item: pytest.Item) -> None:
    required = os.environ.get("PORTAL_TEST_REQUIRE", "").split(",")
    for mark, (programs, how) in NEEDS.items():
        if item.get_closest_marker(mark) and not any(shutil.which(program) for program in programs):
            (pytest.fail if mark in required else pytest.skip)(how)
    for mark, (variable, how) in NAMED.items():
        if item.get_closest_marker(mark) and not os.environ.get(variable):
            (pytest.fail if mark in required else pytest.skip)(how)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tables: what tests recorded as `record_property("table: HEADING", (cell, …))`, also from other processes."""
    tables: dict[str, list[list[str]]] = {}
    for report in (*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ())):
        for name, row in report.user_properties if report.when == "call" else ():
            if name.startswith("table: "):
                tables.setdefault(name.removeprefix("table: "), []).append([str(cell) for cell in row])
    for heading, rows in tables.items():
        terminalreporter.write_sep("=", heading)
        widths = [min(72, max(map(len, column))) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            terminalreporter.write_line("  ".join(cells).rstrip())
