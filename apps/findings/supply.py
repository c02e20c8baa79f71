"""Findings about devices: nodes out of use, and what does not fit together between nodes, flavors and quota.

Only for readers who see all teams: nodes belong to nobody in particular."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.capacity.rows import NodeRow, Note
from apps.capacity.selectors import capacity_nodes_and_work
from apps.findings.between import unregistered_findings
from apps.findings.rows import Finding, Ref, Severity, some_names
from apps.fleet.models import Cluster

# Buckets of the waterfall that somebody has to repair, and those that somebody chose.
_SEVERITY: dict[str, Severity] = {
    "lost": "bad",
    "node_not_ready": "bad",
    "device_unhealthy": "bad",
    "plugin_down": "bad",
    "uninitialised": "warn",
    "tainted": "warn",
    "being_removed": "note",
    "maintenance": "note",
    "cordoned": "note",
}
_NOTES: dict[str, Severity] = {
    "over_committed": "warn",
    "pods_missing": "warn",
    "mig_invalid": "warn",
    "present_without_devices": "warn",
    "two_flavors": "warn",
    "labels_differ": "warn",
    "mixed_models": "warn",
    "mixed_units": "warn",
    "unused_flavor": "warn",
    "unregistered": "warn",
    "dual_advertised": "warn",
    "dra_incomplete": "warn",
    "dra_unowned": "warn",
    "claim_without_pod": "warn",
    "claim_orphan": "warn",
    "spans_capacity_types": "warn",
    "topology_missing": "warn",
    "topology_labels": "warn",
    "hypernode_pattern": "warn",
}
# Notes whose objects are parts of their key; those of the others are a list that changes while the matter stays.
_OF_ONE_THING = frozenset(
    (
        "over_committed",
        "unused_flavor",
        "shared_flavor",
        "mixed_units",
        "unregistered",
        "dra_unowned",
        "topology_missing",
        "topology_labels",
    )
)
# Notes of the topology page; everything else is about capacity.
_OF_TOPOLOGY = frozenset(
    (
        "no_rdma",
        "spans_capacity_types",
        "topology_missing",
        "topology_labels",
        "hypernode_empty",
        "hypernode_pattern",
    )
)


# Notes that are quota's matter, by their code there.
_OF_QUOTA = {
    "over_committed": "nominal_over_allocatable",
    "unused_flavor": "flavor_without_nodes",
    "mixed_units": "unit_mismatch",
}
_TOLD_BY_QUOTA = "cohort_cycle"  # quota.py tells it, to the teams below as well


def supply_findings(*, now: datetime, clusters: Collection[Cluster]) -> Iterator[Finding]:
    report, rows, work = capacity_nodes_and_work(now=now, clusters=clusters)
    yield from bucket_findings(rows)
    yield from unregistered_findings(now=now, rows=rows, notes=report.notes)
    for note in (*report.notes, *work):
        if note.code != _TOLD_BY_QUOTA:
            yield note_finding(note)


def bucket_findings(rows: Collection[NodeRow]) -> Iterator[Finding]:
    """One finding per cluster and bucket."""
    found: dict[tuple[str, str], list[tuple[NodeRow, int, str]]] = {}
    for row in rows:
        for reason in row.reasons:
            if reason.bucket in _SEVERITY:
                key = (row.cluster.slug, reason.bucket)
                found.setdefault(key, []).append((row, reason.devices, reason.label))
    for (slug, bucket), items in found.items():
        devices = sum(count for _row, count, _label in items)
        names = sorted({row.node for row, _count, _label in items})
        first = items[0][0]
        text = ngettext(
            "%(n)d device in %(cluster)s is out of use (%(why)s): %(nodes)s",
            "%(n)d devices in %(cluster)s are out of use (%(why)s): %(nodes)s",
            devices,
        )
        values = {"n": devices, "cluster": first.cluster.name, "why": items[0][2], "nodes": some_names(names)}
        one = len(names) == 1
        yield Finding(
            key=f"bucket/{slug}/{bucket}",
            severity=_SEVERITY[bucket],
            text=text % values,
            target="node" if one else "capacity",
            args={"cluster": slug, "name": names[0]} if one else {"cluster": slug},
            cluster_id=first.cluster.pk,
            count=devices,
            objects=tuple(Ref("node", "", name) for name in names),
        )


def note_finding(note: Note) -> Finding:
    code = _OF_QUOTA.get(note.code)
    head = ("quota", code) if code else ("capacity", note.code)
    return Finding(
        key="/".join((*head, note.cluster.slug, *_key_parts(note))),
        severity=_NOTES.get(note.code, "note"),
        text=_("%(cluster)s: %(text)s") % {"cluster": note.cluster.name, "text": note.text},
        target="topology" if note.code in _OF_TOPOLOGY else "capacity",
        args={"cluster": note.cluster.slug},
        cluster_id=note.cluster.pk,
        count=1 if note.code in _OF_ONE_THING else max(1, len(note.objects)),
        objects=tuple(Ref(ref.kind, ref.namespace, ref.name) for ref in note.refs),
    )


def _key_parts(note: Note) -> tuple[str, ...]:
    """What tells a note from others of its code and cluster, as long as it is about the same."""
    if note.code == "two_flavors":
        return tuple(ref.name for ref in note.refs if ref.kind == "flavor")
    return note.objects if note.code in _OF_ONE_THING else ()
