"""Sums of groups as rows: pools, totals, and the numbers of one node. Input: sums and promises; output: rows.

A row's numbers are in its unit while all its units weigh the same, else in GPU-equivalents; sums are made of exact
fractions and rounded once, parts of a sum so that they still add up to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property

from apps.capacity.facts import Fleet, PoolKey
from apps.capacity.health import BUCKETS, Bucket
from apps.capacity.pooling import WEIGHED, PoolSum, SumKey, UnitKey, UnitSum
from apps.capacity.promised import Promise, Promises
from apps.capacity.rows import Amounts, PoolRow, Totals, UnitRow
from apps.core.gpu import SharingMode, mode_sentence, model_label, rounded, unit_of
from apps.fleet.models import Cluster

ZERO = Decimal(0)
STEP = Decimal("0.001")
EQUIVALENT, BYTES = "gpu_equivalent", "byte"
Kinds = Mapping[UnitKey, UnitSum] | Mapping[SumKey, UnitSum]
Parts = list[tuple[UnitKey | SumKey, Decimal | None]]


def parts_of(total: Decimal, parts: Sequence[Fraction], step: Decimal = STEP) -> list[Decimal]:
    """Exact parts of a rounded total, rounded so that they add up to it: by largest remainder."""
    whole = Fraction(step)
    down = [part // whole for part in parts]
    missing = int(Fraction(total) / whole) - sum(down)
    order = sorted(range(len(parts)), key=lambda index: (down[index] * whole - parts[index], index))
    for index in order[: max(0, missing)]:
        down[index] += 1
    return [step * count for count in down]


@dataclass(frozen=True, slots=True)
class Weighing:
    """How units are turned into one measure: `weight` per unit, None where it has none. `step`: to round to, 0 where
    amounts stay as they are."""

    unit: str
    weight: Callable[[UnitKey | SumKey], Fraction | None]
    step: Decimal

    def sum(
        self,
        amounts: Iterable[tuple[UnitKey, Decimal | None]] | Iterable[tuple[UnitKey | SumKey, Decimal | None]],
    ) -> Fraction | None:
        """None when nothing is said, or something that this measure cannot weigh."""
        total, said = Fraction(0), False
        for key, amount in amounts:
            if amount is None:
                continue
            weight = self.weight(key)
            if weight is None:
                if amount:
                    return None
                continue
            total, said = total + Fraction(amount) * weight, True
        return total if said else None

    def round(self, amount: Fraction | None) -> Decimal | None:
        if amount is None:
            return None
        exact = Decimal(amount.numerator) / Decimal(amount.denominator)
        return exact.quantize(self.step) if self.step else exact

    def split(self, total: Decimal, parts: Sequence[Fraction]) -> list[Decimal]:
        """The parts of a total, rounded as it is."""
        if self.step:
            return parts_of(total, parts, self.step)
        return [Decimal(part.numerator) / Decimal(part.denominator) for part in parts]


def _units_weighing(keys: Collection[UnitKey], unit: str) -> Weighing:
    """Units as they are, while all weigh the same; else nothing can be said in them."""
    same = len({key[2] for key in keys}) <= 1
    return Weighing(unit, lambda _key: Fraction(1) if same else None, ZERO)


def _equivalents_weighing() -> Weighing:
    return Weighing(EQUIVALENT, lambda key: key[2], STEP)


def _memory_weighing(pool: PoolSum) -> Weighing:
    """Units by the memory that their nodes say, drivers differ in it; what queues promise by the kind's, if it is one."""
    known = {key: pool.memory_of(key) for key in pool.by_kind()}

    def weight(key: UnitKey | SumKey) -> Fraction | None:
        found = key[3] if len(key) == 4 else known.get(key)
        return None if found is None else Fraction(found)

    return Weighing(BYTES, weight, Decimal(1))


@dataclass(frozen=True, slots=True)
class Said:
    """What queues say about a row's units."""

    promised: Mapping[UnitKey, Promise]
    reserved: Mapping[UnitKey, Decimal | None]
    admitted: Mapping[UnitKey, Decimal | None]


NOTHING_SAID = Said({}, {}, {})


def _each(kinds: Kinds, get: Callable[[UnitSum], Decimal]) -> Parts:
    return [(key, get(found)) for key, found in kinds.items()]


def _held(kinds: Kinds, get: Callable[[UnitSum], Decimal]) -> Parts:
    return [(key, get(found) if found.read else None) for key, found in kinds.items()]


class Numbers:
    """One row's numbers, in its own unit and in every measure."""

    def __init__(self, pool: PoolSum, mode: str, said: Said = NOTHING_SAID) -> None:
        self.pool, self.mode, self.said = pool, mode, said
        self.kinds = pool.by_kind()
        units = _units_weighing(self.kinds, unit_of(mode))
        self.mixed = len({key[2] for key in self.kinds}) > 1
        self.own = self._amounts(_equivalents_weighing() if self.mixed else units)
        self.amounts = {
            "units": self.own if not self.mixed else Amounts(unit_of(mode), None, None),
            "equivalents": self._amounts(_equivalents_weighing()),
            "memory": self._memory(),
        }

    def _amounts(self, by: Weighing, over: Kinds | None = None) -> Amounts:
        """`over`: the units to add up, told apart further than by kind."""
        kinds = self.kinds if over is None else over
        promised = self.said.promised.items()
        physical = by.sum(_each(kinds, lambda found: found.physical))
        usable = by.sum(_each(kinds, lambda found: found.allocatable))
        parts = [
            by.sum(_held(kinds, lambda found: found.held)),
            by.sum(_held(kinds, lambda found: found.free)),
            by.sum(_held(kinds, lambda found: found.stranded)),
        ]
        nothing = ZERO if not self.kinds else None
        allocatable = by.round(usable) if usable is not None else nothing
        held = free = stranded = self._nothing_held
        if allocatable is not None and None not in parts and parts:
            held, free, stranded = by.split(allocatable, [part or Fraction(0) for part in parts])
        return Amounts(
            unit=by.unit,
            physical=by.round(physical) if physical is not None else nothing,
            allocatable=allocatable,
            held_bound=held,
            free=free,
            stranded=stranded,
            held_reserved=by.round(by.sum(self.said.reserved.items())),
            nominal=by.round(by.sum((key, found.nominal) for key, found in promised)),
            ceiling=by.round(by.sum((key, found.ceiling) for key, found in promised)),
            held_admitted=by.round(by.sum(self.said.admitted.items())),
            guarantee=by.round(by.sum((key, found.guarantee) for key, found in promised)),
            deserved=by.round(by.sum((key, found.deserved) for key, found in promised)),
            capability=by.round(by.sum((key, found.capability) for key, found in promised)),
        )

    def _memory(self) -> Amounts:
        """Time slices share a card's memory: what exists and is usable can be said, not what is held."""
        if self.mode != SharingMode.TIME_SLICING:
            return self._amounts(_memory_weighing(self.pool), self.pool.units)
        if self.pool.unknown_memory:
            return Amounts(BYTES, None, None)
        every, usable = self.pool.card_memory
        return Amounts(BYTES, Decimal(every), Decimal(usable))

    @property
    def over_held(self) -> Decimal | None:
        by = _equivalents_weighing() if self.mixed else _units_weighing(self.kinds, self.own.unit)
        found = by.round(by.sum(_held(self.kinds, lambda found: found.over)))
        return self._nothing_held if found is None else found

    @property
    def _nothing_held(self) -> Decimal | None:
        """Of cards without any unit nothing is held, where pods were read."""
        return ZERO if self.pool.read and not self.kinds else None

    def _in_bucket(self, bucket: Bucket) -> Parts:
        return _each(self.kinds, lambda found: found.buckets.get(bucket, ZERO))

    def unit_buckets(self) -> dict[str, Decimal]:
        """Units by bucket, so that with the usable ones they add up to the physical ones."""
        by = _equivalents_weighing() if self.mixed else _units_weighing(self.kinds, self.own.unit)
        exact = [by.sum(self._in_bucket(bucket)) or Fraction(0) for bucket in BUCKETS]
        out = (self.own.physical or ZERO) - (self.own.allocatable or ZERO)
        amounts = by.split(out, exact)
        return {str(bucket): amount for bucket, amount in zip(BUCKETS, amounts, strict=True) if amount}

    @cached_property
    def units(self) -> tuple[UnitRow, ...]:
        rows = []
        for key in sorted(self.kinds, key=lambda found: (found[1], found[0], found[2])):
            resource, profile, equivalents = key
            found, promise = self.kinds[key], self.said.promised.get(key) or Promise()
            rows.append(
                UnitRow(
                    resource=resource,
                    profile=profile,
                    unit=unit_of(self.mode),
                    physical=found.physical,
                    allocatable=found.allocatable,
                    held_bound=found.held if found.read else None,
                    held_reserved=self.said.reserved.get(key),
                    free=found.free if found.read else None,
                    nominal=promise.nominal,
                    ceiling=promise.ceiling,
                    equivalents=rounded(equivalents),
                    memory_bytes=self.pool.memory_of(key),
                    stranded=found.stranded if found.read else None,
                    over_held=found.over if found.read else None,
                    held_admitted=self.said.admitted.get(key),
                    guarantee=promise.guarantee,
                    deserved=promise.deserved,
                    capability=promise.capability,
                )
            )
        return tuple(rows)

    def mode_sentence(self) -> str:
        """In the active language; with the number of units per card where all cards are split alike."""
        return mode_sentence(self.mode, self._units_per_card())

    def _units_per_card(self) -> Fraction:
        if len(self.kinds) != 1 or not self.pool.physical:
            return Fraction(0)
        (found,) = self.kinds.values()
        return Fraction(found.physical) / self.pool.physical


def card_buckets(counts: Mapping[Bucket, int]) -> dict[str, int]:
    """Cards by bucket in the waterfall's order, empty ones left out."""
    return {str(bucket): counts[bucket] for bucket in BUCKETS if counts.get(bucket)}


MadeRows = dict[PoolKey, tuple[PoolSum, Promises, PoolRow]]
"""Rows with what they were made of, in one language."""


def pool_rows(fleet: Fleet, promised: Promises, *, made: MadeRows | None = None) -> list[PoolRow]:
    """Largest first within a cluster. `made`: rows made before, kept where nothing they rest on was exchanged."""
    before = {} if made is None else dict(made)
    rows = []
    if made is not None:
        made.clear()
    for key, pool in fleet.sums.items():
        known = before.get(key)
        if known is None or known[0] is not pool or known[1] is not promised:
            known = (pool, promised, _pool_row(fleet, key, pool, promised))
        if made is not None:
            made[key] = known
        rows.append(known[2])
    order = {cluster_id: place for place, cluster_id in enumerate(fleet.clusters)}
    return sorted(
        rows, key=lambda row: (order[row.cluster.pk], -row.physical_devices, row.model, row.sharing_mode)
    )


def _pool_row(fleet: Fleet, key: tuple[int, str, str], pool: PoolSum, promised: Promises) -> PoolRow:
    cluster_id, model, mode = key
    kinds = pool.by_kind()
    said = Said(
        promised.of_pool(key),
        {unit: promised.reserved_of(key, unit) for unit in kinds},
        {unit: promised.admitted_of(key, unit) for unit in kinds},
    )
    numbers = Numbers(pool, mode, said)
    own = numbers.own
    return PoolRow(
        cluster=fleet.clusters[cluster_id],
        vendor=pool.vendor,
        model=model,
        model_label=model_label(model),
        sharing_mode=mode,
        unit=own.unit,
        physical_devices=pool.physical,
        buckets=card_buckets(pool.buckets),
        allocatable_devices=pool.allocatable,
        physical_units=own.physical or ZERO,
        unit_buckets=numbers.unit_buckets(),
        allocatable=own.allocatable or ZERO,
        held_bound=own.held_bound,
        held_reserved=own.held_reserved,
        reserved_known=cluster_id not in promised.unread,
        free=own.free,
        nominal=own.nominal,
        ceiling=own.ceiling,
        nodes=len(pool.nodes),
        units=numbers.units,
        estimated=pool.estimated > 0,
        stranded=own.stranded,
        amounts=numbers.amounts,
        mode_sentence=numbers.mode_sentence(),
        stranded_slices=pool.stranded,
        over_held=numbers.over_held,
        held_admitted=own.held_admitted,
        guarantee=own.guarantee,
        deserved=own.deserved,
        capability=own.capability,
    )


def totals(fleet: Fleet, promised: Promises) -> Totals:
    """Over all pools, from exact fractions. Held and free leave out the clusters whose pods were never read."""
    every = _equivalents(fleet.sums.values(), read=False)
    of_read = _equivalents(fleet.sums.values(), read=True)
    with_cards = {key[0] for key in fleet.sums}
    unread = {cluster.pk for cluster in fleet.pods_missing}
    nobody_read = with_cards <= unread if with_cards else not fleet.clusters
    usable_of_read = rounded(of_read["allocatable"])
    held, free, stranded = parts_of(usable_of_read, [of_read["held"], of_read["free"], of_read["stranded"]])

    def said(amount: Fraction | None) -> Decimal | None:
        return None if amount is None else rounded(amount)

    buckets = {bucket: sum(pool.buckets.get(bucket, 0) for pool in fleet.sums.values()) for bucket in BUCKETS}
    return Totals(
        physical_devices=sum(pool.physical for pool in fleet.sums.values()),
        buckets=card_buckets(buckets),
        allocatable_devices=sum(pool.allocatable for pool in fleet.sums.values()),
        allocatable=rounded(every["allocatable"]),
        allocatable_of_read=usable_of_read,
        held_bound=None if nobody_read else held,
        held_reserved=said(promised.reserved),
        free=None if nobody_read else free,
        nominal=said(promised.nominal),
        ceiling=said(promised.ceiling),
        pools=len(fleet.sums),
        nodes=sum(len(alike) for node, alike in fleet.alike() if node.falls),
        without_pods=_with_cards(fleet.pods_missing, with_cards),
        without_quota=_with_cards(fleet.quota_missing, with_cards),
        stranded=None if nobody_read else stranded,
        held_admitted=said(promised.admitted),
        over_held=None if nobody_read else rounded(of_read["over"]),
    )


def _equivalents(pools: Iterable[PoolSum], *, read: bool) -> dict[str, Fraction]:
    """Sums in GPU-equivalents; `read`: only of units whose pods were read."""
    found: dict[str, Fraction] = dict.fromkeys(WEIGHED, Fraction(0))
    for pool in pools:
        for name, amount in pool.weighed(read=read).items():
            found[name] += amount
    return found


def _with_cards(clusters: Iterable[Cluster], with_cards: Collection[int]) -> tuple[Cluster, ...]:
    """Only a cluster that has accelerators is missed in a sum over them."""
    return tuple(cluster for cluster in clusters if cluster.pk in with_cards)
