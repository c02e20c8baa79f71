"""Checks and what-ifs of change requests on the recorded clusters, worked out by hand from their objects.

team-a-cq holds 12 h100 of nominal 8, lends at most 4 and borrows at most 8, in research (4 of its own) with team-b-cq
(8, takes back) and team-c-cq (0). The nodes that carry flavor h100 have 35 cards; all nominal quota of it is 20.
Of Volcano's queues eng is above production (24 on nodes, and 4 of nlp/orphan-group, which was let in without pods),
research (11, and 1 of speech/wrong-model) and scratch (4): 44 where its own status says 39 allocated.
"""

from __future__ import annotations

import json
from decimal import Decimal as D
from typing import Any

import pytest

from apps.accounts.models import Team
from apps.changes.check_loading import load_check
from apps.changes.checks import Report, run
from apps.changes.edits import key_of, parse_edits
from apps.changes.specs import ObjectSeen, object_seen
from apps.changes.what_if import what_if_of
from apps.fleet.models import Cluster, TeamBinding
from worker.parsers.kinds import KINDS

from .recorded import DATA, collected
from .test_recorded_quotas import AT, KUEUE, VOLCANO

pytestmark = pytest.mark.django_db
GPU = "nvidia.com/gpu"
FILES = {"ClusterQueue": "kueue/clusterqueues", "Cohort": "kueue/cohorts", "LocalQueue": "kueue/localqueues", "VolcanoQueue": "volcano-capacity/queues"}  # fmt: skip


@pytest.fixture
def kueue() -> Cluster:
    cluster = collected("kueue", [*KUEUE, ("Node", "kueue/nodes.json")], at=AT)
    assert "Node" in KINDS
    for name, kind in (("red", TeamBinding.Kind.CLUSTER_QUEUE), ("lab", TeamBinding.Kind.NAMESPACE)):
        team = Team.objects.create(slug=name, name=name)
        bound = "team-a-cq" if name == "red" else "lab"
        TeamBinding.objects.create(cluster=cluster, team=team, kind=kind, name=bound, valid_from=AT)
    return cluster


@pytest.fixture
def volcano() -> Cluster:
    cluster = collected("volcano", VOLCANO, at=AT)
    team = Team.objects.create(slug="research", name="research")
    kind = TeamBinding.Kind.VOLCANO_QUEUE
    TeamBinding.objects.create(cluster=cluster, team=team, kind=kind, name="research", valid_from=AT)
    return cluster


def live(kind: str, name: str, namespace: str = "") -> ObjectSeen:
    items = json.loads((DATA / f"{FILES[kind]}.json").read_text())["items"]
    found = [
        item
        for item in items
        if item["metadata"]["name"] == name and item["metadata"].get("namespace", "") == namespace
    ]
    return object_seen(kind, f"/{name}", found[0])


def check(cluster: Cluster, *edits: dict[str, Any]) -> Report:
    parsed = parse_edits(list(edits))
    seen = [live(kind, name, namespace) for kind, namespace, name in dict.fromkeys(map(key_of, parsed))]
    return run(load_check(now=AT, cluster=cluster, edits=parsed, seen=seen))


def nominal(queue: str, amount: str) -> dict[str, Any]:
    quotas = [{"flavor": "h100", "resource": GPU, "nominal": amount}]
    return {"kind": "ClusterQueue", "name": queue, "set": {"quotas": quotas}}


def test_below_use(kueue: Cluster) -> None:
    """Nominal 4: ceiling 4 + 8 of min(4 + 4 + 8); 12 held are 8 beyond nominal, which team-b-cq may take back. The
    recording's gitops set the groups, which is a declaration of its own."""
    report = check(kueue, nominal("team-a-cq", "4"))
    assert report.refusals == ()
    found = {one.code: one for one in report.warnings}
    below = found["below_use"]
    red = Team.objects.get(slug="red").pk
    assert {
        key: below.params[key] for key in ("queue", "held", "nominal", "beyond", "ceiling", "over", "then")
    } == {
        "queue": "team-a-cq",
        "held": "12",
        "nominal": "4",
        "beyond": "8",
        "ceiling": "12",
        "over": "0",
        "then": "reclaimable",
    }
    teams = below.params["teams"]
    assert isinstance(teams, list)
    assert sum(D(line["held"]) for line in teams) == 12
    assert {line["team"] for line in teams} <= {str(red), str(Team.objects.get(slug="lab").pk)}
    assert set(found) == {"below_use", "managed"}
    assert found["managed"].params["manager"] == "gitops"


def test_above_allocatable(kueue: Cluster) -> None:
    codes = {one.code: one.params for one in check(kueue, nominal("team-a-cq", "24")).warnings}
    assert {key: codes["above_allocatable"][key] for key in ("sum", "before", "allocatable")} == {
        "sum": "36",
        "before": "20",
        "allocatable": "35",
    }
    assert "above_allocatable" not in {one.code for one in check(kueue, nominal("team-a-cq", "23")).warnings}


def test_the_recorded_refusal(kueue: Cluster) -> None:
    (refusal,) = check(kueue, nominal("team-a-cq", "3")).refusals
    assert (refusal.code, refusal.field) == ("above_nominal", "edits.0.set.quotas.0.nominal")


def test_what_is_gone_is_not_there(kueue: Cluster) -> None:
    parsed = parse_edits([nominal("team-a-cq", "4")])
    report = run(load_check(now=AT, cluster=kueue, edits=parsed, seen=[]))
    assert [(one.code, one.field) for one in report.refusals] == [("unknown", "edits.0.name")]


def test_a_drained_queue_tells_who_loses(kueue: Cluster) -> None:
    edits = parse_edits(
        [{"kind": "ClusterQueue", "name": "infer-cq", "set": {"stop_policy": "HoldAndDrain"}}]
    )
    found = what_if_of(now=AT, cluster=kueue, edits=edits)
    (line,) = [team for team in found["teams"] if team["loses"]]
    assert (line["team"], line["loses"], line["admitted"]) == (None, 1, 0)
    gpus = [one for one in line["holds"] if one["resource"] == GPU]
    assert [(one["before"], one["after"]) for one in gpus] == [("12", "0")]
    assert [(one["what"], one["namespace"]) for one in found["work"]] == [("drained", "infer")]
    json.dumps(found)


@pytest.mark.parametrize(
    ("name", "policy", "loses", "waits"),
    [
        ("main", "Hold", 0, 2),
        ("main", "HoldAndDrain", 6, 2),
        ("checked", "Hold", 2, 0),
        ("checked", "HoldAndDrain", 3, 0),
    ],
)
def test_a_stopped_local_queue(kueue: Cluster, name: str, policy: str, loses: int, waits: int) -> None:
    edit = {"kind": "LocalQueue", "namespace": "team-a", "name": name, "set": {"stop_policy": policy}}
    found = what_if_of(now=AT, cluster=kueue, edits=parse_edits([edit]))
    assert sum(team["loses"] for team in found["teams"]) == loses == len(found["work"])
    assert sum(team["waits"] for team in found["teams"]) == waits


def test_leaving_a_cohort_with_limits_can_be_tried(kueue: Cluster) -> None:
    edits = parse_edits([{"kind": "ClusterQueue", "name": "team-a-cq", "set": {"cohort": None}}])
    found = what_if_of(now=AT, cluster=kueue, edits=edits)
    assert "refused" not in found
    report = check(kueue, {"kind": "ClusterQueue", "name": "team-a-cq", "set": {"cohort": None}})
    assert report.refusals == ()
    below = {one.code: one.params for one in report.warnings}["below_use"]
    assert (below["ceiling"], below["over"]) == ("8", "4")


def test_what_cannot_be_tried_says_why(kueue: Cluster) -> None:
    edits = parse_edits([nominal("team-a-cq", "3")])
    (fault,) = what_if_of(now=AT, cluster=kueue, edits=edits)["refused"]
    assert (fault["field"], fault["code"]) == ("edits.0.set.quotas.0.nominal", "above_nominal")


# ---- Volcano --------------------------------------------------------------------------------------------------------


def amounts(name: str, **parts: str) -> dict[str, Any]:
    return {"kind": "VolcanoQueue", "name": name, "set": {part: {GPU: text} for part, text in parts.items()}}


def test_a_volcano_queue_below_its_use(volcano: Cluster) -> None:
    report = check(volcano, amounts("research", deserved="8"))
    assert report.refusals == ()
    (below,) = report.warnings
    team = Team.objects.get(slug="research").pk
    assert (below.code, below.params["held"], below.params["beyond"], below.params["then"]) == (
        "below_use",
        "12",
        "4",
        "reclaimable",
    )
    assert below.params["teams"] == [{"team": str(team), "held": "12"}]
    parsed = parse_edits([amounts("eng", deserved="40")])
    loaded = load_check(now=AT, cluster=volcano, edits=parsed, seen=[live("VolcanoQueue", "eng")])
    assert loaded.held["VolcanoQueue", "eng"]["", GPU] == 44


def test_what_volcanos_queues_deserve(volcano: Cluster) -> None:
    team = Team.objects.get(slug="research").pk
    edits = parse_edits([amounts("research", deserved="8", capability="20")])
    assert what_if_of(now=AT, cluster=volcano, edits=edits)["volcano"] == [
        {
            "queue": "research",
            "resource": GPU,
            "teams": [team],
            "held": "12",
            "deserved_before": "16",
            "deserved_after": "8",
            "most_before": "24",
            "most_after": "20",
        }
    ]


def test_the_sum_of_the_children_is_refused_at_the_amount(volcano: Cluster) -> None:
    """production is guaranteed 8; 13 beside it are 21 of eng's 16."""
    (refusal,) = check(volcano, amounts("research", guarantee="13", deserved="16")).refusals
    assert (refusal.code, refusal.field) == ("children_above_parent", f"edits.0.set.guarantee.{GPU}")
    assert (refusal.params["sum"], refusal.params["most"]) == ("21", "16")
