"""Listed devices as physical cards, and what a card is counted as. Input: the devices of one node and which of them
are allocated; output: cards.

A card is what shares a uuid (a partition's: its parent's) or a PCI address, else a set of counters in which at most
one card is known; a device that says none of these is a card of its own. A card without partitions is one unit, under
however many names. A card with partitions is counted as devices that exist together: those allocated, then the
largest that fit beside them, untainted ones first. Idle, a card that is listed whole too is one whole unit.
Invariants: units of a card never overlap by counters, nor a whole card with its partitions; order does not matter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from apps.core.gpu import mig_weight
from apps.fleet.dra.model import DeviceKey, DraDevice
from apps.fleet.registry import registry

CounterKey = tuple[str, str, str, str]
"""(driver, pool, set, counter)."""
Counters = Mapping[CounterKey, Decimal]
ZERO, ONE = Decimal(0), Fraction(1)


@dataclass(frozen=True, slots=True)
class Card:
    """`units`: what it is counted as."""

    listed: tuple[DraDevice, ...]
    units: tuple[DraDevice, ...]

    @property
    def partitioned(self) -> bool:
        return any(device.is_part for device in self.listed)

    @property
    def face(self) -> DraDevice:
        """The listing that says most about the card itself: whole before virtual before a part."""
        return self.listed[0]

    @property
    def uuid(self) -> str:
        whole = (device.uuid for device in self.listed if not device.is_part and device.uuid)
        return next(whole, "") or next((d.parent for d in self.listed if d.parent), "")

    @property
    def why(self) -> str:
        said = [device.tainted for device in self.units if device.tainted]
        return ", ".join(dict.fromkeys(said)) if said else ""


def weight(device: DraDevice) -> tuple[Fraction, Fraction | None]:
    """(compute, memory) of a device as parts of its card; memory None where not known."""
    if not device.is_part:
        return ONE, ONE
    if device.vendor == "nvidia":
        known = mig_weight(device.model, device.profile)
        return known.compute, known.memory
    share = Fraction(1, registry().vendors[device.vendor].partitions.get(device.profile, 1))
    return share, share


def consumption(device: DraDevice) -> Iterator[tuple[CounterKey, Decimal]]:
    """What a device takes of which counters."""
    driver, pool, _name = device.key
    for (counters, counter), amount in device.consumes.items():
        yield (driver, pool, counters, counter), amount


def cards_of(
    devices: Iterable[DraDevice], counters: Counters, allocated: Collection[DeviceKey]
) -> list[Card]:
    """`counters`: what the pools of these devices have in all."""
    return [_card(listed, counters, allocated) for listed in _by_card(sorted(devices, key=_order))]


_KINDS = ("device", "vfio", "partition")


def _order(device: DraDevice) -> tuple[int, DeviceKey]:
    return _KINDS.index(device.kind), device.key


# ---- which devices are one card ---------------------------------------------------------------------------------
def _identities(device: DraDevice) -> list[Hashable]:
    card = device.parent if device.is_part else device.uuid
    found: list[Hashable] = [("uuid", card)] if card else []
    if device.pci:
        found.append(("pci", device.pci))
    return found


def _by_card(devices: Sequence[DraDevice]) -> list[list[DraDevice]]:
    joined = _Joined()
    own = {device.key: _identities(device) or [("device", device.key)] for device in devices}
    for names in own.values():
        joined.join(names)
    in_set: dict[Hashable, list[DraDevice]] = defaultdict(list)
    for device in devices:
        sets = {name for name, _counter in device.consumes}
        if len(sets) == 1:
            in_set[device.key[:2], sets.pop()].append(device)
    for members in in_set.values():
        nameless = [device for device in members if not _identities(device)]
        known = {joined.root(own[device.key][0]) for device in members if _identities(device)}
        if nameless and len(known) <= 1:
            joined.join([*(own[device.key][0] for device in nameless), *known])
    cards: dict[Hashable, list[DraDevice]] = defaultdict(list)
    for device in devices:
        cards[joined.root(own[device.key][0])].append(device)
    return [_living(listed) for listed in cards.values()]


def _living(listed: list[DraDevice]) -> list[DraDevice]:
    """A card that is still listed somewhere is not down where it no longer is."""
    return [device for device in listed if not device.down] or listed


class _Joined:
    """Names that stand for the same thing."""

    def __init__(self) -> None:
        self._above: dict[Hashable, Hashable] = {}

    def root(self, name: Hashable) -> Hashable:
        above = self._above.setdefault(name, name)
        while above != name:
            name, above = above, self._above[above]
        return name

    def join(self, names: Sequence[Hashable]) -> None:
        first = self.root(names[0])
        for name in names[1:]:
            self._above[self.root(name)] = first


# ---- what a card is counted as ----------------------------------------------------------------------------------
def _card(listed: list[DraDevice], counters: Counters, allocated: Collection[DeviceKey]) -> Card:
    if not any(device.is_part for device in listed):
        return Card(tuple(listed), (listed[0],))
    offers = [device for device in listed if device.kind != "vfio"]
    taken = [device for device in listed if device.key in allocated]
    whole = [device for device in taken if not device.is_part]
    if whole:  # however it is listed, nothing else of the card exists beside it
        shown = next((device for device in offers if not device.is_part), whole[0])
        return Card(tuple(listed), (shown,))
    room = _Room(counters, taken)
    fitting = [device for device in offers if device.key not in allocated and room.fits(device)]
    units = list(taken)
    for device in sorted(fitting, key=_largest_first):
        if room.fits(device):
            room.take(device)
            units.append(device)
    return Card(tuple(listed), tuple(units))


def _largest_first(device: DraDevice) -> tuple[bool, Fraction, Fraction, bool, DeviceKey]:
    """Untainted ones before all; a whole card before a partition that is as large."""
    compute, memory = weight(device)
    return bool(device.tainted), -compute, -(memory or Fraction(0)), device.is_part, device.key


class _Room:
    """What is left of the counters beside the devices taken."""

    def __init__(self, counters: Counters, taken: Iterable[DraDevice]) -> None:
        self._counters = counters
        self._used: dict[CounterKey, Decimal] = defaultdict(lambda: ZERO)
        self._whole = self._part = False
        for device in taken:
            self.take(device)

    def fits(self, device: DraDevice) -> bool:
        if self._whole or (self._part and not device.is_part):
            return False
        return all(
            self._used[counter] + amount <= self._counters.get(counter, ZERO)
            for counter, amount in consumption(device)
        )

    def take(self, device: DraDevice) -> None:
        self._whole = self._whole or not device.is_part
        self._part = self._part or device.is_part
        for counter, amount in consumption(device):
            self._used[counter] += amount
