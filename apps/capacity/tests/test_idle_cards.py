"""Idle cards, found among few nodes: the same as among all cards, and the same as counted sample by sample."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from random import Random

from django.test import override_settings
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from apps.capacity.cards import CardRow, card_rows, idle_cards
from apps.capacity.tests.card_builders import T0, D, make_cluster, node, pod, read
from apps.fleet.models import Cluster
from apps.observations.models import DeviceSample

GPU = "nvidia.com/gpu"
SLICED = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
LONG, RECENT = T0 - timedelta(hours=2), T0 - timedelta(minutes=10)


def make_node(cluster: Cluster, name: str, random: Random) -> None:
    """One to four cards, whole or sliced, some of them out of use; fewer or more pods than cards; what exporters say
    of each card: nothing, no pod, one pod, one after the other, several, or a pod that is no more."""
    cards, sliced = random.randint(1, 4), random.random() < 0.4
    units = cards * 4 if sliced else cards
    usable = units - (random.random() < 0.2)
    node(cluster, name, {GPU: str(units)}, allocatable={GPU: str(usable)}, labels=SLICED if sliced else {})
    pods = [f"{name}-{number}" for number in range(random.randint(0, cards + 1))]
    for pod_name in pods:
        asked = {GPU: str(random.choice((1, 1, 1, 2)))}
        pod(cluster, pod_name, name, asked, bound_at=random.choice((LONG, LONG, LONG, RECENT)))
    rows = []
    for card in range(cards + random.choice((0, 0, 0, 1))):
        parts = ("1", "2") if random.random() < 0.1 else ("",)
        rows += [
            row for part in parts for row in samples(cluster, name, f"{name}-{card}", part, pods, random)
        ]
    DeviceSample.objects.bulk_create(rows)


def samples(
    cluster: Cluster, name: str, device: str, part: str, pods: list[str], random: Random
) -> Iterable[DeviceSample]:
    named = random.choice(((), ("gone",), tuple(pods[:1]), tuple(pods[-1:]), tuple(pods[:2])))
    shares = random.random() < 0.2
    works = random.choice(("never", "never", "once", "always", "unsaid"))
    worked_at, skipped = random.randrange(30), random.choice((0, 0, 0, 0, 5, 7))
    for minute in range(skipped if random.random() < 0.5 else 0, 30 - random.choice((0, 0, skipped))):
        busy = works == "always" or (works == "once" and minute == worked_at)
        ratio = (
            None
            if works == "unsaid" or (minute == 0 and random.random() < 0.3)
            else D("0.5" if busy else "0.01")
        )
        holder = named[minute % len(named)] if named and not shares else ""
        yield DeviceSample(
            cluster=cluster,
            sampled_at=T0 - timedelta(seconds=20 + 60 * minute),
            device=device,
            instance=part,
            node_name=name,
            utilisation_ratio=ratio,
            vendor="nvidia",
            model="NVIDIA H100 80GB HBM3",
            namespace="ml" if holder else "",
            pod=holder,
            memory_used_bytes=random.choice((3, 30)),
            memory_total_bytes=100,
            shares=[{"namespace": "ml", "pod": one, "ratio": None} for one in named] if shares else [],
        )


def counted(row: CardRow) -> tuple[D, int] | None:
    """(highest utilisation, samples) of a card that is held for certain and idle, from its samples one by one."""
    if not row.holders or any(holder.how == "perhaps" for holder in row.holders) or row.instances:
        return None
    found = [
        one
        for one in DeviceSample.objects.filter(cluster=row.cluster, node_name=row.node, device=row.device)
        if T0 - timedelta(minutes=30) < one.sampled_at <= T0
    ]
    here = {holder.pod for holder in row.holders}
    ratios = [one.utilisation_ratio for one in found if one.utilisation_ratio is not None]
    others = {one.pod for one in found} - here - {""}
    came = all(holder.since == LONG for holder in row.holders)
    idle = len(ratios) >= 24 and max(ratios) <= D("0.01") and came and not others
    return (max(ratios), len(ratios)) if idle else None


class IdleCards(TestCase):
    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, 2**32))
    @example(943342459)  # a pod that is named on a card beyond its node's count
    def test_of_few_nodes_as_of_all(self, seed: int) -> None:
        random = Random(seed)
        cluster = make_cluster()
        read(cluster, "nodes", "pods", "dcgm")
        for number in range(6):
            make_node(cluster, f"n{number}", random)
        with override_settings(COLLECT_INTERVAL_SECONDS=60):
            rows = card_rows(now=T0, clusters=[cluster])
            assert idle_cards(now=T0, clusters=[cluster]) == [row for row in rows if row.is_idle]
        for row in rows:
            said = None if row.idle is None else (row.idle.highest_ratio, row.idle.samples)
            fresh = row.sampled_at is not None and T0 - row.sampled_at < timedelta(minutes=4)
            assert said == (counted(row) if fresh else None)
