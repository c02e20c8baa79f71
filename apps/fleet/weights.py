"""The published weights: what one partition of a card counts as, for whoever rebuilds GPU-equivalents by hand.

Input: the MIG table (core/data/mig.yaml) and the registry's partitions of other vendors; output: one row per model
and profile. Weights are whole slices of the card's slices, so that nothing is rounded. Units that are not in the
table follow from one number: time slices, MPS clients and vGPU shares are 1/n of a card, whole cards 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from apps.core.gpu import published_weights
from apps.fleet.registry import registry


@dataclass(frozen=True, slots=True)
class WeightRow:
    """`model` "": any model of the vendor. `memory_slices` None: the vendor does not divide memory alike."""

    vendor: str
    vendor_name: str
    model: str
    profile: str
    per_card: int
    compute_slices: int
    card_compute_slices: int
    memory_slices: int | None
    card_memory_slices: int | None


def weight_rows() -> list[WeightRow]:
    """By vendor, then in the tables' order."""
    return [*_mig_rows(), *_partition_rows()]


def _mig_rows() -> list[WeightRow]:
    nvidia = registry().vendors["nvidia"]
    return [
        WeightRow(
            nvidia.vendor,
            nvidia.name,
            row.model,
            row.profile,
            row.per_card,
            row.compute_slices,
            row.card_compute_slices,
            row.memory_slices,
            row.card_memory_slices,
        )
        for row in published_weights()
    ]


def _partition_rows() -> list[WeightRow]:
    return [
        WeightRow(vendor.vendor, vendor.name, "", profile, count, 1, count, None, None)
        for vendor in registry().vendors.values()
        for profile, count in vendor.partitions.items()
    ]
