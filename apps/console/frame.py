"""The frame of every page. Input: a request and the sources that its numbers need; output: `Page`.

A page is opened first: it fixes the clock, the clusters that `?cluster=` selects, the teams that the reader may
see and how old the needed sources are. Everything else on the page is computed from these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from apps.console.access import readable_team_ids
from apps.core.tables import ROWS_PER_PAGE, PortalTable, prepare
from apps.fleet.models import Cluster
from apps.fleet.selectors import enabled_clusters
from apps.observations.models import Source
from apps.observations.selectors import AsOf, SourceStatus, State, as_of_statuses, source_statuses

FLEET = (Source.NODES, Source.PODS)
QUOTA = (Source.KUEUE, Source.VOLCANO)
WORK = (Source.PODS, Source.EVENTS, Source.KUEUE, Source.VOLCANO)
TROUBLED = frozenset({State.STALE, State.PARTIAL, State.FAILED, State.NEVER})


@dataclass(frozen=True, slots=True)
class Page:
    """`team_ids`: None reads every team. `clusters`: the selected ones, all enabled when none is named. `statuses`:
    where all their sources stand, read once; `as_of` is of the needed ones."""

    request: HttpRequest
    now: datetime
    cluster: Cluster | None
    clusters: list[Cluster]
    all_clusters: list[Cluster]
    team_ids: list[int] | None
    as_of: AsOf
    sources: Sequence[str] = field(default=())
    statuses: list[SourceStatus] = field(default_factory=list)

    @classmethod
    def open(cls, request: HttpRequest, *, sources: Sequence[str]) -> Page:
        now = timezone.now()
        everything = list(enabled_clusters())
        chosen = _chosen(everything, request.GET.get("cluster", ""))
        clusters = everything if chosen is None else [chosen]
        statuses = source_statuses(now=now, clusters=clusters)
        needed = [status for status in statuses if status.source in sources]
        return cls(
            request=request,
            now=now,
            cluster=chosen,
            clusters=clusters,
            all_clusters=everything,
            team_ids=readable_team_ids(request),
            as_of=as_of_statuses(needed, now=now),
            sources=sources,
            statuses=statuses,
        )

    @property
    def troubled(self) -> list[SourceStatus]:
        """The needed sources that are not as they should be, worst first."""
        order = [State.FAILED, State.NEVER, State.STALE, State.PARTIAL]
        found = [status for status in self.as_of.statuses if status.state in TROUBLED]
        return sorted(found, key=lambda status: order.index(status.state))

    @property
    def has_data(self) -> bool:
        return self.as_of.observed_at is not None

    @property
    def needed_count(self) -> int:
        return sum(status.state is not State.ABSENT for status in self.as_of.statuses)

    @property
    def cluster_slug(self) -> str:
        return "" if self.cluster is None else self.cluster.slug

    def prepare(
        self, table: PortalTable, *, per_page: int = ROWS_PER_PAGE, hide: Sequence[str] = ()
    ) -> PortalTable:
        """The table as this page shows it: ordered and paged, without a cluster column when one cluster is shown."""
        same = ("cluster", "cluster_name") if len(self.clusters) == 1 else ()
        return prepare(table, self.request, per_page=per_page, hide=(*hide, *same))

    def render(self, template: str, context: Mapping[str, Any], *, section: str = "") -> HttpResponse:
        """`section`: the entry of the navigation that a page below it belongs to."""
        kept = [
            (k, v) for k, v in self.request.GET.items() if k not in {"cluster", "page", "format", "table"}
        ]
        frame = {"page": self, "page_section": f"console:{section}", "kept_filters": kept}
        return render(self.request, template, {**frame, **context})


def _chosen(clusters: Sequence[Cluster], slug: str) -> Cluster | None:
    if not slug:
        return None
    for cluster in clusters:
        if cluster.slug == slug:
            return cluster
    raise Http404
