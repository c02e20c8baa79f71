"""`manage.py backtest_estimates`: how often start estimates would have held on the stored past, cluster by cluster."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from apps.admissions.backtest import Tried, backtest, coverage
from apps.admissions.past_waits import past_waits
from apps.admissions.sizes import SIZES
from apps.fleet.models import Cluster

_SAMPLES = ((1, 19), (20, 49), (50, 99), (100, None))


class Command(BaseCommand):
    help = "Predict each stored wait from what was known then, and print how many ranges held."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--cluster", metavar="SLUG", help="default: all")
        parser.add_argument("--days", type=int, default=3, help="of history before the first prediction")

    def handle(self, *_args: Any, **options: Any) -> None:
        clusters = Cluster.objects.order_by("slug")
        for cluster in clusters.filter(slug=options["cluster"]) if options["cluster"] else clusters:
            waits = past_waits(cluster_id=cluster.pk, now=timezone.now())
            first = min((wait.began for wait in waits), default=timezone.now())
            tried = backtest(waits, first=first + timedelta(days=options["days"]))
            self.stdout.write(f"{cluster.slug}: {len(waits)} waits, {len(tried)} predictions")
            self._print(tried)

    def _print(self, tried: Sequence[Tried]) -> None:
        self._line("all", tried)
        for age in sorted({one.age for one in tried}):
            self._line(f"after {age} s", [one for one in tried if one.age == age])
        for size in SIZES:
            self._line(f"devices {size}", [one for one in tried if one.size == size])
        for low, high in _SAMPLES:
            name = f"sample {low}–{high}" if high else f"sample {low}+"
            self._line(name, [one for one in tried if low <= one.sample <= (high or one.sample)])

    def _line(self, name: str, tried: Sequence[Tried]) -> None:
        if not tried:
            return
        share, counts = coverage(tried)
        said = "–" if share is None else f"{share:.1%}"
        parts = ", ".join(f"{key} {counts[key]}" for key in ("held", "earlier", "later", "undecided", "none"))
        self.stdout.write(f"  {name:<14} {said:>6}  {parts}")
