"""Tells the worker that a request needs it, once the present transaction has committed.

Invariants: only a hint. Whatever keeps it from arriving is logged; the next tick of `dispatch_changes` finds the request
by what is stored."""

from __future__ import annotations

import logging

from celery import current_app
from django.db import transaction
from kombu.exceptions import KombuError

TASK, QUEUE = "worker.tasks.change", "edits"
SECONDS = 60
logger = logging.getLogger(__name__)


def wake(request_id: int) -> None:
    """Send the task after commit. In a process without a task application (a command) nothing is sent."""
    transaction.on_commit(lambda: _send(request_id))


def _send(request_id: int) -> None:
    if current_app.main != "gpuportal":
        return
    try:
        current_app.send_task(TASK, args=[request_id], queue=QUEUE, expires=SECONDS)
    except (OSError, KombuError) as error:
        logger.warning("change %s waits for the next tick, the broker did not take it: %s", request_id, error)
