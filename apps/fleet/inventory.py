"""What accelerators a node has, by what its plugin and labels say. Pure.

Input: labels, stored annotations, capacity and allocatable of one node, and how many units it was last seen to
offer; output: one `Group` per model and sharing mode, with whole cards and schedulable units.

Formulas (R = replicas per card, at least 1)
  exclusive     cards = capacity
  time slicing  cards = count label, else capacity / R        one unit is 1/R of a card, memory not divided
  MPS           the same                                      memory divided by R
  MIG single    cards = ⌈instances / most per card⌉, an estimate: labels count instances only
  MIG mixed     cards = count label; full cards = capacity[gpu] / R, the rest is partitioned
  vGPU          cards = entries of the register annotation
Invariants: cards ≥ 0; a label that outlives its plugin never adds units; what was deduced says `estimated`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from apps.core.gpu import Product, SharingMode, mig_weight, split_product
from apps.core.quantity import QuantityError, parse_quantity
from apps.fleet.registry import Vendor, classify_resource, first_label, registry

ZERO = Decimal(0)
MIB = 2**20
_SHARING = {
    "time-slicing": SharingMode.TIME_SLICING,
    "time-sharing": SharingMode.TIME_SLICING,
    "mps": SharingMode.MPS,
}


@dataclass(frozen=True, slots=True)
class Unit:
    """One schedulable resource of a group. `equivalents`: whole cards per unit, by compute; `memory_equivalents`:
    by memory, None where it is not divided (time slices) or not known; `memory_bytes` per unit, None likewise."""

    resource: str
    profile: str
    capacity: Decimal
    allocatable: Decimal
    equivalents: Fraction
    memory_bytes: int | None = None
    memory_equivalents: Fraction | None = None

    @property
    def missing(self) -> Decimal:
        """Units that the plugin counts but does not offer: unhealthy."""
        return self.capacity - self.allocatable


@dataclass(frozen=True, slots=True)
class Device:
    """A card known by name. `healthy` False: its register or a taint says so, in the words of `why`."""

    uuid: str
    healthy: bool = True
    why: str = ""
    numa: str = ""
    pcie: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Cards of one model in one mode. `lost`: cards that the labels know and the plugin does not; `plugin_down`:
    the plugin offers nothing, `cards` and units are those last known. `codes`: what is odd, for notes.
    `origin`: who says so, the device plugin or a DRA driver; `devices`: the cards that are known by name (UUIDs of a
    register annotation or of ResourceSlices), as far as any are. `card_memory_bytes`: framebuffer of one card;
    `stranded_compute`, `stranded_memory`: MIG slices of these cards that no instance covers, of
    `compute_slices` and `memory_slices` per card (0: not partitioned)."""

    vendor: str
    model: str
    mode: SharingMode
    cards: int
    units: tuple[Unit, ...]
    lost: int = 0
    unhealthy_cards: int | None = None
    plugin_down: bool = False
    uninitialised: bool = False
    estimated: bool = False
    codes: tuple[str, ...] = ()
    origin: str = "plugin"
    devices: tuple[Device, ...] = ()
    card_memory_bytes: int | None = None
    compute_slices: int = 0
    memory_slices: int = 0
    stranded_compute: int = 0
    stranded_memory: int = 0

    @property
    def units_per_card(self) -> Fraction:
        """Physical units on one present card; 0 where nothing is offered."""
        present = self.cards - self.lost
        return (
            Fraction(sum((unit.capacity for unit in self.units), ZERO)) / present
            if present > 0
            else Fraction(0)
        )


@dataclass(slots=True)
class _Facts:
    """One node's accelerator resources of one vendor."""

    vendor: Vendor
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    capacity: dict[str, Decimal]
    allocatable: dict[str, Decimal]
    last_known: Decimal
    codes: list[str] = field(default_factory=list)

    def label(self, names: tuple[str, ...]) -> str:
        return first_label(self.labels, names)

    def number(self, names: tuple[str, ...]) -> int:
        text = self.label(names)
        return int(text) if text.isdigit() else 0

    @property
    def replicas(self) -> int:
        return max(1, self.number(self.vendor.labels.replicas))

    def memory(self, names: tuple[str, ...]) -> int | None:
        """Bytes of a memory label: a plain number is in the vendor's unit, a suffix speaks for itself."""
        text = self.label(names)
        if not text:
            return None
        try:
            return int(parse_quantity(text + self.vendor.labels.memory_unit if text.isdigit() else text))
        except QuantityError:
            return None

    def lost_unit(
        self,
        resource: str,
        profile: str,
        known: int | Decimal,
        equivalents: Fraction,
        memory: int | None = None,
    ) -> Unit:
        """What a plugin that offers nothing was known to offer."""
        return Unit(resource, profile, Decimal(known), ZERO, equivalents, memory)

    def unit(self, resource: str, profile: str, equivalents: Fraction, memory: int | None = None) -> Unit:
        total = self.capacity.get(resource, ZERO)
        offered = self.allocatable.get(resource, ZERO)
        if offered > total:
            self.codes.append("allocatable_above_capacity")
        return Unit(resource, profile, total, min(offered, total), equivalents, memory)


def node_inventory(
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    capacity: Mapping[str, str],
    allocatable: Mapping[str, str],
    last_known: Mapping[str, str] | None = None,
) -> tuple[list[Group], list[str]]:
    """The node's groups, and codes about the node as a whole ("present_without_devices")."""
    groups: list[Group] = []
    for vendor, facts in _by_vendor(labels, annotations, capacity, allocatable, last_known or {}).items():
        groups.extend(_RESOLVERS.get(vendor, _plain)(facts))
    codes = [
        "present_without_devices"
        for vendor in registry().vendors.values()
        if vendor.labels.present
        and first_label(labels, vendor.labels.present) == "true"
        and not any(g.vendor == vendor.vendor for g in groups)
    ]
    return groups, codes


@lru_cache(maxsize=1)
def _label_keys() -> frozenset[str]:
    """Every label that an inventory can depend on, besides the dynamic ones of MIG profiles."""
    keys: set[str] = set()
    for vendor in registry().vendors.values():
        found = vendor.labels
        for names in (found.model, found.count, found.memory, found.replicas, found.sharing):
            keys.update(names)
        keys.update(found.partitioning)
        keys.update(found.present)
    return frozenset(keys)


def shape(
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    capacity: Mapping[str, str],
    allocatable: Mapping[str, str],
    last_known: Mapping[str, str] | None = None,
) -> Hashable:
    """Equal for nodes whose inventory is equal: a fleet has thousands of nodes and few shapes."""
    keys = labels.keys() & _label_keys()
    if any("mig-" in resource for resource in capacity):
        keys |= {key for key in labels if key.startswith("nvidia.com/mig-")}
    return (
        frozenset((key, labels[key]) for key in keys),
        frozenset(annotations.items()),
        frozenset(item for item in capacity.items() if "/" in item[0]),
        frozenset(item for item in allocatable.items() if "/" in item[0]),
        frozenset((last_known or {}).items()),
    )


def _by_vendor(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    capacity: Mapping[str, str],
    allocatable: Mapping[str, str],
    last_known: Mapping[str, str],
) -> dict[str, _Facts]:
    found: dict[str, _Facts] = {}

    def facts_of(name: str) -> _Facts:
        if name not in found:
            found[name] = _Facts(registry().vendors[name], labels, annotations, {}, {}, ZERO)
        return found[name]

    for resource in {*capacity, *last_known}:
        known = classify_resource(resource)
        if known is None or not known.counted:
            continue
        facts = facts_of(known.vendor)
        facts.capacity[resource] = parse_quantity(capacity.get(resource, "0"))
        facts.allocatable[resource] = parse_quantity(allocatable.get(resource, "0"))
        facts.last_known += parse_quantity(last_known.get(resource, "0"))
    for name, vendor in registry().vendors.items():  # labels outlive a plugin whose resource is gone
        if vendor.labels.count and name not in found and first_label(labels, vendor.labels.count):
            facts_of(name)
    return found


# ---- NVIDIA ---------------------------------------------------------------------------------------------------

_GPU, _SHARED, _HAMI = "nvidia.com/gpu", "nvidia.com/gpu.shared", "hami.io/node-nvidia-register"


def _nvidia(facts: _Facts) -> list[Group]:
    product = split_product(facts.label(facts.vendor.labels.model))
    if register := facts.annotations.get(_HAMI):
        return _registered(facts, product.model, register, _GPU)
    if product.profile == "INVALID":
        cards = int(facts.last_known)
        return [
            Group(
                "nvidia",
                product.model,
                SharingMode.MIG,
                cards,
                (),
                uninitialised=True,
                codes=("mig_invalid",),
            )
        ]
    if product.profile:
        return _mig_single(facts, product)
    if facts.label(facts.vendor.labels.partitioning) == "mixed" or _partitions(facts):
        return _mig_mixed(facts, product)
    return _whole_or_shared(facts, product, facts.number(facts.vendor.labels.count))


def _partitions(facts: _Facts) -> list[tuple[str, str, Decimal]]:
    """(resource, profile, units) of MIG resources that the node offers or, with the plugin down, last offered."""
    found = []
    for resource, total in sorted(facts.capacity.items()):
        known = classify_resource(resource)
        if known and known.profile and total:
            found.append((resource, known.profile, total))
    return found


def _mig_single(facts: _Facts, product: Product) -> list[Group]:
    weight = mig_weight(product.model, product.profile)
    sharing = facts.replicas
    memory = facts.memory(facts.vendor.labels.memory)
    units = [
        facts.unit(resource, product.profile, weight.compute / sharing, memory)
        for resource in (_GPU, _SHARED)
        if facts.capacity.get(resource)
    ]
    total = sum((unit.capacity for unit in units), ZERO) / sharing
    down = not total
    instances = total or Decimal(facts.number(facts.vendor.labels.count))
    cards = math.ceil(instances / weight.per_card)
    if down:
        known = instances * sharing
        units = [facts.lost_unit(_GPU, product.profile, known, weight.compute / sharing, memory)]
    group = Group(
        "nvidia",
        product.model,
        SharingMode.MIG,
        cards,
        tuple(units),
        plugin_down=down,
        estimated=True,
        codes=tuple(facts.codes),
    )
    return [group] if cards else []


def _mig_mixed(facts: _Facts, product: Product) -> list[Group]:
    """Full cards and partitioned cards of one node, side by side."""
    parts = _partitions(facts)
    units = tuple(
        facts.unit(
            resource,
            profile,
            mig_weight(product.model, profile).compute / _part_replicas(facts, profile),
            facts.memory((f"nvidia.com/mig-{profile}.memory",)),
        )
        for resource, profile, _ in parts
    )
    full = facts.capacity.get(_GPU, ZERO) + facts.capacity.get(_SHARED, ZERO)
    full_cards = math.ceil(full / facts.replicas)
    least = math.ceil(sum((unit.equivalents * Fraction(unit.capacity) for unit in units), Fraction(0)))
    count = facts.number(facts.vendor.labels.count)
    if (
        not full and not parts
    ):  # nothing offered: either the plugin is down or every card waits for a geometry
        return _whole_or_shared(facts, product, count)
    partitioned = max(count - full_cards, least)
    groups = []
    if full:
        groups.extend(_whole_or_shared(facts, product, full_cards))
    if partitioned:
        codes = (*facts.codes, *(("labels_differ",) if count and count - full_cards < least else ()))
        groups.append(
            Group(
                "nvidia",
                product.model,
                SharingMode.MIG,
                partitioned,
                units,
                estimated=not count,
                uninitialised=not units,
                codes=codes,
            )
        )
    return groups


def _part_replicas(facts: _Facts, profile: str) -> int:
    return max(1, facts.number((f"nvidia.com/mig-{profile}.replicas",)))


def _whole_or_shared(facts: _Facts, product: Product, count: int) -> list[Group]:
    """Cards that are offered whole, as time slices or as MPS clients; `count` is what the labels know, 0: nothing."""
    shared = facts.capacity.get(_SHARED, ZERO)
    said = _SHARING.get(facts.label(facts.vendor.labels.sharing))
    if said is None and (product.shared or shared):
        said = SharingMode.TIME_SLICING
    mode = said or SharingMode.EXCLUSIVE
    per_card = facts.replicas if said else 1
    memory = facts.memory(facts.vendor.labels.memory)
    if mode is SharingMode.TIME_SLICING:
        memory = None
    elif memory is not None:
        memory //= per_card
    units = tuple(
        facts.unit(resource, "", Fraction(1, per_card), memory)
        for resource in (_GPU, _SHARED)
        if facts.capacity.get(resource)
    )
    total = sum((unit.capacity for unit in units), ZERO)
    present = math.ceil(total / per_card)
    known = count or (0 if total else math.ceil(facts.last_known / per_card))
    if count and present > count:
        facts.codes.append("labels_differ")
    cards = max(present, known)
    if not cards:
        return []
    if not product.model:
        facts.codes.append("no_model")
    if not total:
        units = (facts.lost_unit(_GPU, "", cards * per_card, Fraction(1, per_card), memory),)
    return [
        Group(
            "nvidia",
            product.model,
            mode,
            cards,
            units,
            lost=cards - present if total else 0,
            plugin_down=not total,
            estimated=bool(said) and not count,
            codes=tuple(dict.fromkeys(facts.codes)),
        )
    ]


# ---- splits by HAMi and Volcano -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Card:
    split: int
    kind: str
    healthy: bool


def _register(text: str) -> list[_Card]:
    """Both forms of a register annotation: "uuid,split,MiB,cores,type,numa,health:" repeated, or a JSON list."""
    if text.lstrip().startswith("["):
        try:
            entries = json.loads(text)
        except ValueError:
            return []
        return [
            _Card(int(e.get("count") or 1), str(e.get("type") or ""), bool(e.get("health", True)))
            for e in entries
            if isinstance(e, dict)
        ]
    cards = []
    for entry in text.split(":"):
        parts = entry.split(",")
        if len(parts) >= 5 and parts[1].isdigit():
            cards.append(_Card(int(parts[1]), parts[4], parts[-1].strip().lower() != "false"))
    return cards


def _registered(facts: _Facts, model: str, register: str, resource: str) -> list[Group]:
    cards = _register(register)
    total = facts.capacity.get(resource, ZERO)
    if not cards:
        facts.codes.append("register_unreadable")
    split = max((card.split for card in cards), default=10)
    count = len(cards) or math.ceil(total / split)
    if not count:
        return []
    if total:
        unit = facts.unit(resource, "", Fraction(1, max(1, split)))
    else:
        unit = facts.lost_unit(resource, "", count * split, Fraction(1, max(1, split)))
    kinds = {card.kind for card in cards if card.kind}
    return [
        Group(
            facts.vendor.vendor,
            model or (kinds.pop() if len(kinds) == 1 else ""),
            SharingMode.VGPU,
            count,
            (unit,),
            unhealthy_cards=sum(not card.healthy for card in cards),
            plugin_down=not total,
            estimated=not cards,
            codes=tuple(facts.codes),
        )
    ]


def _volcano(facts: _Facts) -> list[Group]:
    register = facts.annotations.get("volcano.sh/node-vgpu-register", "")
    model = split_product(facts.label(facts.vendor.labels.model)).model
    resource = next(
        (name for name in sorted(facts.capacity) if facts.capacity[name]), "volcano.sh/vgpu-number"
    )
    return _registered(facts, model, register, resource)


# ---- every other vendor ---------------------------------------------------------------------------------------


def _plain(facts: _Facts) -> list[Group]:
    """Devices as cards, partitions by the vendor's table; a count label below capacity means shared cards."""
    model = facts.label(facts.vendor.labels.model) or facts.vendor.default_model
    memory = facts.memory(facts.vendor.labels.memory)
    count = facts.number(facts.vendor.labels.count)
    groups: list[Group] = []
    for resource in sorted(facts.capacity):
        known = classify_resource(resource)
        total = facts.capacity[resource]
        if known is None or (not total and not facts.last_known):
            continue
        profile = known.profile or facts.label(facts.vendor.labels.partitioning)
        per_card = facts.vendor.partitions.get(profile, 1)
        mode = SharingMode.MIG if per_card > 1 or known.profile else SharingMode.EXCLUSIVE
        if mode is SharingMode.EXCLUSIVE and count and total > count and total % count == 0:
            mode, per_card = SharingMode.TIME_SLICING, int(total / count)
        cards = math.ceil((total or facts.last_known) / per_card)
        whole = mode is SharingMode.EXCLUSIVE
        unit = facts.unit(
            resource, "" if whole else profile, Fraction(1, per_card), memory if whole else None
        )
        codes = (*facts.codes, *(() if model else ("no_model",)))
        groups.append(
            Group(
                facts.vendor.vendor,
                model,
                mode,
                cards,
                (unit,),
                plugin_down=not total,
                estimated=mode is SharingMode.MIG and profile not in facts.vendor.partitions,
                codes=codes,
            )
        )
    return groups


_RESOLVERS = {"nvidia": _nvidia, "volcano": _volcano}
