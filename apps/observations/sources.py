"""Where each source stands: leases, resume points, the log of pulls, and the quarantine.

Input: what a pull found out; output: SourceState, CollectionRun and Quarantine rows. Invariants: at most one
holder of a lease at a time, and a crashed one's lease ends by itself; resume points move only together with the
rows they stand for and only while the lease is still ours; `last_run_at` ignores skipped runs.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q

from .models import CollectionRun, ErrorKind, Outcome, Presence, Quarantine, SourceState

RAW_LIMIT = 64 * 1024


class LeaseLost(Exception):
    """The lease ended while we worked, and another worker may have taken over: nothing may be written."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """One pull, as it goes into the log."""

    started_at: datetime
    ended_at: datetime
    outcome: str
    mode: str = ""
    objects_seen: int = 0
    rows_written: int = 0
    rows_gone: int = 0
    quarantined: int = 0
    bytes_read: int = 0
    resource_version: str = ""
    error_kind: str = ErrorKind.NONE
    error: str = ""
    told_from: datetime | None = None


@dataclass(frozen=True, slots=True)
class BadObject:
    """An object that could not be read: `key` is its uid, else namespace/name, else a hash of the bytes."""

    key: str
    name: str
    raw: bytes
    error: str


def _clean(text: str, limit: int) -> str:
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}")[:limit]


def lease_acquire(*, cluster_id: int, source: str, now: datetime, seconds: float) -> str | None:
    """Take the source for `seconds`; None when somebody else holds it."""
    SourceState.objects.bulk_create(
        [SourceState(cluster_id=cluster_id, source=source)], ignore_conflicts=True
    )
    token = secrets.token_hex(16)
    taken = (
        SourceState.objects.filter(cluster_id=cluster_id, source=source)
        .filter(Q(lease_until=None) | Q(lease_until__lte=now))
        .update(lease_token=token, lease_until=now + timedelta(seconds=seconds))
    )
    return token if taken else None


def lease_renew(*, cluster_id: int, source: str, token: str, now: datetime, seconds: float) -> bool:
    """Prolong our lease; False when it is no longer ours."""
    kept = SourceState.objects.filter(cluster_id=cluster_id, source=source, lease_token=token).update(
        lease_until=now + timedelta(seconds=seconds)
    )
    return bool(kept)


def lease_release(*, cluster_id: int, source: str, token: str) -> None:
    """Give the source back at once; somebody else's lease is left alone."""
    SourceState.objects.filter(cluster_id=cluster_id, source=source, lease_token=token).update(
        lease_token="", lease_until=None
    )


def source_state(*, cluster_id: int, source: str) -> SourceState:
    """The state row of a source, made when it does not exist yet."""
    return SourceState.objects.get_or_create(cluster_id=cluster_id, source=source)[0]


@transaction.atomic
def run_record(
    *,
    cluster_id: int,
    source: str,
    result: RunResult,
    token: str | None = None,
    cursors: dict[str, Any] | None = None,
    presence: str | None = None,
) -> None:
    """Log a pull and move its source's state. With `token`, only while that lease is held: else LeaseLost.

    A failed run keeps the resume points and the presence as they were unless they are given."""
    fields = asdict(result) | {"error": _clean(result.error, 4000)}
    CollectionRun.objects.create(cluster_id=cluster_id, source=source, **fields)
    if result.outcome == Outcome.SKIPPED:
        return
    good = result.outcome in (Outcome.OK, Outcome.PARTIAL)
    changes: dict[str, Any] = {
        "last_run_at": result.ended_at,
        "last_outcome": result.outcome,
        "error_kind": result.error_kind,
        "error": fields["error"],
        "failures": 0 if good else F("failures") + 1,
    }
    if good:
        changes["last_ok_at"] = result.ended_at
    if cursors is not None:
        changes["cursors"] = cursors
    if presence is not None:
        changes["presence"] = presence
    rows = SourceState.objects.filter(cluster_id=cluster_id, source=source)
    if token is not None:
        rows = rows.filter(lease_token=token)
    if not rows.update(**changes):
        if token is not None:
            raise LeaseLost(f"the lease on {source} of cluster {cluster_id} was lost")
        state = {name: value for name, value in changes.items() if name != "failures"}
        SourceState.objects.create(
            cluster_id=cluster_id,
            source=source,
            failures=0 if good else 1,
            presence=state.pop("presence", Presence.UNKNOWN),
            **state,
        )


def quarantine_put(
    *, cluster_id: int, source: str, kind: str, objects: Sequence[BadObject], now: datetime
) -> None:
    """Set objects aside that could not be read; one already there gets its newest bytes and error."""
    newest = {item.key[:400]: item for item in objects}
    where = {"cluster_id": cluster_id, "source": source, "kind": kind}
    known = set(Quarantine.objects.filter(**where, key__in=list(newest)).values_list("key", flat=True))
    Quarantine.objects.bulk_create(
        [
            Quarantine(
                **where,
                key=_clean(key, 400),
                name=_clean(item.name, 320),
                error=_clean(item.error, 2000),
                raw=item.raw[:RAW_LIMIT],
                first_seen_at=now,
                last_seen_at=now,
            )
            for key, item in newest.items()
        ],
        update_conflicts=True,
        unique_fields=["cluster", "source", "kind", "key"],
        update_fields=["name", "error", "raw", "last_seen_at"],
    )
    Quarantine.objects.filter(**where, key__in=known).update(times_seen=F("times_seen") + 1)


def quarantine_keep_only(*, cluster_id: int, source: str, kind: str, keys: Iterable[str]) -> int:
    """After a complete list: what is not among `keys` parses again, or is gone, and leaves the quarantine."""
    rows = Quarantine.objects.filter(cluster_id=cluster_id, source=source, kind=kind)
    return rows.exclude(key__in=[key[:400] for key in keys]).delete()[0]


def quarantine_clear(*, cluster_id: int, source: str, kind: str, keys: Iterable[str]) -> int:
    """After changes: the objects with these uids or "namespace/name" parse again, or are gone."""
    rows = Quarantine.objects.filter(cluster_id=cluster_id, source=source, kind=kind)
    return rows.filter(key__in=list(keys)).delete()[0]


def quarantine_count(*, cluster_id: int, source: str) -> int:
    return Quarantine.objects.filter(cluster_id=cluster_id, source=source).count()
