"""One cluster's ResourceSlices and ResourceClaims, counted. Pure.

Input: stored specs of slices, taint rules, classes and claims, and the nodes' labels; output: a `DraView`.
Invariants: nothing depends on the order of the input; units held never exceed units present; physical cards are
distinct cards, whatever they are listed as; of a group, Σ units in whole cards never exceeds its cards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from apps.core.gpu import SharingMode, mig_model
from apps.fleet.dra.cards import Card, CounterKey, cards_of, consumption, weight
from apps.fleet.dra.held import Held, held_by
from apps.fleet.dra.model import (
    ClaimObject,
    ClassObject,
    DraCard,
    DraDevice,
    DraView,
    NodeDevices,
    PoolKey,
    Spec,
)
from apps.fleet.dra.names import Names, served_resources
from apps.fleet.dra.pools import PoolState, pool_states
from apps.fleet.dra.reading import Labels, Reader
from apps.fleet.inventory import Device, Group, Unit
from apps.fleet.registry import registry

ZERO = Decimal(0)
GroupKey = tuple[str, str, SharingMode, bool]
Counters = Mapping[CounterKey, Decimal]


def count_slices(
    *,
    slices: Iterable[Spec],
    taint_rules: Iterable[Spec],
    classes: Iterable[ClassObject],
    claims: Iterable[ClaimObject],
    nodes: Mapping[str, Labels],
    last_good: Iterable[Spec] = (),
    withdrawn_at: Mapping[PoolKey, datetime] | None = None,
) -> DraView:
    """`nodes`: name → labels of the nodes that are there; `last_good`: specs of slices that are gone, newest first;
    `withdrawn_at`: when the newest of them went, by pool."""
    known = list(classes)
    reader = Reader(nodes=nodes, rules=taint_rules, classes=known, names=Names(served_resources(known)))
    states = pool_states(slices, last_good)
    devices = [device for state in states for device in reader.devices(state)]
    by_key = {device.key: device for device in devices}
    held = held_by(claims, by_key, counted_drivers())
    view = DraView(
        incomplete=[
            state.key for state in states if state.incomplete and state.key.driver in registry().drivers
        ],
        held_without_pod=held.without_pod,
        orphans=held.orphans,
        admin=held.admin,
        claims=held.claims,
        holders=held.holders,
        unregistered=dict(reader.unregistered),
        devices=by_key,
    )
    by_node: dict[str, list[DraDevice]] = defaultdict(list)
    for device in devices:
        by_node[device.node].append(device)
    counters = _counters(states, devices)
    for node, found in by_node.items():
        counted = _node(found, counters, held, view)
        counted.down_since = _down_since(found, withdrawn_at or {})
        if node:
            view.by_node[node] = counted
        else:
            view.shared = counted
    return view


def _down_since(devices: Iterable[DraDevice], withdrawn_at: Mapping[PoolKey, datetime]) -> datetime | None:
    pools = {PoolKey(device.key.driver, device.key.pool) for device in devices if device.down}
    return max((withdrawn_at[pool] for pool in pools if pool in withdrawn_at), default=None)


def counted_drivers() -> set[str]:
    return {name for name, (_vendor, driver) in registry().drivers.items() if driver.counts}


def _counters(states: Iterable[PoolState], devices: Iterable[DraDevice]) -> Counters:
    """What the pools share out; of a counter whose slice is missing, as much as its largest consumer takes."""
    found: dict[CounterKey, Decimal] = {}
    for device in devices:
        for counter, amount in consumption(device):
            found[counter] = max(amount, found.get(counter, ZERO))
    for state in states:
        for spec in state.slices:
            for name, counters in spec["counters"].items():
                found.update({(*state.key, name, counter): Decimal(a) for counter, a in counters.items()})
    return found


# ---- one node -----------------------------------------------------------------------------------------------------
def _node(devices: Sequence[DraDevice], counters: Counters, held: Held, view: DraView) -> NodeDevices:
    cards = cards_of(devices, counters, held.shares)
    groups: dict[GroupKey, list[Card]] = defaultdict(list)
    for card in cards:
        groups[_group_key(card)].append(card)
    found = NodeDevices()
    found.incomplete = {PoolKey(d.key.driver, d.key.pool) for d in devices if d.incomplete}
    found.codes = ["dra_incomplete"] if found.incomplete else []
    for index, key in enumerate(sorted(groups)):
        tally = _Tally()
        for card in groups[key]:
            tally.add(card, held)
            found.cards.append(DraCard(index, card.uuid, card.why, card.units, card.listed))
        found.groups.append(_group(key, groups[key], tally))
        found.held_in.append(_usable(tally))
        _add_up(found, tally, view, devices[0].node)
    return found


def _group_key(card: Card) -> GroupKey:
    face = card.face
    if card.partitioned:
        mode = SharingMode.MIG if face.vendor == "nvidia" else SharingMode.PARTITION
    elif face.multiple:
        mode = SharingMode.VGPU
    else:
        mode = SharingMode.EXCLUSIVE
    return face.vendor, face.model, mode, face.down


@dataclass(slots=True)
class _Tally:
    """Units of one group by (resource, profile)."""

    samples: dict[tuple[str, str], DraDevice] = field(default_factory=dict)
    present: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    blocked: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    claims: dict[tuple[str, str], dict[tuple[str, str], Fraction]] = field(default_factory=dict)
    on_blocked: dict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))

    def add(self, card: Card, held: Held) -> None:
        for unit in card.units:
            kind = (unit.resource, unit.profile)
            self.samples.setdefault(kind, unit)
            self.present[kind] += 1
            self.blocked[kind] += bool(unit.tainted)
            for claim, part in _parts(card, unit, held):
                parts = self.claims.setdefault(kind, {})
                parts[claim] = parts.get(claim, Fraction(0)) + part
                if unit.tainted:
                    self.on_blocked[unit.resource] += part

    def held(self, kind: tuple[str, str]) -> Decimal:
        return _decimal(sum(self.claims.get(kind, {}).values(), Fraction(0)))


def _parts(card: Card, unit: DraDevice, held: Held) -> Iterator[tuple[tuple[str, str], Fraction]]:
    """Who holds how much of a unit. A whole card is held under whichever of its names was allocated, and no more
    than once."""
    keys = [unit.key] if unit.is_part else [device.key for device in card.listed if not device.is_part]
    parts = [held.shares[key] for key in keys if key in held.shares]
    if len(parts) <= 1:  # of one listing, the claims' parts are the whole at most
        yield from parts[0].items() if parts else ()
        return
    shares: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for claims in parts:
        for claim, part in claims.items():
            shares[claim] += part
    total = sum(shares.values(), Fraction(0))
    for claim, part in shares.items():
        yield claim, part / max(total, Fraction(1))


def _decimal(value: Fraction) -> Decimal:
    """Units to six decimals, rounded once."""
    return (Decimal(value.numerator) / Decimal(value.denominator)).quantize(
        Decimal("0.000001")
    ).normalize() + ZERO


def _usable(tally: _Tally) -> dict[str, Decimal]:
    """What is held of units that are no tainted ones, by resource."""
    found: dict[str, Fraction] = defaultdict(Fraction)
    for (resource, _profile), claims in tally.claims.items():
        found[resource] += sum(claims.values(), Fraction(0))
    for resource, amount in tally.on_blocked.items():
        found[resource] -= amount
    return {resource: _decimal(amount) for resource, amount in found.items() if amount}


def _add_up(found: NodeDevices, tally: _Tally, view: DraView, node: str) -> None:
    for kind, claims in tally.claims.items():
        resource, _profile = kind
        amount = tally.held(kind)
        found.held[resource] = found.held.get(resource, ZERO) + amount
        for claim, part in claims.items():
            mine = view.held_by_claim.setdefault(claim, {})
            mine[node, resource] = mine.get((node, resource), ZERO) + _decimal(part)
    for resource, blocked in tally.on_blocked.items():
        found.held_blocked[resource] = found.held_blocked.get(resource, ZERO) + _decimal(blocked)


# ---- one group ----------------------------------------------------------------------------------------------------
def _group(key: GroupKey, cards: Sequence[Card], tally: _Tally) -> Group:
    vendor, model, mode, down = key
    compute, memory = _slices(vendor, model) if mode is SharingMode.MIG else (0, 0)
    stranded = [_stranded(card, compute, memory) for card in cards]
    card_memory = {d.memory_bytes for card in cards for d in card.listed if not d.is_part and d.memory_bytes}
    size = max(card_memory) if card_memory else None
    return Group(
        vendor,
        model,
        mode,
        len(cards),
        tuple(_unit(kind, tally, down, size) for kind in sorted(tally.samples)),
        unhealthy_cards=sum(bool(card.why) for card in cards),
        plugin_down=down,
        codes=("dra_incomplete",) if any(card.face.incomplete for card in cards) else (),
        origin="dra",
        devices=tuple(_named(card) for card in cards),
        card_memory_bytes=size,
        compute_slices=compute,
        memory_slices=memory,
        stranded_compute=sum(part[0] for part in stranded),
        stranded_memory=sum(part[1] for part in stranded),
    )


def _unit(kind: tuple[str, str], tally: _Tally, down: bool, card_memory: int | None) -> Unit:
    sample = tally.samples[kind]
    compute, memory = weight(sample)
    if memory is None and sample.memory_bytes and card_memory:
        memory = Fraction(sample.memory_bytes, card_memory)
    present = Decimal(tally.present[kind])
    offered = ZERO if down else present - tally.blocked[kind]
    return Unit(kind[0], kind[1], present, offered, compute, sample.memory_bytes, memory)


def _slices(vendor: str, model: str) -> tuple[int, int]:
    known = mig_model(model) if vendor == "nvidia" else None
    return (known.compute_slices, known.memory_slices) if known else (0, 0)


def _stranded(card: Card, compute: int, memory: int) -> tuple[int, int]:
    """Slices of a partitioned card that none of its units covers, as far as its model is known."""
    weights = [weight(unit) for unit in card.units]
    if not compute or any(part[1] is None for part in weights):
        return 0, 0
    used = sum((part[0] for part in weights), Fraction(0)) * compute
    used_memory = sum((part[1] or Fraction(0) for part in weights), Fraction(0)) * memory
    return max(0, compute - int(used)), max(0, memory - int(used_memory))


def _named(card: Card) -> Device:
    face = card.face
    return Device(card.uuid, healthy=not card.why, why=card.why, numa=face.numa, pcie=face.pcie)
