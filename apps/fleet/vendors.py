"""Vendor files: their schema, and how they are read and checked. Pure: no Django, no database.

Input: a folder of `*.yaml`, one file per vendor; output: a `Registry`. docs/registry.md says how to write one.

Invariants
- A resource matches at most one pattern of all files; every pattern has examples that prove it, and patterns match
  the whole name.
- A metric name and a DRA driver belong to one vendor.
- What is wrong is refused when the files are read, with the file and the place in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec
import yaml

UnitKind = Literal["device", "partition", "share", "memory", "aux"]
Means = Literal[
    "utilisation",
    "memory_used",
    "memory_free",
    "memory_reserved",
    "memory_total",
    "power",
    "energy",
    "xid",
    "health",
    "temperature",
]
DeviceKind = Literal["device", "partition", "vfio"]
Resolver = Literal["plain", "nvidia", "register"]

Text = Annotated[str, msgspec.Meta(min_length=1)]
Names = tuple[Text, ...]
MetricName = Annotated[str, msgspec.Meta(pattern="^[a-zA-Z_:][a-zA-Z0-9_:]*$")]
Source = Annotated[str, msgspec.Meta(pattern="^[a-z0-9_]*$", max_length=30)]

T = TypeVar("T")

COUNTED: frozenset[str] = frozenset(("device", "partition", "share"))


class RegistryError(ValueError):
    """A registry file is unusable; the message names the file and the place in it."""


class ResourceEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Resource names and what one unit of them is. A group `profile` in the pattern names the partition.
    `same_as`: another resource that is the same silicon; where a node offers both, only that one counts."""

    pattern: Text
    unit: UnitKind
    examples: Annotated[Names, msgspec.Meta(min_length=1)]
    same_as: str = ""


class Labels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Node labels by meaning; of several names the first that the node carries counts. `model_in_key`: beginnings
    of labels that hold the model in the key and how many cards have it in the value. `count_parts`: beginnings of
    labels (ending in ".count") that each count the cards of one kind; together they count where `count` does not.
    `driver`: its version; `runtime`: the newest CUDA or the like that it supports."""

    model: Names = ()
    model_in_key: Names = ()
    count: Names = ()
    count_parts: Names = ()
    memory: Names = ()
    memory_unit: Literal["", "Mi", "Gi"] = ""
    replicas: Names = ()
    sharing: Names = ()
    partitioning: Names = ()
    profile: Names = ()
    present: Names = ()
    driver: Names = ()
    runtime: Names = ()


class Metric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One metric. Value · `scale` is a ratio (0…1), bytes, watts, joules or degrees Celsius by what it `means`.

    Of several metrics with one meaning, the first that a device has counts: for utilisation the list is the ladder
    and `source` names the rung. `whole_only`: means nothing on a partition. `board`: a value of the whole card,
    which exporters repeat on each of its partitions. `where`: labels that a series must carry, for names too plain
    to be a vendor's own. `healthy`: the value of a health metric that means healthy."""

    name: MetricName
    means: Means
    scale: float = 1.0
    source: Source = ""
    whole_only: bool = False
    board: bool = False
    where: dict[Text, Text] = {}
    healthy: float | None = None


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Labels of a series that say which device it is about; the first that is set counts. `device`: unique in the
    world; `position`: unique on its node, where `device` is missing; `instance`: partition of the device, but not of
    one that is whole by a label and value of `whole`."""

    device: Names = ()
    position: Names = ()
    instance: Names = ()
    whole: dict[Text, Names] = {}
    profile: Names = ()
    model: Names = ()
    node: Names = ()
    driver: Names = ()

    def instance_of(self, labels: Mapping[str, str]) -> str:
        """The partition that a series is about, "" for a whole device."""
        if any(labels.get(label) in values for label, values in self.whole.items()):
            return ""
        return next((labels[name] for name in self.instance if labels.get(name)), "")


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Labels of a series that say who uses the device. `share`: labels that exist on copies per sharing pod.
    `exporter_pods`: parts of the names of the exporter's own pods, which use no device."""

    namespace: Names = ()
    pod: Names = ()
    uid: Names = ()
    share: Names = ()
    exporter_pods: Names = ()


class Attributes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names of DRA attributes by meaning; the first that a device has counts. `memory`: a capacity, in bytes."""

    type: Names = ()
    model: Names = ()
    uuid: Names = ()
    parent: Names = ()
    profile: Names = ()
    pci: Names = ()
    pcie: Names = ()
    numa: Names = ()
    memory: Names = ()


class Driver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A DRA driver. `types`: value of its type attribute → kind ("vfio": the same card offered to a virtual machine);
    `default`: kind of a device without a type, "" for none; `ignored`: types that are no accelerators. A driver
    without types and default offers nothing that counts."""

    types: dict[Text, DeviceKind] = {}
    default: Literal["", "device", "partition", "vfio"] = ""
    ignored: Names = ()
    attributes: Attributes = Attributes()

    @property
    def counts(self) -> bool:
        """Whether anything that it lists is an accelerator."""
        return bool(self.types or self.default)

    def kind(self, type_: str) -> str:
        """ "device", "partition", "vfio", or "" for what does not count or is not known."""
        return self.types.get(type_, "") if type_ else self.default


class Vendor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One vendor's file. `annotations`: node annotations that hold a split's inventory; `partitions`: how many
    partitions of a profile one card makes (NVIDIA's are in the MIG table); `resolver`: how its cards are found on a
    node, "register": from the annotations where there are any, else shares by the usual split and the rest as "plain"; `metric_prefixes`: what an exporter
    may be set to put before its metrics' names; `blanks`: what it prints, in place of any value, where it has none;
    `domains`: where every resource is about this vendor's devices, so
    that one which matches no pattern is shown as unregistered."""

    vendor: Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9-]*$", max_length=30)]
    name: Text
    resources: Annotated[tuple[ResourceEntry, ...], msgspec.Meta(min_length=1)]
    domains: Names = ()
    resolver: Resolver = "plain"
    labels: Labels = Labels()
    annotations: Names = ()
    dedicated_taints: Names = ()
    default_model: str = ""
    partitions: dict[Text, Annotated[int, msgspec.Meta(ge=1)]] = {}
    metrics: tuple[Metric, ...] = ()
    metric_prefixes: tuple[str, ...] = ()
    blanks: tuple[float, ...] = ()
    identity: Identity = Identity()
    workload: Workload = Workload()
    drivers: dict[Text, Driver] = {}

    @property
    def has_devices(self) -> bool:
        return any(entry.unit in COUNTED for entry in self.resources)

    def is_blank(self, value: float) -> bool:
        """Whether a value as printed means that there is none."""
        return value in self.blanks or (math.isnan(value) and any(map(math.isnan, self.blanks)))

    def all_metrics(self) -> tuple[Metric, ...]:
        """The metrics under each name that they may have, in the order of the list."""
        prefixes = self.metric_prefixes or ("",)
        return tuple(
            msgspec.structs.replace(metric, name=prefix + metric.name)
            for metric in self.metrics
            for prefix in prefixes
        )


@dataclass(frozen=True, slots=True)
class Registered:
    """What the registry knows about a resource name; `profile` is a partition's ("1g.10gb"), else "".
    `same_as`: the resource that counts instead where a node offers both, else ""."""

    resource: str
    vendor: str
    unit: UnitKind
    profile: str = ""
    same_as: str = ""

    @property
    def counted(self) -> bool:
        return self.unit in COUNTED


@dataclass(frozen=True)
class Registry:
    """All vendors; `metrics`, `drivers` and `domains` by name, with the vendor they belong to. Metrics of a file that has no
    devices of its own come last: they describe other vendors' cards and fill in what those do not say."""

    vendors: Mapping[str, Vendor]
    patterns: tuple[tuple[re.Pattern[str], str, ResourceEntry], ...]
    metrics: Mapping[str, tuple[str, Metric]]
    drivers: Mapping[str, tuple[str, Driver]]
    domains: Mapping[str, str]

    def classify(self, resource: str) -> Registered | None:
        for pattern, vendor, entry in self.patterns:
            if match := pattern.fullmatch(resource):
                profile = match.groupdict().get("profile") or ""
                return Registered(resource, vendor, entry.unit, profile, entry.same_as)
        return None

    @cached_property
    def annotations(self) -> frozenset[str]:
        """Node annotations worth storing."""
        return frozenset(name for vendor in self.vendors.values() for name in vendor.annotations)

    @cached_property
    def dedicated_taints(self) -> frozenset[str]:
        return frozenset(key for vendor in self.vendors.values() for key in vendor.dedicated_taints)


def read_registry(folder: Path) -> Registry:
    """Read and check every vendor file of a folder. Raises RegistryError for the first that is unusable."""
    files = {path.name: read_vendor(path) for path in sorted(folder.glob("*.yaml"))}
    if not files:
        raise RegistryError(f"{folder}: no vendor file")
    vendors: dict[str, Vendor] = {}
    metrics: dict[str, tuple[str, Metric]] = {}
    drivers: dict[str, tuple[str, Driver]] = {}
    domains: dict[str, str] = {}
    for name, vendor in files.items():
        if vendor.vendor in vendors:
            raise RegistryError(f"{name}: vendor {vendor.vendor!r} is defined in two files")
        vendors[vendor.vendor] = vendor
        for domain in vendor.domains:
            if domain in domains:
                raise RegistryError(f"{name}: domains: {domain} is already a domain of {domains[domain]}")
            domains[domain] = vendor.vendor
    for name, vendor in sorted(files.items(), key=lambda item: not item[1].has_devices):
        for metric in vendor.all_metrics():
            if metric.name in metrics:
                owner = metrics[metric.name][0]
                raise RegistryError(f"{name}: metrics: {metric.name} is already a metric of {owner}")
            metrics[metric.name] = (vendor.vendor, metric)
        for driver, entry in vendor.drivers.items():
            if driver in drivers:
                raise RegistryError(f"{name}: drivers: {driver} is already a driver of {drivers[driver][0]}")
            drivers[driver] = (vendor.vendor, entry)
    _check_same_as(files)
    return Registry(vendors, _patterns(files), metrics, drivers, domains)


def _check_same_as(files: Mapping[str, Vendor]) -> None:
    for name, vendor in files.items():
        known = {example for entry in vendor.resources for example in entry.examples}
        for index, entry in enumerate(vendor.resources):
            if entry.same_as and entry.same_as not in known:
                raise RegistryError(
                    f"{name}: resources[{index}].same_as: no example of this file is {entry.same_as!r}"
                )


def _patterns(files: Mapping[str, Vendor]) -> tuple[tuple[re.Pattern[str], str, ResourceEntry], ...]:
    """Every pattern; raises where an example does not match its own, or another one matches it too."""
    places: list[tuple[str, re.Pattern[str]]] = []
    found: list[tuple[re.Pattern[str], str, ResourceEntry]] = []
    for name, vendor in files.items():
        for index, entry in enumerate(vendor.resources):
            pattern = compiled(entry.pattern, place := f"{name}: resources[{index}].pattern")
            places.append((place, pattern))
            found.append((pattern, vendor.vendor, entry))
    for (place, pattern), (_, _, entry) in zip(places, found, strict=True):
        for example in entry.examples:
            if not pattern.fullmatch(example):
                raise RegistryError(f"{place} does not match its example {example!r}")
            others = [where for where, other in places if where != place and other.fullmatch(example)]
            if others:
                raise RegistryError(f"{place}: {example!r} also matches {others[0]}")
    return tuple(found)


def compiled(pattern: str, place: str) -> re.Pattern[str]:
    """A pattern for whole resource names; one that matches everything, or nothing but native resources, is refused."""
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise RegistryError(f"{place}: {error}") from error
    for native in ("", "cpu", "memory", "pods", "ephemeral-storage", "hugepages-2Mi", "a.example/b"):
        if found.fullmatch(native):
            raise RegistryError(f"{place}: matches {native!r}, which is no accelerator")
    return found


def read_vendor(path: Path) -> Vendor:
    """One file, checked by itself."""
    vendor = read_yaml(path, Vendor)
    for problem in _problems(vendor):
        raise RegistryError(f"{path.name}: {problem}")
    return vendor


def read_yaml(path: Path, kind: type[T]) -> T:
    """A YAML file as a struct."""
    try:
        return msgspec.convert(yaml.safe_load(path.read_bytes()), kind)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise RegistryError(f"{path.name}: {error}") from error


def _problems(vendor: Vendor) -> Iterator[str]:
    yield from _metric_problems(vendor)
    for index, entry in enumerate(vendor.resources):
        if entry.same_as and entry.unit not in COUNTED:
            yield f"resources[{index}].same_as: a resource of unit {entry.unit} is not counted anyway"
    if vendor.labels.memory and not vendor.labels.memory_unit:
        yield "labels.memory_unit: missing, labels.memory has no unit of its own"
    for name, driver in vendor.drivers.items():
        if both := sorted(driver.types.keys() & set(driver.ignored)):
            yield f"drivers[{name}]: type {both[0]!r} is both counted and ignored"
        if (driver.types or driver.ignored) and not driver.attributes.type:
            yield f"drivers[{name}].attributes.type: missing, types are told by it"


def _metric_problems(vendor: Vendor) -> Iterator[str]:
    names: set[str] = set()
    sources: set[str] = set()
    for index, metric in enumerate(vendor.metrics):
        place = f"metrics[{index}] ({metric.name})"
        if metric.name in names:
            yield f"{place}: the name is in the list twice"
        if not (metric.scale > 0 and math.isfinite(metric.scale)):
            yield f"{place}: scale must be a number above 0, not {metric.scale}"
        if (metric.means == "utilisation") is not bool(metric.source):
            yield f"{place}: source is for utilisation, and every utilisation needs one"
        if metric.source and metric.source in sources:
            yield f"{place}: source {metric.source!r} is in the list twice"
        if (metric.means == "health") is not (metric.healthy is not None):
            yield f"{place}: healthy is for health, and every health metric needs it"
        names.add(metric.name)
        sources.add(metric.source)
    if vendor.metrics and not (vendor.identity.device or vendor.identity.position):
        yield "identity: metrics need the labels that name a device"
    if len(set(vendor.metric_prefixes)) != len(vendor.metric_prefixes):
        yield "metric_prefixes: one is in the list twice"
