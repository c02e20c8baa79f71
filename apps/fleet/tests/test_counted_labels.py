"""Labels that only count cards: they stand for cards where something else says that the vendor's cards are there."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from apps.core.gpu import SharingMode
from apps.fleet.inventory import Group, node_inventory
from apps.fleet.registry import COUNTED, registry

# Every label of every vendor that counts cards, with a label that names the vendor's model and a resource it offers.
COUNTS = [
    (
        vendor.vendor,
        count,
        vendor.labels.model[0],
        next(e.examples[0] for e in vendor.resources if e.unit in COUNTED),
    )
    for vendor in registry().vendors.values()
    for count in vendor.labels.count
]


def groups_of(
    labels: dict[str, str], capacity: dict[str, str] | None = None, last: dict[str, str] | None = None
) -> list[Group]:
    found, codes = node_inventory(
        labels=labels, annotations={}, capacity=capacity or {}, allocatable=capacity or {}, last_known=last
    )
    assert codes == ([] if found or "nvidia.com/gpu.present" not in labels else ["present_without_devices"])
    return found


def test_there_are_labels_that_count() -> None:
    assert {
        ("nvidia", "nvidia.com/gpu.count"),
        ("nvidia", "cloud.google.com/gke-accelerator-count"),
        ("intel", "gpu.intel.com/device.count"),
    } <= {(vendor, count) for vendor, count, _model, _resource in COUNTS}


@pytest.mark.parametrize(("vendor", "count", "model", "resource"), COUNTS)
def test_a_count_alone_is_no_cards(vendor: str, count: str, model: str, resource: str) -> None:
    assert groups_of({count: "4"}) == []
    assert groups_of({count: "4"}, {"cpu": "8", "memory": "16Gi"}) == []


@pytest.mark.parametrize(("vendor", "count", "model", "resource"), COUNTS)
def test_a_count_beside_a_model_is_lost_cards(vendor: str, count: str, model: str, resource: str) -> None:
    [group] = groups_of({count: "4", model: "Some-Model"})
    assert (group.vendor, group.model, group.cards, group.plugin_down) == (vendor, "Some-Model", 4, True)


@pytest.mark.parametrize(("vendor", "count", "model", "resource"), COUNTS)
def test_a_count_beside_a_resource_is_cards(vendor: str, count: str, model: str, resource: str) -> None:
    [down] = groups_of({count: "4"}, {resource: "0"})
    assert (down.vendor, down.cards, down.plugin_down) == (vendor, 4, True)
    [before] = groups_of({count: "4"}, last={resource: "4"})
    assert (before.vendor, before.cards, before.plugin_down) == (vendor, 4, True)
    [there] = groups_of({count: "4"}, {resource: "4"})
    assert (there.vendor, there.cards, there.plugin_down) == (vendor, 4, False)
    assert [unit.capacity for unit in there.units] == [Decimal(4)]


def test_a_count_beside_a_label_that_says_present() -> None:
    [group] = groups_of({"nvidia.com/gpu.count": "2", "nvidia.com/gpu.present": "true"})
    assert (group.vendor, group.cards, group.plugin_down) == ("nvidia", 2, True)
    assert (
        groups_of({"cloud.google.com/gke-accelerator-count": "2", "gpu.intel.com/product": "Max_1550"}) == []
    )


def test_another_vendors_cards_do_not_vouch() -> None:
    [group] = groups_of({"cloud.google.com/gke-accelerator-count": "4"}, {"amd.com/gpu": "8"})
    assert (group.vendor, group.cards) == ("amd", 8)


def test_a_label_that_says_absent() -> None:
    found, _codes = node_inventory(
        labels={"nvidia.com/gpu.count": "2", "nvidia.com/gpu.present": "false"},
        annotations={},
        capacity={},
        allocatable={},
    )
    assert found == []


def test_labels_that_count_one_kind_each_count_together() -> None:
    """Intel's feature rules: two cards of one kind and one of another, each shared five times, are 3 cards."""
    groups, codes = node_inventory(
        labels={
            "gpu.intel.com/product": "Flex_170",
            "gpu.intel.com/device-id.0380-56c0.count": "2",
            "gpu.intel.com/device-id.0380-56c1.count": "1",
            "gpu.intel.com/device-id.0380-56c0.present": "true",
        },
        annotations={},
        capacity={"gpu.intel.com/i915": "15"},
        allocatable={"gpu.intel.com/i915": "15"},
    )
    assert [(g.mode, g.cards, g.units[0].capacity, g.units[0].equivalents) for g in groups] == [
        (SharingMode.TIME_SLICING, 3, Decimal(15), Fraction(1, 5))
    ]
    assert codes == []
