"""Positions that Kueue's visibility API gives, in recorded answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.observations.models import QueuePosition

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
