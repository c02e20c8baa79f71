"""What does not fit together between topologies and nodes. Input: a fleet; output: `Note`s with their objects.

- topology_missing: a flavor names a Topology that is not there; Kueue admits nothing in it.
- topology_labels: nodes that a flavor with a Topology reaches, and that lack a label of its levels; Kueue places no
  topology-aware work on them, although their cards count as the flavor's.
- hypernode_empty: a HyperNode that no node belongs to, directly or through others.
- hypernode_pattern: a HyperNode with a regular expression that is not read (see patterns.py) and selects nothing here.
One query.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.capacity.facts import Fleet
from apps.capacity.rows import Note, Ref
from apps.capacity.topology import HyperNode, hypernode_layout, unreadable
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject

NAMES_SHOWN = 3
PATTERN_SHOWN = 60
KINDS = ("ResourceFlavor", "Topology", "HyperNode")
Objects = Mapping[str, Mapping[str, tuple[Mapping[str, Any], Mapping[str, str]]]]
"""{kind: {name: (spec, labels)}} of one cluster."""


def topology_notes(fleet: Fleet) -> Iterator[Note]:
    found: dict[int, dict[str, dict[str, Any]]] = defaultdict(lambda: {kind: {} for kind in KINDS})
    rows = ClusterObject.objects.filter(cluster__in=list(fleet.clusters), kind__in=KINDS, gone_at=None)
    for pk, kind, name, spec, labels in rows.order_by("name").values_list(
        "cluster_id", "kind", "name", "spec", "labels"
    ):
        found[pk][kind][name] = (spec, labels)
    for pk, cluster in fleet.clusters.items():
        if pk in found:
            yield from _flavors(fleet, cluster, found[pk])
            yield from _hypernodes(fleet, cluster, found[pk])


def _flavors(fleet: Fleet, cluster: Cluster, objects: Objects) -> Iterator[Note]:
    for flavor, (spec, _labels) in objects["ResourceFlavor"].items():
        name = str(spec.get("topology") or "")
        if not name:
            continue
        words = {"flavor": flavor, "topology": name}
        if name not in objects["Topology"]:
            text = _("Flavor %(flavor)s names the topology %(topology)s, which does not exist.")
            yield Note("topology_missing", cluster, text % words, (flavor, name), (Ref("flavor", flavor),))
            continue
        levels = [str(level) for level in objects["Topology"][name][0].get("levels") or ()]
        without = {
            node.name: [level for level in levels if level not in node.health.labels]
            for node in fleet.nodes
            if node.cluster.pk == cluster.pk and flavor in node.flavors
        }
        lacking = {node: missing for node, missing in without.items() if missing}
        if lacking:
            yield _lacking(cluster, flavor, name, lacking)


def _lacking(cluster: Cluster, flavor: str, topology: str, nodes: Mapping[str, list[str]]) -> Note:
    text = ngettext(
        "%(count)d node of flavor %(flavor)s lacks labels of topology %(topology)s (%(labels)s): Kueue places no"
        " topology-aware work on it.",
        "%(count)d nodes of flavor %(flavor)s lack labels of topology %(topology)s (%(labels)s): Kueue places no"
        " topology-aware work on them.",
        len(nodes),
    )
    labels = sorted({label for missing in nodes.values() for label in missing})
    words = {"count": len(nodes), "flavor": flavor, "topology": topology, "labels": ", ".join(labels)}
    refs = (Ref("flavor", flavor), Ref("Topology", topology), *(Ref("node", node) for node in nodes))
    return Note("topology_labels", cluster, text % words, (flavor, topology), refs)


def _hypernodes(fleet: Fleet, cluster: Cluster, objects: Objects) -> Iterator[Note]:
    hypernodes = [hypernode(name, spec, labels) for name, (spec, labels) in objects["HyperNode"].items()]
    nodes = {node.name: node.health.labels for node in fleet.nodes if node.cluster.pk == cluster.pk}
    layout = hypernode_layout(hypernodes, nodes)
    if layout is None:
        return
    used = {step for path in layout.paths.values() for step in path}
    unread = unreadable(hypernodes)
    if unread:
        yield _unread(cluster, unread)
    empty = [item.name for item in hypernodes if item.name not in used and item.name not in unread]
    if empty:
        text = ngettext(
            "%(count)d HyperNode has no node: %(names)s. Its members select none, or a lower one has them.",
            "%(count)d HyperNodes have no node: %(names)s. Their members select none, or lower ones have them.",
            len(empty),
        )
        yield _of_hypernodes("hypernode_empty", cluster, text, empty, empty)


def _unread(cluster: Cluster, patterns: Mapping[str, str]) -> Note:
    text = ngettext(
        "%(count)d HyperNode has a regular expression that is not read here, so that it selects nothing: %(names)s.",
        "%(count)d HyperNodes have regular expressions that are not read here, so that they select nothing: %(names)s.",
        len(patterns),
    )
    said = [f"{name} ({pattern[:PATTERN_SHOWN]})" for name, pattern in patterns.items()]
    return _of_hypernodes("hypernode_pattern", cluster, text, list(patterns), said)


def _of_hypernodes(code: str, cluster: Cluster, text: str, names: list[str], said: list[str]) -> Note:
    """`said`: the names as the sentence shows them."""
    shown = ", ".join(said[:NAMES_SHOWN]) + (" …" if len(said) > NAMES_SHOWN else "")
    refs = tuple(Ref("HyperNode", name) for name in names)
    return Note(code, cluster, text % {"count": len(names), "names": shown}, tuple(names), refs)


def hypernode(name: str, spec: Mapping[str, Any], labels: Mapping[str, str]) -> HyperNode:
    """A stored HyperNode as the pure rules read it."""
    members = tuple(spec.get("members") or ())
    return HyperNode(name, int(spec.get("tier") or 0), str(spec.get("tier_name") or ""), members, labels)
