"""Checks a vendor file against its test table, both of any folder.

A table says by hand what the registry must answer: `resources` (name → "unit [profile] [same_as name]"), `unknown`
names, `labels` (given → meaning), `offered` (what a node offers → what counts of it), `metrics` (name → [means,
scale, source, flags or label=value]), `ladder` (sources of utilisation, the best first), `drivers` (type → kind).
Every example, label, metric and DRA type of the file must be in the table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from apps.fleet.registry import Metric, Registered, Registry, Vendor, device_resources, first_label

TABLES = Path(__file__).parent / "registry"


def read_table(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_bytes())
    assert isinstance(found, dict), path.name
    return found


def check_table(registry: Registry, name: str, table: dict[str, Any]) -> None:
    vendor = registry.vendors[name]
    _check_resources(registry, vendor, table)
    _check_metrics(registry, vendor, table)
    _check_drivers(registry, vendor, table)
    rows = table.get("labels", [])
    tried = {label for row in rows for label in row["given"]}
    assert not set(_label_names(vendor)) - tried, "labels without a row in the table"
    for row in rows:
        assert {key: _meaning(vendor, key, row["given"]) for key in row["then"]} == row["then"]


def _said(found: Registered) -> str:
    return " ".join(
        (
            found.unit,
            *((found.profile,) if found.profile else ()),
            *(("same_as", found.same_as) if found.same_as else ()),
        )
    )


def _check_resources(registry: Registry, vendor: Vendor, table: dict[str, Any]) -> None:
    rows = table["resources"]
    found = {resource: registry.classify(resource) for resource in rows}
    assert {
        resource: _said(known) if known and known.vendor == vendor.vendor else None
        for resource, known in found.items()
    } == rows
    examples = {example for entry in vendor.resources for example in entry.examples}
    assert not examples - set(rows), "examples without a row in the table"
    for resource in table.get("unknown", ()):
        assert registry.classify(resource) is None, resource


def _check_metrics(registry: Registry, vendor: Vendor, table: dict[str, Any]) -> None:
    mine = {name: metric for name, (owner, metric) in registry.metrics.items() if owner == vendor.vendor}
    assert {name: _metric(metric) for name, metric in mine.items()} == {
        name: sorted(map(str, row)) for name, row in table.get("metrics", {}).items()
    }
    ladder = [metric.source for metric in vendor.metrics if metric.means == "utilisation"]
    assert ladder == table.get("ladder", [])


def _metric(metric: Metric) -> list[str]:
    """As a table's row, in any order; a scale of 1.0 is 1."""
    scale = int(metric.scale) if metric.scale == int(metric.scale) else metric.scale
    flags = [flag for flag in ("whole_only", "board") if getattr(metric, flag)]
    where = [f"{label}={value}" for label, value in metric.where.items()]
    source = [metric.source] if metric.source else []
    return sorted([metric.means, str(scale), *source, *flags, *where])


def _check_drivers(registry: Registry, vendor: Vendor, table: dict[str, Any]) -> None:
    rows = table.get("drivers", {})
    assert set(vendor.drivers) == set(rows)
    for driver, kinds in rows.items():
        owner, entry = registry.drivers[driver]
        assert owner == vendor.vendor
        assert {type_: entry.kind(type_) for type_ in kinds} == kinds
        assert not {*entry.types, *entry.ignored} - set(kinds), "types without a row in the table"


def _label_names(vendor: Vendor) -> list[str]:
    """Every label of the file whose whole name is known."""
    kinds = set(vendor.labels.__struct_fields__) - {"memory_unit", "model_in_key", "count_parts"}
    return [name for kind in kinds for name in getattr(vendor.labels, kind)]


def _meaning(vendor: Vendor, key: str, labels: dict[str, str]) -> str:
    found = first_label(labels, getattr(vendor.labels, key))
    return f"{found} {vendor.labels.memory_unit}" if key == "memory" else found


def check_offered(table: dict[str, Any]) -> None:
    """For the registry that ships: what counts of a node's resources."""
    for row in table.get("offered", ()):
        assert sorted(device_resources(row["given"])) == row["then"]
