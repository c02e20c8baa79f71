"""Finished hours in the order in which they were finished, for copies that are brought up to date by sequence.

Input: a cluster and the sequence number that the copy has; output: rows with a higher one. The number is the row's
id. It is safe to go on from, because a cluster's rollups run one after the other under the watermark's lock and a
row is written for the last time in the run that finishes its hour: within a cluster, rows that become visible later
have higher ids. Across clusters that does not hold.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db.models import QuerySet

from apps.fleet.models import Cluster
from apps.usage.models import UsageHour, Watermark
from apps.usage.services import ROLLUP


def finished_until(*, cluster: Cluster) -> datetime | None:
    """Every hour before this instant is complete; None before the first rollup."""
    return (
        Watermark.objects.filter(cluster=cluster, rollup=ROLLUP).values_list("done_until", flat=True).first()
    )


def finished_hours(
    *, cluster: Cluster, until: datetime | None, team_ids: Collection[int] | None, after_seq: int = 0
) -> QuerySet[UsageHour]:
    """Rows of hours before `until` with an id above `after_seq`."""
    if until is None:
        return UsageHour.objects.none()
    rows = UsageHour.objects.filter(cluster=cluster, hour__lt=until, pk__gt=after_seq)
    if team_ids is not None:
        rows = rows.filter(team_id__in=list(team_ids))
    return rows.select_related("cluster", "team")
