"""A cluster's rows → what the engine takes."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.models import Team
from apps.core.label_selector import selects
from apps.fleet.models import Cluster, TeamBinding
from apps.observations.models import ClusterObject, Workload
from apps.quotas.engine.model import Assigned, Flavor, Group, Policy
from apps.quotas.situation import Scene, load_scene
from apps.quotas.tree import Cell

pytestmark = pytest.mark.django_db

GPU = "nvidia.com/gpu"
NOW = timezone.now().replace(microsecond=0)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(slug="c", name="C", kubeconfig_path="/k")


def thing(cluster: Cluster, kind: str, name: str, spec: Any = None, **fields: Any) -> ClusterObject:
    return ClusterObject.objects.create(
        cluster=cluster,
        uid=f"{kind}/{fields.get('namespace', '')}/{name}",
        kind=kind,
        name=name,
        spec=spec or {},
        first_seen_at=NOW,
        observed_at=NOW,
        **fields,
    )


def resource(name: str, nominal: str, borrow: str | None = None, lend: str | None = None) -> dict[str, Any]:
    return {"name": name, "nominal": nominal, "borrowing_limit": borrow, "lending_limit": lend}


def cluster_queue(cluster: Cluster, name: str, *, status: Any = None, **spec: Any) -> None:
    groups = [{"covered": [GPU], "flavors": [{"name": "h100", "resources": [resource(GPU, "8")]}]}]
    thing(
        cluster,
        "ClusterQueue",
        name,
        {"cohort": "all", "resource_groups": groups, "stop_policy": "None", "namespace_selector": {}, **spec},
        status=status or {},
    )


def local_queue(cluster: Cluster, namespace: str, name: str, queue: str, **spec: Any) -> None:
    thing(cluster, "LocalQueue", name, {"cluster_queue": queue, **spec}, namespace=namespace)


def work(cluster: Cluster, name: str, **fields: Any) -> Workload:
    return Workload.objects.create(
        **{
            "cluster": cluster,
            "uid": f"uid-{name}",
            "kind": "Workload",
            "namespace": "ns",
            "name": name,
            "queue_name": "lq",
            "state": "pending",
            "pod_sets": [{"name": "main", "count": 2, "min_count": None, "requests": {GPU: "4"}}],
            "first_seen_at": NOW,
            "observed_at": NOW,
            "created_at": NOW - timedelta(hours=2),
            "queued_at": NOW - timedelta(hours=1),
            **fields,
        }
    )


def load(cluster: Cluster) -> Scene:
    return load_scene(now=NOW, cluster=cluster)


def usage(*cells: tuple[str, str, str]) -> list[dict[str, str]]:
    return [{"flavor": flavor, "resource": name, "quantity": amount} for flavor, name, amount in cells]


def test_a_queue_with_all_its_policy(cluster: Cluster) -> None:
    cluster_queue(
        cluster,
        "q",
        cohort="ml",
        fair_weight="2",
        strategy="StrictFIFO",
        stop_policy="HoldAndDrain",
        checks=[{"name": "budget", "flavors": []}],
        preemption={
            "within_cluster_queue": "LowerPriority",
            "reclaim_within_cohort": "Any",
            "borrow_within_cohort": {"policy": "LowerPriority", "max_priority_threshold": 3},
        },
        fungibility={"when_can_borrow": "TryNextFlavor", "when_can_preempt": None, "preference": None},
        resource_groups=[
            {
                "covered": [GPU, "cpu"],
                "flavors": [
                    {"name": "h100", "resources": [resource(GPU, "8", "4", "2"), resource("cpu", "0.5")]},
                    {"name": "a100", "resources": [resource(GPU, "0"), resource("cpu", "1")]},
                ],
            }
        ],
    )
    (queue,) = load(cluster).situation.queues
    assert queue.groups == (Group((GPU, "cpu"), ("h100", "a100")),)
    assert queue.policy == Policy(
        strategy="StrictFIFO",
        within_cluster_queue="LowerPriority",
        reclaim_within_cohort="Any",
        borrow_within_cohort="LowerPriority",
        max_priority_threshold=3,
        when_can_borrow="TryNextFlavor",
    )
    assert (queue.checks, queue.drains, queue.node.stopped) == (("budget",), True, True)
    assert (queue.node.parent, queue.node.fair_weight) == ("ml", Decimal(2))
    assert queue.node.cells["h100", GPU] == Cell(Decimal(8), Decimal(4), Decimal(2))
    assert queue.node.cells["h100", "cpu"] == Cell(Decimal("0.5"))


def test_a_queue_that_says_nothing_has_kueues_defaults(cluster: Cluster) -> None:
    cluster_queue(cluster, "q")
    assert load(cluster).situation.queues[0].policy == Policy()


def test_cohorts_and_flavors(cluster: Cluster) -> None:
    thing(cluster, "Cohort", "ml", {"parent": "all", "resource_groups": [], "fair_weight": None})
    thing(
        cluster,
        "ResourceFlavor",
        "h100",
        {
            "node_labels": {"pool": "h100"},
            "node_taints": [{"key": "gpu", "value": "", "effect": "NoSchedule"}],
            "tolerations": [{"key": "spot", "operator": "Exists"}],
            "topology": "racks",
        },
    )
    found = load(cluster).situation
    assert [(node.name, node.parent) for node in found.cohorts] == [("ml", "all")]
    assert found.flavors["h100"] == Flavor(
        "h100",
        {"pool": "h100"},
        (("gpu", "", "NoSchedule"),),
        ({"key": "spot", "operator": "Exists"},),
        "racks",
    )


@pytest.mark.parametrize(
    ("condition", "beyond"),
    [
        ({"status": "True", "reason": "Ready", "message": ""}, {}),
        ({"status": "False", "reason": "Stopped", "message": "Can't admit new workloads: is stopped."}, {}),
        ({"status": "False", "reason": "FlavorNotFound", "message": "references missing …"}, {}),
        (
            {"status": "False", "reason": "AdmissionCheckInactive", "message": ""},
            {"q": "AdmissionCheckInactive"},
        ),
        # Only the first reason is stored: the message names the check as well.
        (
            {
                "status": "False",
                "reason": "Stopped",
                "message": "Can't admit new workloads: is stopped, references inactive AdmissionCheck(s): a",
            },
            {"q": "AdmissionCheckInactive"},
        ),
        ({"status": "False", "reason": "Terminating", "message": ""}, {"q": "Terminating"}),
    ],
)
def test_what_keeps_a_queue_inactive_beyond_its_spec(
    cluster: Cluster, condition: dict[str, str], beyond: dict[str, str]
) -> None:
    cluster_queue(cluster, "q", status={"conditions": {"Active": condition}})
    assert load(cluster).beyond == beyond


def test_fair_sharing_shows_in_a_status(cluster: Cluster) -> None:
    cluster_queue(cluster, "q", status={"weighted_share": None})
    assert not load(cluster).situation.fair_sharing
    cluster_queue(cluster, "p", status={"weighted_share": "0"})
    assert load(cluster).situation.fair_sharing


def test_waiting_work_finds_its_queue_through_the_local_queue(cluster: Cluster) -> None:
    cluster_queue(cluster, "q")
    local_queue(cluster, "ns", "lq", "q")
    work(cluster, "a", priority=7)
    (found,) = load(cluster).situation.work
    assert (found.queue, found.local_queue, found.priority, found.blocked, found.holds) == (
        "q",
        "lq",
        7,
        None,
        None,
    )
    assert found.pod_sets[0].requests == {GPU: Decimal(4)}
    assert (found.pod_sets[0].count, found.queued - found.created) == (2, 3600)


def test_pod_sets_bring_what_places_them(cluster: Cluster) -> None:
    cluster_queue(cluster, "q")
    local_queue(cluster, "ns", "lq", "q")
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["h100"]}]}
    work(
        cluster,
        "a",
        pod_sets=[
            {
                "name": "w", "count": 1, "min_count": 1, "requests": {}, "node_selector": {"pool": "h100"},
                "affinity": [term], "tolerations": [{"key": "gpu"}], "topology": True,
            }
        ],
    )  # fmt: skip
    (pod_set,) = load(cluster).situation.work[0].pod_sets
    assert (pod_set.min_count, pod_set.node_selector, pod_set.affinity) == (1, {"pool": "h100"}, (term,))
    assert (pod_set.tolerations, pod_set.topology) == (({"key": "gpu"},), True)


def test_work_without_a_working_local_queue_is_blocked(cluster: Cluster) -> None:
    cluster_queue(cluster, "q")
    local_queue(cluster, "ns", "halted", "q", stop_policy="Hold")
    work(cluster, "lost")
    work(cluster, "held-back", queue_name="halted")
    found = {one.name: (one.queue, one.blocked) for one in load(cluster).situation.work}
    assert found == {"lost": ("", "QueueMissing"), "held-back": ("q", "QueueMissing")}


def test_namespaces_that_the_queue_does_not_select_are_blocked(cluster: Cluster) -> None:
    cluster_queue(cluster, "q", namespace_selector={"matchLabels": {"team": "red"}})
    cluster_queue(cluster, "none", namespace_selector=None)
    local_queue(cluster, "ns", "lq", "q")
    local_queue(cluster, "other", "lq", "q")
    local_queue(cluster, "ns", "nobody", "none")
    work(cluster, "in")
    work(cluster, "out", namespace="other")
    work(cluster, "shut", queue_name="nobody")
    scene = load(cluster)
    assert not scene.selectors_known
    assert {one.blocked for one in scene.situation.work} == {None}
    thing(cluster, "Namespace", "ns", labels={"team": "red"})
    thing(cluster, "Namespace", "other", labels={"team": "blue"})
    scene = load(cluster)
    assert scene.selectors_known
    assert {one.name: one.blocked for one in scene.situation.work} == {
        "in": None,
        "out": "NamespaceMismatch",
        "shut": "NamespaceMismatch",
    }


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "2"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, True),
        ({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, False),
        ({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]}, False),
    ],
)  # fmt: skip
def test_selectors(selector: Any, expected: bool) -> None:
    assert selects(selector, {"a": "1"}) is expected


class TestHeld:
    def held(self, cluster: Cluster, *cells: tuple[str, str, str], **fields: Any) -> Scene:
        cluster_queue(cluster, "q")
        work(
            cluster,
            "runs",
            state=fields.pop("state", "admitted"),
            cluster_queue="q",
            usage=usage(*cells),
            reserved_at=NOW,
            **fields,
        )
        return load(cluster)

    def test_one_pod_set_is_exact(self, cluster: Cluster) -> None:
        scene = self.held(cluster, ("h100", GPU, "8"), ("cpu-flavor", "cpu", "0.5"))
        (found,) = scene.situation.work
        assert found.holds == {
            "main": Assigned(2, {GPU: "h100", "cpu": "cpu-flavor"}, {GPU: Decimal(8), "cpu": Decimal("0.5")})
        }
        assert (found.reserved_at, found.blocked, scene.guessed) == (NOW.timestamp(), None, 0)

    def test_reserved_work_holds_as_well(self, cluster: Cluster) -> None:
        (found,) = self.held(cluster, ("h100", GPU, "8"), state="reserved").situation.work
        assert found.holds
        # its LocalQueue does not exist: Kueue takes back what is not admitted yet
        assert (found.admitted, found.blocked) == (False, "QueueMissing")

    def test_several_flavors_keep_their_sums_and_are_counted(self, cluster: Cluster) -> None:
        sets = [
            {"name": name, "count": 1, "min_count": None, "requests": {GPU: "4"}} for name in ("a", "b", "c")
        ]
        scene = self.held(
            cluster, ("h100", GPU, "8"), ("a100", GPU, "4"), ("h100", "cpu", "3"), pod_sets=sets
        )
        holds = scene.situation.work[0].holds
        assert holds == {
            "a": Assigned(1, {GPU: "h100", "cpu": "h100"}, {GPU: Decimal(8), "cpu": Decimal(3)}),
            "b": Assigned(1, {GPU: "a100"}, {GPU: Decimal(4)}),
        }
        assert scene.guessed == 1

    @pytest.mark.parametrize("state", ["finished", "deactivated"])
    def test_work_that_is_over_is_left_out(self, cluster: Cluster, state: str) -> None:
        cluster_queue(cluster, "q")
        work(cluster, "over", state=state, active=state != "deactivated")
        assert load(cluster).situation.work == ()

    def test_work_that_is_gone_is_left_out(self, cluster: Cluster) -> None:
        cluster_queue(cluster, "q")
        work(cluster, "gone", gone_at=NOW)
        work(cluster, "group", kind="PodGroup")
        assert load(cluster).situation.work == ()


def test_who_owns_what(cluster: Cluster) -> None:
    red = Team.objects.create(slug="red", name="Red")
    blue = Team.objects.create(slug="blue", name="Blue")
    cluster_queue(cluster, "q")
    local_queue(cluster, "ns", "lq", "q")
    for team, kind, namespace, name in ((red, "cluster_queue", "", "q"), (blue, "local_queue", "ns", "lq")):
        TeamBinding.objects.create(
            team=team,
            cluster=cluster,
            kind=kind,
            namespace=namespace,
            name=name,
            valid_from=NOW - timedelta(1),
        )
    work(cluster, "a")
    scene = load(cluster)
    assert scene.teams == {"q": {red.pk, blue.pk}}
    assert scene.team_of(scene.situation.work[0]) == blue.pk


def test_the_number_of_queries_does_not_grow(cluster: Cluster, django_assert_max_num_queries: Any) -> None:
    cluster_queue(cluster, "q")
    local_queue(cluster, "ns", "lq", "q")
    for number in range(30):
        work(cluster, f"w{number}")
    with django_assert_max_num_queries(12):
        assert len(load(cluster).situation.work) == 30
