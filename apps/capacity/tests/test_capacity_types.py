"""Spot, on-demand and reserved by the labels of those who make nodes."""

from __future__ import annotations

import pytest

from apps.capacity.capacity_types import capacity_type


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"karpenter.sh/capacity-type": "spot"}, "spot"),
        ({"karpenter.sh/capacity-type": "on-demand"}, "on-demand"),
        ({"karpenter.sh/capacity-type": "reserved"}, "reserved"),
        ({"eks.amazonaws.com/capacityType": "SPOT"}, "spot"),
        ({"eks.amazonaws.com/capacityType": "ON_DEMAND"}, "on-demand"),
        ({"eks.amazonaws.com/capacityType": "CAPACITY_BLOCK"}, "reserved"),
        ({"cloud.google.com/gke-spot": "true"}, "spot"),
        ({"cloud.google.com/gke-spot": "false"}, ""),
        ({"cloud.google.com/gke-preemptible": "true"}, "spot"),
        ({"cloud.google.com/gke-provisioning": "standard"}, "on-demand"),
        ({"kubernetes.azure.com/scalesetpriority": "spot"}, "spot"),
        ({"kubernetes.azure.com/scalesetpriority": "regular"}, "on-demand"),
        ({"node.kubernetes.io/lifecycle": "spot"}, "spot"),
        ({"node.kubernetes.io/lifecycle": "normal"}, "on-demand"),
        # An unknown value says nothing; the next label may.
        ({"karpenter.sh/capacity-type": "other", "node.kubernetes.io/lifecycle": "spot"}, "spot"),
        ({"karpenter.sh/capacity-type": "on-demand", "node.kubernetes.io/lifecycle": "spot"}, "on-demand"),
        ({"pool": "h100"}, ""),
        ({}, ""),
    ],
)
def test_capacity_type(labels: dict[str, str], expected: str) -> None:
    assert capacity_type(labels) == expected
