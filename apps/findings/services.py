"""How long findings last, kept. Input: the clock and what is found now; output: FindingSpan rows.

Invariants: a finding has at most one open span; one that is found again after its span ended begins a new one; one
that is not found any more ends only when the sources that it rests on were read as they should (otherwise nobody knows
whether it is over). Everything is in the database: a worker that starts anew goes on with what is open.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from apps.findings.models import FindingSpan
from apps.findings.rows import Finding
from apps.findings.selectors import findings
from apps.fleet.selectors import enabled_clusters
from apps.observations.models import Source
from apps.observations.selectors import State, source_statuses

_UNKNOWN = frozenset((State.FAILED, State.STALE, State.NEVER))
_QUEUES = frozenset((Source.KUEUE, Source.VOLCANO))
_FLEET = frozenset((Source.NODES, Source.PODS, Source.DEVICES))
_NEEDS: dict[str, frozenset[Source]] = {
    "source": frozenset(),  # about the portal's own sight
    "quarantine": frozenset(),
    "waiting": _QUEUES | {Source.PODS, Source.EVENTS},
    "queue": _QUEUES,
    "quota": _QUEUES | {Source.NODES},
    "capacity": _FLEET | _QUEUES,
    "between": _FLEET | _QUEUES | {Source.EVENTS},
    "bucket": _FLEET,
}
_TELEMETRY = _FLEET | {Source.DCGM}


def note_findings(*, now: datetime) -> int:
    """Bring the spans up to now; returns how many findings there are."""
    clusters = list(enabled_clusters())
    found = {item.key: item for item in findings(now=now, clusters=clusters)}
    unread: dict[int, set[Source]] = {cluster.pk: set() for cluster in clusters}
    for status in source_statuses(now=now, clusters=clusters):
        if status.state in _UNKNOWN:
            unread[status.cluster.pk].add(Source(status.source))
    with transaction.atomic():
        spans = {span.key: span for span in FindingSpan.objects.filter(ended_at=None).select_for_update()}
        _extend([span for key, span in spans.items() if key in found], found, now)
        _end([span for key, span in spans.items() if key not in found], unread, now)
        FindingSpan.objects.bulk_create(
            [_begin(item, now) for key, item in found.items() if key not in spans],
            ignore_conflicts=True,  # a second run at the same time found it as well
            batch_size=500,
        )
    return len(found)


def drop_old_spans(*, now: datetime) -> int:
    """Delete what ended longer ago than transitions are kept."""
    horizon = now - timedelta(days=settings.TRANSITION_RETENTION_DAYS)
    return FindingSpan.objects.filter(ended_at__lt=horizon)._raw_delete("default")


def _begin(item: Finding, now: datetime) -> FindingSpan:
    return FindingSpan(
        cluster_id=item.cluster_id,
        key=item.key,
        severity=item.severity,
        count=item.count,
        first_seen_at=now,
        last_seen_at=now,
    )


def _extend(spans: Collection[FindingSpan], found: Mapping[str, Finding], now: datetime) -> None:
    for span in spans:
        item = found[span.key]
        span.severity, span.count = item.severity, item.count
        span.last_seen_at = max(span.last_seen_at, now)
    FindingSpan.objects.bulk_update(spans, ["severity", "count", "last_seen_at"], batch_size=500)


def _end(spans: Collection[FindingSpan], unread: Mapping[int, set[Source]], now: datetime) -> None:
    """`ended_at` is when it was not found any more; a clock that went back ends it where it was last seen."""
    over = [span for span in spans if _known_to_be_over(span, unread)]
    for span in over:
        span.ended_at = max(span.last_seen_at, now)
    FindingSpan.objects.bulk_update(over, ["ended_at"], batch_size=500)


def _known_to_be_over(span: FindingSpan, unread: Mapping[int, set[Source]]) -> bool:
    needed = _NEEDS.get(span.key.split("/")[0].split("-")[0], _TELEMETRY)
    if span.cluster_id is None:  # over all clusters
        return all(needed.isdisjoint(troubled) for troubled in unread.values())
    return needed.isdisjoint(unread.get(span.cluster_id, ()))  # a cluster no longer collected has no findings
