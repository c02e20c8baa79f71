"""Hours that have to be done again. Input: a rollup's mark; output: the hour of the oldest fact that was told since.

Spans, pods and events can come after their hour was done: their source was away, or a pull told of the past. A rollup
that finds such takes its mark back to that hour, REDO_AT_MOST at the most."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Max, QuerySet

from apps.core.windows import floor_hour
from apps.fleet.models import Cluster
from apps.observations.models import CollectionRun, Source, StateSpan
from apps.usage.models import Watermark
from apps.usage.services import REDO_AT_MOST


def newest_told(cluster: Cluster, now: datetime) -> tuple[int, int | None]:
    """(newest span, newest pull) that a rollup which begins now takes into account."""
    spans = StateSpan.objects.filter(cluster=cluster).order_by("-pk").values_list("pk", flat=True)
    return spans.first() or 0, pulls_that_told(cluster, now).aggregate(newest=Max("pk"))["newest"]


def late_from(cluster: Cluster, mark: Watermark, now: datetime) -> datetime | None:
    """None when all that was told is newer than the mark."""
    found: list[datetime] = []
    if mark.seen_id is not None:
        spans = StateSpan.objects.filter(cluster=cluster, pk__gt=mark.seen_id, started_at__lt=mark.done_until)
        found += spans.order_by("started_at").values_list("started_at", flat=True)[:1]
    if mark.seen_run is not None:
        pulls = pulls_that_told(cluster, now).filter(pk__gt=mark.seen_run, told_from__lt=mark.done_until)
        found += [at for at in pulls.order_by("told_from").values_list("told_from", flat=True)[:1] if at]
    return floor_hour(min(found)) if found else None


def taken_back(mark: Watermark, late: datetime | None, now: datetime) -> datetime:
    """Where the mark stands when what came late is done again."""
    if late is None or late >= mark.done_until:
        return mark.done_until
    return max(late, min(mark.done_until, floor_hour(now - REDO_AT_MOST)))


def pulls_that_told(cluster: Cluster, now: datetime) -> QuerySet[CollectionRun]:
    """Pulls of pods and events that may have told of something within the window of late facts."""
    return CollectionRun.objects.filter(
        cluster=cluster, source__in=(Source.PODS, Source.EVENTS), started_at__gt=now - REDO_AT_MOST
    )
