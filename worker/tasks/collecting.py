"""Collecting: one tick fans out into one task per (source, enabled cluster).

Invariants: what could not be sent or run is not made up for, because the next tick does the same; a pull that
finds its source taken says so in the log and ends.
"""

from __future__ import annotations

import logging

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from apps.fleet.models import Cluster
from apps.observations.models import Source
from gpuportal.celery import collect_limits
from worker.collectors.run import collect_source

logger = logging.getLogger(__name__)
SOFT, HARD = collect_limits(settings.COLLECT_INTERVAL_SECONDS)


def sources_of(cluster: Cluster) -> list[str]:
    """The sources to pull from a cluster: without a Prometheus there are no samples to ask for."""
    return [s for s in Source.values if s != Source.DCGM or cluster.prometheus_url]


@shared_task(name="worker.tasks.dispatch", soft_time_limit=SOFT, time_limit=HARD)
def dispatch() -> int:
    """Send one pull per source and enabled cluster; returns how many."""
    sent = 0
    for cluster in Cluster.objects.filter(enabled=True).order_by("pk"):
        for source in sources_of(cluster):
            collect.apply_async(
                args=(source, cluster.pk), expires=settings.COLLECT_INTERVAL_SECONDS - 1, queue="collect"
            )
            sent += 1
    return sent


@shared_task(name="worker.tasks.collect", soft_time_limit=SOFT, time_limit=HARD)
def collect(source: str, cluster_id: int) -> str:
    """Pull one source of one cluster; returns the outcome."""
    cluster = Cluster.objects.filter(pk=cluster_id, enabled=True).first()
    if cluster is None:
        logger.info("collect %s: cluster %s is not there or not enabled any more", source, cluster_id)
        return "skipped"
    result = collect_source(cluster=cluster, source=source, now=timezone.now(), seconds=HARD)
    return result.outcome
