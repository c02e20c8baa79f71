"""What needs a look about capacity and promises. Input: a fleet and its pools; output: `Note`s with their objects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.capacity.facts import Fleet, NodeState
from apps.capacity.labels import code_text
from apps.capacity.promised import Promises
from apps.capacity.rows import Note, PoolRow
from apps.core.gpu import mode_label
from apps.core.quantity import plain
from apps.fleet.models import Cluster
from apps.fleet.registry import is_device

NODE_CODES = ("no_model", "labels_differ", "mig_invalid", "register_unreadable", "present_without_devices")


def notes(fleet: Fleet, promised: Promises, pools: Iterable[PoolRow]) -> Iterator[Note]:
    """Most important first."""
    for cluster in fleet.pods_missing:
        text = _("Pods of this cluster were never read: what is held and free there is not known.")
        yield Note("pods_missing", cluster, text, ())
    yield from _over_committed(pools)
    yield from _loose(fleet, promised)
    yield from _flavor_notes(fleet, promised)
    yield from _node_codes(fleet)


def _over_committed(pools: Iterable[PoolRow]) -> Iterator[Note]:
    for pool in pools:
        if pool.nominal is not None and pool.nominal > pool.allocatable:
            text = _("%(pool)s: %(nominal)s promised, %(usable)s usable.") % {
                "pool": _("%(model)s (%(mode)s)")
                % {"model": pool.model_label, "mode": mode_label(pool.sharing_mode)},
                "nominal": plain(pool.nominal),
                "usable": plain(pool.allocatable),
            }
            yield Note("over_committed", pool.cluster, text, (pool.model, pool.sharing_mode))


def _loose(fleet: Fleet, promised: Promises) -> Iterator[Note]:
    for (cluster_id, flavor, resource), (promise, pools) in promised.loose.items():
        amount: Decimal | None = promise.nominal
        if not amount:
            continue
        words = {"flavor": flavor, "resource": resource, "amount": plain(amount), "pools": len(pools)}
        cluster = fleet.clusters[cluster_id]
        if not pools and flavor:
            text = _("Flavor %(flavor)s has quota (%(amount)s %(resource)s), no node carries it.") % words
            yield Note("unused_flavor", cluster, text, (flavor, resource))
        elif flavor:
            text = _(
                "Flavor %(flavor)s reaches %(pools)d pools: its %(amount)s %(resource)s belong to none alone."
            )
            yield Note("shared_flavor", cluster, text % words, (flavor, resource))
        else:
            text = _("Volcano shares %(amount)s %(resource)s over %(pools)d pools: no pool can claim them.")
            yield Note("shared_flavor", cluster, text % words, ("", resource))


def _quoted(promised: Promises) -> dict[int, set[tuple[str, str]]]:
    """(flavor, accelerator) pairs that some queue or cohort of a cluster quotes."""
    found: dict[int, set[tuple[str, str]]] = defaultdict(set)
    for cluster_id, view in promised.snapshot.views.items():
        for kind in ("ClusterQueue", "Cohort"):
            for item in view.objects[kind].values():
                for group in item.spec.get("resource_groups") or ():
                    for flavor in group["flavors"]:
                        found[cluster_id].update(
                            (flavor["name"], quota["name"])
                            for quota in flavor["resources"]
                            if is_device(quota["name"])
                        )
    return found


def _flavor_notes(fleet: Fleet, promised: Promises) -> Iterator[Note]:
    quoted = _quoted(promised)
    none: dict[Cluster, list[str]] = defaultdict(list)
    several: dict[tuple[Cluster, tuple[str, ...]], list[str]] = defaultdict(list)
    for node in fleet.nodes:
        pairs = quoted.get(node.cluster.pk)
        if not pairs:  # no quota by flavors in this cluster
            continue
        for flavors in _reaching(node, pairs):
            if not flavors and node.name not in none[node.cluster]:
                none[node.cluster].append(node.name)
            elif len(flavors) > 1 and node.name not in several[node.cluster, flavors]:
                several[node.cluster, flavors].append(node.name)
    for cluster, names in none.items():
        if names:
            text = ngettext(
                "%(count)d node with accelerators is in no flavor that has quota.",
                "%(count)d nodes with accelerators are in no flavor that has quota.",
                len(names),
            )
            yield Note("no_flavor", cluster, text % {"count": len(names)}, tuple(names))
    for (cluster, flavors), names in several.items():
        if names:
            text = ngettext(
                "%(count)d node is counted by several flavors at once: %(flavors)s.",
                "%(count)d nodes are counted by several flavors at once: %(flavors)s.",
                len(names),
            )
            words = {"count": len(names), "flavors": ", ".join(flavors)}
            yield Note("two_flavors", cluster, text % words, tuple(names))


def _reaching(node: NodeState, pairs: set[tuple[str, str]]) -> Iterator[tuple[str, ...]]:
    """Per accelerator resource of the node, the flavors with quota for it that reach the node."""
    resources = {found.unit.resource for item in node.falls for found in item.units if found.physical}
    for resource in sorted(resources):
        yield tuple(flavor for flavor in node.flavors if (flavor, resource) in pairs)


def _node_codes(fleet: Fleet) -> Iterator[Note]:
    found: dict[tuple[str, Cluster], list[str]] = defaultdict(list)
    for node in fleet.nodes:
        for code in {*node.codes, *(code for item in node.falls for code in item.group.codes)}:
            if code in NODE_CODES:
                found[code, node.cluster].append(node.name)
    for (code, cluster), names in found.items():
        shown = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
        text = _("%(text)s (%(names)s)") % {"text": code_text(code), "names": shown}
        yield Note(code, cluster, text, tuple(names))
