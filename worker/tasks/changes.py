"""Changes of quotas on their way: each request on the queue `edits`, and a tick that finds those which wait.

Invariants: a task that ran late, twice or not at all does no harm: what there is to do is read from the rows. A task
whose worker was lost is handed out again, since here something may be half done."""

from __future__ import annotations

import os
from pathlib import Path

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from apps.changes.selectors import pending_work
from apps.changes.services import expire_due
from gpuportal.celery import CHANGES_INTERVAL
from worker.appliers.points import end_where
from worker.appliers.work import carry_on

SOFT, HARD = 120, 150
if settings.PROCESS_NAME == "test" and (order := os.environ.get("CHANGE_ENDS_WHERE")):
    end_where(Path(order))


@shared_task(
    name="worker.tasks.change",
    acks_late=True,
    reject_on_worker_lost=True,
    soft_time_limit=SOFT,
    time_limit=HARD,
)
def change(request_id: int) -> str:
    """Carry one request on as far as it goes now; returns its state, or why nothing was done."""
    return carry_on(request_id)


@shared_task(name="worker.tasks.dispatch_changes", soft_time_limit=20, time_limit=30)
def dispatch_changes() -> int:
    """Let go of what is over, and send one task per request that needs the worker; returns how many."""
    now = timezone.now()
    expire_due(now)
    waiting = pending_work(now)
    for request_id in waiting:
        change.apply_async(args=(request_id,), expires=CHANGES_INTERVAL, queue="edits")
    return len(waiting)
