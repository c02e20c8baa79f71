"""Rollups and the daily upkeep of the tables. Each is idempotent, so a late or repeated run does no harm."""

from __future__ import annotations

import logging
from datetime import datetime

from celery import shared_task
from django.utils import timezone

from apps.changes.idempotency import forget_old_keys
from apps.chargeback.budget_notices import note_all_crossed
from apps.chargeback.ledger import keep_periods, provide
from apps.findings.services import drop_old_spans
from apps.fleet.models import Cluster
from apps.observations.retention import drop_gone, keep_observation_partitions
from apps.quotas.history import thin_quota_points
from apps.usage.admission_rollup import rollup_admissions
from apps.usage.allocation_rollup import rollup_allocation
from apps.usage.claims_noting import drop_old_claims
from apps.usage.services import capacity_snapshot, rollup_hours
from apps.usage.supply_rollup import drop_old_supply
from apps.usage.use_rollup import rollup_use

logger = logging.getLogger(__name__)
ROLLUP_SOFT, ROLLUP_HARD = 540, 600
UPKEEP_SOFT, UPKEEP_HARD = 1740, 1800


@shared_task(name="worker.tasks.dispatch_rollups", soft_time_limit=30, time_limit=60)
def dispatch_rollups() -> int:
    """Send the rollups of every cluster, those no longer collected included: their last hours may be open."""
    ids = list(Cluster.objects.order_by("pk").values_list("pk", flat=True))
    for cluster_id in ids:
        rollup.apply_async(args=(cluster_id,), expires=540, queue="rollup")
        rollup_waiting.apply_async(args=(cluster_id,), expires=540, queue="rollup")
        rollup_held.apply_async(args=(cluster_id,), expires=540, queue="rollup")
        rollup_used.apply_async(args=(cluster_id,), expires=540, queue="rollup")
    return len(ids)


@shared_task(name="worker.tasks.rollup", soft_time_limit=ROLLUP_SOFT, time_limit=ROLLUP_HARD)
def rollup(cluster_id: int) -> int:
    """Bring the hourly usage of one cluster up to now, and note its capacity in this hour; returns the rows."""
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    if cluster is None:
        return 0
    now = timezone.now()
    if cluster.enabled:
        capacity_snapshot(cluster=cluster, at=now)
    return rollup_hours(cluster=cluster, now=now).rows


@shared_task(name="worker.tasks.rollup_held", soft_time_limit=ROLLUP_SOFT, time_limit=ROLLUP_HARD)
def rollup_held(cluster_id: int) -> int:
    """Bring the hours of what was held in one cluster up to now, and the months that they are billed in; returns the
    rows."""
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    if cluster is None:
        return 0
    now = timezone.now()
    rows = rollup_allocation(cluster=cluster, now=now, edges=_period_edges(now)).rows
    for period in keep_periods(now):
        if rows and not period.is_closed and period.entries == 0:
            provide(period.pk, now=now)  # the first lines of a month need not wait for the hour
    return rows


def _period_edges(now: datetime) -> set[datetime]:
    """Where billing periods begin and end."""
    return {edge for period in keep_periods(now) for edge in (period.starts_at, period.ends_at)}


@shared_task(name="worker.tasks.rollup_used", soft_time_limit=ROLLUP_SOFT, time_limit=ROLLUP_HARD)
def rollup_used(cluster_id: int) -> int:
    """Add the finished hours of how busy one cluster's held devices were; returns the rows. Cut off, it goes on next
    time."""
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    if cluster is None:
        return 0
    now = timezone.now()
    return rollup_use(cluster=cluster, now=now, edges=_period_edges(now))


@shared_task(name="worker.tasks.provide_charges", soft_time_limit=ROLLUP_SOFT, time_limit=ROLLUP_HARD)
def provide_charges() -> int:
    """Compute the provisional lines of the open periods anew, and tell of budgets; returns how many lines they have."""
    now = timezone.now()
    found = [provide(period.pk, now=now).entries for period in keep_periods(now) if not period.is_closed]
    note_all_crossed(now)
    return sum(found)


@shared_task(name="worker.tasks.rollup_waiting", soft_time_limit=ROLLUP_SOFT, time_limit=ROLLUP_HARD)
def rollup_waiting(cluster_id: int) -> int:
    """Bring the hours of one cluster's waiting work up to now; returns the rows. Cut off, it goes on next time."""
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    return 0 if cluster is None else rollup_admissions(cluster=cluster, now=timezone.now()).rows


@shared_task(name="worker.tasks.upkeep", soft_time_limit=UPKEEP_SOFT, time_limit=UPKEEP_HARD)
def upkeep() -> dict[str, int]:
    """Partitions ahead and out of their retention, objects that have been gone for long, answers kept for repeated calls."""
    now = timezone.now()
    done = keep_observation_partitions(now=now)
    removed = drop_gone(now=now) + drop_old_spans(now=now) + thin_quota_points(now=now)
    removed += forget_old_keys(now=now) + drop_old_supply(now=now) + drop_old_claims(now=now)
    logger.info(
        "upkeep: %d partitions made, %d dropped, %d old rows removed",
        len(done.created),
        len(done.dropped),
        removed,
    )
    return {"created": len(done.created), "dropped": len(done.dropped), "removed": removed}
