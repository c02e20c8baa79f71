"""Extended resources that no vendor file knows: RDMA devices, other things, and what looks like an accelerator.

Input: `resources.yaml` and the registry; output: `is_rdma`, `looks_like_accelerator` and what to add for one. No
database. A resource of the registry is never unregistered, and never RDMA.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import msgspec
from django.utils.translation import gettext as _

from apps.fleet.registry import classify_resource, registry
from apps.fleet.vendors import Names, RegistryError, Text, compiled, read_yaml

FILE = Path(__file__).parent / "resources.yaml"
_OWN = ("kubernetes.io", "k8s.io")


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Text
    examples: Annotated[Names, msgspec.Meta(min_length=1)]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rdma: tuple[Entry, ...]
    other: tuple[Entry, ...]
    words: Names
    properties: Names


@dataclass(frozen=True, slots=True)
class Resources:
    """`words` and `properties` are lower case and hold no separators."""

    rdma: tuple[re.Pattern[str], ...]
    other: tuple[re.Pattern[str], ...]
    words: tuple[str, ...]
    properties: tuple[str, ...]


def read_resources(path: Path) -> Resources:
    """Read and check the file. Raises RegistryError where an example does not match its pattern, or is not told
    apart from RDMA devices."""
    file = read_yaml(path, _File)
    for place, words in (("words", file.words), ("properties", file.properties)):
        if bad := [word for word in words if not re.fullmatch("[a-z]+", word)]:
            raise RegistryError(f"{path.name}: {place}: {bad[0]!r} is not one word in lower case")
    rdma = _compiled(path, "rdma", file.rdma)
    other = _compiled(path, "other", file.other)
    for index, entry in enumerate(file.other):
        for example in entry.examples:
            if any(pattern.fullmatch(example) for pattern in rdma):
                raise RegistryError(f"{path.name}: other[{index}]: {example!r} is an RDMA device")
    return Resources(rdma, other, file.words, file.properties)


def _compiled(path: Path, section: str, entries: tuple[Entry, ...]) -> tuple[re.Pattern[str], ...]:
    found = []
    for index, entry in enumerate(entries):
        pattern = compiled(entry.pattern, place := f"{path.name}: {section}[{index}].pattern")
        if bad := [example for example in entry.examples if not pattern.fullmatch(example)]:
            raise RegistryError(f"{place} does not match its example {bad[0]!r}")
        found.append(pattern)
    return tuple(found)


@lru_cache(maxsize=1)
def resources() -> Resources:
    """The file that ships with the portal, read once."""
    return read_resources(FILE)


@lru_cache(maxsize=4096)
def is_rdma(resource: str) -> bool:
    """Whether units of this resource are network devices with RDMA."""
    return classify_resource(resource) is None and _matches(resources().rdma, resource)


@lru_cache(maxsize=4096)
def looks_like_accelerator(resource: str) -> bool:
    """Whether a resource that no vendor file knows reads like an accelerator: by a word of its name or domain, or
    because the registry knows the domain as a vendor's. FPGAs do not count as such (resources.yaml says why)."""
    domain, _slash, name = resource.partition("/")
    if not domain or not name or domain.endswith(_OWN) or classify_resource(resource) is not None:
        return False
    known = resources()
    if _matches(known.rdma, resource) or _matches(known.other, resource):
        return False
    return domain in registry().domains or any(
        word.startswith(known.words) or word.endswith(known.words) for word in _words(resource)
    )


def what_to_add(resource: str) -> str:
    """What makes the portal count this resource: the file, and the lines to put there (docs/registry.md)."""
    domain, _slash, name = resource.partition("/")
    kind = "aux" if any(word.endswith(resources().properties) for word in _words(name)) else "device"
    entry = f"{{pattern: '{resource.replace('.', chr(92) + '.')}', unit: {kind}, examples: [{resource}]}}"
    vendor = _vendor_of(domain)
    if vendor in registry().vendors:
        return _("Add to “resources” in apps/fleet/data/%(vendor)s.yaml: %(lines)s") % {
            "vendor": vendor,
            "lines": f"- {entry}",
        }
    return _("Add a file apps/fleet/data/%(vendor)s.yaml: %(lines)s") % {
        "vendor": vendor,
        "lines": f"{{vendor: {vendor}, name: {vendor.capitalize()}, resources: [{entry}]}}",
    }


def _matches(patterns: tuple[re.Pattern[str], ...], resource: str) -> bool:
    return any(pattern.fullmatch(resource) for pattern in patterns)


def _words(resource: str) -> set[str]:
    """The words of a name: "Ascend910B-vGPU.mem" → ascend, b, vgpu, mem."""
    return {word for word in re.split("[^a-z]+", resource.lower()) if word}


def _vendor_of(domain: str) -> str:
    """The vendor whose domain this is, or that has resources there; else a key made of it: "gpu.acme.com" → "acme"."""
    known = registry()
    if domain in known.domains:
        return known.domains[domain]
    for vendor in known.vendors.values():
        if any(e.partition("/")[0] == domain for entry in vendor.resources for e in entry.examples):
            return vendor.vendor
    labels = [label for label in domain.lower().split(".") if label]
    name = labels[-2] if len(labels) > 1 else labels[0]
    return re.sub("[^a-z0-9-]", "-", name).lstrip("-0123456789") or "vendor"
