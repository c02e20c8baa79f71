"""`manage.py import_history --api URL`: take over the demo cluster's past, so that charts have something to show.

Idempotent and incremental: a second run asks only for what is newer than the last import.
"""

from __future__ import annotations

import threading
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import urllib3
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.utils import timezone

from apps.fleet.models import Cluster
from apps.quotas.history_import import note_past
from apps.usage.admission_rollup import rollup_admissions
from apps.usage.services import capacity_snapshot, rollup_hours
from worker.clients.prom import PromClient
from worker.collectors import history

PATIENCE_SECONDS = 120


def history_lines(api: str, since: datetime | None) -> Iterator[bytes]:
    """The lines of /_sim/history, as they stream in."""
    fields = {"since": since.isoformat()} if since else {}
    pool = urllib3.PoolManager(retries=False)
    timeout = urllib3.Timeout(connect=settings.CONNECT_TIMEOUT_SECONDS, read=PATIENCE_SECONDS)
    answer = pool.request(
        "GET", f"{api.rstrip('/')}/_sim/history", fields=fields, preload_content=False, timeout=timeout
    )
    if answer.status != 200:
        raise CommandError(f"{api}/_sim/history answered {answer.status}: {answer.read(300)!r}")
    rest = b""
    for part in answer.stream(1 << 18):
        *lines, rest = (rest + part).split(b"\n")
        yield from (line for line in lines if line.strip())
    if rest.strip():
        yield rest


class _SampleImport:
    """Device samples, imported by a thread with its own connection while the changes are: one waits for the
    database while the other parses."""

    def __init__(self, cluster: Cluster, now: datetime, done: history.Imported) -> None:
        self.error: Exception | None = None
        self._cluster, self._now, self._done = cluster, now, done
        self._thread: threading.Thread | None = None

    def start(self, first_at: datetime) -> None:
        """From where the last import of samples ended, else from `first_at`, unless there is no Prometheus."""
        if self._cluster.prometheus_url:
            name = history.SAMPLE_CURSOR
            since = history.cursor_at(cluster_id=self._cluster.pk, name=name) or first_at
            self._thread = threading.Thread(target=self._run, args=(since,), name="samples", daemon=True)
            self._thread.start()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _run(self, since: datetime) -> None:
        timeouts = (settings.CONNECT_TIMEOUT_SECONDS, PATIENCE_SECONDS)
        try:
            client = PromClient(self._cluster.prometheus_url, *timeouts)
            history.import_samples(
                cluster_id=self._cluster.pk, client=client, start=since, end=self._now, done=self._done
            )
            client.close()
        except Exception as error:  # noqa: BLE001  the command raises it in its own thread
            self.error = error
        finally:
            connection.close()


class Command(BaseCommand):
    help = "Import the past of the demo cluster through the same parsers and services as live pulls."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--api", required=True, metavar="URL", help="address of the demo cluster's API")
        parser.add_argument("--cluster", metavar="SLUG", help="default: the one demo cluster")

    def handle(self, *_args: Any, **options: Any) -> None:
        cluster = self._cluster(options["cluster"])
        begun = time.monotonic()
        now = timezone.now()
        with connection.cursor() as cursor:
            # The past can be imported again: there is nothing to lose by not waiting for the disk.
            cursor.execute("SET synchronous_commit = off")
        done = history.Imported()
        samples = _SampleImport(cluster, now, done)
        try:
            self._changes(cluster, options["api"], now, done, samples)
            # While samples still come in: none of these needs them.
            rolled = rollup_hours(cluster=cluster, now=now)
            rollup_admissions(cluster=cluster, now=now)
            note_past(cluster=cluster, now=now)
        except urllib3.exceptions.HTTPError as error:
            raise CommandError(f"{options['api']}: {error}") from error
        finally:
            samples.join()
            with connection.cursor() as cursor:
                cursor.execute("RESET synchronous_commit")
        if samples.error is not None:
            raise CommandError(f"device samples: {samples.error}") from samples.error
        self._say(
            f"imported {done.lines} changes ({done.rows} rows), {done.samples} samples, {rolled.rows} hours of"
            f" usage in {time.monotonic() - begun:.1f} s; {done.bad + done.refused_samples} unreadable"
        )

    def _cluster(self, slug: str | None) -> Cluster:
        found = Cluster.objects.filter(slug=slug) if slug else Cluster.objects.filter(is_demo=True)
        if len(found) != 1:
            raise CommandError("name the cluster with --cluster: there is not exactly one demo cluster")
        return found[0]

    def _changes(
        self, cluster: Cluster, api: str, now: datetime, done: history.Imported, samples: _SampleImport
    ) -> None:
        since = history.cursor_at(cluster_id=cluster.pk, name=history.CURSOR)
        for batch in history.batches(history_lines(api, since)):
            if done.first_at is None:
                history.prepare_partitions(start=batch[0].at - timedelta(hours=2), end=now)
                samples.start(batch[0].at)
            history.import_batch(cluster_id=cluster.pk, batch=batch, done=done)
            capacity_snapshot(cluster=cluster, at=batch[-1].at, imported=True)
            self._say(f"changes up to {batch[-1].at:%Y-%m-%d %H:%M} UTC")

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()
