"""The Celery application: queues, limits and schedule as code.

Input: the settings; output: `app`. Invariants: an entry of the schedule expires before the next one is due, so a
worker that was away does not replay a backlog; a task ends within its interval (soft limit < hard limit <
interval) and long before the broker would hand it out again (visibility timeout); results are not kept: the
outcome of a pull is its CollectionRun.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from celery import Celery
from celery.schedules import crontab
from celery.signals import worker_ready

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuportal.settings")

from django.conf import settings

QUEUES = ("collect", "rollup", "edits")
VISIBILITY_SECONDS = 2 * 3600


def collect_limits(interval: int) -> tuple[int, int]:
    """(soft, hard) limit of one pull: both inside the interval, with time to record what went wrong."""
    hard = max(2, int(interval * 0.9))
    return max(1, min(hard - 1, int(interval * 0.8))), hard


INTERVAL = settings.COLLECT_INTERVAL_SECONDS
CHANGES_INTERVAL = 5
SOFT, HARD = collect_limits(INTERVAL)


def _beat_file() -> str:
    """Where beat remembers when it last sent what: under var/, never beside the code."""
    folder = Path(os.environ.get("PORTAL_VAR", settings.BASE_DIR / "var"))
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder / "celerybeat-schedule")


TRANSPORT_OPTIONS: dict[str, Any] = {
    "visibility_timeout": VISIBILITY_SECONDS,
    "socket_connect_timeout": settings.CONNECT_TIMEOUT_SECONDS,
    "socket_timeout": 30,
    "socket_keepalive": True,
    "health_check_interval": 10,
    "retry_on_timeout": True,
}

app = Celery("gpuportal")
app.conf.update(
    broker_url=settings.REDIS_URL,
    broker_transport_options=TRANSPORT_OPTIONS,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_connection_timeout=settings.CONNECT_TIMEOUT_SECONDS,
    task_publish_retry_policy={"max_retries": 2, "interval_start": 0.2, "interval_step": 0.5},
    task_ignore_result=True,
    task_acks_late=True,
    # Pulls and rollups may safely run twice; one that killed its worker is not handed to the next.
    task_reject_on_worker_lost=False,
    task_default_queue="collect",
    task_create_missing_queues=False,
    task_queues={name: {"exchange": name, "routing_key": name} for name in QUEUES},
    task_routes={
        "worker.tasks.dispatch": {"queue": "collect"},
        "worker.tasks.collect": {"queue": "collect"},
        "worker.tasks.rollup": {"queue": "rollup"},
        "worker.tasks.rollup_waiting": {"queue": "rollup"},
        "worker.tasks.dispatch_rollups": {"queue": "rollup"},
        "worker.tasks.upkeep": {"queue": "rollup"},
        "worker.tasks.note_findings": {"queue": "rollup"},
        "worker.tasks.dispatch_quotas": {"queue": "rollup"},
        "worker.tasks.note_quotas": {"queue": "rollup"},
        "worker.tasks.dispatch_changes": {"queue": "edits"},
        "worker.tasks.change": {"queue": "edits"},
        "worker.tasks.watch_changes": {"queue": "edits"},
        "worker.tasks.send_notices": {"queue": "edits"},
        "worker.tasks.rollup_held": {"queue": "rollup"},
        "worker.tasks.provide_charges": {"queue": "rollup"},
        "worker.tasks.rollup_used": {"queue": "rollup"},
    },
    task_serializer="json",
    accept_content=["json"],
    worker_prefetch_multiplier=1,
    worker_concurrency=4,
    worker_max_tasks_per_child=200,
    worker_max_memory_per_child=400_000,
    worker_cancel_long_running_tasks_on_connection_loss=True,
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
    timezone="UTC",
    enable_utc=True,
    beat_schedule_filename=_beat_file(),
    # Look often enough that a late entry does not eat into its own expiry.
    beat_max_loop_interval=min(5, INTERVAL),
    beat_schedule={
        "dispatch": {
            "task": "worker.tasks.dispatch",
            "schedule": INTERVAL,
            "options": {"expires": INTERVAL - 1},
        },
        "rollups": {
            "task": "worker.tasks.dispatch_rollups",
            "schedule": crontab(minute="2-59/10"),
            "options": {"expires": 540},
        },
        "charges": {
            "task": "worker.tasks.provide_charges",
            "schedule": crontab(minute=14),
            "options": {"expires": 1800},
        },
        "findings": {
            "task": "worker.tasks.note_findings",
            "schedule": crontab(minute="*/2"),
            "options": {"expires": 110},
        },
        "quotas": {
            "task": "worker.tasks.dispatch_quotas",
            "schedule": crontab(),
            "options": {"expires": 55},
        },
        "changes": {
            "task": "worker.tasks.dispatch_changes",
            "schedule": CHANGES_INTERVAL,
            "options": {"expires": CHANGES_INTERVAL - 1},
        },
        "watch-changes": {
            "task": "worker.tasks.watch_changes",
            "schedule": 15,
            "options": {"expires": 14},
        },
        "watch-all-changes": {
            "task": "worker.tasks.watch_changes",
            "schedule": crontab(minute=7),
            "kwargs": {"everything": True},
            "options": {"expires": 600},
        },
        "notices": {
            "task": "worker.tasks.send_notices",
            "schedule": 10,
            "options": {"expires": 9},
        },
        "upkeep": {
            "task": "worker.tasks.upkeep",
            "schedule": crontab(hour=0, minute=20),
            "options": {"expires": 12 * 3600},
        },
    },
)
app.autodiscover_tasks()


@worker_ready.connect
def _prepare_store(**_unused: Any) -> None:
    """A fresh installation has no partitions before the first night: make them when a worker starts."""
    app.send_task("worker.tasks.upkeep", expires=3600)
