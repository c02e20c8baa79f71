"""Sending messages, and looking whether what was changed is so. Each may run late or twice without harm."""

from __future__ import annotations

from datetime import timedelta

from celery import shared_task
from django.utils import timezone

from apps.changes import effects, notices, observing
from apps.chargeback import budget_notices
from apps.core import sending

LATELY = timedelta(minutes=10)
"""Far longer than from one look to the next; what is missed while no worker runs is found by the look at everything."""


@shared_task(name="worker.tasks.send_notices", soft_time_limit=100, time_limit=110)
def send_notices() -> int:
    """Send what is due; returns how many messages were taken."""
    return sending.send_due(timezone.now(), notices.KIND, budget_notices.KIND)


@shared_task(name="worker.tasks.watch_changes", soft_time_limit=50, time_limit=55)
def watch_changes(everything: bool = False) -> dict[str, int]:
    """Close what the collectors have seen, note what drifts and what changes have brought; returns how many of each.
    `everything`: look at all objects that were ever changed, not only at those which have moved lately."""
    now = timezone.now()
    return {
        "observed": len(observing.observe(now)),
        "drifting": len(observing.watch_drift(now, since=None if everything else now - LATELY)),
        "effects": len(effects.note_due(now)),
    }
