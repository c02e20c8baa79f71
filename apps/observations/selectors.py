"""Reads of what clusters said, and of how fresh it is.

Input: the clock as `now`, clusters and sources; output: querysets of live objects, and statuses that name one of
six states. Invariant: a number's age is the age of the last pull that succeeded, never of the last attempt, and
a source that was never read has no age at all (absent is not zero).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.fleet.models import Cluster

from .advice import Advice, advice_for
from .models import (
    ClusterObject,
    CollectionRun,
    ErrorKind,
    Node,
    Outcome,
    Pod,
    Presence,
    Quarantine,
    Source,
    SourceState,
    Workload,
)


class State(StrEnum):
    """How a source stands. `absent`: not installed in that cluster, a normal case."""

    OK = "ok"
    STALE = "stale"
    PARTIAL = "partial"
    FAILED = "failed"
    ABSENT = "absent"
    NEVER = "never"


STATE_LABELS: dict[str, Promise] = {
    State.OK: _("up to date"),
    State.STALE: _("stale"),
    State.PARTIAL: _("partial"),
    State.FAILED: _("failed"),
    State.ABSENT: _("not installed"),
    State.NEVER: _("not collected yet"),
}


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """One source of one cluster. `observed_at`: end of the last pull that brought data, NULL when there was none;
    `error` is the raw text of the last pull, `sentence` and `action` say it in words."""

    cluster: Cluster
    source: str
    state: State
    observed_at: datetime | None
    last_run_at: datetime | None
    age_seconds: int | None
    error_kind: str
    error: str
    failures: int
    quarantined: int
    run: CollectionRun | None

    @property
    def source_label(self) -> str:
        return str(Source(self.source).label)

    @property
    def state_label(self) -> str:
        return str(STATE_LABELS[self.state])

    @property
    def sentence(self) -> str:
        return str(self._advice.sentence)

    @property
    def action(self) -> str:
        return str(self._advice.action)

    @property
    def _advice(self) -> Advice:
        return advice_for(self.error_kind, quarantined=bool(self.quarantined), remarked=bool(self.error))

    @property
    def has_data(self) -> bool:
        return self.observed_at is not None


@dataclass(frozen=True, slots=True)
class AsOf:
    """How old and how complete the needed sources are, taken together.

    `observed_at` is the oldest of them; `missing` those that never brought data. `state`: never (nothing there),
    stale (something is too old), partial (something is missing, incomplete or failing), ok, or absent when none
    of the sources exists in any of the clusters."""

    observed_at: datetime | None
    state: State
    statuses: list[SourceStatus] = field(default_factory=list)
    missing: list[SourceStatus] = field(default_factory=list)

    @property
    def state_label(self) -> str:
        return str(STATE_LABELS[self.state])


def stale_after() -> timedelta:
    """Older than two intervals is stale."""
    return timedelta(seconds=2 * settings.COLLECT_INTERVAL_SECONDS)


def _clusters(clusters: Iterable[Cluster] | None) -> list[Cluster]:
    return list(Cluster.objects.filter(enabled=True)) if clusters is None else list(clusters)


def _quarantined(cluster_ids: Sequence[int]) -> dict[tuple[int, str], int]:
    """How many objects of each source could not be read."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT cluster_id, source, count(*) FROM observations_quarantine WHERE cluster_id = ANY(%s) GROUP BY 1, 2",
            [list(cluster_ids)],
        )
        return {(cluster_id, source): n for cluster_id, source, n in cursor.fetchall()}


def _newest_runs(cluster_ids: Sequence[int], now: datetime) -> dict[tuple[int, str], CollectionRun]:
    runs = CollectionRun.objects.raw(
        "SELECT r.* FROM observations_sourcestate s CROSS JOIN LATERAL ("
        " SELECT * FROM observations_collectionrun c WHERE c.cluster_id = s.cluster_id AND c.source = s.source"
        " AND c.started_at > %s ORDER BY c.started_at DESC LIMIT 1) r WHERE s.cluster_id = ANY(%s)",
        [now - timedelta(days=2), list(cluster_ids)],
    )
    return {(run.cluster_id, run.source): run for run in runs}


def source_runs(*, clusters: Collection[Cluster]) -> dict[int, dict[str, datetime]]:
    """Where the sources of each cluster stand: the end of their last runs, of those that ran."""
    found: dict[int, dict[str, datetime]] = {cluster.pk: {} for cluster in clusters}
    rows = SourceState.objects.filter(cluster_id__in=list(found))
    for cluster_id, source, at in rows.values_list("cluster_id", "source", "last_run_at"):
        if at is not None:
            found[cluster_id][source] = at
    return found


def _state_of(state: SourceState | None, quarantined: int, now: datetime) -> State:
    if state is None or state.last_run_at is None:
        return State.NEVER
    seen_at = state.last_ok_at or state.last_run_at
    if state.last_outcome == Outcome.FAILED:
        return State.FAILED
    if now - seen_at > stale_after():
        return State.STALE
    if state.presence == Presence.ABSENT:
        return State.ABSENT
    if state.last_outcome == Outcome.PARTIAL or quarantined:
        return State.PARTIAL
    return State.OK


def _status(
    *,
    cluster: Cluster,
    source: str,
    state: SourceState | None,
    quarantined: int,
    run: CollectionRun | None,
    now: datetime,
) -> SourceStatus:
    found = _state_of(state, quarantined, now)
    if source == Source.DCGM and not cluster.prometheus_url:
        found = State.ABSENT
    observed_at = state.last_ok_at if state is not None and found is not State.ABSENT else None
    error_kind = state.error_kind if state is not None else ""
    if quarantined and not error_kind:
        error_kind = ErrorKind.BAD_VALUES
    return SourceStatus(
        cluster=cluster,
        source=source,
        state=found,
        observed_at=observed_at,
        last_run_at=state.last_run_at if state is not None else None,
        age_seconds=None if observed_at is None else max(0, int((now - observed_at).total_seconds())),
        error_kind=error_kind,
        error=state.error if state is not None else "",
        failures=state.failures if state is not None else 0,
        quarantined=quarantined,
        run=run,
    )


def source_statuses(
    *, now: datetime, clusters: Iterable[Cluster] | None = None, sources: Iterable[str] | None = None
) -> list[SourceStatus]:
    """Every source of every given (default: every enabled) cluster, in the order of clusters and Source."""
    chosen = _clusters(clusters)
    wanted = list(Source.values if sources is None else sources)
    ids = [cluster.pk for cluster in chosen]
    states = {(s.cluster_id, s.source): s for s in SourceState.objects.filter(cluster_id__in=ids)}
    counts = _quarantined(ids)
    runs = _newest_runs(ids, now)
    return [
        _status(
            cluster=cluster,
            source=source,
            state=states.get((cluster.pk, source)),
            quarantined=counts.get((cluster.pk, source), 0),
            run=runs.get((cluster.pk, source)),
            now=now,
        )
        for cluster in chosen
        for source in wanted
    ]


def _joint_state(needed: list[SourceStatus], missing: list[SourceStatus], now: datetime) -> State:
    if not needed:
        return State.ABSENT
    if len(missing) == len(needed):
        return State.FAILED if any(s.state is State.FAILED for s in missing) else State.NEVER
    if any(s.observed_at is not None and now - s.observed_at > stale_after() for s in needed):
        return State.STALE
    if missing or any(s.state is not State.OK for s in needed):
        return State.PARTIAL
    return State.OK


def as_of(
    *, now: datetime, clusters: Iterable[Cluster] | None = None, sources: Iterable[str] | None = None
) -> AsOf:
    """The joint freshness of what a page needs; see AsOf."""
    return as_of_statuses(source_statuses(now=now, clusters=clusters, sources=sources), now=now)


def as_of_statuses(statuses: list[SourceStatus], *, now: datetime) -> AsOf:
    """The joint freshness of sources that were read already."""
    needed = [status for status in statuses if status.state is not State.ABSENT]
    missing = [status for status in needed if not status.has_data]
    times = [status.observed_at for status in needed if status.observed_at is not None]
    return AsOf(
        observed_at=min(times) if times else None,
        state=_joint_state(needed, missing, now),
        statuses=statuses,
        missing=missing,
    )


def runs(
    *, clusters: Iterable[Cluster] | None = None, source: str | None = None, since: datetime | None = None
) -> QuerySet[CollectionRun]:
    """The log of pulls, newest first. Give `since` wherever possible: the table is partitioned by time."""
    found = CollectionRun.objects.select_related("cluster").order_by("-started_at", "-id")
    if clusters is not None:
        found = found.filter(cluster__in=[cluster.pk for cluster in clusters])
    if source is not None:
        found = found.filter(source=source)
    if since is not None:
        found = found.filter(started_at__gte=since)
    return found


def quarantined(
    *, clusters: Iterable[Cluster] | None = None, source: str | None = None
) -> QuerySet[Quarantine]:
    """Objects that could not be read, newest first, without their bytes."""
    found = Quarantine.objects.select_related("cluster").defer("raw").order_by("-last_seen_at", "id")
    if clusters is not None:
        found = found.filter(cluster__in=[cluster.pk for cluster in clusters])
    if source is not None:
        found = found.filter(source=source)
    return found


def live_nodes(*, clusters: Iterable[Cluster] | None = None) -> QuerySet[Node]:
    """Nodes that exist now (in enabled clusters unless given)."""
    return Node.objects.filter(cluster__in=_clusters(clusters), gone_at=None)


def live_pods(*, clusters: Iterable[Cluster] | None = None) -> QuerySet[Pod]:
    """Pods that exist now."""
    return Pod.objects.filter(cluster__in=_clusters(clusters), gone_at=None)


def live_workloads(*, clusters: Iterable[Cluster] | None = None) -> QuerySet[Workload]:
    """Workloads and PodGroups that exist now, finished ones included."""
    return Workload.objects.filter(cluster__in=_clusters(clusters), gone_at=None)


def live_objects(*, kind: str, clusters: Iterable[Cluster] | None = None) -> QuerySet[ClusterObject]:
    """Objects of one of the generic kinds ("ClusterQueue", "VolcanoQueue", …) that exist now."""
    return ClusterObject.objects.filter(cluster__in=_clusters(clusters), kind=kind, gone_at=None)


# ---- device samples -------------------------------------------------------------------------------------------

NEWEST_SAMPLES = """
WITH newest AS (
  SELECT DISTINCT ON (cluster_id, device, instance) * FROM observations_devicesample
  WHERE cluster_id = ANY(%(clusters)s) AND sampled_at > %(since)s AND sampled_at <= %(now)s
    AND (%(nodes)s::text[] IS NULL OR node_name = ANY(%(nodes)s))
  ORDER BY cluster_id, device, instance, sampled_at DESC)
"""
"""The newest fresh sample of each device or instance, as a common table `newest`; parameters: sample_window."""

_SAMPLE_COLUMNS = """cluster_id, device, instance, node_name, model, namespace, pod, utilisation_ratio,
  utilisation_source, memory_used_bytes, memory_total_bytes, power_watts, xid, sampled_at, vendor, profile, driver,
  attribution, shares"""
_SAMPLES = f"""{NEWEST_SAMPLES} SELECT {_SAMPLE_COLUMNS} FROM newest
ORDER BY cluster_id, node_name, device, instance"""  # noqa: S608  constants of this module


@dataclass(frozen=True, slots=True)
class Sample:
    """One device (or MIG instance) at its newest sample; the columns of DeviceSample, which says what they mean."""

    cluster_id: int
    device: str
    instance: str
    node_name: str
    model: str
    namespace: str
    pod: str
    utilisation_ratio: Decimal | None
    utilisation_source: str
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    power_watts: Decimal | None
    xid: int | None
    sampled_at: datetime
    vendor: str
    profile: str
    driver: str
    attribution: str
    shares: list[Mapping[str, Any]]


def sample_window(
    *, now: datetime, clusters: Iterable[Cluster], nodes: Iterable[str] | None = None
) -> dict[str, Any]:
    """Parameters of NEWEST_SAMPLES. Fresh: younger than twice the age at which a source is stale. `nodes`: names,
    None for all."""
    return {
        "clusters": [cluster.pk for cluster in clusters],
        "since": now - 2 * stale_after(),
        "now": now,
        "nodes": None if nodes is None else list(nodes),
    }


def newest_samples(
    *, now: datetime, clusters: Iterable[Cluster], nodes: Iterable[str] | None = None
) -> list[Sample]:
    """The devices with a fresh sample, of some nodes or of all, in the order of nodes."""
    with connection.cursor() as cursor:
        cursor.execute(_SAMPLES, sample_window(now=now, clusters=clusters, nodes=nodes))
        return [Sample(*(*row[:-1], _decoded(row[-1]))) for row in cursor.fetchall()]


def _decoded(shares: Any) -> list[Mapping[str, Any]]:
    """Django hands jsonb of a raw query out as text; most devices are not shared."""
    if shares == "[]":
        return []
    found: list[Mapping[str, Any]] = json.loads(shares) if isinstance(shares, str) else shares
    return found
