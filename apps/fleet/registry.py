"""The device registry: which extended resources are accelerators, of whom, and what one unit of them is.

Input: `data/*.yaml`, one file per vendor, checked by `vendors.py` when first used; output: lookups by resource,
metric and DRA driver. Pure: no Django, no database.

Invariants
- `aux` (a monitoring handle, memory or cores of a split, IMEX channels) and `memory` are never devices.
- Adding a vendor is one file (docs/registry.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from apps.core.gpu import split_product
from apps.fleet.vendors import (
    COUNTED,
    Driver,
    Metric,
    Registered,
    Registry,
    RegistryError,
    UnitKind,
    Vendor,
    read_registry,
)

__all__ = [
    "COUNTED",
    "DATA",
    "Driver",
    "Metric",
    "Registered",
    "Registry",
    "RegistryError",
    "UnitKind",
    "Vendor",
    "by_counted_name",
    "classify_resource",
    "device_resources",
    "first_label",
    "is_device",
    "read_registry",
    "registry",
]

DATA = Path(__file__).parent / "data"


@lru_cache(maxsize=1)
def registry() -> Registry:
    """The registry that ships with the portal, read once."""
    return read_registry(DATA)


@lru_cache(maxsize=4096)
def classify_resource(name: str) -> Registered | None:
    """Vendor and unit kind of an extended resource, None when no file knows it (cpu, memory, a NIC, …)."""
    if "/" not in name:
        return None
    return registry().classify(name)


def is_device(name: str) -> bool:
    """Whether units of this resource are accelerators or parts of one; aux and memory are not."""
    found = classify_resource(name)
    return found is not None and found.counted


def device_resources(amounts: Mapping[str, Any]) -> dict[str, Registered]:
    """The resources of one node that count: accelerators or parts of one, the same silicon under one name only.

    `amounts`: what the node offers by resource; a resource with a zero amount gives way to its other name too."""
    found = {name: known for name in amounts if (known := classify_resource(name)) and known.counted}
    return {
        name: known for name, known in found.items() if not _said_twice(name, known.same_as, amounts, found)
    }


def by_counted_name(asked: Mapping[str, Decimal], offered: Mapping[str, str]) -> dict[str, Decimal]:
    """What is asked of a node, where a resource that gives way there is said in units of the one that counts: with
    16 devices and 32 cores, 4 cores are 2 devices. `offered`: the node's capacity in whole units."""
    found: dict[str, Decimal] = {}
    for name, amount in asked.items():
        known = classify_resource(name)
        main, units = name, amount
        if known and known.same_as and _is_whole(offered, name, known.same_as):
            main = known.same_as
            units = amount * int(offered[main]) / int(offered[name])
        found[main] = found.get(main, Decimal(0)) + units
    return found


def _is_whole(offered: Mapping[str, str], *names: str) -> bool:
    """Whether the node offers some of each, in a number that can be read."""
    return all((text := offered.get(name, "")).isdigit() and int(text) > 0 for name in names)


def _said_twice(name: str, main: str, amounts: Mapping[str, Any], found: Mapping[str, Registered]) -> bool:
    """Whether `main` speaks for this silicon already: it is offered, or neither is."""
    return main in found and (not _is_zero(amounts[main]) or _is_zero(amounts[name]))


def _is_zero(amount: Any) -> bool:
    return str(amount) in ("0", "")


def first_label(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    """The value of the first of these labels that is set, "" when none is."""
    return next((labels[name] for name in names if labels.get(name)), "")


def model_named_in(labels: Mapping[str, str]) -> str:
    """The model that labels name by a vendor's product label, "" where they name none."""
    found = (first_label(labels, vendor.labels.model) for vendor in registry().vendors.values())
    return split_product(next((label for label in found if label), "")).model
