"""Cards that are held and do nothing: who is told what. Also cards that only one side knows."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from apps.accounts.models import Team
from apps.capacity.tests.card_builders import T0, make_cluster, node, pod, read, sample, team_of
from apps.findings.idle import coverage_findings, idle_findings
from apps.findings.keeping import Kept
from apps.findings.rows import Finding
from apps.findings.selectors import findings
from apps.fleet.models import Cluster

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(settings: Any) -> Cluster:
    """a: two cards of red, idle · b: one card of blue, idle with 30 % of memory taken · c: one card of red that works
    · d: one card that nobody holds."""
    settings.COLLECT_INTERVAL_SECONDS = 60
    made = make_cluster(prometheus_url="http://prom")
    read(made, "nodes", "pods", "dcgm")
    for team, namespace in (("red", "ml"), ("blue", "web")):
        team_of(made, team, namespace)
    for name, cards in (("a", 2), ("b", 1), ("c", 1), ("d", 1)):
        node(made, name, {"nvidia.com/gpu": str(cards)})
    gpu = "nvidia.com/gpu"
    pod(made, "two", "a", {gpu: "2"}, queue_name="lq")
    pod(made, "big", "b", {gpu: "1"}, namespace="web", queue_name="lq")
    pod(made, "busy", "c", {gpu: "1"}, queue_name="lq")
    quiet(made, "GPU-a1", "a", namespace="ml", pod="two")
    quiet(made, "GPU-a2", "a", namespace="ml", pod="two")
    quiet(made, "GPU-b", "b", namespace="web", pod="big", memory_used_bytes=30, memory_total_bytes=100)
    quiet(made, "GPU-c", "c", "0.8000", namespace="ml", pod="busy")
    quiet(made, "GPU-d", "d")
    return made


def quiet(cluster: Cluster, device: str, where: str, ratio: str = "0.0000", **more: Any) -> None:
    for minute in range(30):
        sample(cluster, device, where, ratio, ago=20 + 60 * minute, **more)


def told(cluster: Cluster, *teams: str) -> list[tuple[str, str, str, int]]:
    ids = list(Team.objects.filter(slug__in=teams).values_list("pk", flat=True)) if teams else None
    found = idle_findings(now=T0, clusters=[cluster], team_ids=ids)
    return [(item.key, item.text, item.args.get("name", ""), item.count) for item in found]


HELD = (
    "held_idle/east",
    "2 cards of East are held and have done nothing for 30 minutes: a",
    "a",
    2,
)
MEMORY = (
    "memory_without_compute/east",
    "1 card of East has memory taken and has computed nothing for 30 minutes: b",
    "b",
    1,
)


def test_who_sees_all_teams_is_told_of_all_cards(cluster: Cluster) -> None:
    assert told(cluster) == [HELD, MEMORY]


def test_a_team_is_told_of_its_own_cards(cluster: Cluster) -> None:
    assert told(cluster, "red") == [HELD]
    assert told(cluster, "blue") == [MEMORY]
    assert told(cluster, "none") == []


def test_idleness_has_its_beginning_and_leads_to_the_node(cluster: Cluster) -> None:
    found = next(idle_findings(now=T0, clusters=[cluster], team_ids=None))
    assert found.since == T0 - timedelta(seconds=20 + 29 * 60)
    assert (found.severity, found.target, found.args) == ("warn", "node", {"cluster": "east", "name": "a"})


def test_several_nodes_lead_to_the_cluster(cluster: Cluster) -> None:
    node(cluster, "e", {"nvidia.com/gpu": "1"})
    pod(cluster, "other", "e", {"nvidia.com/gpu": "1"}, queue_name="lq")
    quiet(cluster, "GPU-e", "e", namespace="ml", pod="other")
    found = next(idle_findings(now=T0, clusters=[cluster], team_ids=None))
    assert (found.count, found.target, found.args) == (3, "capacity", {"cluster": "east"})
    assert found.text.endswith(": a, e")


def test_without_samples_nothing_is_said(cluster: Cluster) -> None:
    later = T0 + timedelta(minutes=10)
    assert list(idle_findings(now=later, clusters=[cluster], team_ids=None)) == []


def keys(found: list[Finding]) -> set[str]:
    return {item.key.split("/")[0] for item in found}


def test_they_are_among_all_findings(cluster: Cluster) -> None:
    assert keys(findings(now=T0, clusters=[cluster])) >= {"held_idle", "memory_without_compute"}
    red = list(Team.objects.filter(slug="red").values_list("pk", flat=True))
    assert "memory_without_compute" not in keys(findings(now=T0, clusters=[cluster], team_ids=red))


def test_cards_that_only_one_side_knows(cluster: Cluster) -> None:
    assert list(coverage_findings(now=T0, clusters=[cluster])) == []
    node(cluster, "dark", {"nvidia.com/gpu": "4"})
    sample(cluster, "GPU-extra", "d", "0.0000")
    sample(cluster, "GPU-gone", "gone", "0.0000")
    said = list(coverage_findings(now=T0, clusters=[cluster]))
    assert {(item.target, item.args["cluster"]) for item in said} == {("sources", "east")}
    assert [(item.severity, item.text, item.count) for item in said] == [
        (
            "warn",
            "East: exporters see 2 cards that no node offers: on d, nodes that the API does not know",
            2,
        ),
        ("note", "East: exporters do not see 4 cards that nodes offer: dark", 4),
    ]
    red = list(Team.objects.filter(slug="red").values_list("pk", flat=True))
    assert not any("coverage" in key for key in keys(findings(now=T0, clusters=[cluster], team_ids=red)))


def test_the_web_process_tells_the_same_for_some_minutes(cluster: Cluster, settings: Any) -> None:
    asked: list[datetime] = []

    def make(now: datetime, _cluster: Cluster) -> int:
        asked.append(now)
        return len(asked)

    kept = Kept(make)
    times = [T0, T0 + timedelta(minutes=4), T0 + timedelta(minutes=5), T0]
    assert [kept.of(at, cluster) for at in times] == [1, 2, 3, 4]
    settings.CAPACITY_MEMORY = True
    assert [kept.of(at, cluster) for at in times] == [5, 5, 6, 7]
