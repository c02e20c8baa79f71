"""Where the objects of a note lead. Input: a note of apps.capacity; output: links, grouped for reading.

An object without a page of its own (a resource, a claim) is named without a link.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext

from apps.capacity.rows import Note, Ref
from apps.console.links import address, node_url, queue_url
from apps.core.gpu import mode_label, model_label

NAMED_AT_ONCE = 6
UNFOLDED = 20
_QUEUES = frozenset({"ClusterQueue", "Cohort", "VolcanoQueue"})


@dataclass(frozen=True, slots=True)
class NoteLine:
    """`shown`: the first objects as links; `more`: the next `count`, to be unfolded; `beyond`: how many are left
    that only REST lists."""

    note: Note
    shown: SafeString
    more: SafeString
    count: int
    beyond: int


def note_lines(notes: Iterable[Note]) -> list[NoteLine]:
    lines = []
    for note in notes:
        slug, most = note.cluster.slug, NAMED_AT_ONCE + UNFOLDED
        more = note.refs[NAMED_AT_ONCE:most]
        shown = _joined(slug, note.refs[:NAMED_AT_ONCE])
        lines.append(NoteLine(note, shown, _joined(slug, more), len(more), max(0, len(note.refs) - most)))
    return lines


def _joined(cluster: str, refs: tuple[Ref, ...]) -> SafeString:
    """Notes stay the same between requests, and so do their links, in one language."""
    return _links(cluster, refs, get_language())


@lru_cache(maxsize=512)
def _links(cluster: str, refs: tuple[Ref, ...], language: str | None) -> SafeString:
    return format_html_join(" · ", "{}", ((_shown(*_link(cluster, ref)),) for ref in refs))


def _shown(text: str, url: str) -> SafeString:
    return format_html('<a href="{}">{}</a>', url, text) if url else format_html("<code>{}</code>", text)


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
        words = {"model": model_label(model), "mode": mode_label(mode)}
        return gettext("%(model)s (%(mode)s)") % words, url
    return (f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name), ""
