"""Celery tasks: thin adapters that set limits and call a service. Names are stable: they cross process borders."""

from __future__ import annotations

from .changes import change, dispatch_changes
from .collecting import collect, dispatch
from .findings import note
from .quotas import dispatch_quotas, note_quotas
from .upkeep import (
    dispatch_rollups,
    provide_charges,
    rollup,
    rollup_held,
    rollup_used,
    rollup_waiting,
    upkeep,
)
from .watching_changes import send_notices, watch_changes

__all__ = [
    "change",
    "collect",
    "dispatch",
    "dispatch_changes",
    "dispatch_quotas",
    "dispatch_rollups",
    "note",
    "note_quotas",
    "provide_charges",
    "rollup",
    "rollup_held",
    "rollup_used",
    "rollup_waiting",
    "send_notices",
    "upkeep",
    "watch_changes",
]
