"""What the lint says of whole fleets, listed by hand from their specs before it was run.

Golden: nodes without a queue, so nothing; with the sound queues of queues.yaml nothing either (the sums are there).

Demo, from simcluster/scenario/queues.yaml and teams.yaml:
- archive-cq is stopped and Volcano's `retired` is closed; next-generation-cq lists a flavor h200 that has no object. Every
  other flavor is there, the one check is active, each ClusterQueue has a LocalQueue and every team a namespace with its
  label.
- Nobody else lists foundation-cq's h100-spot; assistant-cq's l4-renamed (0 of nvidia.com/gpu there: nothing to lend);
  assistant-split-cq's l40s-hami; biology-cq's mi300x and a100 (vision, speech, search and recommendation list a100 in
  another tree); biology-docking-cq's mi300x-cpx; notebooks-cq's mig-single. The h100 and a100 of company go round, as does
  the h100 that cohort research owns; in serving, inference-cq and assistant-cq list each other's three flavors.
- biology-cq may borrow 4 a100 where labs has 8, all of them its own: 8 + 4 > 8. The other limits bind. Company has h100:
  research 4 + foundation's lendable 16 + vision 12 + speech 8 = 40, search's 8 + recommendation 8 = 16, together 56, so
  that 24 + 16 < 8 + 56, 12 + 12 < 56, 8 + 8 < 56; a100: 14 + 9 + 8 + 8 = 39, 9 + 8 < 39. They lend 16 < 24 and 8 < 12.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from django.utils import timezone

from apps.fleet.models import Cluster
from apps.observations.models import Source
from apps.observations.retention import keep_observation_partitions
from apps.quotas.lint import lint
from apps.quotas.lint_loading import lint_facts
from apps.quotas.lint_model import Problem
from apps.quotas.snapshot import load_snapshot
from simcluster.testing import running
from worker.collectors.run import collect_source

from .golden import AT, collected_fleet, written

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(120)]
SOUND: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parents[1] / "data" / "golden" / "queues.yaml").read_text("utf-8")
)
# What rests on the work that happens to be there, not on specs.
BY_WORK = ("larger_than_ceiling", "status_differs")


def told(found: list[Problem]) -> list[tuple[str, str, str, set[str]]]:
    """Code, cause, the main object, and the flavors of the quota that it is about."""
    return [
        (item.code, item.cause, item.main.name, {flavor for flavor, _resource in item.cells})
        for item in found
    ]


def golden(queues: dict[str, list[dict[str, Any]]]) -> list[Problem]:
    cluster = collected_fleet()
    for number, (kind, items) in enumerate(queues.items()):
        named = [
            {**item, "metadata": {"uid": f"{kind}-{number}-{at}", **item["metadata"]}}
            for at, item in enumerate(items)
        ]
        written(cluster, kind, named, AT)
    return lint(lint_facts(load_snapshot(now=AT, clusters=[cluster]), cluster))


def test_nodes_without_queues_have_no_problem() -> None:
    assert golden({}) == []


def test_sound_queues_have_no_problem() -> None:
    assert golden(SOUND) == []


def test_the_sound_queues_are_judged() -> None:
    """The silence above is not that of a lint that reads nothing: without the namespaces' labels, the flavor and the
    LocalQueues, each is said of each queue that needs it."""
    bare = {kind: items for kind, items in SOUND.items() if kind not in ("ResourceFlavor", "LocalQueue")}
    bare["Namespace"] = [{"metadata": {"name": "red-ns"}}]
    assert told(golden(bare)) == [
        ("never_admits", "flavor_missing", "blue", set()),
        ("never_admits", "no_local_queue", "blue", set()),
        ("never_admits", "flavor_missing", "red", set()),
        ("never_admits", "no_namespace", "red", set()),
        ("never_admits", "no_local_queue", "red", set()),
        ("never_admits", "flavor_missing", "solo", set()),
        ("never_admits", "no_local_queue", "solo", set()),
    ]


def test_demo() -> None:
    keep_observation_partitions(now=timezone.now())
    with running(scenario=True, days=0.1) as sim:
        cluster = Cluster.objects.create(slug="demo", name="Demo", kubeconfig_path=str(sim.kubeconfig))
        for source in (Source.NODES, Source.PODS, Source.KUEUE, Source.VOLCANO):
            result = collect_source(cluster=cluster, source=source, now=timezone.now(), seconds=60)
            assert result.outcome == "ok", result
    snapshot = load_snapshot(now=timezone.now(), clusters=[cluster])
    found = [item for item in lint(lint_facts(snapshot, cluster)) if item.code not in BY_WORK]
    assert told(found) == [
        ("never_admits", "stopped", "archive-cq", set()),
        ("never_admits", "flavor_missing", "next-generation-cq", set()),
        ("lendable_unreachable", "queue", "assistant-cq", {"l4-renamed"}),
        ("lendable_unreachable", "queue", "assistant-split-cq", {"l40s-hami"}),
        ("lendable_unreachable", "queue", "biology-cq", {"mi300x", "a100"}),
        ("lendable_unreachable", "queue", "biology-docking-cq", {"mi300x-cpx"}),
        ("lendable_unreachable", "queue", "foundation-cq", {"h100-spot"}),
        ("lendable_unreachable", "queue", "notebooks-cq", {"mig-single"}),
        ("limit_never_binds", "borrowing", "biology-cq", {"a100"}),
        ("never_admits", "stopped", "retired", set()),
    ]
    (renamed,) = [item.cells for item in found if item.main.name == "assistant-cq"]
    assert {resource for _flavor, resource in renamed} == {"cpu", "memory", "nvidia.com/gpu.shared"}
