"""One node's words about the accelerators of one vendor. Pure.

Input: labels, stored annotations, capacity, allocatable, what the node last offered, what telemetry saw; output:
`VendorFacts` per vendor. Invariants: a resource that is another name of silicon already counted is left out; a
vendor of which only labels speak is left out where another one offers these cards (GPU feature discovery beside
Volcano's vGPU plugin), or where all they say is a number; with nothing offered, `capacity` is what the node offered
last and `down` says so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from apps.core.quantity import QuantityError, parse_quantity
from apps.fleet.inventory.groups import ZERO, Unit
from apps.fleet.registry import Vendor, device_resources, first_label, registry


@dataclass(frozen=True, slots=True)
class Seen:
    """What fresh telemetry saw on the node: distinct cards (None: no telemetry) and their models."""

    cards: int | None = None
    models: tuple[str, ...] = ()


@dataclass(slots=True)
class VendorFacts:
    """`down`: the plugin offers nothing; `capacity` then holds what was offered last, as far as known."""

    vendor: Vendor
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    capacity: dict[str, Decimal]
    allocatable: dict[str, Decimal]
    down: bool
    seen: Seen
    codes: list[str] = field(default_factory=list)

    def label(self, names: tuple[str, ...]) -> str:
        return first_label(self.labels, names)

    def number(self, names: tuple[str, ...]) -> int:
        """A label that counts; 0 where it is missing or no number."""
        return _whole(self.label(names))

    @property
    def model(self) -> str:
        return self.label(self.vendor.labels.model)

    @property
    def keyed_models(self) -> list[str]:
        """Models of a node that has several, where each is the end of a label's key."""
        return keyed_models(self.labels, self.vendor)

    @property
    def count(self) -> int:
        """Cards that the labels count, 0: they do not."""
        begins = self.vendor.labels.count_parts
        parts = [_whole(text) for key, text in self.labels.items() if counts_a_part(key, begins)]
        return self.number(self.vendor.labels.count) or sum(parts)

    @property
    def replicas(self) -> int:
        return max(1, self.number(self.vendor.labels.replicas))

    @property
    def total(self) -> Decimal:
        return sum(self.capacity.values(), ZERO)

    def memory(self, names: tuple[str, ...]) -> int | None:
        """Bytes of a memory label, None where it says nothing or zero. A plain number is in the vendor's unit, and
        so is one with the unit's first letter behind it (AMD's "192G" are GiB)."""
        text, unit = self.label(names), self.vendor.labels.memory_unit
        number = text.removesuffix(unit[:1]) if unit else text
        try:
            found = int(parse_quantity(number + unit if number.isdigit() else text)) if text else 0
        except QuantityError:
            return None
        return found or None

    def unit(
        self,
        resource: str,
        profile: str,
        equivalents: Fraction,
        *,
        memory: int | None = None,
        memory_equivalents: Fraction | None = None,
        at_least: Decimal = ZERO,
    ) -> Unit:
        """A resource as offered; `at_least`: how many there were, where the plugin is down."""
        total = max(self.capacity.get(resource, ZERO), at_least)
        offered = self.allocatable.get(resource, ZERO)
        if offered > total:
            self.codes.append("allocatable_above_capacity")
        return Unit(resource, profile, total, min(offered, total), equivalents, memory, memory_equivalents)

    def said(self, *codes: str) -> tuple[str, ...]:
        """All codes, each once."""
        return tuple(dict.fromkeys((*self.codes, *codes)))


def facts_by_vendor(
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    capacity: Mapping[str, str],
    allocatable: Mapping[str, str],
    last_known: Mapping[str, str],
    seen: Seen,
) -> list[VendorFacts]:
    """Of every vendor that the node speaks of, in the registry's order."""
    offered, before = _amounts(capacity), _amounts(last_known)
    named = {
        name
        for name, vendor in registry().vendors.items()
        if first_label(annotations, vendor.annotations) or _counted(labels, vendor)
    }
    found = []
    for name, vendor in registry().vendors.items():
        now, last = offered.get(name, {}), before.get(name, {})
        down = not any(now.values())
        if name not in named and not now and not last:
            continue
        if down and _offered_by_another(vendor, offered):
            continue
        healthy = {} if down else {key: _amount(allocatable.get(key, "0")) for key in now}
        counted = {**now, **last} if down else now
        found.append(VendorFacts(vendor, labels, annotations, counted, healthy, down, seen))
    return found


def _counted(labels: Mapping[str, str], vendor: Vendor) -> bool:
    """Whether labels count cards of this vendor and name one, or say that it is there: a count by itself may be
    left over, or stand on a node that never had a card."""
    found = vendor.labels
    if not first_label(labels, found.count) and not any(
        counts_a_part(key, found.count_parts) for key in labels
    ):
        return False
    named = first_label(labels, found.model) or keyed_models(labels, vendor)
    return bool(named) or first_label(labels, found.present) == "true"


def counts_a_part(key: str, begins: tuple[str, ...]) -> bool:
    """Whether a label counts the cards of one kind ("gpu.intel.com/device-id.0380-56c0.count")."""
    return key.startswith(begins) and key.endswith(".count")


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def _amount(text: str) -> Decimal:
    """Never negative: a kubelet has been seen to say so."""
    return max(ZERO, parse_quantity(text))


def _amounts(resources: Mapping[str, str]) -> dict[str, dict[str, Decimal]]:
    """Vendor → resource → amount, of the resources that count."""
    found: dict[str, dict[str, Decimal]] = {}
    for resource, known in device_resources(resources).items():
        found.setdefault(known.vendor, {})[resource] = _amount(resources[resource])
    return found


def _offered_by_another(vendor: Vendor, offered: Mapping[str, Mapping[str, Decimal]]) -> bool:
    """Whether the cards that this vendor's labels speak of are offered under another vendor's resources."""
    mine = set(vendor.labels.model)
    return any(
        mine & set(registry().vendors[name].labels.model)
        for name, amounts in offered.items()
        if name != vendor.vendor and any(amounts.values())
    )


def keyed_models(labels: Mapping[str, str], vendor: Vendor) -> list[str]:
    """The values that labels hold in their keys ("amd.com/gpu.product-name.MI300X=4"), sorted."""
    ends = {
        key.removeprefix(begin)
        for begin in vendor.labels.model_in_key
        for key in labels
        if key.startswith(begin)
    }
    return sorted(ends - {""})


def seen_of(cards: int | None, models: Collection[str]) -> Seen:
    """Models as telemetry names them ("NVIDIA L4") in the labels' spelling."""
    return Seen(cards or None, tuple(sorted({"-".join(model.split()) for model in models if model})))
