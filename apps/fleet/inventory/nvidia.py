"""NVIDIA's cards: whole, time-sliced, MPS, MIG in both strategies, and HAMi's split of them. Pure.

Input: one node's facts; output: its groups. Formulas (R = replicas per card, at least 1)
  exclusive     cards = capacity
  time slicing  cards = count label, else ⌈capacity / R⌉     one unit is 1/R of a card, memory not divided
  MPS           the same                                      memory divided by R
  MIG single    cards = parent cards that telemetry sees, else ⌈instances / most per card⌉, an estimate: labels
                count instances only
  MIG mixed     cards = count label; whole cards = ⌈capacity[gpu] / R⌉, the rest is partitioned
  stranded      slices of the partitioned cards − slices of their instances
Invariants: partitioned cards hold their instances (Σ equivalents ≤ cards); an old resource beside its renamed one
is a leftover and counts nothing. `gfd.timestamp` is when feature discovery started, not when it last looked: its
age proves nothing; that labels are stale shows where they and the plugin disagree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from apps.core.gpu import Product, SharingMode, mig_model, mig_weight, split_product
from apps.fleet.inventory.facts import VendorFacts
from apps.fleet.inventory.groups import ZERO, Group, Unit
from apps.fleet.inventory.register import outlived, read_register, register_group, register_text
from apps.fleet.registry import classify_resource

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
WORKLOAD_CONFIG = "nvidia.com/gpu.workload.config"
FOR_MACHINES = frozenset(("vm-passthrough", "vm-vgpu"))
MOST_CARDS = 16  # no node holds more: a plain count above it was of instances
SLICES = 7  # of a card that the MIG table does not know
_SHARING = {
    "time-slicing": SharingMode.TIME_SLICING,
    "time-sharing": SharingMode.TIME_SLICING,
    "mps": SharingMode.MPS,
}


def nvidia(facts: VendorFacts) -> list[Group]:
    if facts.down and facts.labels.get(WORKLOAD_CONFIG) in FOR_MACHINES:
        return []
    product = split_product(facts.model)
    cards = read_register(register_text(facts))
    if register_text(facts) and not outlived(facts, cards, GPU):
        return register_group(facts, product.model, cards, GPU)
    if product.profile == "INVALID":
        return [_invalid(facts, product)]
    if _instances(facts):  # instances under names of their own: a "single" label beside them is old
        if product.profile:
            facts.codes.append("labels_differ")
        return _mig_mixed(facts, product, 0 if product.profile else facts.count)
    if product.profile:
        return _mig_single(facts, product, facts.count)
    if profile := facts.label(facts.vendor.labels.profile):
        most = mig_weight(product.model, profile).per_card
        return _mig_single(facts, Product(product.model, profile, product.shared), facts.count * most)
    if facts.label(facts.vendor.labels.partitioning) == "mixed":
        return _mig_mixed(facts, product, facts.count)
    return _whole_or_shared(facts, product, facts.count)


def _current(facts: VendorFacts, renamed: Iterable[tuple[str, str]]) -> list[str]:
    """Of (resource, its renamed form) the ones that count: both at once are one and a leftover."""
    found = []
    for plain, shared in renamed:
        if facts.capacity.get(shared):
            found.append(shared)
            if facts.capacity.get(plain):
                facts.codes.append("stale_resource")
        elif facts.capacity.get(plain):
            found.append(plain)
    return found


# ---- whole cards and shared ones ------------------------------------------------------------------------------


def _whole_or_shared(facts: VendorFacts, product: Product, count: int) -> list[Group]:
    """Cards that are offered whole, as time slices or as MPS clients; `count` is what the labels know, 0: nothing."""
    resources = _current(facts, [(GPU, SHARED)])
    said = _SHARING.get(facts.label(facts.vendor.labels.sharing))
    if said is None and (product.shared or SHARED in resources):
        said = SharingMode.TIME_SLICING
    per_card = facts.replicas if said else 1
    total = sum((facts.capacity[resource] for resource in resources), ZERO)
    present = math.ceil(total / per_card)
    mixed = _models(facts)
    if mixed:
        facts.codes.append("mixed_models")
        count = 0
    elif count and present > count:
        facts.codes.append("labels_differ")
    cards = max(present, count)
    if not cards:
        return []
    if not product.model and not mixed:
        facts.codes.append("no_model")
    card_memory = None if mixed else facts.memory(facts.vendor.labels.memory)
    known = Decimal(cards * per_card) if facts.down else ZERO
    units = tuple(
        _share(facts, resource, said, per_card, card_memory, known) for resource in resources or (GPU,)
    )
    return [
        Group(
            facts.vendor.vendor,
            mixed or product.model,
            said or SharingMode.EXCLUSIVE,
            cards,
            units,
            lost=0 if facts.down else cards - present,
            plugin_down=facts.down,
            estimated=bool(said) and not count,
            codes=facts.said(),
            card_memory_bytes=card_memory,
        )
    ]


def _share(
    facts: VendorFacts,
    resource: str,
    said: SharingMode | None,
    per_card: int,
    card_memory: int | None,
    known: Decimal,
) -> Unit:
    part = Fraction(1, per_card)
    if said is SharingMode.TIME_SLICING:
        return facts.unit(resource, "", part, at_least=known)
    memory = None if card_memory is None else card_memory // per_card
    return facts.unit(resource, "", part, memory=memory, memory_equivalents=part, at_least=known)


def _models(facts: VendorFacts) -> str:
    """The models of a node that has several, by telemetry, as one name; labels speak of an arbitrary one."""
    return " + ".join(facts.seen.models) if len(facts.seen.models) > 1 else ""


# ---- MIG ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Slices:
    """Slices of one card of a model; `memory` 0: not known."""

    compute: int
    memory: int


def _slices(model: str) -> _Slices:
    found = mig_model(model)
    return _Slices(found.compute_slices, found.memory_slices) if found else _Slices(SLICES, 0)


@dataclass(frozen=True, slots=True)
class _Instances:
    """MIG instances of one profile; `replicas`: units per instance, when they are time-sliced as well."""

    resource: str
    profile: str
    units: Decimal
    replicas: int

    @property
    def count(self) -> Fraction:
        return Fraction(self.units) / self.replicas


def _instances(facts: VendorFacts) -> list[_Instances]:
    """MIG resources that the node offers or, with the plugin down, last offered."""
    pairs = []
    for resource in sorted(facts.capacity):
        known = classify_resource(resource)
        if known and known.profile:
            plain = resource.removesuffix(".shared")
            pairs.append((known.profile, plain))
    found = []
    for profile, plain in dict.fromkeys(pairs):
        for resource in _current(facts, [(plain, f"{plain}.shared")]):
            replicas = facts.number((f"{plain}.replicas",))
            found.append(_Instances(resource, profile, facts.capacity[resource], max(1, replicas)))
    return found


def _least_cards(model: str, parts: Iterable[_Instances]) -> int:
    """Cards that these instances need at least: by compute, by memory, and by the most of one profile."""
    compute, memory, most = Fraction(0), Fraction(0), 0
    for part in parts:
        weight = mig_weight(model, part.profile)
        compute += weight.compute * part.count
        memory += (weight.memory or Fraction(0)) * part.count
        most = max(most, math.ceil(part.count / weight.per_card))
    return max(math.ceil(compute), math.ceil(memory), most)


def _stranded(model: str, cards: int, parts: list[_Instances]) -> tuple[int, int]:
    """Compute and memory slices of `cards` cards that these instances leave over; 0 where not known."""
    card = _slices(model)
    weights = [(mig_weight(model, part.profile), part.count) for part in parts]
    compute = card.compute * (cards - sum((weight.compute * count for weight, count in weights), Fraction(0)))
    if not card.memory or any(weight.memory is None for weight, _count in weights):
        return max(0, math.floor(compute)), 0
    used = sum(((weight.memory or Fraction(0)) * count for weight, count in weights), Fraction(0))
    return max(0, math.floor(compute)), max(0, math.floor(card.memory * (cards - used)))


def _instance_unit(facts: VendorFacts, model: str, part: _Instances, memory: int | None) -> Unit:
    weight = mig_weight(model, part.profile)
    if not weight.known:
        facts.codes.append("unknown_profile")
    shared = part.replicas > 1
    return facts.unit(
        part.resource,
        part.profile,
        weight.compute / part.replicas,
        memory=None if shared else memory,
        memory_equivalents=None if shared else weight.memory,
        at_least=part.units,
    )


def _mig_group(
    facts: VendorFacts,
    model: str,
    cards: int,
    parts: list[_Instances],
    units: tuple[Unit, ...],
    *,
    estimated: bool,
    card_memory: int | None,
    codes: tuple[str, ...] = (),
) -> Group:
    stranded = _stranded(model, cards, parts)
    slices = _slices(model)
    return Group(
        facts.vendor.vendor,
        model,
        SharingMode.MIG,
        cards,
        units,
        plugin_down=facts.down,
        estimated=estimated,
        codes=facts.said(*codes),
        card_memory_bytes=card_memory,
        compute_slices=slices.compute,
        memory_slices=slices.memory,
        stranded_compute=stranded[0],
        stranded_memory=stranded[1],
    )


def _mig_single(facts: VendorFacts, product: Product, labelled: int) -> list[Group]:
    """Every card partitioned in the same way, instances under the plain name; `labelled`: instances by labels."""
    sharing = facts.replicas
    resources = _current(facts, [(GPU, SHARED)])
    if not resources and labelled:  # the plugin is down and nobody remembers
        facts.capacity[GPU] = Decimal(labelled * sharing)
        resources = [GPU]
    parts = [
        _Instances(resource, product.profile, facts.capacity[resource], sharing) for resource in resources
    ]
    least = _least_cards(product.model, parts)
    if not least:
        return []
    memory = facts.memory(facts.vendor.labels.memory)
    units = tuple(_instance_unit(facts, product.model, part, memory) for part in parts)
    return [
        _mig_group(
            facts,
            product.model,
            max(least, facts.seen.cards or 0),
            parts,
            units,
            estimated=not facts.seen.cards,
            card_memory=None,
        )
    ]


def _mig_mixed(facts: VendorFacts, product: Product, count: int) -> list[Group]:
    """Whole cards and partitioned cards of one node, side by side; `count`: all of them, by labels."""
    parts = _instances(facts)
    whole = sum((facts.capacity[resource] for resource in _current(facts, [(GPU, SHARED)])), ZERO)
    if not whole and not parts:
        return _whole_or_shared(facts, product, count)
    whole_cards = math.ceil(whole / facts.replicas)
    least = _least_cards(product.model, parts)
    partitioned = max(count - whole_cards, least)
    groups = _whole_or_shared(facts, product, whole_cards) if whole else []
    if not partitioned:
        return groups
    card_memory = None if product.profile else facts.memory(facts.vendor.labels.memory)
    if not parts:
        empty = Group(
            facts.vendor.vendor,
            product.model,
            SharingMode.MIG,
            partitioned,
            (),
            plugin_down=facts.down,
            uninitialised=True,
            codes=facts.said(),
            card_memory_bytes=card_memory,
        )
        return [*groups, empty]
    units = tuple(
        _instance_unit(facts, product.model, part, facts.memory((f"nvidia.com/mig-{part.profile}.memory",)))
        for part in parts
    )
    differ = ("labels_differ",) if count and count - whole_cards < least else ()
    return [
        *groups,
        _mig_group(
            facts,
            product.model,
            partitioned,
            parts,
            units,
            estimated=not count,
            card_memory=card_memory,
            codes=differ,
        ),
    ]


def _invalid(facts: VendorFacts, product: Product) -> Group:
    """A "single" node whose cards are not all partitioned alike offers nothing and is no node without cards: those
    that telemetry sees, else those last offered, else the one card that the label proves."""
    known = math.ceil(facts.total)
    if known > MOST_CARDS:
        known = math.ceil(Fraction(known, _slices(product.model).compute))
    return Group(
        facts.vendor.vendor,
        product.model,
        SharingMode.MIG,
        facts.seen.cards or max(1, known),
        (),
        uninitialised=True,
        estimated=not facts.seen.cards,
        codes=("mig_invalid",),
    )
