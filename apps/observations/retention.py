"""How long observations are kept: the registry of partitioned tables, and the end of objects that are gone.

Input: the retention settings and the clock; output: partitions made and dropped, old rows deleted. Invariant:
only what ended before its retention is removed; a live object, an open span and the newest run always stay.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings

from apps.core.partitions import PartitionedTable, Upkeep, keep_partitions

from .cards import drop_forgotten
from .models import ClusterObject, Node, Pod, StateSpan, Workload


def partitioned_tables() -> list[PartitionedTable]:
    """The range-partitioned tables of this app with the retention that the settings name."""
    return [
        PartitionedTable(
            "observations_transition", "observed_at", "month", settings.TRANSITION_RETENTION_DAYS, ahead=45
        ),
        PartitionedTable("observations_event", "created_at", "day", settings.EVENT_RETENTION_DAYS),
        PartitionedTable("observations_devicesample", "sampled_at", "day", settings.SAMPLE_RETENTION_DAYS),
        PartitionedTable("observations_collectionrun", "started_at", "day", settings.RUN_RETENTION_DAYS),
    ]


def keep_observation_partitions(*, now: datetime) -> Upkeep:
    """The daily upkeep of every partitioned table of this app."""
    return keep_partitions(tables=partitioned_tables(), now=now)


def drop_gone(*, now: datetime) -> int:
    """Delete objects gone for longer than their retention, cards not seen for as long, and spans ended for longer than
    transitions live."""
    horizon = now - timedelta(days=settings.GONE_RETENTION_DAYS)
    removed = drop_forgotten(horizon=horizon)
    for model in (Node, Pod, Workload, ClusterObject):
        removed += model.objects.filter(gone_at__lt=horizon)._raw_delete("default")
    old = now - timedelta(days=settings.TRANSITION_RETENTION_DAYS)
    return removed + StateSpan.objects.filter(ended_at__lt=old)._raw_delete("default")
