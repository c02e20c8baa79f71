"""Findings about the portal's own sight: sources that fail, are old or incomplete, and unreadable objects."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.findings.rows import Finding, Severity, Target, duration
from apps.fleet.models import Cluster
from apps.observations.selectors import SourceStatus, State, source_statuses


def source_findings(*, now: datetime, clusters: Collection[Cluster]) -> Iterator[Finding]:
    for status in source_statuses(now=now, clusters=clusters):
        if status.state in (State.FAILED, State.STALE):
            yield _trouble(status)
        elif status.state is State.PARTIAL and not status.quarantined:
            text = _("%(cluster)s: only a part of %(source)s was read. %(sentence)s")
            yield _finding(status, "source-partial", "warn", text % _names(status))
        if status.quarantined:
            yield _quarantine(status)


def _names(status: SourceStatus) -> dict[str, str]:
    return {
        "source": status.source_label,
        "cluster": status.cluster.name,
        "sentence": status.sentence,
        "age": "" if status.age_seconds is None else duration(status.age_seconds),
    }


def _trouble(status: SourceStatus) -> Finding:
    """Failed or stale: how old the numbers are decides how it reads."""
    if status.state is State.STALE:
        text = _("%(cluster)s: the numbers of %(source)s are %(age)s old.")
    elif status.age_seconds is None:
        text = _("%(cluster)s: reading %(source)s fails, nothing was read yet. %(sentence)s")
    else:
        text = _("%(cluster)s: reading %(source)s fails, the numbers are %(age)s old. %(sentence)s")
    severity: Severity = "bad" if status.state is State.FAILED else "warn"
    return _finding(status, f"source-{status.state}", severity, text % _names(status), status.observed_at)


def _quarantine(status: SourceStatus) -> Finding:
    text = ngettext(
        "%(cluster)s: %(n)d object of %(source)s could not be read and is left out.",
        "%(cluster)s: %(n)d objects of %(source)s could not be read and are left out.",
        status.quarantined,
    )
    values = {**_names(status), "n": status.quarantined}
    return _finding(status, "quarantine", "warn", text % values, count=status.quarantined)


def _finding(
    status: SourceStatus,
    code: str,
    severity: Severity,
    text: str,
    since: datetime | None = None,
    count: int = 1,
) -> Finding:
    target: Target = "sources"
    return Finding(
        key=f"{code}/{status.cluster.slug}/{status.source}",
        severity=severity,
        text=text,
        target=target,
        args={"cluster": status.cluster.slug, "source": status.source},
        since=since,
        cluster_id=status.cluster.pk,
        count=count,
    )
