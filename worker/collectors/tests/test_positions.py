"""Positions that Kueue's visibility API gives, in recorded answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from apps.fleet.models import Cluster
from apps.observations.models import QueuePosition, Workload
from apps.quotas.positions import positions
from simcluster.testing import running
from worker.collectors.run import collect_source

from .conftest import Pull
from .minicluster import KUEUE, MiniCluster

BODY = Path(__file__).resolve().parents[3] / "tests/data/kueue/visibility-team-b-cq-pending.json"
ASKED = "/apis/visibility.kueue.x-k8s.io/{}/clusterqueues/team-b-cq/pendingworkloads?limit=1000"


def put_queue(api: MiniCluster, pending: int) -> None:
    api.put("clusterqueues", "team-b-cq", namespace="", spec={}, status={"pendingWorkloads": pending})


def stored() -> list[tuple[str, int, int]]:
    rows = QueuePosition.objects.order_by("position")
    return list(rows.values_list("name", "position", "local_position"))


def asked(api: MiniCluster) -> list[str]:
    return [path for path in api.requests if "visibility" in path]


@pytest.mark.django_db
def test_positions_are_those_of_the_newest_answer(api: MiniCluster, pull: Pull) -> None:
    put_queue(api, 3)
    api.faults["pendingworkloads"] = lambda handler: handler.reply(BODY.read_bytes())
    assert pull("kueue").outcome == "ok"
    names = ["job-b-pend-1-1371c", "job-b-pend-2-09e0f", "job-b-spot-untolerated-96517"]
    assert stored() == [(name, place, place) for place, name in enumerate(names)]
    assert asked(api) == [ASKED.format("v1beta2")]
    api.faults["pendingworkloads"] = lambda handler: handler.reply(b'{"items":[]}')
    pull("kueue", 1)
    assert stored() == []


@pytest.mark.django_db
def test_a_queue_without_waiting_work_is_not_asked_and_has_no_positions(api: MiniCluster, pull: Pull) -> None:
    put_queue(api, 3)
    api.faults["pendingworkloads"] = lambda handler: handler.reply(BODY.read_bytes())
    pull("kueue")
    put_queue(api, 0)
    api.requests.clear()
    pull("kueue", 1)
    assert (asked(api), stored()) == ([], [])


@pytest.mark.django_db
@pytest.mark.parametrize(("code", "told"), [(404, False), (503, False), (403, True)])
def test_only_a_refusal_is_told(api: MiniCluster, pull: Pull, code: int, told: bool) -> None:
    put_queue(api, 3)
    api.fault_status("pendingworkloads", code)
    result = pull("kueue")
    assert result.outcome == "ok"
    assert ("positions in queues" in result.error) == told
    assert asked(api)[-1] == ASKED.format("v1beta1" if code == 404 else "v1beta2")


@pytest.mark.django_db
def test_local_queues_of_one_name_in_two_namespaces_are_two(api: MiniCluster, pull: Pull) -> None:
    """Kueue counts them as one: its positionInLocalQueue of the last one is 2."""
    put_queue(api, 3)
    items = [
        {
            "metadata": {"name": name, "namespace": namespace},
            "localQueueName": "main",
            "positionInClusterQueue": place,
            "positionInLocalQueue": place,
        }
        for place, (name, namespace) in enumerate([("a", "red"), ("b", "blue"), ("c", "red")])
    ]
    body = json.dumps({"items": items}).encode()
    api.faults["pendingworkloads"] = lambda handler: handler.reply(body)
    pull("kueue")
    assert stored() == [("a", 0, 0), ("b", 1, 0), ("c", 2, 1)]


@pytest.mark.django_db
def test_of_a_simulated_cluster_every_place_is_kueues_word(settings: Any) -> None:
    """Through real HTTP: as many waiting workloads have a place as the queues say, and the same one at both ends."""
    with running(scenario=True, days=0.5) as sim:
        cluster = Cluster.objects.create(slug="sim", name="Sim", kubeconfig_path=str(sim.kubeconfig))
        now = timezone.now()
        assert collect_source(cluster=cluster, source="kueue", now=now, seconds=60).outcome == "ok"
        queues = sim.store.objects("ClusterQueue")
        assert sim.driver is not None
        quota = sim.driver.simulation.quota
        expected = {
            (job.namespace, job.workload): place
            for queue in quota.queues
            for place, job in enumerate(quota.waiting_order(queue), 1)
        }
    assert len(expected) == sum(queue["status"]["pendingWorkloads"] for queue in queues) > 0
    waiting = Workload.objects.filter(cluster=cluster, kind="Workload", state="pending", gone_at=None)
    names = {pk: (namespace, name) for pk, namespace, name in waiting.values_list("pk", "namespace", "name")}
    found = positions(now=now, keys=list(names))
    assert {names[pk]: place.position for pk, place in found.items() if place.source == "kueue"} == expected
    assert {place.source for place in found.values()} == {"kueue"}


OUTCOMES = [
    # (kinds that fail, code, outcome of the pull, positions are asked for)
    ("one forbidden", ("admissionchecks",), 403, "partial", True),
    ("the queues forbidden", ("clusterqueues",), 403, "partial", True),
    ("all forbidden", KUEUE, 403, "failed", True),
    ("one in trouble", ("admissionchecks",), 500, "partial", False),
    ("throttled", ("workloads",), 429, "partial", False),
    ("all in trouble", KUEUE, 500, "failed", False),
]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("plurals", "code", "outcome", "told"), [row[1:] for row in OUTCOMES], ids=[row[0] for row in OUTCOMES]
)
def test_kinds_that_are_not_ours_to_read_do_not_keep_positions_away(
    api: MiniCluster, pull: Pull, plurals: tuple[str, ...], code: int, outcome: str, told: bool
) -> None:
    put_queue(api, 3)
    pull("kueue")
    QueuePosition.objects.all().delete()
    api.requests.clear()
    api.compact()
    api.faults["pendingworkloads"] = lambda handler: handler.reply(BODY.read_bytes())
    for plural in plurals:
        api.fault_status(plural, code)
    assert pull("kueue", 1).outcome == outcome
    assert (bool(asked(api)), len(stored())) == (told, 3 * told)


@pytest.mark.django_db
def test_one_refused_kind_beside_one_in_trouble_is_trouble(api: MiniCluster, pull: Pull) -> None:
    put_queue(api, 3)
    pull("kueue")
    api.requests.clear()
    api.compact()
    api.fault_status("admissionchecks", 403)
    api.fault_status("topologies", 500)
    pull("kueue", 1)
    assert asked(api) == []
