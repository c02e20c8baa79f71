"""What needs a look about capacity and promises. Input: a fleet and its pools; output: `Note`s with their objects.

Here: nodes and the flavors that reach them. What queues promise is notes_quota.py's matter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.capacity.facts import Fleet, NodeState
from apps.capacity.labels import code_text
from apps.capacity.notes_claims import claim_notes
from apps.capacity.notes_quota import over_committed, quota_notes, quoted
from apps.capacity.promised import Promises
from apps.capacity.rows import Note, PoolRow, Ref
from apps.core.formats import labelled
from apps.fleet.models import Cluster

# What inventory says about nodes that is worth a line here; the rest stands on the node's page.
NODE_CODES = (
    "no_model",
    "mixed_models",
    "labels_differ",
    "vm_workloads",
    "stale_resource",
    "mig_invalid",
    "unknown_profile",
    "register_unreadable",
    "present_without_devices",
    "dual_advertised",
    "dra_incomplete",
)
NAMES_SHOWN = 3


def notes(fleet: Fleet, promised: Promises, pools: Iterable[PoolRow]) -> Iterator[Note]:
    """Most important first."""
    yield from first_notes(fleet, promised, pools)
    yield from lasting_notes(fleet, promised)


def first_notes(fleet: Fleet, promised: Promises, pools: Iterable[PoolRow]) -> Iterator[Note]:
    """What follows numbers of pools and claims."""
    for cluster in fleet.pods_missing:
        text = _("Pods of this cluster were never read: what is held and free there is not known.")
        yield Note("pods_missing", cluster, text)
    yield from over_committed(fleet, promised, pools)
    yield from claim_notes(fleet)


def lasting_notes(fleet: Fleet, promised: Promises) -> Iterator[Note]:
    """What rests on the kinds of nodes and on what queues promise, not on numbers."""
    yield from quota_notes(fleet, promised)
    yield from _flavor_notes(fleet, promised)
    yield from _node_codes(fleet)


def readable(found: Iterable[Note], *, every_team: bool) -> tuple[Note, ...]:
    """What a reader may see of notes: those of single teams only name queues and jobs to who sees every team."""
    shown = (note if every_team else note.for_everybody() for note in found)
    return tuple(note for note in shown if note is not None)


def names_of(nodes: Mapping[str, NodeState]) -> list[str]:
    return [node.name for node in nodes.values()]


def node_refs(names: Iterable[str]) -> tuple[Ref, ...]:
    return tuple(Ref("node", name) for name in names)


def _flavor_notes(fleet: Fleet, promised: Promises) -> Iterator[Note]:
    pairs_of = quoted(promised)
    none: dict[Cluster, list[str]] = defaultdict(list)
    several: dict[tuple[Cluster, tuple[str, ...]], list[str]] = defaultdict(list)
    for node, alike in fleet.alike():
        pairs = pairs_of.get(node.cluster.pk)
        if not pairs:  # no quota by flavors in this cluster
            continue
        found = set(_reaching(node, pairs))
        if () in found:
            none[node.cluster] += names_of(alike)
        for flavors in found:
            if len(flavors) > 1:
                several[node.cluster, flavors] += names_of(alike)
    for cluster in sorted(none, key=_place):
        names = sorted(none[cluster])
        text = ngettext(
            "%(count)d node with accelerators is in no flavor that has quota.",
            "%(count)d nodes with accelerators are in no flavor that has quota.",
            len(names),
        )
        yield Note("no_flavor", cluster, text % {"count": len(names)}, tuple(names), node_refs(names))
    for cluster, flavors in sorted(several, key=lambda key: (*_place(key[0]), key[1])):
        names = sorted(several[cluster, flavors])
        text = ngettext(
            "%(count)d node is counted by several flavors at once: %(flavors)s.",
            "%(count)d nodes are counted by several flavors at once: %(flavors)s.",
            len(names),
        )
        words = {"count": len(names), "flavors": ", ".join(flavors)}
        refs = (*(Ref("flavor", flavor) for flavor in flavors), *node_refs(names))
        yield Note("two_flavors", cluster, text % words, tuple(names), refs)


def _place(cluster: Cluster) -> tuple[str, int]:
    return cluster.name, cluster.pk


def _reaching(node: NodeState, pairs: set[tuple[str, str]]) -> Iterator[tuple[str, ...]]:
    """Per accelerator resource of the node, the flavors with quota for it that reach the node."""
    resources = {found.unit.resource for item in node.falls for found in item.units if found.physical}
    for resource in resources:
        yield tuple(flavor for flavor in node.flavors if (flavor, resource) in pairs)


def _node_codes(fleet: Fleet) -> Iterator[Note]:
    found: dict[tuple[str, Cluster], list[str]] = defaultdict(list)
    for node, alike in fleet.alike():
        for code in {*node.codes, *(code for item in node.falls for code in item.group.codes)}:
            if code in NODE_CODES:
                found[code, node.cluster] += names_of(alike)
    for code, cluster in sorted(found, key=lambda key: (NODE_CODES.index(key[0]), key[1].name)):
        names = sorted(found[code, cluster])
        shown = ", ".join(names[:NAMES_SHOWN]) + (" …" if len(names) > NAMES_SHOWN else "")
        text = labelled(shown, code_text(code))
        yield Note(code, cluster, text, tuple(names), node_refs(names))
