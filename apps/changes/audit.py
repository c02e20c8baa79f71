"""The audit trail: an entry is written in the transaction of the deed, chained to the one before.

Input: who did what to what; output: `AuditEntry`. Invariants
- Sequences start at 1 and have no holes: writers queue up on one lock until their transaction ends, so that what is
  rolled back leaves nothing.
- `hash` is SHA-256 over the entry's canonical JSON (keys sorted, no spaces, ASCII, UTC to the microsecond), which holds
  the hash of the entry before; the first one's is GENESIS.
- What is stored is what was hashed: values become plain JSON without fractions in binary before both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal

from django.db import transaction
from django.utils import timezone

from apps.changes.acting import Acting, acting
from apps.changes.models import AuditEntry
from apps.core.trail_lock import lock_trail

GENESIS = "0" * 64
Outcome = Literal["done", "refused"]
Fault = Literal["missing", "chain", "content", "tip"]
_HASHED = tuple(field.attname for field in AuditEntry._meta.concrete_fields if field.attname != "hash")


@dataclass(frozen=True, slots=True)
class Subject:
    """What was done to; `team` and `cluster` are slugs, "" where it belongs to none."""

    kind: str
    id: str
    label: str = ""
    team: str = ""
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Broken:
    """The first entry that does not fit. `fault`: "missing" (a hole before it), "chain" (it does not follow from the
    one before), "content" (it is not what was hashed), "tip" (the trail ends before it, or it was another)."""

    sequence: int
    fault: Fault


def lock() -> None:
    """Keep other writers of the trail out until the transaction ends. Whoever locks rows as well does this first."""
    lock_trail()


def record(
    action: str,
    subject: Subject,
    *,
    by: Acting,
    at: datetime,
    reason: str = "",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    resource_version: str = "",
    outcome: Outcome = "done",
    locked: bool = False,
) -> AuditEntry:
    """Write one entry. Only inside a transaction (TransactionManagementError). `locked`: the caller did `lock()` in it."""
    if not locked:
        lock()
    sequence, previous = tip()
    entry = AuditEntry(
        sequence=sequence + 1,
        at=at.astimezone(UTC),
        actor_id=by.user_id,
        actor_name=_text(by.name, 150),
        address=_text(by.address, 64),
        action=_text(action, 40),
        subject_kind=_text(subject.kind, 40),
        subject_id=_text(subject.id, 320),
        subject_label=_text(subject.label, 320),
        team_slug=_text(subject.team, 80),
        cluster_slug=_text(subject.cluster, 60),
        reason=_text(reason),
        before=None if before is None else plain(before),
        after=None if after is None else plain(after),
        resource_version=_text(resource_version, 64),
        outcome=outcome,
        previous_hash=previous,
    )
    entry.hash = entry_hash(entry)
    entry.save(force_insert=True)
    return entry


def entry_hash(entry: AuditEntry) -> str:
    """SHA-256, in hexadecimal, of everything in `entry` but its hash."""
    values = {name: getattr(entry, name) for name in _HASHED}
    values["at"] = entry.at.astimezone(UTC).isoformat(timespec="microseconds")
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Verified:
    """How far the trail was read: `count` entries that fit, the last of which has the hash `tip`; `broken` is the first
    that does not fit."""

    count: int
    tip: str
    broken: Broken | None


def walk(*, expect: tuple[int, str] | None = None) -> Verified:
    """Read the whole trail, an entry at a time. `expect`: (sequence, hash) noted outside earlier: without it, entries
    that were cut off at the end leave no trace."""
    count, tip = 0, GENESIS
    for entry in AuditEntry.objects.order_by("sequence").iterator(chunk_size=2000):
        fault = _fault(entry, count + 1, tip)
        if fault is None and expect == (count + 1, entry.hash):
            expect = None
        elif fault is None and expect is not None and expect[0] == count + 1:
            fault = "tip"
        if fault is not None:
            return Verified(count, tip, Broken(count + 1, fault))
        count, tip = count + 1, entry.hash
    return Verified(count, tip, None if expect is None else Broken(expect[0], "tip"))


def _fault(entry: AuditEntry, sequence: int, previous: str) -> Fault | None:
    if entry.sequence != sequence:
        return "missing"
    if entry.previous_hash != previous:
        return "chain"
    return None if entry_hash(entry) == entry.hash else "content"


def tip() -> tuple[int, str]:
    """The sequence and hash of the last entry; (0, GENESIS) of an empty trail."""
    return AuditEntry.objects.order_by("-sequence").values_list("sequence", "hash").first() or (0, GENESIS)


_TRAIL = Subject("AuditTrail", "trail", label="audit trail")


def note_verified(found: Verified) -> AuditEntry:
    """Write down that the trail was read to its end and fits."""
    with transaction.atomic():
        after = {"entries": found.count, "hash": found.tip}
        return record("trail.verify", _TRAIL, by=acting(), at=timezone.now(), after=after)


def last_verified() -> AuditEntry | None:
    """The latest entry of `note_verified`."""
    found = AuditEntry.objects.filter(subject_kind=_TRAIL.kind, subject_id=_TRAIL.id, action="trail.verify")
    return found.order_by("-sequence").first()


def verify() -> int | None:
    """The sequence of the first entry that does not fit, or None."""
    broken = walk().broken
    return None if broken is None else broken.sequence


def plain(value: Any) -> Any:
    """JSON that the database gives back as it took it: numbers but whole ones, times and amounts as text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {_text(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [plain(item) for item in items]
    return _text(str(value))


def _text(value: str, most: int | None = None) -> str:
    """What PostgreSQL can hold: no NUL, no half of a character."""
    return value.replace("\x00", "�").encode("utf-8", "replace").decode()[:most]
