"""Groups of nodes added up, so that one can be taken out again. Pure.

Input: node states; output: exact sums per pool. Invariants: a sum does not depend on the order of its nodes; adding
a node and taking it out leaves what was there before, to the last digit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from apps.capacity.health import Bucket
from apps.capacity.laying import NodeState
from apps.capacity.waterfall import Fall, Share, UnitFall

ZERO = Decimal(0)
WEIGHED = ("allocatable", "held", "free", "stranded", "over")
UnitKey = tuple[str, str, Fraction]
"""(resource, profile, equivalents): the kind of a unit within a pool."""
SumKey = tuple[str, str, Fraction, int | None]
"""A UnitKey and the memory of one unit."""


@dataclass(slots=True)
class UnitSum:
    """One kind of unit over `count` groups. `read` of them: pods were read, so that held and the like are known."""

    count: int = 0
    read: int = 0
    physical: Decimal = ZERO
    allocatable: Decimal = ZERO
    held: Decimal = ZERO
    free: Decimal = ZERO
    stranded: Decimal = ZERO
    over: Decimal = ZERO
    buckets: dict[Bucket, Decimal] = field(default_factory=dict)

    def add(self, found: UnitFall, share: Share | None, sign: int) -> None:
        self.count += sign
        self.physical += sign * found.physical
        self.allocatable += sign * found.allocatable
        for bucket, amount in found.buckets.items():
            self._bucket(bucket, sign * amount)
        if share is not None:
            self.read += sign
            self.held += sign * share.held
            self.free += sign * share.free
            self.stranded += sign * share.stranded
            self.over += sign * share.over

    def merge(self, other: UnitSum) -> None:
        for name in ("count", "read", "physical", "allocatable", "held", "free", "stranded", "over"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for bucket, amount in other.buckets.items():
            self._bucket(bucket, amount)

    def _bucket(self, bucket: Bucket, amount: Decimal) -> None:
        left = self.buckets.get(bucket, ZERO) + amount
        if left:
            self.buckets[bucket] = left
        else:
            self.buckets.pop(bucket, None)

    def copy(self) -> UnitSum:
        made = UnitSum()
        made.merge(self)
        return made


@dataclass(slots=True)
class PoolSum:
    """Groups of one model and mode. `nodes`: uid → its groups here; `read`: groups of nodes whose pods were read;
    `estimated`: groups whose cards were deduced; `stranded`: MIG compute and memory slices that no instance covers; `card_memory`: bytes of all cards and of the
    usable ones; `unknown_memory`: groups whose cards' memory nobody says."""

    nodes: Counter[str] = field(default_factory=Counter)
    vendors: Counter[str] = field(default_factory=Counter)
    physical: int = 0
    allocatable: int = 0
    read: int = 0
    buckets: Counter[Bucket] = field(default_factory=Counter)
    estimated: int = 0
    stranded: tuple[int, int] = (0, 0)
    card_memory: tuple[int, int] = (0, 0)
    unknown_memory: int = 0
    units: dict[SumKey, UnitSum] = field(default_factory=dict)
    _weighed: dict[bool, dict[str, Fraction]] = field(default_factory=dict, compare=False, repr=False)

    def add(self, node: NodeState, index: int, sign: int = 1) -> None:
        """`sign` -1 takes the group out again."""
        item = node.falls[index]
        self._weighed.clear()
        _count(self.nodes, node.uid, sign)
        _count(self.vendors, item.group.vendor, sign)
        self.physical += sign * item.physical
        self.allocatable += sign * item.allocatable
        for bucket, cards in item.buckets.items():
            _count(self.buckets, bucket, sign * cards)
        self.read += sign * (node.shares is not None)
        self.estimated += sign * item.group.estimated
        self._slices(item, sign)
        rows = node.shares[index] if node.shares is not None else (None,) * len(item.units)
        for found, share in zip(item.units, rows, strict=True):
            unit = found.unit
            key = (unit.resource, unit.profile, unit.equivalents, unit.memory_bytes)
            kept = self.units.setdefault(key, UnitSum())
            kept.add(found, share, sign)
            if not kept.count:
                del self.units[key]

    def _slices(self, item: Fall, sign: int) -> None:
        group = item.group
        compute, memory = self.stranded
        self.stranded = (
            compute + sign * group.stranded_compute,
            memory + sign * group.stranded_memory,
        )
        if group.card_memory_bytes is None:
            self.unknown_memory += sign
            return
        every, usable = self.card_memory
        self.card_memory = (
            every + sign * group.card_memory_bytes * item.physical,
            usable + sign * group.card_memory_bytes * item.allocatable,
        )

    def copy(self) -> PoolSum:
        return PoolSum(
            nodes=self.nodes.copy(),
            vendors=self.vendors.copy(),
            physical=self.physical,
            allocatable=self.allocatable,
            read=self.read,
            buckets=self.buckets.copy(),
            estimated=self.estimated,
            stranded=self.stranded,
            card_memory=self.card_memory,
            unknown_memory=self.unknown_memory,
            units={key: found.copy() for key, found in self.units.items()},
        )

    @property
    def vendor(self) -> str:
        """The one with most groups."""
        return min(self.vendors, key=lambda name: (-self.vendors[name], name), default="")

    def weighed(self, *, read: bool) -> Mapping[str, Fraction]:
        """Sums in GPU-equivalents, worked out once; `read`: only of units whose pods were read."""
        if read not in self._weighed:
            self._weighed[read] = {
                name: sum(
                    (
                        Fraction(getattr(unit, name)) * key[2]
                        for key, unit in self.units.items()
                        if unit.read or not read
                    ),
                    Fraction(0),
                )
                for name in WEIGHED
            }
        return self._weighed[read]

    def by_kind(self) -> dict[UnitKey, UnitSum]:
        """Units of one kind together, whatever their memory."""
        found: dict[UnitKey, UnitSum] = defaultdict(UnitSum)
        for (resource, profile, equivalents, _memory), unit in self.units.items():
            found[resource, profile, equivalents].merge(unit)
        return found

    def memory_of(self, kind: UnitKey) -> int | None:
        """Bytes of one unit, where all units of the kind say the same."""
        said = {key[3] for key in self.units if key[:3] == kind}
        return said.pop() if len(said) == 1 else None


def _count(counter: Counter[str] | Counter[Bucket], key: str | Bucket, amount: int) -> None:
    left = counter[key] + amount  # type: ignore[index]
    if left:
        counter[key] = left  # type: ignore[index]
    else:
        del counter[key]


def sums_of(members: Iterable[tuple[NodeState, int]]) -> PoolSum:
    found = PoolSum()
    for node, index in members:
        found.add(node, index)
    return found
