"""Findings about what goes wrong between layers: each did its own part, and work does not run.

Input: what between_loading.py reads, judged by apps.admissions.between_layers; output: a finding per cluster, code,
queue and team, so that each belongs to one team, and one per node that refuses pods. Told at most `keeping.KEEP` late.

Invariants: a reader restricted to teams is told of these teams' work only, and by the name of no other queue; a finding
about a node names no work. Devices of different resources are never added up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, ngettext_lazy

from apps.accounts.models import Team
from apps.admissions.between_layers import (
    NO_NODE,
    NO_PODS,
    OTHER_MODEL,
    PARTLY_PLACED,
    PREEMPTED_AGAIN,
    READY_LOOP,
    REGISTERING_LIMIT,
    REJECTED,
    Case,
    Held,
    NodeFault,
    cases_of,
    node_faults,
)
from apps.capacity.rows import NodeRow, Note
from apps.core.formats import quantities_text
from apps.findings.between_loading import load
from apps.findings.keeping import Kept
from apps.findings.rows import Finding, Ref, Severity, some_names
from apps.fleet.models import Cluster
from apps.fleet.selectors import BindingIndex
from apps.observations.models import Node, Workload

OBJECTS_NAMED = 100
UNBOUND = "-"
_SEVERITY: dict[str, Severity] = {
    NO_NODE: "warn",
    PARTLY_PLACED: "bad",
    REJECTED: "warn",
    OTHER_MODEL: "warn",
    NO_PODS: "warn",
    READY_LOOP: "warn",
    PREEMPTED_AGAIN: "warn",
}
TEXTS = {
    NO_NODE: ngettext_lazy(
        "%(n)d piece of work in queue %(queue)s of %(cluster)s was admitted, and no node came for it: %(names)s",
        "%(n)d pieces of work in queue %(queue)s of %(cluster)s were admitted, and no node came for them: %(names)s",
        "n",
    ),
    PARTLY_PLACED: ngettext_lazy(
        "%(n)d piece of work in queue %(queue)s of %(cluster)s has a part of its pods placed (%(placed)d of %(pods)d):"
        " %(names)s",
        "%(n)d pieces of work in queue %(queue)s of %(cluster)s have a part of their pods placed (%(placed)d of"
        " %(pods)d): %(names)s",
        "n",
    ),
    REJECTED: ngettext_lazy(
        "Pods of %(n)d piece of work in queue %(queue)s of %(cluster)s were placed and refused by the node"
        " (%(nodes)s): %(names)s",
        "Pods of %(n)d pieces of work in queue %(queue)s of %(cluster)s were placed and refused by the node"
        " (%(nodes)s): %(names)s",
        "n",
    ),
    OTHER_MODEL: ngettext_lazy(
        "%(n)d piece of work in queue %(queue)s of %(cluster)s runs on %(model)s, its quota is for %(promised)s:"
        " %(names)s",
        "%(n)d pieces of work in queue %(queue)s of %(cluster)s run on %(model)s, their quota is for %(promised)s:"
        " %(names)s",
        "n",
    ),
    NO_PODS: ngettext_lazy(
        "%(n)d piece of work in queue %(queue)s of %(cluster)s holds quota and has no pods: %(names)s",
        "%(n)d pieces of work in queue %(queue)s of %(cluster)s hold quota and have no pods: %(names)s",
        "n",
    ),
    READY_LOOP: ngettext_lazy(
        "%(n)d piece of work in queue %(queue)s of %(cluster)s is evicted again and again because its pods are not"
        " ready in time (%(times)d times in a day): %(names)s",
        "%(n)d pieces of work in queue %(queue)s of %(cluster)s are evicted again and again because their pods are not"
        " ready in time (%(times)d times in a day): %(names)s",
        "n",
    ),
    PREEMPTED_AGAIN: ngettext_lazy(
        "%(n)d piece of work in queue %(queue)s of %(cluster)s is preempted again and again (%(times)d times in a day):"
        " %(names)s",
        "%(n)d pieces of work in queue %(queue)s of %(cluster)s are preempted again and again (%(times)d times in a"
        " day): %(names)s",
        "n",
    ),
}


@dataclass(frozen=True, slots=True)
class _Found:
    cases: tuple[Case, ...]
    faults: tuple[NodeFault, ...]


def _find(now: datetime, cluster: Cluster) -> _Found:
    loaded = load(now, cluster)
    cases = [case for work in loaded.work for case in cases_of(work, now=now)]
    return _Found(tuple(cases), tuple(node_faults(loaded.rejections, now=now)))


_kept = Kept(_find)


def between_findings(
    *,
    now: datetime,
    clusters: Collection[Cluster],
    team_ids: Collection[int] | None,
    uid: str = "",
    node: str = "",
) -> Iterator[Finding]:
    """With `uid` those about this piece of work alone, with `node` those about this node."""
    if team_ids is not None and not team_ids:
        return
    found = {cluster: _kept.of(now, cluster) for cluster in clusters}
    if not node:
        yield from _work_findings(found, now=now, team_ids=team_ids, uid=uid)
    if team_ids is None and not uid:
        for cluster, each in found.items():
            for fault in each.faults:
                if node in ("", fault.node):
                    yield _node_fault(cluster, fault)


def _work_findings(
    found: dict[Cluster, _Found], *, now: datetime, team_ids: Collection[int] | None, uid: str
) -> Iterator[Finding]:
    index = BindingIndex.load(now, clusters=[cluster.pk for cluster in found])
    groups: defaultdict[tuple[Cluster, str, str, str, int | None], list[Case]] = defaultdict(list)
    for cluster, each in found.items():
        for case in each.cases:
            work = case.work
            if uid not in ("", work.uid):
                continue
            team_id = _team_of(work, cluster, index)
            if team_ids is None or team_id in team_ids:
                groups[cluster, case.code, work.kind, work.queue or work.queue_name, team_id].append(case)
    slugs = dict(Team.objects.filter(pk__in={key[-1] for key in groups}).values_list("pk", "slug"))
    for (cluster, code, kind, queue, team_id), cases in groups.items():
        cases.sort(key=lambda case: (case.since, case.work.namespace, case.work.name))
        yield _of_group(
            cluster, code, kind, queue, slugs.get(team_id or 0, UNBOUND), cases, every_team=team_ids is None
        )


def _team_of(work: Held, cluster: Cluster, index: BindingIndex) -> int | None:
    return index.team_id_for(
        cluster.pk,
        namespace=work.namespace,
        queue_name=work.queue_name,
        queue=work.queue,
        volcano=work.kind == Workload.Kind.POD_GROUP,
    )


def _of_group(
    cluster: Cluster, code: str, kind: str, queue: str, team: str, cases: Sequence[Case], *, every_team: bool
) -> Finding:
    queue_kind = "VolcanoQueue" if kind == Workload.Kind.POD_GROUP else "ClusterQueue"
    nodes = sorted({node for case in cases for node in case.nodes})
    text = str(TEXTS[code] % _values(cluster, queue, cases, nodes))
    more = [text, _held(cases), _said(code, queue, cases, every_team=every_team)]
    refs = [Ref("Workload", case.work.namespace, case.work.name) for case in cases[:OBJECTS_NAMED]]
    one = cases[0].work.uid if len(cases) == 1 else ""
    return Finding(
        key=f"between/{code}/{cluster.slug}/{queue_kind}/{queue}/{team}",
        severity=_SEVERITY[code],
        text=" · ".join(part for part in more if part),
        target="workload" if one else "queue",
        args={"uid": one} if one else {"cluster": cluster.slug, "kind": queue_kind, "name": queue},
        since=cases[0].since,
        cluster_id=cluster.pk,
        count=len(cases),
        objects=(Ref(queue_kind, "", queue), *refs),
    )


def _values(cluster: Cluster, queue: str, cases: Sequence[Case], nodes: Sequence[str]) -> dict[str, object]:
    pods = [case.work.pods for case in cases]
    misplaced = [each for case in cases for each in case.work.misplaced]
    return {
        "n": len(cases),
        "queue": queue,
        "cluster": cluster.name,
        "names": some_names([f"{case.work.namespace}/{case.work.name}" for case in cases]),
        "nodes": some_names(nodes),
        "placed": sum(each.bound for each in pods),
        "pods": sum(each.live for each in pods),
        "times": sum(case.times for case in cases),
        "model": ", ".join(sorted({each.model for each in misplaced})),
        "promised": ", ".join(sorted({model for each in misplaced for model in each.promised})),
    }


def _held(cases: Sequence[Case]) -> str:
    """What it holds meanwhile, each resource by itself; "" when it holds nothing now."""
    amounts: dict[str, Decimal] = {}
    for case in cases:
        for resource, amount in case.work.devices.items():
            amounts[resource] = amounts.get(resource, Decimal(0)) + amount
    return _("Held meanwhile: %(devices)s.") % {"devices": quantities_text(amounts)} if amounts else ""


def _said(code: str, queue: str, cases: Sequence[Case], *, every_team: bool) -> str:
    if code == PREEMPTED_AGAIN:
        by = list(dict.fromkeys(name for case in cases for name in case.by))
        shown = [name for name in by if every_team or name == queue]
        return _("Preempted by work of: %(queues)s.") % {"queues": some_names(shown)} if shown else ""
    text = next((case.work.said for case in cases if case.work.said), "")
    if code in (NO_NODE, PARTLY_PLACED) and text:
        return _("The autoscaler says: %(text)s") % {"text": text[:300]}
    return ""


def _node_fault(cluster: Cluster, fault: NodeFault) -> Finding:
    text = ngettext(
        "Node %(node)s of %(cluster)s refused %(n)d pod within an hour (%(reasons)s).",
        "Node %(node)s of %(cluster)s refused %(n)d pods within an hour (%(reasons)s).",
        fault.count,
    )
    values = {
        "node": fault.node,
        "cluster": cluster.name,
        "n": fault.count,
        "reasons": ", ".join(fault.reasons),
    }
    return Finding(
        key=f"between/node_refuses/{cluster.slug}/{fault.node}",
        severity="bad",
        text=text % values,
        target="node",
        args={"cluster": cluster.slug, "name": fault.node},
        since=fault.since,
        cluster_id=cluster.pk,
        count=fault.count,
        objects=(Ref("node", "", fault.node),),
    )


# ---- nodes that came without their devices ----------------------------------------------------------------------

_NO_DEVICES = "present_without_devices"
WITHOUT_PLUGIN = ("lost", "plugin_down")
"""Buckets of cards whose plugin offers nothing: after a while they count as lost."""
_UNREGISTERED = "device_unregistered"


def unregistered_findings(
    *, now: datetime, rows: Iterable[NodeRow], notes: Iterable[Note]
) -> Iterator[Finding]:
    """Per cluster: nodes that have been Ready for longer than REGISTERING_LIMIT and offer no device, although labels or
    history say that they have some. `rows` and `notes` are capacity's; nothing is worked out anew."""
    devices: defaultdict[Cluster, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row.plugin_down:
            devices[row.cluster][row.node] += sum(
                reason.devices for reason in row.reasons if reason.bucket in WITHOUT_PLUGIN
            )
    for note in notes:
        if note.code == _NO_DEVICES:
            for name in note.objects:
                devices[note.cluster][name] += 0
    for cluster, counts in devices.items():
        since = _ready_since(cluster, counts)
        names = sorted(name for name in counts if name in since and now - since[name] > REGISTERING_LIMIT)
        if names:
            yield _unregistered(cluster, names, sum(counts[name] for name in names), since)


def _ready_since(cluster: Cluster, names: Iterable[str]) -> dict[str, datetime]:
    """When nodes that are Ready became so; as far as that is said."""
    found = {}
    nodes = Node.objects.filter(cluster=cluster, name__in=list(names), gone_at=None)
    for name, conditions, created in nodes.values_list("name", "conditions", "created_at"):
        ready = conditions.get("Ready") or {}
        since = datetime.fromisoformat(ready["since"]) if ready.get("since") else created
        if ready.get("status") == "True" and since is not None:
            found[name] = since
    return found


def _unregistered(
    cluster: Cluster, names: Sequence[str], devices: int, since: dict[str, datetime]
) -> Finding:
    limit = int(REGISTERING_LIMIT / timedelta(minutes=1))
    text = ngettext(
        "%(n)d node of %(cluster)s has been ready for more than %(limit)d minutes and offers no devices: %(nodes)s",
        "%(n)d nodes of %(cluster)s have been ready for more than %(limit)d minutes and offer no devices: %(nodes)s",
        len(names),
    )
    said = text % {"n": len(names), "cluster": cluster.name, "limit": limit, "nodes": some_names(names)}
    if devices:
        missing = ngettext("%(n)d device is missing.", "%(n)d devices are missing.", devices)
        said = f"{said}. {missing % {'n': devices}}"
    one = len(names) == 1
    return Finding(
        key=f"between/{_UNREGISTERED}/{cluster.slug}",
        severity="bad",
        text=said,
        target="node" if one else "capacity",
        args={"cluster": cluster.slug, "name": names[0]} if one else {"cluster": cluster.slug},
        since=min(since[name] for name in names),
        cluster_id=cluster.pk,
        count=len(names),
        objects=tuple(Ref("node", "", name) for name in names),
    )
