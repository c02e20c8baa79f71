"""What needs a look, each case made by hand with the objects that cause it."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import translation

from apps.capacity.notes import readable
from apps.capacity.rows import Note, Ref
from apps.capacity.selectors import capacity_report
from apps.capacity.topology_report import topology_report
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, Node, Pod

from .builders import (
    AT,
    GPU,
    make_claim,
    make_cluster,
    make_cohort,
    make_flavor,
    make_node,
    make_object,
    make_pod,
    make_queue,
    make_slice,
)

SHARED = "nvidia.com/gpu.shared"
SLICED = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
MIXED = {"nvidia.com/mig.strategy": "mixed"}

pytestmark = pytest.mark.django_db


@pytest.fixture
def east() -> Cluster:
    return make_cluster()


def notes(code: str = "") -> list[Note]:
    with translation.override("en"):
        return [note for note in capacity_report(now=AT).notes if code in ("", note.code)]


def refs(note: Note) -> set[tuple[str, str]]:
    return {(ref.kind, ref.name) for ref in note.refs}


def whole(cluster: Cluster, *names: str, pool: str = "h100") -> None:
    for name in names:
        make_node(cluster, name, {"pool": pool})


# ---- over-committed -------------------------------------------------------------------------------------------


def test_more_promised_than_usable_with_its_ratio_and_causes(east: Cluster) -> None:
    whole(east, "n1", "n2")
    make_flavor(east, "h100", pool="h100")
    make_queue(east, "red", "all", h100={GPU: 16})
    make_queue(east, "blue", "all", h100={GPU: 4})
    make_queue(east, "none", "all", h100={GPU: 0})
    make_cohort(east, "all", h100={GPU: 4})
    (note,) = notes("over_committed")
    # 16 + 4 + 0 + 4 of 16 cards
    assert note.text == "H100 80GB (whole cards): 24 promised, 16 usable, ratio 150 %."
    assert note.objects == ("NVIDIA-H100-80GB-HBM3", "exclusive")
    assert refs(note) == {
        ("pool", "NVIDIA-H100-80GB-HBM3|exclusive"),
        ("flavor", "h100"),
        ("ClusterQueue", "red"),
        ("ClusterQueue", "blue"),
        ("Cohort", "all"),
    }


def test_as_much_as_is_usable_is_not_too_much(east: Cluster) -> None:
    whole(east, "n1", "n2")
    make_flavor(east, "h100", pool="h100")
    make_queue(east, "red", h100={GPU: 16})
    assert notes() == []
    Node.objects.filter(name="n2").update(unschedulable=True)
    assert notes("over_committed")[0].text.endswith("16 promised, 8 usable, ratio 200 %.")
    Node.objects.update(unschedulable=True)
    assert notes("over_committed")[0].text == "H100 80GB (whole cards): 16 promised, nothing usable."


def test_a_flavor_over_several_pools_that_promises_more_than_its_nodes_have(east: Cluster) -> None:
    """The usual flavor without labels over every model: no pool can claim its quota, nobody may miss that 24 are
    promised of 8 + 8 cards, four of which are broken."""
    whole(east, "n1")
    broken = make_node(east, "n2", {"pool": "h100"}, model="NVIDIA-A100-SXM4-80GB", allocatable={GPU: "4"})
    make_flavor(east, "any")
    make_queue(east, "red", any={GPU: 20})
    make_queue(east, "blue", any={GPU: 4})
    (note,) = notes("over_committed")
    assert note.text == f"Flavor any: 24 {GPU} promised, 12 usable on its nodes, ratio 200 %."
    assert note.objects == ("any", GPU)
    assert refs(note) == {("flavor", "any"), ("ClusterQueue", "red"), ("ClusterQueue", "blue")}
    Node.objects.update(unschedulable=True)
    assert notes("over_committed")[0].text == f"Flavor any: 24 {GPU} promised, nothing usable on its nodes."
    Node.objects.update(unschedulable=False)
    broken.capacity = broken.allocatable = {GPU: "16"}
    broken.save()
    assert notes("over_committed") == []


def test_a_flavor_over_a_part_of_a_pool(east: Cluster) -> None:
    """16 cards in the pool and 16 promised, but all of them on the eight cards that were bought as spot."""
    make_node(east, "n1", {"pool": "h100"})
    make_node(east, "n2", {"pool": "h100", "buy": "spot"})
    make_flavor(east, "h100", pool="h100")
    make_flavor(east, "spot", buy="spot")
    queue = make_queue(east, "red", spot={GPU: 16})
    (note,) = notes("over_committed")
    assert note.text == f"Flavor spot: 16 {GPU} promised, 8 usable on its nodes, ratio 200 %."
    queue.delete()
    make_queue(east, "red", spot={GPU: 8}, h100={GPU: 8})
    assert notes("over_committed") == []


def test_volcanos_shares_over_several_pools(east: Cluster) -> None:
    whole(east, "n1")
    make_node(east, "n2", model="NVIDIA-A100-SXM4-80GB")
    shares: dict[str, Any] = {"deserved": {GPU: "20"}, "capability": {}, "guarantee": {}}
    make_object(east, "VolcanoQueue", "blue", {**shares, "parent": ""})
    (note,) = notes("over_committed")
    assert note.text == f"Volcano shares 20 {GPU}, 16 usable, ratio 125 %."
    assert refs(note) == {("VolcanoQueue", "blue")}


# ---- flavors --------------------------------------------------------------------------------------------------


def test_quota_in_a_flavor_that_no_node_carries(east: Cluster) -> None:
    whole(east, "n1")
    make_flavor(east, "h100", pool="h100")
    make_flavor(east, "h200", pool="h200")
    make_queue(east, "red", h100={GPU: 8}, h200={GPU: 2})
    (note,) = notes()
    assert (note.code, note.objects) == ("unused_flavor", ("h200", GPU))
    assert note.text == f"Flavor h200 has quota (2 {GPU}), no node carries it."
    assert refs(note) == {("flavor", "h200"), ("ClusterQueue", "red")}


def test_quota_of_a_resource_that_the_nodes_of_a_flavor_do_not_offer(east: Cluster) -> None:
    whole(east, "n1")
    make_flavor(east, "h100", pool="h100")
    make_queue(east, "red", h100={GPU: 8, "nvidia.com/mig-1g.10gb": 7})
    (note,) = notes()
    assert (note.code, note.objects) == ("unused_flavor", ("h100", "nvidia.com/mig-1g.10gb"))
    assert note.text == "Flavor h100 has quota (7 nvidia.com/mig-1g.10gb), its nodes offer none."


def test_a_flavor_kept_off_by_a_taint_reaches_nothing(east: Cluster) -> None:
    taint = {"key": "site.example/keep-out", "value": "", "effect": "NoSchedule"}
    make_node(east, "n1", {"pool": "h100"}, taints=[taint])
    flavor = make_flavor(east, "h100", pool="h100")
    make_queue(east, "red", h100={GPU: 8})
    assert {note.code for note in notes()} == {"unused_flavor", "no_flavor"}
    flavor.spec = {**flavor.spec, "node_taints": [taint]}
    flavor.save()
    assert notes() == []


def test_nodes_that_no_flavor_with_quota_reaches(east: Cluster) -> None:
    whole(east, "n1")
    make_node(east, "n2", {"pool": "other"})
    make_node(east, "n3", {"pool": "cpu"}, offers={"cpu": "64"}, model="")
    make_flavor(east, "h100", pool="h100")
    make_flavor(east, "other", pool="other")  # nobody quotes it
    make_queue(east, "red", h100={GPU: 8})
    (note,) = notes()
    assert (note.code, note.nodes) == ("no_flavor", ("n2",))


def test_nodes_that_two_flavors_reach(east: Cluster) -> None:
    """A flavor for topology-aware work over the same nodes as the plain one: the cards are promised twice."""
    whole(east, "n1", "n2")
    make_flavor(east, "h100", pool="h100")
    tas = make_flavor(east, "h100-tas", pool="h100")
    tas.spec = {**tas.spec, "topology": "racks"}
    tas.save()
    make_queue(east, "red", "", **{"h100": {GPU: 8}, "h100-tas": {GPU: 8}})
    (note,) = notes()
    assert note.code == "two_flavors"
    assert note.text == "2 nodes are counted by several flavors at once: h100, h100-tas."
    assert refs(note) == {("flavor", "h100"), ("flavor", "h100-tas"), ("node", "n1"), ("node", "n2")}
    assert note.nodes == ("n1", "n2")


def test_a_flavor_over_two_models_belongs_to_no_pool(east: Cluster) -> None:
    whole(east, "n1")
    make_node(east, "n2", {"pool": "h100"}, model="NVIDIA-A100-SXM4-80GB")
    make_flavor(east, "any", pool="h100")
    make_queue(east, "red", any={GPU: 12})
    (note,) = notes()
    assert (note.code, note.objects) == ("shared_flavor", ("any", GPU))
    assert refs(note) == {("flavor", "any"), ("ClusterQueue", "red")}


# ---- mixed units ----------------------------------------------------------------------------------------------


def sliced(cluster: Cluster, name: str, pool: str, *, resource: str = GPU) -> None:
    offers = {resource: "32"} if resource == GPU else {GPU: "0", resource: "32"}
    make_node(cluster, name, {"pool": pool, **SLICED}, offers=offers)


def test_one_flavor_whose_units_are_not_the_same(east: Cluster) -> None:
    whole(east, "n1")
    sliced(east, "n2", "h100")
    make_flavor(east, "any", pool="h100")
    make_queue(east, "red", any={GPU: 12})
    (note,) = notes()
    assert (note.code, note.objects) == ("mixed_units", ("any", GPU))
    assert (
        note.text
        == f"Flavor any: what one {GPU} is differs by node: time slices, 1/4 of a card; whole cards."
    )
    assert refs(note) == {("flavor", "any"), ("ClusterQueue", "red")}


def test_time_slices_in_one_flavor_and_whole_cards_in_another_of_a_cohort(east: Cluster) -> None:
    whole(east, "n1")
    sliced(east, "n2", "infer")
    make_flavor(east, "h100", pool="h100")
    make_flavor(east, "infer", pool="infer")
    make_queue(east, "red", "all", h100={GPU: 8})
    make_queue(east, "blue", "all", infer={GPU: 32})
    (note,) = notes()
    assert (note.code, note.objects) == ("mixed_units", ("Cohort", "all", "nvidia"))
    assert note.text == (
        "all quotes NVIDIA in units that do not add up: time slices, 1/4 of a card (infer); whole cards (h100)."
    )
    assert refs(note) == {
        ("Cohort", "all"),
        ("flavor", "h100"),
        ("flavor", "infer"),
        ("ClusterQueue", "red"),
        ("ClusterQueue", "blue"),
    }


def test_queues_without_a_common_cohort_may_count_differently(east: Cluster) -> None:
    whole(east, "n1")
    sliced(east, "n2", "infer")
    make_flavor(east, "h100", pool="h100")
    make_flavor(east, "infer", pool="infer")
    make_queue(east, "red", h100={GPU: 8})
    make_queue(east, "blue", infer={GPU: 32})
    assert notes() == []


def test_two_names_for_cards_and_slices_in_one_queue(east: Cluster) -> None:
    whole(east, "n1")
    sliced(east, "n2", "infer", resource=SHARED)
    make_flavor(east, "h100", pool="h100")
    make_flavor(east, "infer", pool="infer")
    make_queue(east, "red", h100={GPU: 8}, infer={SHARED: 32})
    (note,) = notes()
    assert (note.code, note.objects) == ("mixed_units", ("ClusterQueue", "red", "nvidia"))


def test_mig_instances_beside_whole_cards_and_mig_profiles_alone(east: Cluster) -> None:
    offers = {GPU: "0", "nvidia.com/mig-1g.10gb": "28", "nvidia.com/mig-3g.40gb": "8"}
    make_node(east, "n2", {"pool": "mig", **MIXED}, offers=offers)
    make_flavor(east, "mig", pool="mig")
    mig = {"nvidia.com/mig-1g.10gb": 28, "nvidia.com/mig-3g.40gb": 8}
    queue = make_queue(east, "red", mig=mig)
    assert notes() == []  # profiles are resources of their own
    whole(east, "n1")
    make_flavor(east, "h100", pool="h100")
    queue.delete()
    make_queue(east, "red", mig=mig, h100={GPU: 8})
    (note,) = notes()
    assert note.code == "mixed_units"
    assert note.text == (
        "red quotes NVIDIA in units that do not add up: MIG instances 1g.10gb (mig); MIG instances 3g.40gb (mig);"
        " whole cards (h100)."
    )


def test_the_same_slices_of_two_vendors_names_are_one_unit(east: Cluster) -> None:
    sliced(east, "n1", "infer")
    sliced(east, "n2", "more", resource=SHARED)
    make_flavor(east, "infer", pool="infer")
    make_flavor(east, "more", pool="more")
    make_queue(east, "red", infer={GPU: 32}, more={SHARED: 32})
    assert notes() == []


# ---- circles and unknown resources ----------------------------------------------------------------------------


def test_a_circle_of_cohorts_names_the_queues_below(east: Cluster) -> None:
    whole(east, "n1")
    make_flavor(east, "h100", pool="h100")
    make_cohort(east, "a", "b")
    make_cohort(east, "b", "c")
    make_cohort(east, "c", "a")
    make_queue(east, "red", "a", h100={GPU: 4})
    make_queue(east, "blue", "c", h100={GPU: 2})
    make_queue(east, "green", "d", h100={GPU: 2})
    (note,) = notes()
    assert (note.code, note.objects) == ("cohort_cycle", ("a", "b", "c"))
    assert note.text == "Cohorts form a circle (a → b → c → a): Kueue skips 2 queues below it."
    assert refs(note) == {
        ("Cohort", "a"),
        ("Cohort", "b"),
        ("Cohort", "c"),
        ("ClusterQueue", "red"),
        ("ClusterQueue", "blue"),
    }


def test_an_accelerator_that_no_vendor_file_knows(east: Cluster) -> None:
    make_node(east, "n1", offers={"acme.example/npu": "4", "rdma/hca": "1", "cpu": "8"}, model="")
    make_node(east, "n2", offers={"acme.example/npu": "0"}, model="")
    make_queue(east, "red", odd={"acme.example/npu": 4})
    shares: dict[str, Any] = {"capability": {"acme.example/npu": "2"}, "deserved": {}, "guarantee": {}}
    make_object(east, "VolcanoQueue", "blue", {**shares, "parent": ""})
    (note,) = notes()
    assert (note.code, note.objects) == ("unregistered", ("acme.example/npu",))
    assert note.text.startswith(
        "acme.example/npu looks like an accelerator and is counted nowhere. Add a file"
    )
    assert "acme" in note.text
    assert refs(note) == {
        ("resource", "acme.example/npu"),
        ("node", "n1"),
        ("ClusterQueue", "red"),
        ("VolcanoQueue", "blue"),
    }


def test_cards_of_a_driver_that_several_nodes_reach(east: Cluster) -> None:
    for node in ("d1", "d2"):
        make_node(east, node, offers={"cpu": "64"}, model="")
    make_slice(east, "", cards=3)
    (note,) = notes()
    assert (note.code, note.objects) == ("dra_unowned", ("gpu.nvidia.com",))
    assert (
        note.text
        == "The DRA driver gpu.nvidia.com lists 3 cards that several nodes reach: they are in no pool."
    )
    Node.objects.filter(name="d2").delete()
    assert notes() == []  # one node is left that reaches them: they are its own


# ---- who may read ---------------------------------------------------------------------------------------------


def test_readers_of_some_teams_see_no_queue_and_no_job(east: Cluster) -> None:
    note = Note("unused_flavor", east, "x", ("f", GPU), (Ref("flavor", "f"), Ref("ClusterQueue", "red")))
    tree = Note("mixed_units", east, "red quotes …", ("ClusterQueue", "red", "nvidia"))
    flavor = Note("mixed_units", east, "Flavor f …", ("f", GPU), (Ref("flavor", "f"),))
    job = Note("no_rdma", east, "ml/train …", ("ml/train",), (Ref("group", "train", "ml"),))
    cycle = Note("cohort_cycle", east, "a → b", ("a", "b"))
    everything = (note, tree, flavor, job, cycle)
    assert readable(everything, every_team=True) == everything
    shown = readable(everything, every_team=False)
    assert [(item.code, item.refs) for item in shown] == [
        ("unused_flavor", (Ref("flavor", "f"),)),
        ("mixed_units", (Ref("flavor", "f"),)),
    ]


# ---- jobs and nodes -------------------------------------------------------------------------------------------


def work_notes() -> list[Note]:
    with translation.override("en"):
        return list(topology_report(now=AT).notes)


@pytest.fixture
def nodes(east: Cluster) -> Cluster:
    whole(east, "n1", "n2")
    make_node(east, "fast", {"pool": "h100"}, offers={GPU: "8", "rdma/hca": "16"})
    make_node(east, "labelled", {"pool": "h100", "feature.node.kubernetes.io/rdma.available": "true"})
    make_node(east, "spot", {"pool": "h100", "karpenter.sh/capacity-type": "spot"})
    return east


def test_a_job_over_nodes_without_rdma(nodes: Cluster) -> None:
    make_pod(nodes, "p1", "n1", 4)
    make_pod(nodes, "p2", "n2", 4)
    (note,) = work_notes()
    assert (note.code, note.objects) == ("no_rdma", ("ml/train",))
    assert note.text == "1 job runs on several nodes of which none offers RDMA: ml/train."
    assert note.refs == (Ref("group", "train", "ml"), Ref("node", "n1"), Ref("node", "n2"))


@pytest.mark.parametrize(
    "change",
    [
        {"node_name": "n1"},  # one node
        {"node_name": "fast"},  # a node with an RDMA resource
        {"node_name": "labelled"},  # a node that discovery says has RDMA
        {"requests": {GPU: "3"}, "devices": 3},  # 4 + 3 < 8
        {"phase": "Succeeded"},  # over
        {"node_name": ""},  # not bound
        {"owner_name": "other"},  # another job
        {"namespace": "elsewhere"},
        {"node_name": "gone"},  # a node that is not known
    ],
)
def test_what_is_no_job_over_nodes_without_rdma(nodes: Cluster, change: dict[str, Any]) -> None:
    make_pod(nodes, "p1", "n1", 4)
    pod = make_pod(nodes, "p2", "n2", 4)
    Pod.objects.filter(pk=pod.pk).update(**change)
    assert [note.code for note in work_notes()] == []


def test_parts_of_cards_are_no_work_for_rdma(nodes: Cluster) -> None:
    for number in (1, 2):
        sliced(nodes, f"s{number}", "infer")
        make_pod(nodes, f"p{number}", f"s{number}", 16)
    assert work_notes() == []


def test_a_job_on_whole_cards_and_on_slices_counts_its_whole_cards(nodes: Cluster) -> None:
    sliced(nodes, "s1", "infer")
    make_pod(nodes, "p1", "s1", 16)
    make_pod(nodes, "p2", "n1", 7)
    assert work_notes() == []
    make_pod(nodes, "p3", "n1", 1)
    assert [note.code for note in work_notes()] == ["no_rdma"]


def test_replicas_work_each_for_itself(nodes: Cluster) -> None:
    for number, node in enumerate(("n1", "n2")):
        make_pod(nodes, f"serve-{number}", node, owner_kind="ReplicaSet", owner_name="serve")
    assert work_notes() == []
    Pod.objects.update(pod_group="made-by-the-queue")
    assert work_notes() == []
    Pod.objects.update(pod_group="", owner_kind="StatefulSet")
    assert work_notes() == []
    Pod.objects.update(labels={"leaderworkerset.sigs.k8s.io/group-key": "abc"})
    assert [note.objects for note in work_notes()] == [("ml/abc",)]


def test_bare_pods_are_a_job_only_as_a_group(nodes: Cluster) -> None:
    for number, node in enumerate(("n1", "n2")):
        make_pod(nodes, f"p{number}", node, 4, owner_kind="", owner_name="")
    assert work_notes() == []
    Pod.objects.update(pod_group="gang")
    assert [note.objects for note in work_notes()] == [("ml/gang",)]


def test_the_jobs_of_a_job_set_are_one(nodes: Cluster) -> None:
    for number, node in enumerate(("n1", "n2")):
        make_pod(
            nodes,
            f"p{number}",
            node,
            4,
            owner_name=f"set-workers-{number}",
            labels={"jobset.sigs.k8s.io/jobset-name": "set"},
        )
    assert [note.objects for note in work_notes()] == [("ml/set",)]


def test_a_job_over_spot_and_other_nodes(nodes: Cluster) -> None:
    make_pod(nodes, "p1", "fast", 1)
    make_pod(nodes, "p2", "spot", 1)
    (note,) = work_notes()
    assert (note.code, note.objects) == ("spans_capacity_types", ("ml/train",))
    assert note.text == "1 job runs on spot and other nodes at once: ml/train."
    Pod.objects.update(node_name="spot")
    assert work_notes() == []


def test_devices_through_claims_count_too(nodes: Cluster) -> None:
    for number, node in enumerate(("fast", "spot")):
        claims = [{"claim": f"c{number}", "resources": []}]
        make_pod(nodes, f"p{number}", node, 0, claims=claims)
    assert [note.code for note in work_notes()] == ["spans_capacity_types"]


def test_a_job_counts_the_whole_cards_of_its_claims(east: Cluster) -> None:
    """Two pods, each with a claim on four of its node's cards, and a network card by name: eight cards. The same
    claim for two pods of a node is four cards once."""
    for node in ("d1", "d2"):
        make_node(east, node, offers={"cpu": "64"}, model="")
        make_slice(east, node, cards=8)
        make_claim(east, f"{node}-four", node, cards=4)
        make_pod(
            east,
            node,
            node,
            0,
            claims=[{"claim": f"{node}-four", "resources": []}],
            requests={"vlan/nic": "1"},
        )
    (note,) = work_notes()
    assert (note.code, note.objects) == ("no_rdma", ("ml/train",))
    ClusterObject.objects.filter(name="d2-four").delete()
    make_claim(east, "d2-four", "d2", cards=3)
    make_pod(east, "twin", "d1", 0, claims=[{"claim": "d1-four", "resources": []}])
    assert work_notes() == []  # 4 + 3


def test_many_jobs_are_one_note_that_names_the_first(nodes: Cluster) -> None:
    for number in range(5):
        make_pod(nodes, f"a{number}", "n1", 4, owner_name=f"job-{number}")
        make_pod(nodes, f"b{number}", "n2", 4, owner_name=f"job-{number}")
    (note,) = work_notes()
    assert note.text == (
        "5 jobs run on several nodes of which none offers RDMA: ml/job-0, ml/job-1, ml/job-2 and 2 more."
    )
    assert len(note.objects) == 5


# ---- topologies and nodes -------------------------------------------------------------------------------------

RACK, HOST = "example.com/rack", "kubernetes.io/hostname"


def tas_flavor(cluster: Cluster, topology: str = "racks") -> None:
    flavor = make_flavor(cluster, "tas", pool="h100")
    flavor.spec = {**flavor.spec, "topology": topology}
    flavor.save()


def test_nodes_without_a_label_of_their_flavors_topology(east: Cluster) -> None:
    make_object(east, "Topology", "racks", {"levels": [RACK, HOST]})
    tas_flavor(east)
    make_node(east, "n1", {"pool": "h100", RACK: "r1", HOST: "n1"})
    make_node(east, "n2", {"pool": "h100", HOST: "n2"})
    make_node(east, "n3", {"pool": "other"})  # not of the flavor
    (note,) = work_notes()
    assert (note.code, note.objects, note.nodes) == ("topology_labels", ("tas", "racks"), ("n2",))
    assert note.text == (
        "1 node of flavor tas lacks labels of topology racks (example.com/rack): Kueue places no topology-aware"
        " work on it."
    )
    assert refs(note) == {("flavor", "tas"), ("Topology", "racks"), ("node", "n2")}


def test_a_flavor_whose_topology_is_not_there(east: Cluster) -> None:
    tas_flavor(east, "gone")
    whole(east, "n1")
    (note,) = work_notes()
    assert (note.code, note.objects) == ("topology_missing", ("tas", "gone"))
    assert note.text == "Flavor tas names the topology gone, which does not exist."


def test_a_hypernode_that_no_node_belongs_to(east: Cluster) -> None:
    whole(east, "n1", "n2")

    def hypernode(name: str, tier: int, kind: str, regex: str) -> None:
        member = {"kind": kind, "exact": [], "regex": regex, "labels": {}}
        make_object(east, "HyperNode", name, {"tier": tier, "tier_name": "", "members": [member]})

    hypernode("leaf", 1, "Node", "^n")
    hypernode("other", 1, "Node", "^m")
    hypernode("broken", 1, "Node", "m(")
    hypernode("spine", 2, "HyperNode", "leaf")
    hypernode("lost", 2, "HyperNode", "other")
    unread, empty = work_notes()
    assert (unread.code, unread.objects) == ("hypernode_pattern", ("broken",))
    assert unread.text == (
        "1 HyperNode has a regular expression that is not read here, so that it selects nothing: broken (m()."
    )
    assert (empty.code, empty.objects) == ("hypernode_empty", ("lost", "other"))
    assert empty.text.startswith("2 HyperNodes have no node: lost, other.")
