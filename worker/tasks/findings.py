"""Noting what is found now, so that each finding has a beginning and an end. May run late or twice without harm."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from apps.findings.services import note_findings

SOFT, HARD = 80, 100


@shared_task(name="worker.tasks.note_findings", soft_time_limit=SOFT, time_limit=HARD)
def note() -> int:
    """Bring the spans of findings up to now; returns how many findings there are."""
    return note_findings(now=timezone.now())
