"""The device registry: which extended resources are accelerators, of whom, and what one unit of them is.

Input: `data/*.yaml`, one file per vendor, checked against the schema below when first used; output:
`classify_resource` and the vendors' label names. Pure: no Django, no database.

Invariants
- A resource matches at most one pattern of one vendor; patterns match the whole name.
- `aux` (a monitoring handle, memory or cores of a split, IMEX channels) and `memory` are never devices.
- Adding a vendor is one file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec
import yaml

DATA = Path(__file__).parent / "data"

UnitKind = Literal["device", "partition", "share", "memory", "aux"]
COUNTED: frozenset[str] = frozenset(("device", "partition", "share"))


class RegistryError(ValueError):
    """A registry file is unusable; the message names the file and the place in it."""


class ResourceEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pattern: str
    unit: UnitKind


class Labels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Node labels by meaning; of several names the first that the node carries counts."""

    model: tuple[str, ...] = ()
    count: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    memory_unit: Literal["", "Mi", "Gi"] = ""
    replicas: tuple[str, ...] = ()
    sharing: tuple[str, ...] = ()
    partitioning: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    driver: tuple[str, ...] = ()


class Vendor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One vendor's file. `annotations`: node annotations that hold a split's inventory; `partitions`: how many
    partitions of a profile one card makes (NVIDIA's are in the MIG table)."""

    vendor: str
    name: str
    resources: tuple[ResourceEntry, ...]
    labels: Labels = Labels()
    annotations: tuple[str, ...] = ()
    dedicated_taints: tuple[str, ...] = ()
    default_model: str = ""
    partitions: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Registered:
    """What the registry knows about a resource name; `profile` is a partition's ("1g.10gb"), else ""."""

    resource: str
    vendor: str
    unit: UnitKind
    profile: str = ""

    @property
    def counted(self) -> bool:
        return self.unit in COUNTED


@dataclass(frozen=True, slots=True)
class Registry:
    vendors: Mapping[str, Vendor]
    patterns: tuple[tuple[re.Pattern[str], str, UnitKind], ...]

    def classify(self, resource: str) -> Registered | None:
        for pattern, vendor, unit in self.patterns:
            if match := pattern.fullmatch(resource):
                return Registered(resource, vendor, unit, match.groupdict().get("profile") or "")
        return None

    @property
    def annotations(self) -> frozenset[str]:
        """Node annotations worth storing."""
        return frozenset(name for vendor in self.vendors.values() for name in vendor.annotations)

    @property
    def dedicated_taints(self) -> frozenset[str]:
        return frozenset(key for vendor in self.vendors.values() for key in vendor.dedicated_taints)


def read_registry(folder: Path) -> Registry:
    """Read and check every vendor file of a folder. Raises RegistryError for the first that is unusable."""
    vendors: dict[str, Vendor] = {}
    patterns: list[tuple[re.Pattern[str], str, UnitKind]] = []
    for path in sorted(folder.glob("*.yaml")):
        vendor = _read_vendor(path)
        if vendor.vendor in vendors:
            raise RegistryError(f"{path.name}: vendor {vendor.vendor!r} is defined in two files")
        vendors[vendor.vendor] = vendor
        for index, entry in enumerate(vendor.resources):
            try:
                patterns.append((re.compile(entry.pattern), vendor.vendor, entry.unit))
            except re.error as error:
                raise RegistryError(f"{path.name}: resources[{index}].pattern: {error}") from error
    if not vendors:
        raise RegistryError(f"{folder}: no vendor file")
    return Registry(vendors, tuple(patterns))


def _read_vendor(path: Path) -> Vendor:
    try:
        return msgspec.convert(yaml.safe_load(path.read_bytes()), Vendor)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise RegistryError(f"{path.name}: {error}") from error


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


def first_label(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    """The value of the first of these labels that is set, "" when none is."""
    return next((labels[name] for name in names if labels.get(name)), "")
