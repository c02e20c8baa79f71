"""Why one piece of work is not running, with what the rollups add: when it may start, and how long attempts ran that
nobody saw. Input: a uid and the reader; output: the `Explanation` that page and REST show.

Invariant: work that the reader may not see is not found.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from django.db.models import Sum

from apps.admissions.estimates import Estimate
from apps.admissions.explanation import Explanation, explain
from apps.usage.models import UnseenEvictions
from apps.usage.start_estimates import estimates_of


def explained(*, uid: str, now: datetime, team_ids: Collection[int] | None) -> Explanation | None:
    """None when there is no such work or the reader may not see it."""
    found = explain(uid=uid, now=now, team_ids=team_ids)
    if found is None:
        return None
    return replace(found, estimate=_estimate(found, now), unseen_run_seconds=_unseen_run(found))


def _estimate(found: Explanation, now: datetime) -> Estimate | None:
    work = found.subject.work
    if work is None:
        return None
    return estimates_of(
        [work],
        queues={work.pk: found.subject.queue},
        standings={work.pk: found.standing},
        now=now,
        causes={work.pk: found.verdict.cause if found.verdict else ""},
    ).get(work.pk)


def _unseen_run(found: Explanation) -> int | None:
    """As the cluster's own counter says, less what was seen."""
    if not found.life.unseen_evictions:
        return None
    noted = UnseenEvictions.objects.filter(cluster=found.subject.cluster, uid=found.subject.uid)
    seconds: int | None = noted.aggregate(ran=Sum("run_seconds"))["ran"]
    return seconds
