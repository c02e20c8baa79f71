"""The writes of this app, in one place for its callers. See staging, writers, facts, sources and retention for
how each keeps its promises: set-based, idempotent, in the caller's transaction, with the clock passed in.

`apply_list` and `apply_changes` are the short form for rows that are already at hand; a collector stages page by
page and merges at the end, so that its memory stays flat.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db import transaction

from .cards import all_silent
from .facts import event_target, merge_events, write_samples
from .firstlist import is_first, write_first
from .models import Event
from .sources import (
    BadObject,
    LeaseLost,
    RunResult,
    lease_acquire,
    lease_release,
    lease_renew,
    quarantine_clear,
    quarantine_count,
    quarantine_keep_only,
    quarantine_put,
    run_record,
    source_state,
)
from .staging import Change, Rejected, Row, Staging, Target
from .writers import Written, mark_gone, merge_changes, merge_list

__all__ = [
    "BadObject",
    "Change",
    "LeaseLost",
    "Rejected",
    "Row",
    "RunResult",
    "Staging",
    "Target",
    "Written",
    "all_silent",
    "apply_changes",
    "apply_list",
    "event_target",
    "is_first",
    "lease_acquire",
    "lease_release",
    "lease_renew",
    "mark_gone",
    "merge_changes",
    "merge_events",
    "merge_list",
    "merge_staged",
    "quarantine_clear",
    "quarantine_count",
    "quarantine_keep_only",
    "quarantine_put",
    "run_record",
    "source_state",
    "write_first",
    "write_samples",
]


def merge_staged(*, cluster_id: int, staging: Staging, record_new: bool = True) -> Written:
    """Merge changes of any kind, Events included."""
    if staging.target.model is Event:
        return merge_events(cluster_id=cluster_id, staging=staging)
    return merge_changes(cluster_id=cluster_id, staging=staging, record_new=record_new)


@transaction.atomic
def apply_list(
    *,
    cluster_id: int,
    target: Target,
    rows: Iterable[Row],
    now: datetime,
    kept: Iterable[str] = (),
    record_new: bool = True,
) -> tuple[Written, list[Rejected]]:
    """The rows are all that exists of this kind."""
    staging = Staging(target)
    rejected = staging.add_rows(rows, at=now)
    uid = target.index("uid")
    spared = [*kept, *(item.row[uid] for item in rejected)]
    written = merge_list(cluster_id=cluster_id, staging=staging, now=now, kept=spared, record_new=record_new)
    return written, rejected


@transaction.atomic
def apply_changes(
    *, cluster_id: int, target: Target, changes: Sequence[Change], record_new: bool = True
) -> tuple[Written, list[Rejected]]:
    """The changes happened in this order, each at its own time."""
    staging = Staging(target)
    rejected = staging.add(changes)
    written = merge_staged(cluster_id=cluster_id, staging=staging, record_new=record_new)
    return written, rejected
