"""Findings about cards that are held and do nothing, and about cards that only one side knows.

Idleness concerns whoever holds the card: a reader restricted to teams is told of their own pods' cards, others of all.
Coverage concerns platform admins. Both are told at most `keeping.KEEP` late."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, ngettext_lazy

from apps.capacity.cards import CardRow, InstanceRow, idle_cards
from apps.capacity.coverage import ClusterCoverage, coverage
from apps.capacity.idle import WINDOW
from apps.findings.keeping import Kept
from apps.findings.rows import Finding, Ref, Severity, Target, duration, some_names
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


@dataclass(frozen=True, slots=True)
class _Part:
    """A card or an instance of one that is held and does nothing, and the teams of its pods."""

    since: datetime
    memory_held: bool
    teams: frozenset[int | None]


@dataclass(frozen=True, slots=True)
class _Card:
    node: str
    parts: tuple[_Part, ...]


@dataclass(slots=True)
class _Tally:
    cards: int = 0
    nodes: set[str] = field(default_factory=set)
    since: datetime | None = None

    def add(self, node: str, parts: Collection[_Part]) -> None:
        self.cards += 1
        self.nodes.add(node)
        began = min(part.since for part in parts)
        self.since = min(self.since or began, began)


def _idle_cards(now: datetime, cluster: Cluster) -> list[_Card]:
    return [_Card(row.node, tuple(_parts(row))) for row in idle_cards(now=now, clusters=[cluster])]


def _parts(row: CardRow) -> Iterator[_Part]:
    parts: list[CardRow | InstanceRow] = [row, *row.instances]
    for found in parts:
        if found.idle is not None:
            teams = frozenset(holder.team_id for holder in found.holders)
            yield _Part(found.idle.since, found.idle.memory_held, teams)


_kept_idle = Kept(_idle_cards)
_kept_coverage = Kept(lambda now, cluster: coverage(now=now, clusters=[cluster]))


def idle_findings(
    *, now: datetime, clusters: Collection[Cluster], team_ids: Collection[int] | None
) -> Iterator[Finding]:
    """Per cluster: cards held idle, and those with memory taken all the time; each card in one of the two."""
    if team_ids is not None and not team_ids:
        return
    for cluster in clusters:
        tallies: dict[str, _Tally] = {}
        for card in _kept_idle.of(now, cluster):
            mine = [part for part in card.parts if team_ids is None or not part.teams.isdisjoint(team_ids)]
            if mine:
                code = "memory_without_compute" if any(part.memory_held for part in mine) else "held_idle"
                tallies.setdefault(code, _Tally()).add(card.node, mine)
        for code in sorted(tallies):
            yield _idle(cluster, code, tallies[code])


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
    for cluster in clusters:
        for found in _kept_coverage.of(now, cluster):
            if found.beyond:
                yield _beyond(found)
            if found.unseen:
                yield _unseen(found)


def _beyond(found: ClusterCoverage) -> Finding:
    text = ngettext(
        "%(cluster)s: exporters see %(n)d card that no node offers: on %(nodes)s",
        "%(cluster)s: exporters see %(n)d cards that no node offers: on %(nodes)s",
        found.beyond,
    )
    names = [node.node for node in found.differing if node.beyond]
    places = [*names, *([_("nodes that the API does not know")] if found.unplaced else [])]
    values = {"cluster": found.cluster.name, "n": found.beyond, "nodes": some_names(places)}
    return _finding(
        found.cluster, "coverage-beyond", "warn", text % values, places, count=found.beyond, target="sources"
    )


def _unseen(found: ClusterCoverage) -> Finding:
    text = ngettext(
        "%(cluster)s: exporters do not see %(n)d card that nodes offer: %(nodes)s",
        "%(cluster)s: exporters do not see %(n)d cards that nodes offer: %(nodes)s",
        found.unseen,
    )
    names = [node.node for node in found.differing if node.unseen]
    values = {"cluster": found.cluster.name, "n": found.unseen, "nodes": some_names(names)}
    return _finding(
        found.cluster, "coverage-unseen", "note", text % values, names, count=found.unseen, target="sources"
    )


def _finding(
    cluster: Cluster,
    code: str,
    severity: Severity,
    text: str,
    nodes: list[str],
    *,
    count: int,
    since: datetime | None = None,
    target: Target = "capacity",
) -> Finding:
    """Leads to the node where cards of one node are meant, else to `target`."""
    args = {"cluster": cluster.slug}
    if target == "capacity" and len(nodes) == 1:
        target, args["name"] = "node", nodes[0]
    return Finding(
        key=f"{code}/{cluster.slug}",
        severity=severity,
        text=text,
        target=target,
        args=args,
        since=since,
        cluster_id=cluster.pk,
        count=count,
        objects=tuple(Ref("node", "", name) for name in nodes),
    )
