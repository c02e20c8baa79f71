"""What does not fit together between quota and cards. Input: a fleet, its promises and pools; output: `Note`s.

A unit is told by what the nodes behind a (flavor, resource) offer: sharing mode, profile, share of a card. Quota of
one vendor inside one cohort tree, or one flavor, in more than one kind of unit is `mixed_units`: Kueue adds the
numbers up as if they were the same, and nobody can lend one for the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.capacity.facts import Fleet, PoolKey
from apps.capacity.pooling import UnitKey
from apps.capacity.promised import SHARES, Promises, node_units
from apps.capacity.rows import Note, PoolRow, Ref
from apps.core.formats import listed_apart, number_text
from apps.core.gpu import SharingMode, mode_label
from apps.core.quantity import plain
from apps.fleet.models import Cluster
from apps.fleet.registry import classify_resource, is_device, registry
from apps.fleet.unregistered import looks_like_accelerator, what_to_add
from apps.quotas.tree import Key, QuotaTree

FLAVORS_SHOWN = 3
Target = tuple[PoolKey, UnitKey]


def over_committed(fleet: Fleet, promised: Promises, pools: Iterable[PoolRow]) -> Iterator[Note]:
    """Pools of which more is promised than usable, then flavors that promise more than their nodes have: those over
    several pools, or over a part of one."""
    quoting = _quoting(promised)
    yield from _over_committed(promised, quoting, pools)
    yield from _flavors_over_committed(fleet, promised, quoting)


def quota_notes(fleet: Fleet, promised: Promises) -> Iterator[Note]:
    quoting = _quoting(promised)
    yield from _cycles(fleet, promised)
    yield from _loose(fleet, promised, quoting)
    yield from _mixed_trees(fleet, promised, quoting)
    yield from _unregistered(fleet, promised)


def quoted(promised: Promises) -> dict[int, set[tuple[str, str]]]:
    """(flavor, accelerator) pairs that some queue or cohort of a cluster quotes."""
    return {
        cluster_id: {cell for key in tree for cell in tree.node(*key).cells if is_device(cell[1])}
        for cluster_id, tree in promised.trees.items()
    }


Quoting = dict[tuple[int, str, str], list[Ref]]
"""(cluster, flavor, resource) → the queues and cohorts that promise something of it; flavor "" is Volcano's."""


def _quoting(promised: Promises) -> Quoting:
    """Worked out once for the same promises."""
    if "quoting" not in promised.kept:
        promised.kept["quoting"] = _who_quotes(promised)
    found: Quoting = promised.kept["quoting"]
    return found


def _who_quotes(promised: Promises) -> Quoting:
    found: Quoting = defaultdict(list)
    for cluster_id, tree in promised.trees.items():
        for key in tree:
            for cell, quota in tree.node(*key).cells.items():
                if quota.nominal:
                    found[cluster_id, *cell].append(Ref(*key))
    for cluster_id, view in promised.snapshot.views.items():
        for item in view.objects["VolcanoQueue"].values():
            for resource in sorted({name for share in SHARES for name in item.spec.get(share) or {}}):
                found[cluster_id, "", resource].append(Ref("VolcanoQueue", item.name))
    return found


def _causes(quoting: Quoting, cluster_id: int, flavor: str, resource: str) -> tuple[Ref, ...]:
    """A flavor and the queues that quote the resource in it; Volcano's queues where there is no flavor."""
    queues = quoting.get((cluster_id, flavor, resource), [])
    return (Ref("flavor", flavor), *queues) if flavor else tuple(queues)


def _over_committed(promised: Promises, quoting: Quoting, pools: Iterable[PoolRow]) -> Iterator[Note]:
    for pool in pools:
        if pool.nominal is None or pool.nominal <= pool.allocatable:
            continue
        words = {
            "pool": _("%(model)s (%(mode)s)")
            % {"model": pool.model_label, "mode": mode_label(pool.sharing_mode)},
            "nominal": plain(pool.nominal),
            "usable": plain(pool.allocatable),
            "ratio": _ratio_text(pool.nominal, pool.allocatable),
        }
        if pool.allocation_ratio is None:
            text = _("%(pool)s: %(nominal)s promised, nothing usable.") % words
        else:
            text = _("%(pool)s: %(nominal)s promised, %(usable)s usable, ratio %(ratio)s.") % words
        sources = promised.sources.get((pool.cluster.pk, pool.model, pool.sharing_mode), [])
        refs = [Ref("pool", f"{pool.model}|{pool.sharing_mode}")]
        for flavor, resource, _nominal in sources:
            refs += _causes(quoting, pool.cluster.pk, flavor, resource)
        unique = tuple(dict.fromkeys(refs))
        yield Note("over_committed", pool.cluster, text, (pool.model, pool.sharing_mode), unique)


Cell = tuple[int, str, str]
"""(cluster, flavor, resource); flavor "" is Volcano's."""


def _flavors_over_committed(fleet: Fleet, promised: Promises, quoting: Quoting) -> Iterator[Note]:
    if "apart" not in promised.kept:
        promised.kept["apart"] = _apart(fleet, promised)
    nominal: Mapping[Cell, Decimal] = promised.kept["apart"]
    if not nominal:
        return
    usable = _usable(fleet, nominal)
    for (cluster_id, flavor, resource), amount in nominal.items():
        found = usable[cluster_id, flavor, resource]
        if amount <= found:
            continue
        words = {
            "flavor": flavor,
            "resource": resource,
            "nominal": plain(amount),
            "usable": plain(found),
            "ratio": _ratio_text(amount, found),
        }
        yield Note(
            "over_committed",
            fleet.clusters[cluster_id],
            _flavor_text(flavor, usable=bool(found)) % words,
            (flavor, resource),
            _causes(quoting, cluster_id, flavor, resource),
        )


def _ratio_text(promised: Decimal, usable: Decimal) -> str:
    """In percent, as pools say it; "" where nothing is usable. One decimal: just above 100 is above 100."""
    return f"{number_text(100 * promised / usable)} %" if usable else ""


def _flavor_text(flavor: str, *, usable: bool) -> str:
    if not flavor and usable:
        return _("Volcano shares %(nominal)s %(resource)s, %(usable)s usable, ratio %(ratio)s.")
    if not flavor:
        return _("Volcano shares %(nominal)s %(resource)s, nothing usable.")
    if usable:
        return _(
            "Flavor %(flavor)s: %(nominal)s %(resource)s promised, %(usable)s usable on its nodes, ratio %(ratio)s."
        )
    return _("Flavor %(flavor)s: %(nominal)s %(resource)s promised, nothing usable on its nodes.")


def _apart(fleet: Fleet, promised: Promises) -> dict[Cell, Decimal]:
    """What is promised on nodes that are not just one whole pool, in units that all weigh the same."""
    reached_by: dict[Target, list[tuple[str, ...]]] = defaultdict(list)
    for node, _alike in fleet.alike():
        for target in node_units(node):
            reached_by[target].append(node.flavors)
    found: dict[Cell, Decimal] = {}
    for cell, (promise, pools) in promised.loose.items():
        weights = {unit[2] for _pool, unit in promised.reached.get(cell, ())}
        if promise.nominal and pools and len(weights) == 1:
            found[cell] = promise.nominal
    for pool, sources in promised.sources.items():
        for flavor, resource, nominal in sources:
            (target,) = promised.reached[pool[0], flavor, resource]
            if flavor and not all(flavor in flavors for flavors in reached_by[target]):
                found[pool[0], flavor, resource] = nominal
    return found


def _usable(fleet: Fleet, cells: Collection[Cell]) -> dict[Cell, Decimal]:
    """Usable units on the nodes that each of these reaches."""
    found = dict.fromkeys(cells, Decimal(0))
    flavors = {flavor for _cluster, flavor, _resource in cells}
    for node, usable in fleet.usable_alike():
        for flavor in flavors.intersection(("", *node.flavors)):
            for resource, amount in usable.items():
                cell = (node.cluster.pk, flavor, resource)
                if cell in found:
                    found[cell] += amount
    return found


# ---- flavors that belong to no pool alone ---------------------------------------------------------------------


def _loose(fleet: Fleet, promised: Promises, quoting: Quoting) -> Iterator[Note]:
    reaching = {(cluster_id, flavor) for cluster_id, flavor, _resource in promised.reached}
    for (cluster_id, flavor, resource), (promise, pools) in promised.loose.items():
        amount: Decimal | None = promise.nominal
        if not amount:
            continue
        words = {"flavor": flavor, "resource": resource, "amount": plain(amount), "pools": len(pools)}
        cluster, key = fleet.clusters[cluster_id], (flavor, resource)
        refs = _causes(quoting, cluster_id, flavor, resource)
        units = _units(promised.reached.get((cluster_id, flavor, resource), frozenset()))
        if len(units) > 1:
            words["units"] = listed_apart(sorted(units))
            if flavor:
                text = _("Flavor %(flavor)s: what one %(resource)s is differs by node: %(units)s.")
            else:
                text = _(
                    "Volcano shares %(amount)s %(resource)s, and what one is differs by node: %(units)s."
                )
            yield Note("mixed_units", cluster, text % words, key, refs)
        elif not pools and flavor:
            if (cluster_id, flavor) in reaching:
                text = (
                    _("Flavor %(flavor)s has quota (%(amount)s %(resource)s), its nodes offer none.") % words
                )
            else:
                text = _("Flavor %(flavor)s has quota (%(amount)s %(resource)s), no node carries it.") % words
            yield Note("unused_flavor", cluster, text, key, refs)
        elif flavor:
            text = _(
                "Flavor %(flavor)s reaches %(pools)d pools: its %(amount)s %(resource)s belong to none alone."
            )
            yield Note("shared_flavor", cluster, text % words, key, refs)
        elif pools:
            text = _("Volcano shares %(amount)s %(resource)s over %(pools)d pools: no pool can claim them.")
            yield Note("shared_flavor", cluster, text % words, key, refs)
        else:
            text = _("Volcano shares %(amount)s %(resource)s, and no node has any.") % words
            yield Note("unused_flavor", cluster, text, key, refs)


def _units(targets: Iterable[Target]) -> set[str]:
    return {unit_words(pool, unit) for pool, unit in targets}


def unit_words(pool: PoolKey, unit: UnitKey) -> str:
    """What one unit is: "whole cards", "MIG instances 1g.10gb", "time slices, 1/4 of a card"."""
    mode, profile, share = pool[2], unit[1], unit[2]
    label = mode_label(mode)
    if profile:
        return f"{label} {profile}"
    if mode == SharingMode.EXCLUSIVE or share == 1:
        return label
    return _("%(unit)s, %(share)s of a card") % {"unit": label, "share": share}


# ---- one tree, several units ----------------------------------------------------------------------------------


def _mixed_trees(fleet: Fleet, promised: Promises, quoting: Quoting) -> Iterator[Note]:
    for cluster_id, tree in promised.trees.items():
        for root in tree.roots:
            for vendor, cells in _units_of_tree(promised, cluster_id, tree, root).items():
                if _do_not_add_up(cells):
                    yield _mixed_tree(fleet.clusters[cluster_id], quoting, root, vendor, cells)


Quoted = dict[tuple[str, str], tuple[str, str]]
"""(flavor, resource) → (sharing mode, unit in words)."""


def _do_not_add_up(cells: Quoted) -> bool:
    """Whether there are several sharing modes, or several units under one resource's name. MIG profiles that are
    resources of their own are told apart by their names."""
    units: dict[str, set[str]] = defaultdict(set)
    for (_flavor, resource), (_mode, words) in cells.items():
        units[resource].add(words)
    return len({mode for mode, _words in cells.values()}) > 1 or any(len(said) > 1 for said in units.values())


def _members(tree: QuotaTree, root: Key) -> Iterator[Key]:
    stack = [root]
    while stack:
        key = stack.pop()
        yield key
        stack.extend(tree.children(*key))


def _units_of_tree(promised: Promises, cluster_id: int, tree: QuotaTree, root: Key) -> dict[str, Quoted]:
    """By vendor, what each quoted cell is; what is not one unit alone is noted on its own."""
    found: dict[str, Quoted] = defaultdict(dict)
    for key in _members(tree, root):
        for cell, quota in tree.node(*key).cells.items():
            known = classify_resource(cell[1])
            if known is None or not known.counted or not quota.nominal:
                continue
            targets = promised.reached.get((cluster_id, *cell), frozenset())
            units = {(pool[2], unit_words(pool, unit)) for pool, unit in targets}
            if len(units) == 1:
                found[known.vendor][cell] = units.pop()
    return found


def _mixed_tree(cluster: Cluster, quoting: Quoting, root: Key, vendor: str, cells: Quoted) -> Note:
    by_unit: dict[str, set[str]] = defaultdict(set)
    for (flavor, _resource), (_mode, words) in cells.items():
        by_unit[words].add(flavor)
    parts = [
        _("%(unit)s (%(flavors)s)") % {"unit": unit, "flavors": _some(by_unit[unit])}
        for unit in sorted(by_unit)
    ]
    text = _("%(root)s quotes %(vendor)s in units that do not add up: %(units)s.") % {
        "root": root[1],
        "vendor": registry().vendors[vendor].name,
        "units": listed_apart(parts),
    }
    refs = [
        Ref(*root),
        *(Ref("flavor", flavor) for flavor in sorted({flavor for flavor, _resource in cells})),
    ]
    for cell in sorted(cells):
        refs += quoting.get((cluster.pk, *cell), [])
    return Note("mixed_units", cluster, text, (*root, vendor), tuple(dict.fromkeys(refs)))


def _some(names: Iterable[str]) -> str:
    every = sorted(set(names))
    return ", ".join(every[:FLAVORS_SHOWN]) + (" …" if len(every) > FLAVORS_SHOWN else "")


# ---- circles, and what nobody counts --------------------------------------------------------------------------


def _cycles(fleet: Fleet, promised: Promises) -> Iterator[Note]:
    for cluster_id, tree in promised.trees.items():
        for ring in tree.cycles:
            queues = sorted(key for key in tree if key[0] == "ClusterQueue" and _in_ring(tree, key, ring))
            text = ngettext(
                "Cohorts form a circle (%(ring)s): Kueue skips %(count)d queue below it.",
                "Cohorts form a circle (%(ring)s): Kueue skips %(count)d queues below it.",
                len(queues),
            ) % {"ring": " → ".join((*ring, ring[0])), "count": len(queues)}
            refs = (*(Ref("Cohort", name) for name in ring), *(Ref(*key) for key in queues))
            yield Note("cohort_cycle", fleet.clusters[cluster_id], text, ring, refs)


def _in_ring(tree: QuotaTree, key: Key, ring: tuple[str, ...]) -> bool:
    """Whether a node hangs below this circle, whose members stand as roots."""
    root = tree.root_of(*key)
    return root[0] == "Cohort" and root[1] in ring


def _unregistered(fleet: Fleet, promised: Promises) -> Iterator[Note]:
    """Resources that look like accelerators and that no vendor file knows, on nodes and in quota."""
    found: dict[tuple[int, str], list[Ref]] = defaultdict(list)
    for node, alike in fleet.alike():
        for resource in node.unregistered:
            found[node.cluster.pk, resource] += [Ref("node", one.name) for one in alike.values()]
    for refs in found.values():
        refs.sort(key=lambda ref: ref.name)
    for cluster_id, tree in promised.trees.items():
        for key in sorted(tree):
            for resource in {cell[1] for cell in tree.node(*key).cells if looks_like_accelerator(cell[1])}:
                found[cluster_id, resource].append(Ref(*key))
    for cluster_id, view in promised.snapshot.views.items():
        for item in view.objects["VolcanoQueue"].values():
            for resource in {name for share in SHARES for name in item.spec.get(share) or {}}:
                if looks_like_accelerator(resource):
                    found[cluster_id, resource].append(Ref("VolcanoQueue", item.name))
    for (cluster_id, resource), refs in sorted(found.items(), key=lambda item: item[0]):
        text = _("%(resource)s looks like an accelerator and is counted nowhere. %(what)s") % {
            "resource": resource,
            "what": what_to_add(resource),
        }
        yield Note(
            "unregistered", fleet.clusters[cluster_id], text, (resource,), (Ref("resource", resource), *refs)
        )
