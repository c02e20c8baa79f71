"""Noting quota and its use over time, once a minute per cluster. May run late or twice without harm."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from apps.fleet.models import Cluster
from apps.quotas import history

SOFT, HARD = 40, 50


@shared_task(name="worker.tasks.dispatch_quotas", soft_time_limit=20, time_limit=30)
def dispatch_quotas() -> int:
    """Send one noting per enabled cluster; returns how many."""
    ids = list(Cluster.objects.filter(enabled=True).order_by("pk").values_list("pk", flat=True))
    for cluster_id in ids:
        note_quotas.apply_async(args=(cluster_id,), expires=55, queue="rollup")
    return len(ids)


@shared_task(name="worker.tasks.note_quotas", soft_time_limit=SOFT, time_limit=HARD)
def note_quotas(cluster_id: int) -> int:
    """Note what changed in the quotas of one cluster; returns the points written."""
    cluster = Cluster.objects.filter(pk=cluster_id, enabled=True).first()
    return 0 if cluster is None else history.note_quotas(cluster=cluster, now=timezone.now())
