"""`manage.py collect`: pull in the foreground, without Celery. Used for the first collection and by operators."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from apps.fleet.models import Cluster
from apps.observations.models import Outcome, Source
from apps.observations.retention import keep_observation_partitions
from worker.collectors.run import collect_source
from worker.tasks.collecting import sources_of

FOREGROUND_SECONDS = 600


class Command(BaseCommand):
    help = "Pull every source of every enabled cluster now; exit code 1 when a pull failed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--cluster", metavar="SLUG", help="only this cluster")
        parser.add_argument("--source", choices=list(Source.values), help="only this source")
        parser.add_argument("--once", action="store_true", help="pull once and end (the default)")
        parser.add_argument("--every", type=int, metavar="SECONDS", help="go on, one round every SECONDS")

    def handle(self, *_args: Any, **options: Any) -> None:
        clusters = Cluster.objects.filter(enabled=True).order_by("pk")
        if options["cluster"]:
            clusters = clusters.filter(slug=options["cluster"])
        if not clusters:
            raise CommandError("no such enabled cluster" if options["cluster"] else "no cluster is enabled")
        keep_observation_partitions(now=timezone.now())
        every = None if options["once"] else options["every"]
        while True:
            failed = self._round(list(clusters), options["source"])
            if every is None:
                break
            time.sleep(every)
        if failed:
            raise CommandError(f"{failed} of the pulls failed; see above and /sources/")

    def _round(self, clusters: list[Cluster], source: str | None) -> int:
        failed = 0
        for cluster in clusters:
            for name in [source] if source else sources_of(cluster):
                result = collect_source(
                    cluster=cluster, source=name, now=timezone.now(), seconds=FOREGROUND_SECONDS
                )
                took = (result.ended_at - result.started_at).total_seconds()
                said = f": {result.error}" if result.error else ""
                self.stdout.write(
                    f"{cluster.slug} {name}: {result.outcome}, {result.objects_seen} seen,"
                    f" {result.rows_written} written, {result.rows_gone} gone, {took:.2f} s{said}"
                )
                failed += result.outcome == Outcome.FAILED
        return failed
