"""Since when hours of what was held are no longer what they were. Input: hours that a rollup computes; output: the earliest of
them since whoever bills them looked.

Invariants
- Hours are noted in the transaction that computes them, and who looks keeps the notes locked until it has read the hours:
  an hour is read as it is, or noted afterwards.
- No note of a cluster means that all of its hours may have changed: those from before there were notes."""

from __future__ import annotations

from datetime import datetime

from apps.core.windows import floor_hour
from apps.fleet.models import Cluster
from apps.usage.models import ALLOCATION, Watermark

CHANGED = "allocation_changed"


def note_changed(cluster: Cluster, since: datetime) -> None:
    """Hours from `since` on were computed anew. Within the transaction that did it."""
    note, made = Watermark.objects.select_for_update().get_or_create(
        cluster=cluster, rollup=CHANGED, defaults={"done_until": since}
    )
    if not made and note.done_until > since:
        note.done_until = since
        note.save(update_fields=["done_until"])


def changed_since() -> datetime | None:
    """No hour before it has changed since `take_changed`; None: any may have."""
    return _earliest(dict(_notes()))


def take_changed(now: datetime) -> datetime | None:
    """The same, and from now on nothing has changed. Within the transaction that reads the hours."""
    notes = dict(_notes(lock=True))
    found = _earliest(notes)
    for cluster_id in _rolled_up():
        Watermark.objects.update_or_create(
            cluster_id=cluster_id, rollup=CHANGED, defaults={"done_until": floor_hour(now)}
        )
    return found


def _notes(*, lock: bool = False) -> list[tuple[int, datetime]]:
    notes = Watermark.objects.filter(rollup=CHANGED).order_by("cluster_id")
    if lock:
        notes = notes.select_for_update()
    return [(note.cluster_id, note.done_until) for note in notes]


def _rolled_up() -> set[int]:
    return set(Watermark.objects.filter(rollup=ALLOCATION).values_list("cluster_id", flat=True))


def _earliest(notes: dict[int, datetime]) -> datetime | None:
    if not notes or _rolled_up() - notes.keys():
        return None
    return min(notes.values())
