"""`manage.py reclassify [--cluster SLUG]`: bring the history of blocked work under the present rules.

Cut off, it goes on where it stopped when it is called again. Prints how much went from which cause to which.
"""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from apps.fleet.models import Cluster
from apps.usage.reclassify import moved_seconds, reclassify


class Command(BaseCommand):
    help = "Compute the causes of blocked work anew under the present rules; the former result is kept to compare."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--cluster", metavar="SLUG", help="default: all clusters")

    def handle(self, *_args: Any, **options: Any) -> None:
        clusters = Cluster.objects.order_by("pk")
        if options["cluster"]:
            clusters = clusters.filter(slug=options["cluster"])
            if not clusters:
                raise CommandError(f"there is no cluster {options['cluster']}")
        for cluster in clusters:
            self._one(cluster)

    def _one(self, cluster: Cluster) -> None:
        def say(low: datetime, high: datetime) -> None:
            self.stdout.write(f"{cluster.slug}: {low:%Y-%m-%d %H:%M} to {high:%Y-%m-%d %H:%M} UTC")
            self.stdout.flush()

        done = reclassify(cluster=cluster, now=timezone.now(), say=say)
        if done.from_hour is None:
            self.stdout.write(f"{cluster.slug}: nothing to do under rules {done.rules}")
        if done.kept is not None:
            self.stdout.write(
                f"{cluster.slug}: hours from {done.kept:%Y-%m-%d %H:%M} to {done.from_hour:%Y-%m-%d %H:%M} UTC keep the"
                " rules of their time: their events and pods are no longer kept"
            )
        for row in moved_seconds(cluster=cluster):
            self.stdout.write(
                f"{cluster.slug}: {row.seconds / 3600:.2f} hours of work from {row.from_layer}/{row.from_cause}"
                f" to {row.to_layer}/{row.to_cause}"
            )
