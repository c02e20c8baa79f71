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
from apps.quotas.engine.settle import settle
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
    # Its wait began anew an hour after it was made; its place in the queue is that of its creation.
    assert (found.pod_sets[0].count, found.queued - found.created) == (2, 0)


@pytest.mark.parametrize(
    ("reason", "status", "minutes"),
    [
        # Created two hours ago, evicted half an hour ago: 90 minutes later, where Kueue counts the eviction.
        ("AdmissionCheck", "True", 90),
        ("PodsReadyTimeout", "True", 90),
        ("Preempted", "True", 0),
        ("ClusterQueueStopped", "True", 0),
        ("NodeFailures", "True", 0),
        # Reserved again since: the eviction is history.
        ("AdmissionCheck", "False", 0),
        ("PodsReadyTimeout", "False", 0),
    ],
)
def test_the_place_in_the_queue_after_an_eviction(
    cluster: Cluster, reason: str, status: str, minutes: int
) -> None:
    since = (NOW - timedelta(minutes=30)).isoformat()
    evicted = {"status": status, "reason": reason, "message": "", "since": since}
    cluster_queue(cluster, "q")
    local_queue(cluster, "ns", "lq", "q")
    work(cluster, "a", conditions={"Evicted": evicted}, queued_at=NOW - timedelta(minutes=30))
    (found,) = load(cluster).situation.work
    assert found.queued - found.created == minutes * 60


def test_work_whose_creation_is_not_known_stands_where_its_wait_began(cluster: Cluster) -> None:
    work(cluster, "a", created_at=None)
    (found,) = load(cluster).situation.work
    assert found.queued == (NOW - timedelta(hours=1)).timestamp()


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


# ---- what is not modelled -------------------------------------------------------------------------------------------

DIVIDED = {"driver": "gpu.example.com", "counters": {"set": {"memory": "80"}}, "devices": []}
SEVERAL = {"driver": "gpu.example.com", "counters": {}, "devices": [{"name": "a", "multiple": True}]}
TAKES = {"driver": "gpu.example.com", "devices": [{"name": "a", "consumes": [{"set": "s", "counters": {}}]}]}
WHOLE = {
    "driver": "gpu.example.com",
    "counters": {},
    "devices": [{"name": "a", "multiple": False, "consumes": []}],
}


def device_class(cluster: Cluster, name: str, drivers: list[str], extended: str = "") -> None:
    thing(cluster, "DeviceClass", name, {"drivers": drivers, "extended_resource": extended, "selectors": []})


def gaps_of(cluster: Cluster) -> set[str]:
    return set(settle(load(cluster).situation).gaps)


def plain(cluster: Cluster, *, pod_set: Any = None, **spec: Any) -> None:
    """A queue with one piece of waiting work."""
    cluster_queue(cluster, "q", **spec)
    local_queue(cluster, "ns", "lq", "q")
    main = {"name": "main", "count": 1, "min_count": None, "requests": {GPU: "4"}, **(pod_set or {})}
    work(cluster, "a", pod_sets=[main])


def test_a_plain_situation_reports_time_alone(cluster: Cluster) -> None:
    plain(cluster, admission_mode=None, checks=[])
    thing(cluster, "AdmissionCheck", "elsewhere", {"controller": "kueue.x-k8s.io/multikueue"})
    thing(cluster, "ResourceSlice", "whole", WHOLE)
    device_class(cluster, "gpu", ["gpu.example.com"], GPU)
    assert gaps_of(cluster) == {"time"}


def test_multikueue_counts_where_a_queue_uses_it(cluster: Cluster) -> None:
    thing(cluster, "AdmissionCheck", "elsewhere", {"controller": "kueue.x-k8s.io/multikueue"})
    thing(cluster, "AdmissionCheck", "capacity", {"controller": "kueue.x-k8s.io/provisioning-request"})
    plain(cluster, checks=[{"name": "elsewhere", "flavors": []}])
    assert gaps_of(cluster) == {"time", "admission_checks", "multikueue"}


def test_another_check_is_no_multikueue(cluster: Cluster) -> None:
    thing(cluster, "AdmissionCheck", "capacity", {"controller": "kueue.x-k8s.io/provisioning-request"})
    plain(cluster, checks=[{"name": "capacity", "flavors": []}])
    assert gaps_of(cluster) == {"time", "admission_checks"}


@pytest.mark.parametrize(
    ("mode", "present"),
    [("UsageBasedAdmissionFairSharing", True), ("NoAdmissionFairSharing", False), (None, False)],
)
def test_order_by_past_use(cluster: Cluster, mode: str | None, present: bool) -> None:
    plain(cluster, admission_mode=mode)
    assert gaps_of(cluster) == {"time"} | ({"afs"} if present else set())


def test_elastic_work(cluster: Cluster) -> None:
    plain(cluster, pod_set={"elastic": True})
    assert gaps_of(cluster) == {"time", "elastic"}


@pytest.mark.parametrize("listed", [DIVIDED, SEVERAL, TAKES])
@pytest.mark.parametrize(
    ("drivers", "extended", "pod_set", "present"),
    [
        (["gpu.example.com"], GPU, {}, True),
        # An expression that names no driver may mean any.
        ([], GPU, {}, True),
        (["nic.example.com"], GPU, {}, False),
        (["gpu.example.com"], "", {}, False),
        (["gpu.example.com"], "", {"claims": True}, True),
        (
            ["gpu.example.com"],
            "",
            {"requests": {"deviceclass.resource.kubernetes.io/gpu": "1"}},
            True,
        ),
    ],
)
def test_divided_devices_count_where_work_asks_for_them(
    cluster: Cluster, listed: Any, drivers: list[str], extended: str, pod_set: Any, present: bool
) -> None:
    thing(cluster, "ResourceSlice", "slice", listed)
    device_class(cluster, "gpu", drivers, extended)
    plain(cluster, pod_set=pod_set)
    assert gaps_of(cluster) == {"time"} | ({"dra_counters"} if present else set())
