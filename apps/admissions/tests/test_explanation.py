"""What the scheduler's text leaves out, the nodes say: the answer for one piece of work knows them, as its list does."""

from __future__ import annotations

import pytest

from apps.admissions.explanation import explain
from apps.admissions.pending import Criteria
from apps.admissions.selectors import waiting
from apps.observations.models import Node

from .builders import T0, hours, make_cluster, make_pod, make_work

pytestmark = pytest.mark.django_db
LACK = "0/4 nodes are available: 1 Insufficient nvidia.com/gpu, 3 node(s) didn't match Pod's node affinity/selector."
TAINTED = (
    "0/4 nodes are available: 1 node(s) had untolerated taint {spot: true}, 3 Insufficient nvidia.com/gpu."
)
SPOT = [{"key": "spot", "value": "true", "effect": "NoSchedule"}]
# Devices asked, text, taints of the only node with devices → rule by hand: a node of 4 takes 4 when it is empty, never
# 64; where the only node is tainted, the others' lack is noise.
CASES = [
    ("4", LACK, [], ("capacity", "insufficient-device")),
    ("64", LACK, [], ("capacity", "node-too-small")),
    ("4", TAINTED, SPOT, ("model", "node-taint")),
]


@pytest.mark.parametrize(("asked", "text", "taints", "expected"), CASES)
@pytest.mark.parametrize("queued", [False, True])
def test_the_nodes_are_read_beside_the_schedulers_text(
    asked: str, text: str, taints: list[dict[str, str]], expected: tuple[str, str], queued: bool
) -> None:
    east = make_cluster()
    Node.objects.create(
        cluster=east, uid="n", name="n", labels={}, taints=taints, conditions={"Ready": {"status": "True"}},
        capacity={"nvidia.com/gpu": "4"}, allocatable={"nvidia.com/gpu": "4"}, first_seen_at=T0, observed_at=T0,
    )  # fmt: skip
    owner = {"owner_uid": "job"} if queued else {}
    make_pod(
        east,
        "p",
        message=text,
        requests={"nvidia.com/gpu": asked},
        devices=int(asked),
        placement={"node_selector": {}, "affinity": {}, "tolerations": []},
        **owner,
    )
    if queued:
        make_work(
            east, "w", state="admitted", reason="Admitted", message="", owner_uid="job",
            reserved_at=T0, admitted_at=T0, cluster_queue="team-a",
        )  # fmt: skip
    found = explain(uid="uid-w" if queued else "pod-p", now=hours(1), team_ids=None)
    assert found is not None
    assert found.verdict is not None
    assert (found.verdict.cause, found.verdict.rule) == expected
    assert found.stretch is not None
    assert (found.stretch.cause, found.stretch.rule) == expected
    assert found.life.now == found.stretch
    (row,) = waiting(now=hours(1), team_ids=None, criteria=Criteria())
    assert (row.verdict.cause, row.verdict.rule) == expected
