"""Tolerations as Kubernetes reads them."""

import pytest

from apps.core.taints import Toleration, tolerates

SPOT = {"key": "spot", "value": "true", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "spot", "operator": "Exists"}, True),
        ({"key": "spot", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "spot", "operator": "Equal", "value": "true"}, True),
        ({"key": "spot", "value": "true"}, True),
        ({"key": "spot", "value": "false"}, False),
        ({"key": "spot"}, False),
        ({"value": "true"}, False),
        ({"key": "gpu", "operator": "Exists"}, False),
        ({}, False),
    ],
)
def test_one_toleration_beside_one_taint(toleration: Toleration, expected: bool) -> None:
    assert tolerates([toleration], SPOT) == expected
    assert tolerates([{"key": "other", "operator": "Exists"}, toleration], SPOT) == expected


def test_a_taint_without_a_value_is_tolerated_by_one_without() -> None:
    assert tolerates([{"key": "gpu", "effect": "NoSchedule"}], {"key": "gpu", "effect": "NoSchedule"})
    assert not tolerates([], SPOT)
