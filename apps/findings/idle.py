"""Findings about cards that are held and do nothing, and about cards that only one side knows.

Idleness concerns whoever holds the card: a reader restricted to teams is told of their own pods' cards, others of all.
Coverage concerns platform admins."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, ngettext_lazy

from apps.capacity.carding import Holder
from apps.capacity.cards import CardRow, idle_cards
from apps.capacity.coverage import ClusterCoverage, coverage
from apps.capacity.idle import WINDOW, Idle
from apps.findings.rows import Finding, Severity, Target, duration, some_names
from apps.fleet.models import Cluster

_TEXTS = {
    "held_idle": ngettext_lazy(
        "%(n)d card of %(cluster)s is held and has done nothing for %(time)s: %(nodes)s",
        "%(n)d cards of %(cluster)s are held and have done nothing for %(time)s: %(nodes)s",
        "n",
    ),
    "memory_without_compute": ngettext_lazy(
        "%(n)d card of %(cluster)s has memory taken and has computed nothing for %(time)s: %(nodes)s",
        "%(n)d cards of %(cluster)s have memory taken and have computed nothing for %(time)s: %(nodes)s",
        "n",
    ),
}


@dataclass(slots=True)
class _Tally:
    cards: int = 0
    nodes: set[str] = field(default_factory=set)
    since: datetime | None = None

    def add(self, row: CardRow, idles: Collection[Idle]) -> None:
        self.cards += 1
        self.nodes.add(row.node)
        began = min(idle.since for idle in idles)
        self.since = min(self.since or began, began)


def idle_findings(
    *, now: datetime, clusters: Collection[Cluster], team_ids: Collection[int] | None
) -> Iterator[Finding]:
    """Per cluster: cards held idle, and those of them with memory taken, each card in one of the two."""
    tallies: dict[tuple[int, str], _Tally] = {}
    for row in idle_cards(now=now, clusters=clusters):
        if mine := _concerning(row, team_ids):
            code = "memory_without_compute" if any(idle.memory_held for idle in mine) else "held_idle"
            tallies.setdefault((row.cluster.pk, code), _Tally()).add(row, mine)
    by_id = {cluster.pk: cluster for cluster in clusters}
    for (cluster_id, code), tally in tallies.items():
        yield _idle(by_id[cluster_id], code, tally)


def _concerning(row: CardRow, team_ids: Collection[int] | None) -> list[Idle]:
    """The evidence about what pods of these teams hold on the card."""
    parts: list[tuple[Idle | None, tuple[Holder, ...]]] = [(row.idle, row.holders)]
    parts += [(instance.idle, instance.holders) for instance in row.instances]
    return [
        idle
        for idle, holders in parts
        if idle is not None and (team_ids is None or any(holder.team_id in team_ids for holder in holders))
    ]


def _idle(cluster: Cluster, code: str, tally: _Tally) -> Finding:
    names = sorted(tally.nodes)
    values = {
        "n": tally.cards,
        "cluster": cluster.name,
        "time": duration(int(WINDOW.total_seconds())),
        "nodes": some_names(names),
    }
    return _finding(
        cluster, code, "warn", str(_TEXTS[code] % values), names, count=tally.cards, since=tally.since
    )


def coverage_findings(*, now: datetime, clusters: Collection[Cluster]) -> Iterator[Finding]:
    """Per cluster: cards that only telemetry sees, and cards that it does not see."""
    for found in coverage(now=now, clusters=clusters):
        if found.beyond:
            yield _beyond(found)
        if found.unseen:
            yield _unseen(found)


def _beyond(found: ClusterCoverage) -> Finding:
    text = ngettext(
        "%(cluster)s: exporters see %(n)d card that no node offers. %(nodes)s",
        "%(cluster)s: exporters see %(n)d cards that no node offers. %(nodes)s",
        found.beyond,
    )
    names = [node.node for node in found.differing if node.beyond]
    # Cards of nodes that the API does not know have no node to lead to.
    shown = some_names(names) if names else _("They are on nodes that the API does not know.")
    values = {"cluster": found.cluster.name, "n": found.beyond, "nodes": shown}
    return _finding(found.cluster, "coverage-beyond", "warn", text % values, names, count=found.beyond)


def _unseen(found: ClusterCoverage) -> Finding:
    text = ngettext(
        "%(cluster)s: exporters do not see %(n)d card that nodes offer: %(nodes)s",
        "%(cluster)s: exporters do not see %(n)d cards that nodes offer: %(nodes)s",
        found.unseen,
    )
    names = [node.node for node in found.differing if node.unseen]
    values = {"cluster": found.cluster.name, "n": found.unseen, "nodes": some_names(names)}
    return _finding(found.cluster, "coverage-unseen", "note", text % values, names, count=found.unseen)


def _finding(
    cluster: Cluster,
    code: str,
    severity: Severity,
    text: str,
    nodes: list[str],
    *,
    count: int,
    since: datetime | None = None,
) -> Finding:
    one = len(nodes) == 1
    target: Target = "node" if one else "capacity"
    return Finding(
        key=f"{code}/{cluster.slug}",
        severity=severity,
        text=text,
        target=target,
        args={"cluster": cluster.slug, "name": nodes[0]} if one else {"cluster": cluster.slug},
        since=since,
        cluster_id=cluster.pk,
        count=count,
    )
