"""Findings about waiting work and the queues that it waits in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext_lazy

from apps.accounts.models import Team
from apps.admissions.selectors import waiting
from apps.findings.rows import Finding, Ref, Severity, duration
from apps.fleet.models import Cluster, TeamBinding
from apps.fleet.selectors import UNBOUND, BindingIndex
from apps.observations.models import ClusterObject
from apps.observations.selectors import live_objects

LONG_WAIT_SECONDS = 24 * 3600
_NEVER_FITS = frozenset({"exceeds-max", "exceeds-max-old"})


@dataclass(slots=True)
class _Tally:
    count: int = 0
    longest: int = 0
    since: datetime | None = None

    def add(self, waits_since: datetime, now: datetime) -> None:
        self.count += 1
        self.longest = max(self.longest, int((now - waits_since).total_seconds()))
        self.since = min(self.since or waits_since, waits_since)


@dataclass(slots=True)
class _OfTeam:
    """What of one team's waiting work needs attention."""

    long: _Tally = field(default_factory=_Tally)
    never: _Tally = field(default_factory=_Tally)
    mistakes: _Tally = field(default_factory=_Tally)
    unknown: _Tally = field(default_factory=_Tally)


def waiting_findings(
    *, now: datetime, clusters: Collection[Cluster], team_ids: Collection[int] | None
) -> Iterator[Finding]:
    """Per team: work that can never start as it is, and work that waits for more than a day."""
    wanted = {cluster.pk for cluster in clusters}
    tallies: dict[int | None, _OfTeam] = {}
    for row in waiting(now=now, team_ids=team_ids).found:
        if row.cluster_id not in wanted:
            continue
        tally = tallies.setdefault(row.team_id, _OfTeam())
        if row.verdict.rule in _NEVER_FITS:
            tally.never.add(row.waits_since, now)
        elif row.verdict.cause == "configuration":
            tally.mistakes.add(row.waits_since, now)
        elif row.verdict.cause == "unknown":
            tally.unknown.add(row.waits_since, now)
        elif (now - row.waits_since).total_seconds() > LONG_WAIT_SECONDS:
            tally.long.add(row.waits_since, now)
    teams = Team.objects.in_bulk([team_id for team_id in tallies if team_id is not None])
    for team_id, tally in tallies.items():
        yield from _of_team(teams.get(team_id or 0), tally)


_SENTENCES = {
    "never": ngettext_lazy(
        "%(n)d workload of %(team)s asks for more than its queue can ever give.",
        "%(n)d workloads of %(team)s ask for more than their queue can ever give.",
        "n",
    ),
    "mistakes": ngettext_lazy(
        "%(n)d workload of %(team)s waits because of a mistake in its configuration.",
        "%(n)d workloads of %(team)s wait because of a mistake in their configuration.",
        "n",
    ),
    "unknown": ngettext_lazy(
        "%(n)d workload of %(team)s waits for a reason that no rule knows.",
        "%(n)d workloads of %(team)s wait for reasons that no rule knows.",
        "n",
    ),
    "long": ngettext_lazy(
        "%(n)d workload of %(team)s has waited for more than a day, the longest for %(longest)s.",
        "%(n)d workloads of %(team)s have waited for more than a day, the longest for %(longest)s.",
        "n",
    ),
}
_CAUSES = {"never": "quota", "mistakes": "configuration", "unknown": "unknown", "long": ""}


def _of_team(team: Team | None, tally: _OfTeam) -> Iterator[Finding]:
    slug = team.slug if team else UNBOUND
    name = team.name if team else _("no team")
    for code, sentence in _SENTENCES.items():
        found: _Tally = getattr(tally, code)
        if not found.count:
            continue
        args = {"team": slug, "cause": _CAUSES[code]}
        severity: Severity = "note" if code == "unknown" else "warn"
        yield Finding(
            key=f"waiting-{code}/{slug}",
            severity=severity,
            text=str(sentence % {"n": found.count, "team": name, "longest": duration(found.longest)}),
            target="admissions",
            args={key: value for key, value in args.items() if value},
            since=found.since,
            count=found.count,
            objects=(Ref("Team", "", slug),) if team else (),
        )


def queue_findings(
    *, now: datetime, clusters: Collection[Cluster], team_ids: Collection[int] | None
) -> Iterator[Finding]:
    """Queues that let nothing in: broken (somebody must act) or stopped (somebody chose)."""
    visible = None if team_ids is None else _visible_queues(now=now, clusters=clusters, team_ids=team_ids)
    by_id = {cluster.pk: cluster for cluster in clusters}
    for queue in [*_inactive(clusters), *_closed(clusters)]:
        if visible is not None and (queue.cluster_id, queue.kind, queue.name) not in visible:
            continue
        yield _queue_finding(queue, by_id[queue.cluster_id])


def _inactive(clusters: Collection[Cluster]) -> Iterable[ClusterObject]:
    found = live_objects(kind="ClusterQueue", clusters=clusters)
    return found.filter(status__conditions__Active__status="False").order_by("cluster", "name")


def _closed(clusters: Collection[Cluster]) -> Iterable[ClusterObject]:
    found = live_objects(kind="VolcanoQueue", clusters=clusters)
    return found.filter(status__state__in=["Closed", "Closing"]).order_by("cluster", "name")


def _visible_queues(
    *, now: datetime, clusters: Collection[Cluster], team_ids: Collection[int]
) -> set[tuple[int, str, str]]:
    """Queues that these teams own, directly or through a LocalQueue or namespace that leads to them."""
    ids = [cluster.pk for cluster in clusters]
    index = BindingIndex.load(now, clusters=ids)
    wanted = set(team_ids)
    kinds = {TeamBinding.Kind.CLUSTER_QUEUE: "ClusterQueue", TeamBinding.Kind.VOLCANO_QUEUE: "VolcanoQueue"}
    visible = {
        (thing.cluster_id, kinds[TeamBinding.Kind(thing.kind)], thing.name)
        for thing in index.things_of(wanted)
        if thing.kind in kinds
    }
    local_queues = live_objects(kind="LocalQueue", clusters=clusters)
    for cluster_id, namespace, name, spec in local_queues.values_list("cluster", "namespace", "name", "spec"):
        queue = spec.get("cluster_queue", "")
        owner = index.team_id_for(
            cluster_id, namespace=namespace, queue_name=name, queue=queue, volcano=False
        )
        if owner in wanted:
            visible.add((cluster_id, "ClusterQueue", queue))
    return visible


def _queue_finding(queue: ClusterObject, cluster: Cluster) -> Finding:
    said: dict[str, Any] = queue.status.get("conditions", {}).get("Active", {})
    stopped = queue.kind == "VolcanoQueue" or said.get("reason") == "Stopped"
    values = {"queue": queue.name, "cluster": cluster.name, "message": said.get("message", "")}
    if stopped:
        text = _("Queue %(queue)s of %(cluster)s is stopped: it lets nothing in.") % values
    else:
        text = _("Queue %(queue)s of %(cluster)s is broken: %(message)s") % values
    since = said.get("since")
    return Finding(
        key=f"queue-{'stopped' if stopped else 'broken'}/{cluster.slug}/{queue.kind}/{queue.name}",
        severity="note" if stopped else "bad",
        text=text,
        target="queue",
        args={"cluster": cluster.slug, "kind": queue.kind, "name": queue.name},
        since=datetime.fromisoformat(since) if since else queue.observed_at,
        cluster_id=cluster.pk,
        objects=(Ref(queue.kind, "", queue.name),),
    )
