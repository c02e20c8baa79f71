"""One node laid out: its groups, which bucket each card is in, and how the usable units are taken. Pure.

Input: what was read about the node (reading.py) and about its cluster; output: `NodeState`. Invariants: a state is
never changed, only replaced; the same input gives an equal state, whatever else there is in the fleet.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from apps.capacity.capacity_types import capacity_type
from apps.capacity.health import (
    NodeHealth,
    Verdict,
    health_table,
    keeps_work_away,
    node_verdict,
)
from apps.capacity.reading import PODS, Flavor, LastOffered, NodeFacts, NodeKey
from apps.capacity.reserves import Place, Rule, Taken, Usable, lay
from apps.capacity.waterfall import Fall, Share, fall, keep_back, shares
from apps.core.quantity import parse_quantity
from apps.core.taints import tolerates
from apps.fleet.dra import Adrift, NodeDevices
from apps.fleet.inventory import Group, Unit, node_inventory, shape
from apps.fleet.models import Cluster
from apps.fleet.registry import by_counted_name, is_device
from apps.fleet.unregistered import is_rdma, looks_like_accelerator
from apps.observations.cards import SeenCards
from apps.quotas.flavors import carries

ZERO = Decimal(0)
PoolKey = tuple[int, str, str]
"""(cluster, model, sharing mode)."""
Kind = tuple[Any, ...]
"""Everything about a node, besides its name, that quota and notes look at."""
_ROOM = ("cpu", "memory", PODS)


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node. `before_reserves` and `falls`: its waterfall per group, without and with what reserves take;
    `used`: what its living, bound pods ask for, `held` of it what is a device, as far as known (None: pods were
    never read), `claimed`: beside each group what claims hold of it; `shares`: how all that is laid on the usable
    units; `offers`: accelerator resources of its capacity; `stranded`: the node has no room for another pod; `flavors`: those that reach it; `usable`: its groups
    that reserves select; `unregistered`: resources it offers that look like accelerators and that no vendor file
    knows; `rdma`: its RDMA devices, {resource: allocatable}; `bought`: spot, on-demand or reserved; `asks`: see
    asks_telemetry; `seen_at`: when telemetry saw the cards that the groups rest on, None where it sees them now or
    nothing rests on it; `due`: when it looks different without anything new
    being seen."""

    cluster: Cluster
    uid: str
    name: str
    health: NodeHealth
    verdict: Verdict
    before_reserves: tuple[Fall, ...]
    falls: tuple[Fall, ...]
    codes: tuple[str, ...]
    used: Mapping[str, Decimal]
    held: Mapping[str, Decimal] | None
    claimed: tuple[Mapping[str, Decimal], ...]
    shares: tuple[tuple[Share, ...], ...] | None
    offers: Mapping[str, str]
    stranded: bool
    flavors: tuple[str, ...]
    usable: tuple[Usable, ...]
    observed_at: datetime
    unregistered: tuple[str, ...] = ()
    rdma: Mapping[str, str] = field(default_factory=dict)
    bought: str = ""
    asks: bool = False
    seen_at: datetime | None = None
    due: datetime | None = None
    kept: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What others derived from this state and keep with it."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a cluster says that all its nodes are laid by. `pods_read` False: nobody knows what is held; `devices`:
    what DRA drivers say, by node (`has_slices`: they say anything); `seen`: what telemetry sees or saw last, by node, of those that `asks_telemetry`."""

    cluster: Cluster
    flavors: tuple[Flavor, ...]
    rules: tuple[Rule, ...]
    pods_read: bool
    has_slices: bool = False
    devices: Mapping[str, NodeDevices] = field(default_factory=dict)
    seen: Mapping[str, SeenCards] = field(default_factory=dict)
    adrift: Adrift = field(default_factory=Adrift)


class Shapes:
    """Inventories and waterfalls of one load, made once per shape of node: thousands of nodes are few shapes."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, tuple[tuple[Group, ...], tuple[str, ...]]] = {}
        self._others: dict[Hashable, tuple[tuple[str, ...], Mapping[str, str]]] = {}
        self._falls: dict[tuple[Hashable, Verdict, bool], tuple[Fall, ...]] = {}

    def groups(self, key: Hashable, facts: Mapping[str, Any]) -> tuple[tuple[Group, ...], tuple[str, ...]]:
        if key not in self._groups:
            groups, codes = node_inventory(**facts)
            self._groups[key] = (tuple(groups), tuple(codes))
        return self._groups[key]

    def others(self, key: Hashable, node: NodeFacts) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """Resources that look like unknown accelerators, and RDMA devices, as far as there are any."""
        if key not in self._others:
            self._others[key] = (
                tuple(
                    sorted(
                        name
                        for name, amount in node.capacity.items()
                        if amount != "0" and looks_like_accelerator(name)
                    )
                ),
                {
                    name: amount
                    for name, amount in node.allocatable.items()
                    if amount != "0" and is_rdma(name)
                },
            )
        return self._others[key]

    def falls(
        self, key: Hashable, groups: Iterable[Group], verdict: Verdict, lapsed: bool
    ) -> tuple[Fall, ...]:
        known = self._falls.get((key, verdict, lapsed))
        if known is None:
            known = tuple(fall(group, verdict, lapsed=lapsed) for group in groups)
            self._falls[key, verdict, lapsed] = known
        return known


def lay_cluster(
    nodes: Iterable[NodeFacts],
    around: Surroundings,
    *,
    used: Mapping[NodeKey, Mapping[str, Decimal]],
    last: Mapping[tuple[int, str], LastOffered],
    now: datetime,
    shapes: Shapes,
) -> list[NodeState]:
    """All nodes of one cluster with what reserves take, by name."""
    states = [
        lay_node(
            node,
            around,
            used=used.get((node.cluster_id, node.name), {}),
            last=last.get((node.cluster_id, node.uid)),
            now=now,
            shapes=shapes,
        )
        for node in sorted(nodes, key=lambda node: (node.name, node.uid))
    ]
    if not around.rules:
        return states
    taken, _by_rule = lay(around.rules, (item for state in states for item in state.usable))
    return [with_reserves(node, taken) for node in states]


DUAL_ADVERTISED = "dual_advertised"
# What labels alone make of a node whose devices only its driver lists.
_NO_DEVICES = "present_without_devices"
# What plugin and labels say about a node when telemetry may know better.
_DOUBTS = frozenset(("labels_differ", "mixed_models", "mig_invalid", "no_model"))


def asks_telemetry(node: NodeFacts, *, last: LastOffered | None, shapes: Shapes) -> bool:
    """Whether a node's inventory rests on an estimate or on labels that contradict its plugin."""
    _key, groups, codes = _inventory(node, last, None, shapes)
    return _in_doubt(groups, codes)


def _in_doubt(groups: Sequence[Group], codes: Sequence[str]) -> bool:
    doubts = {*codes, *(code for group in groups for code in group.codes)}
    return any(group.estimated for group in groups) or not doubts.isdisjoint(_DOUBTS)


def _inventory(
    node: NodeFacts, last: LastOffered | None, seen: SeenCards | None, shapes: Shapes
) -> tuple[Hashable, tuple[Group, ...], tuple[str, ...]]:
    facts: dict[str, Any] = {
        "labels": node.labels,
        "annotations": node.annotations,
        "capacity": node.capacity,
        "allocatable": node.allocatable,
        "last_known": None if last is None else last.amounts,
    }
    if seen is not None:
        facts |= {"seen_cards": seen.cards, "seen_models": seen.models}
    key = shape(**facts)
    return (key, *shapes.groups(key, facts))


def lay_node(
    node: NodeFacts,
    around: Surroundings,
    *,
    used: Mapping[str, Decimal],
    last: LastOffered | None,
    now: datetime,
    shapes: Shapes,
) -> NodeState:
    """The node before reserves are laid: `with_reserves` does that when all nodes of the cluster are known."""
    key, groups, codes = _inventory(node, last, None, shapes)
    asks, seen_at = _in_doubt(groups, codes), None
    if asks and (seen := _seen_of(node, around)):
        alone = groups
        key, groups, codes = _inventory(node, last, seen, shapes)
        seen_at = seen.last_at if groups != alone else None
    claimed: tuple[Mapping[str, Decimal], ...] = ({},) * len(groups)
    devices = around.devices.get(node.name)
    if devices is not None:
        groups, claimed, more = join_devices(groups, devices)
        codes = (*(code for code in codes if code != _NO_DEVICES or not groups), *more)
        key = (key, groups)
    health = NodeHealth(
        node.labels,
        tuple(node.taints),
        node.conditions,
        node.unschedulable,
        node.deleting_since is not None,
    )
    carried = [(name, spec) for name, spec in around.flavors if groups and carries(node.labels, spec)]
    reaching = [(name, spec) for name, spec in carried if _reaches(spec, health)]
    verdict = node_verdict(health, tolerated=[item for _name, spec in reaching for item in _accepts(spec)])
    lapsed, due = _lapsed(node, last, devices, now)
    falls = shapes.falls(key, groups, verdict, lapsed)
    asked = {name: amount for name, amount in used.items() if name not in _ROOM}
    offers = {name: amount for name, amount in node.capacity.items() if is_device(name)}
    held = by_counted_name(asked, offers) if around.pods_read else None
    full = held is not None and has_no_room(node.allocatable, used)
    unregistered, rdma = shapes.others(key, node)
    return NodeState(
        cluster=around.cluster,
        uid=node.uid,
        name=node.name,
        health=health,
        verdict=verdict,
        before_reserves=falls,
        falls=falls,
        codes=codes,
        used=used,
        held=held,
        claimed=claimed,
        shares=None if held is None else shares(falls, held, stranded=full, claimed=claimed),
        offers=offers,
        stranded=full,
        flavors=tuple(sorted(name for name, _spec in reaching)),
        usable=usable_groups(node.uid, node.labels, falls, around.rules),
        observed_at=node.observed_at,
        unregistered=unregistered,
        rdma=rdma,
        bought=capacity_type(node.labels),
        asks=asks,
        seen_at=seen_at,
        due=due,
    )


def _seen_of(node: NodeFacts, around: Surroundings) -> SeenCards | None:
    """What telemetry saw of this node, and not of another one that had its name before."""
    seen = around.seen.get(node.name)
    if seen and seen.last_at and node.created_at and node.created_at > seen.last_at:
        return None
    return seen


def join_devices(
    groups: tuple[Group, ...], devices: NodeDevices
) -> tuple[tuple[Group, ...], tuple[Mapping[str, Decimal], ...], tuple[str, ...]]:
    """A node's groups with those of its DRA drivers: the groups, beside each what claims hold of it, and codes.

    A vendor whose plugin and driver both offer its cards has them once: the plugin's units, the larger number of
    cards, and what claims hold held there too. Where the plugin offers nothing any more, the driver
    has taken its place, and the other way round."""
    found: list[Group] = list(groups)
    claimed: list[dict[str, Decimal]] = [{} for _ in groups]
    codes = list(devices.codes)
    for vendor in dict.fromkeys(group.vendor for group in devices.groups):
        listed = [
            (group, held)
            for group, held in zip(devices.groups, devices.held_in, strict=True)
            if group.vendor == vendor
        ]
        own = [index for index, group in enumerate(found) if group.vendor == vendor and group.origin != "dra"]
        offering = _offering(found, vendor)
        if own and all(group.plugin_down for group, _held in listed):
            continue
        if offering:
            _same_cards(found, claimed, offering, listed)
            codes.append(DUAL_ADVERTISED)
            continue
        for index in reversed(own):
            del found[index], claimed[index]
        found.extend(group for group, _held in listed)
        claimed.extend(dict(held) for _group, held in listed)
    return tuple(found), tuple(claimed), tuple(dict.fromkeys(codes))


def plugin_units(groups: Sequence[Group], devices: NodeDevices) -> dict[str, tuple[str, Fraction]]:
    """{a driver's resource: (the plugin's on the same cards, how many of it one is)} of one node's joined groups,
    where both offer them."""
    found: dict[str, tuple[str, Fraction]] = {}
    for item in devices.groups:
        offering = _offering(groups, item.vendor)
        for listed in item.units:
            place = _where_held(groups, offering, item, listed)
            if place is not None:
                _index, unit = place
                found.setdefault(listed.resource, (unit.resource, listed.equivalents / unit.equivalents))
    return found


def _offering(groups: Sequence[Group], vendor: str) -> list[int]:
    """Those that the vendor's plugin offers."""
    return [
        index
        for index, group in enumerate(groups)
        if group.vendor == vendor and group.origin != "dra" and group.units and not group.plugin_down
    ]


def _same_cards(
    found: list[Group],
    claimed: list[dict[str, Decimal]],
    offering: list[int],
    listed: Sequence[tuple[Group, Mapping[str, Decimal]]],
) -> None:
    """Lay what a driver lists onto the groups that the plugin offers."""
    first = max(offering, key=lambda index: (found[index].cards, -index))
    group = found[first]
    more = max(0, sum(item.cards for item, _held in listed) - sum(found[index].cards for index in offering))
    names = group.devices or tuple(device for item, _held in listed for device in item.devices)
    found[first] = replace(group, cards=group.cards + more, lost=group.lost + more, devices=names)
    for item, held in listed:
        for listed_unit in item.units:
            taken = held.get(listed_unit.resource, ZERO)
            place = _where_held(found, offering, item, listed_unit) if taken else None
            if place is not None:
                index, unit = place
                amount = Fraction(taken) * listed_unit.equivalents / unit.equivalents
                claimed[index][unit.resource] = claimed[index].get(unit.resource, ZERO) + _whole_units(amount)


def _where_held(
    found: Sequence[Group], offering: Iterable[int], item: Group, listed: Unit
) -> tuple[int, Unit] | None:
    """The plugin's unit that a claim on a driver's device takes: the same kind of unit, of the same model if there
    is one, else a part of a card that is offered otherwise."""
    candidates = [
        (
            found[index].model != item.model,
            found[index].mode is not item.mode,
            unit.profile != listed.profile,
            index,
            place,
        )
        for index in offering
        for place, unit in enumerate(found[index].units)
        if listed.profile in ("", unit.profile) or not unit.profile
    ]
    if not candidates:
        return None
    *_rank, index, place = min(candidates)
    return index, found[index].units[place]


def _whole_units(amount: Fraction) -> Decimal:
    """A unit that is held in part is not free."""
    return Decimal(math.ceil(amount))


def _lapsed(
    node: NodeFacts, last: LastOffered | None, devices: NodeDevices | None, now: datetime
) -> tuple[bool, datetime | None]:
    """Whether a node has offered nothing for too long while it was Ready, and when its picture changes next."""
    until = devices.down_since if devices else None
    if last is not None:
        until = max(last.until, until or last.until)
    if until is None or node.offers:
        return False, None
    since = max(until, _ready_since(node.conditions) or until)
    lapses = since + timedelta(minutes=health_table().plugin_down_minutes)
    forgotten = until + timedelta(days=health_table().last_known_days)
    return now >= lapses, lapses if now < lapses else forgotten


def _ready_since(conditions: Mapping[str, Mapping[str, Any]]) -> datetime | None:
    text = (conditions.get("Ready") or {}).get("since")
    try:
        found = datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found


@lru_cache(maxsize=1)
def _smallest() -> Mapping[str, Decimal]:
    share = health_table().smallest_share
    return {
        "cpu": parse_quantity(share.cpu),
        "memory": parse_quantity(share.memory),
        PODS: parse_quantity(share.pods),
    }


def has_no_room(allocatable: Mapping[str, str], used: Mapping[str, Decimal]) -> bool:
    """Whether less is left than the smallest pod with a card needs. What a node does not say is not judged."""
    return any(
        parse_quantity(allocatable[resource]) - used.get(resource, ZERO) < least
        for resource, least in _smallest().items()
        if resource in allocatable
    )


def _accepts(flavor: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Taints that a flavor declares as its nodes' own, and its tolerations, both as tolerations."""
    return [*(flavor.get("node_taints") or ()), *(flavor.get("tolerations") or ())]


def _reaches(flavor: Mapping[str, Any], node: NodeHealth) -> bool:
    """Whether the flavor's own terms let work onto the node: every foreign taint is declared or tolerated."""
    foreign = [t for t in node.taints if t.get("effect") != "PreferNoSchedule" and keeps_work_away(t)]
    return all(tolerates(_accepts(flavor), taint) for taint in foreign)


def pool_key(node: NodeState, group: Group) -> PoolKey:
    return node.cluster.pk, group.model, str(group.mode)


def kind_of(node: NodeState) -> Kind:
    """Equal for nodes that quota and notes cannot tell apart, but for their names."""
    groups = tuple(
        (
            item.group.model,
            str(item.group.mode),
            item.group.codes,
            tuple(
                (found.unit.resource, found.unit.profile, found.unit.equivalents, bool(found.physical))
                for found in item.units
            ),
        )
        for item in node.falls
    )
    return (
        node.cluster.pk,
        node.flavors,
        groups,
        node.codes,
        node.unregistered,
        tuple(sorted(node.rdma)),
        node.bought,
    )


# ---- reserves -------------------------------------------------------------------------------------------------


def usable_groups(
    uid: str, labels: Mapping[str, str], falls: Sequence[Fall], rules: Iterable[Rule]
) -> tuple[Usable, ...]:
    """The node's groups with usable cards that some rule selects."""
    selecting = [rule for rule in rules if rule.selects_node(labels)]
    if not selecting:
        return ()
    found = []
    for index, item in enumerate(falls):
        model, mode = item.group.model, str(item.group.mode)
        chosen = frozenset(rule.pk for rule in selecting if rule.selects_group(model, mode))
        if chosen and item.allocatable:
            found.append(Usable((uid, index), item.allocatable, chosen))
    return tuple(found)


def with_reserves(node: NodeState, taken: Mapping[Place, Taken]) -> NodeState:
    """The same node with what is taken of its groups; itself where nothing changes."""
    falls = tuple(
        keep_back(item, found.cards, found.text) if (found := taken.get((node.uid, index))) else item
        for index, item in enumerate(node.before_reserves)
    )
    if falls == node.falls:
        return node
    laid = None
    if node.held is not None:
        laid = shares(falls, node.held, stranded=node.stranded, claimed=node.claimed)
    return replace(node, falls=falls, shares=laid, kept={})
