"""One pull from lease to log: the only caller of the collectors.

Input: a source and a cluster; output: a CollectionRun (also returned). Invariants: one pull per source at a time;
rows, resume points and the log line of a good pull are one transaction; whatever goes wrong ends in a log line
with a kind of error, or, when the database itself is away, in the worker's own log, and the next pull goes on
from where the last good one ended.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta

import psycopg
from billiard.exceptions import SoftTimeLimitExceeded
from django.db import InterfaceError, OperationalError, connection, transaction

from apps.fleet.models import Cluster
from apps.observations.models import ErrorKind, Outcome, Source
from apps.observations.services import (
    LeaseLost,
    RunResult,
    lease_acquire,
    lease_release,
    run_record,
    source_state,
)
from worker.clients.errors import ClientError

from . import devices, events, exporters, kueue, nodes, pods, volcano
from .engine import PullReport
from .pull import PullContext

logger = logging.getLogger(__name__)

COLLECTORS: dict[str, Callable[[PullContext], PullReport]] = {
    Source.NODES: nodes.pull,
    Source.PODS: pods.pull,
    Source.EVENTS: events.pull,
    Source.KUEUE: kueue.pull,
    Source.VOLCANO: volcano.pull,
    Source.DEVICES: devices.pull,
    Source.DCGM: exporters.pull,
}
STORE_ERRORS = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)


class _Clock:
    """The given start plus what has really passed, so that a test decides what "now" is."""

    def __init__(self, now: datetime) -> None:
        self.started_at = now
        self._begun = time.monotonic()

    def now(self) -> datetime:
        return self.started_at + timedelta(seconds=time.monotonic() - self._begun)


def collect_source(*, cluster: Cluster, source: str, now: datetime, seconds: float) -> RunResult:
    """Pull one source of one cluster; `seconds` is how long it may take and how long its lease holds.

    Raises only when the database cannot be asked at all."""
    clock = _Clock(now)
    token = lease_acquire(cluster_id=cluster.pk, source=source, now=now, seconds=seconds)
    if token is None:
        result = RunResult(
            started_at=now, ended_at=now, outcome=Outcome.SKIPPED, error="another pull is still running"
        )
        run_record(cluster_id=cluster.pk, source=source, result=result)
        return result
    try:
        return _pull_and_record(cluster, source, clock, token, seconds)
    except LeaseLost as error:
        logger.warning("collect %s of %s: %s", source, cluster.slug, error)
        return RunResult(started_at=now, ended_at=clock.now(), outcome=Outcome.SKIPPED, error=str(error))
    except SoftTimeLimitExceeded:
        problem: tuple[str, str] = (ErrorKind.TIMEOUT, f"the pull did not fit into {seconds:.0f} s")
    except ClientError as error:
        problem = (error.kind, error.message)
    except STORE_ERRORS as error:
        connection.close()
        problem = (ErrorKind.STORE, _one_line(error))
    except Exception as error:
        logger.exception("collect %s of %s", source, cluster.slug)
        problem = (ErrorKind.INTERNAL, f"{type(error).__name__}: {_one_line(error)}")
    finally:
        _release(cluster, source, token)
    return _record_failure(cluster, source, clock, *problem)


def _pull_and_record(cluster: Cluster, source: str, clock: _Clock, token: str, seconds: float) -> RunResult:
    with transaction.atomic():
        _tune_transaction(seconds)
        state = source_state(cluster_id=cluster.pk, source=source)
        context = PullContext(cluster, source, state.cursors, clock.started_at, seconds)
        report = COLLECTORS[source](context)
        result = report.result(started_at=clock.started_at, ended_at=clock.now())
        run_record(
            cluster_id=cluster.pk,
            source=source,
            result=result,
            token=token,
            cursors=report.cursors,
            presence=report.presence,
        )
    if result.error:
        level = logging.INFO if result.outcome == Outcome.OK else logging.WARNING
        logger.log(level, "collect %s of %s: %s: %s", source, cluster.slug, result.outcome, result.error)
    return result


def _tune_transaction(seconds: float) -> None:
    """Settings of this transaction alone. Not waiting for the disk at its end is safe: after a crash the rows
    and the resume point are both as before, and the next pull brings them again. One COPY lasts as long as a
    list is read, so that the pull's own limit bounds it and not the one for ordinary statements."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [f"{int(seconds * 1000)}"])
        cursor.execute("SET LOCAL synchronous_commit = off")
        cursor.execute("SET LOCAL work_mem = '64MB'")


def _record_failure(cluster: Cluster, source: str, clock: _Clock, kind: str, message: str) -> RunResult:
    logger.warning("collect %s of %s failed: %s: %s", source, cluster.slug, kind, message)
    result = RunResult(
        started_at=clock.started_at,
        ended_at=clock.now(),
        outcome=Outcome.FAILED,
        error_kind=kind,
        error=message,
    )
    run_record(cluster_id=cluster.pk, source=source, result=result)
    return result


def _release(cluster: Cluster, source: str, token: str) -> None:
    """Give the lease back; when that cannot be done it ends by itself."""
    try:
        lease_release(cluster_id=cluster.pk, source=source, token=token)
    except STORE_ERRORS as error:
        connection.close()
        logger.warning("collect %s of %s: lease not released: %s", source, cluster.slug, _one_line(error))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__
