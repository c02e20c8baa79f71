"""Everything the quota views compute from. Input: clock and clusters; output: one `Snapshot`.

Read once by a constant number of queries, or, in the web process, as `store.py` keeps it: then two queries say that
nothing changed. Readers never change what they get.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings

from apps.fleet.models import Cluster
from apps.fleet.selectors import BindingIndex, enabled_clusters
from apps.observations.selectors import source_runs
from apps.quotas.flavors import Meaning, meaning
from apps.quotas.reading import ZERO, Amounts, ClusterView, Demand, Item, TeamWork, read_clusters, view_of
from apps.quotas.store import kept_views

__all__ = ["ZERO", "Amounts", "ClusterView", "Demand", "Item", "Snapshot", "TeamWork", "load_snapshot"]


@dataclass(slots=True)
class Snapshot:
    """`views` by cluster id, in the clusters' order. `work` by team; the key None is work of nobody."""

    now: datetime
    views: Mapping[int, ClusterView]
    bindings: BindingIndex
    work: Mapping[int | None, TeamWork]
    _meanings: dict[tuple[int, str, str], Meaning] = field(default_factory=dict)

    def meaning(self, cluster_id: int, flavor: str, resource: str) -> Meaning:
        """What units of this (flavor, resource) are."""
        key = (cluster_id, flavor, resource)
        if key not in self._meanings:
            view = self.views[cluster_id]
            item = view.objects["ResourceFlavor"].get(flavor)
            self._meanings[key] = meaning(
                reached=view.reach.get(key, frozenset()),
                resource=resource,
                flavor=item.spec if item else None,
            )
        return self._meanings[key]

    def alone(self, cluster_id: int) -> Snapshot:
        """The same of one cluster."""
        view = self.views[cluster_id]
        return Snapshot(self.now, {cluster_id: view}, self.bindings, view.work)


def load_snapshot(
    *, now: datetime, clusters: Iterable[Cluster] | None = None, bindings: BindingIndex | None = None
) -> Snapshot:
    """What these clusters (None: all enabled ones) say of quota now. `bindings`: who owns what of them now, where the
    caller has read it."""
    chosen = list(enabled_clusters() if clusters is None else clusters)
    if settings.CAPACITY_MEMORY:
        runs = source_runs(clusters=chosen)  # before anything else is read
        bindings = bindings or BindingIndex.load(at=now, clusters=[cluster.pk for cluster in chosen])
        views = kept_views(chosen, now=now, runs=runs, bindings=bindings)
    else:
        bindings = bindings or BindingIndex.load(at=now, clusters=[cluster.pk for cluster in chosen])
        read = read_clusters(chosen)
        views = {cluster.pk: view_of(cluster, read[cluster.pk], bindings) for cluster in chosen}
    return Snapshot(now, views, bindings, _all_work(views.values()))


def _all_work(views: Collection[ClusterView]) -> Mapping[int | None, TeamWork]:
    if len(views) == 1:
        return next(iter(views)).work
    found: dict[int | None, TeamWork] = defaultdict(TeamWork)
    for view in views:
        for team, work in view.work.items():
            found[team].add(work)
    return found
