"""Where the objects of a note lead. Input: a note of apps.capacity; output: links, grouped for reading.

An object without a page of its own (a resource, a claim) is named without a link.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from apps.capacity.rows import Note, Ref
from apps.console.links import address, node_url, queue_url
from apps.core.gpu import mode_label, model_label

NAMED_AT_ONCE = 6
_QUEUES = frozenset({"ClusterQueue", "Cohort", "VolcanoQueue"})


@dataclass(frozen=True, slots=True)
class NoteLine:
    """`shown`: (text, address or "") of the first objects; `more`: of the rest, to be unfolded."""

    note: Note
    shown: tuple[tuple[str, str], ...]
    more: tuple[tuple[str, str], ...]


def note_lines(notes: Iterable[Note]) -> list[NoteLine]:
    lines = []
    for note in notes:
        links = tuple(_link(note.cluster.slug, ref) for ref in note.refs)
        lines.append(NoteLine(note, links[:NAMED_AT_ONCE], links[NAMED_AT_ONCE:]))
    return lines


def _link(cluster: str, ref: Ref) -> tuple[str, str]:
    if ref.kind == "node":
        return ref.name, node_url(cluster, ref.name)
    if ref.kind in _QUEUES:
        return ref.name, queue_url(cluster, ref.kind, ref.name)
    if ref.kind == "flavor":
        return ref.name, address("capacity", cluster=cluster, flavor=ref.name) + "#nodes"
    if ref.kind == "pool":
        model, _bar, mode = ref.name.partition("|")
        url = address("capacity", cluster=cluster, model=model, sharing_mode=mode) + "#nodes"
        return f"{model_label(model)} ({mode_label(mode)})", url
    return (f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name), ""
