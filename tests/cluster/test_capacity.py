"""Physical, usable and held cards of a real cluster against numbers worked out by hand from the same objects."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone
from kubernetes.client import ApiClient, CoreV1Api

from apps.capacity.rows import NodeRow
from apps.capacity.selectors import capacity_and_nodes
from apps.fleet.models import Cluster
from apps.fleet.registry import is_device

from .access import require_cluster
from .conftest import Pull

require_cluster()
pytestmark = [pytest.mark.cluster, pytest.mark.django_db]

# Node → (cards, usable cards): whole cards, ⌈56 / 7⌉ of a single-strategy node, the count label of mixed nodes and of
# shared cards (16 slices and 40 clients are 4 cards each), UUIDs of slices. Cordoned, silent, and tainted with nothing
# that tolerates it: none usable; the spot node's taint is its own flavor's; one card of h100-08 is unhealthy.
BED = {
    "a100-01": (8, 8), "a100-02": (8, 8), "a100-03": (8, 0), "a100-04": (8, 0),
    "ascend-01": (8, 8), "dra-01": (7, 7), "gaudi-01": (8, 8), "gb200-01": (4, 4),
    "h100-01": (8, 8), "h100-02": (8, 8), "h100-03": (8, 8), "h100-04": (8, 8),
    "h100-05": (8, 8), "h100-06": (8, 8), "h100-07": (8, 8), "h100-08": (8, 7),
    "l4-01": (4, 4), "l4-02": (4, 4), "l40s-mps-01": (4, 4), "mi300x-01": (8, 8),
    "nolabel-01": (8, 8), "t4-01": (4, 0),
}  # fmt: skip
# 32 + 8 + 7 + 8 + 4 + 32 + 32 + 4 + 4 + 4 + 8 + 8 + 4, and 8 + 8 + 1 + 4 less
CARDS, USABLE = 155, 134


@pytest.fixture
def collected(cluster: Cluster, pull: Pull) -> Cluster:
    for source in ("nodes", "pods", "kueue", "volcano", "devices"):
        assert pull(source).outcome == "ok"
    return cluster


def cards(rows: list[NodeRow]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for row in rows:
        physical, usable = found.get(row.node, (0, 0))
        found[row.node] = (physical + row.physical_devices, usable + row.allocatable_devices)
    return found


def test_the_beds_cards_by_hand(collected: Cluster) -> None:
    report, nodes = capacity_and_nodes(now=timezone.now(), clusters=[collected])
    found = cards(list(nodes))
    if not found.keys() >= BED.keys():
        pytest.skip("not the test bed")
    assert found == BED
    assert (report.totals.physical_devices, report.totals.allocatable_devices) == (CARDS, USABLE)
    assert sum(pool.physical_devices for pool in report.pools) == CARDS
    assert sum(pool.allocatable_devices + sum(pool.buckets.values()) for pool in report.pools) == CARDS


def test_pods_hold_what_the_server_lists(collected: Cluster, writer: ApiClient) -> None:
    """Requests of bound pods that are not over, added up once more per node and resource."""
    asked: Counter[tuple[str, str]] = Counter()
    items: Any = CoreV1Api(writer).list_pod_for_all_namespaces().items
    for pod in items:
        if not pod.spec.node_name or pod.status.phase in ("Succeeded", "Failed"):
            continue
        for container in pod.spec.containers:
            requests = (container.resources and container.resources.requests) or {}
            asked.update(
                {(pod.spec.node_name, name): int(n) for name, n in requests.items() if is_device(name)}
            )
    _report, nodes = capacity_and_nodes(now=timezone.now(), clusters=[collected])
    held: dict[tuple[str, str], Decimal] = {}
    for row in nodes:
        for unit in row.units:
            if unit.held_bound and row.origin == "plugin" and row.allocatable_devices:
                key = (row.node, unit.resource)
                held[key] = held.get(key, Decimal(0)) + unit.held_bound
    usable = {row.node for row in nodes if row.allocatable_devices}
    assert held == {key: n for key, n in asked.items() if key[0] in usable}
    assert held
