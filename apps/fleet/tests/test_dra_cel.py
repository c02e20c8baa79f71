"""CEL of device classes: what is certain, what is not read, and what a class names."""

from __future__ import annotations

from typing import Any

import pytest

from apps.fleet.dra.cel import matches, named_drivers, named_types

GPU = "gpu.nvidia.com"
ATTRIBUTES: dict[str, Any] = {
    "type": "mig",
    "profile": "1g.10gb",
    "healthy": True,
    "index": 3,
    "resource.kubernetes.io/numaNode": 1,
}
OF = "device.attributes['gpu.nvidia.com']"


@pytest.mark.parametrize(
    ("expression", "held"),
    [
        ("device.driver == 'gpu.nvidia.com'", True),
        ('device.driver == "gpu.amd.com"', False),
        ("device.driver != 'gpu.amd.com'", True),
        (f"{OF}.type == 'mig' && {OF}.profile == '1g.10gb'", True),
        (f"(device.driver == 'gpu.nvidia.com') && ({OF}.type == 'gpu')", False),
        (f"{OF}.healthy == true", True),
        (f"{OF}.index == 3", True),
        (f"{OF}.index == '3'", False),  # a number is no text
        (f"{OF}.healthy == 1", False),  # nor is truth a number
        (f"{OF}.absent == 'x'", False),  # an error in CEL: selects nothing
        (f"{OF}.absent != 'x'", False),
        ("device.attributes['resource.kubernetes.io'].numaNode == 1", True),
        ("'gpu.nvidia.com' in device.attributes", True),
        ("'example.org' in device.attributes", False),
        (f"{OF}.productName.startsWith('NVIDIA')", None),
        (f"{OF}.type == 'gpu' || {OF}.type == 'mig'", None),
        (f"device.driver == 'other' && {OF}.productName.startsWith('NVIDIA')", False),
        ("!(device.driver == 'gpu.nvidia.com')", None),
        ("device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0", None),
    ],
)
def test_an_expression_holds_does_not_or_is_not_read(expression: str, held: bool | None) -> None:
    assert matches([expression], GPU, ATTRIBUTES) is held


def test_all_expressions_have_to_hold_and_none_is_everything() -> None:
    assert matches([], GPU, {}) is True
    assert matches(["device.driver == 'gpu.nvidia.com'", f"{OF}.type == 'gpu'"], GPU, ATTRIBUTES) is False


@pytest.mark.parametrize(
    ("expression", "drivers", "types"),
    [
        (f"device.driver == 'gpu.nvidia.com' && {OF}.type == 'gpu'", [GPU], ["gpu"]),
        (f"{OF}.type == 'gpu' || {OF}.type == 'mig'", [GPU], ["gpu", "mig"]),
        ("device.driver == 'a' || device.driver == 'b'", ["a", "b"], []),
        ("device.attributes['resource.kubernetes.io'].numaNode == 0", [], []),
        ("device.driver != 'gpu.nvidia.com'", [], []),
    ],
)
def test_what_a_class_names(expression: str, drivers: list[str], types: list[str]) -> None:
    assert (named_drivers([expression]), named_types([expression])) == (drivers, types)
