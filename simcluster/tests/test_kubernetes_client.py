"""The unmodified `kubernetes` library against the simulated API."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from simcluster.testing import Running, running
from simcluster.tests.libraries import ApiException, client, config, watch

KUEUE = ("kueue.x-k8s.io", "v1beta2")


def status(error: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(error.body)
    return found


def pod(name: str, namespace: str = "default") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "registry.example.com/a:1"}]},
        "status": {"phase": "Running"},
    }


# ---- reading ----------------------------------------------------------------------------------------------------
def test_discovery_names_versions_groups_and_kinds(api: Any) -> None:
    assert client.VersionApi(api).get_code().git_version == "v1.36.3"
    groups = {group.name: group for group in client.ApisApi(api).get_api_versions().groups}
    assert set(groups) == {
        "kueue.x-k8s.io",
        "visibility.kueue.x-k8s.io",
        "scheduling.volcano.sh",
        "batch.volcano.sh",
        "topology.volcano.sh",
        "bus.volcano.sh",
        "resource.k8s.io",
        "nvidia.com",
    }
    assert groups["kueue.x-k8s.io"].preferred_version.version == "v1beta2"
    core = client.CoreV1Api(api).get_api_resources()
    assert {"nodes", "pods", "events"} <= {resource.name for resource in core.resources}
    kueue = client.CustomObjectsApi(api).get_api_resources(*KUEUE)
    assert {"workloads", "clusterqueues", "cohorts"} <= {resource.name for resource in kueue.resources}


def test_typed_lists_of_nodes_pods_and_events(api: Any) -> None:
    core = client.CoreV1Api(api)
    nodes = core.list_node().items
    assert len(nodes) == 59
    assert {node.status.capacity.get("nvidia.com/gpu") for node in nodes} >= {"8", "56", "40", "16", "0"}
    pods = core.list_pod_for_all_namespaces().items
    assert any(one.status.phase == "Running" and one.spec.node_name for one in pods)
    events = core.list_event_for_all_namespaces().items
    assert {"Scheduled", "QuotaReserved", "Admitted"} <= {event.reason for event in events}


def test_a_paged_list_is_the_whole_list(api: Any) -> None:
    core = client.CoreV1Api(api)
    names: list[str] = []
    token, pages = None, 0
    while True:
        page = core.list_node(limit=7, _continue=token)
        names += [node.metadata.name for node in page.items]
        pages += 1
        token = page.metadata._continue
        if not token:
            break
        assert page.metadata.remaining_item_count == 59 - len(names)
    assert pages == 9  # ⌈59 / 7⌉
    assert names == sorted(node.metadata.name for node in core.list_node().items)


def test_namespaced_and_selected_lists(api: Any) -> None:
    core = client.CoreV1Api(api)
    everywhere = core.list_pod_for_all_namespaces().items
    inside = core.list_namespaced_pod("vision").items
    assert {one.metadata.namespace for one in inside} <= {"vision"}
    assert len(inside) == sum(one.metadata.namespace == "vision" for one in everywhere)
    chosen = core.list_node(label_selector="nvidia.com/mig.strategy=mixed").items
    assert [node.metadata.name for node in chosen] == ["h100-mig-01", "h100-mig-02"]
    running_now = core.list_pod_for_all_namespaces(field_selector="status.phase=Running").items
    assert {one.status.phase for one in running_now} == {"Running"}


def test_one_object_and_one_that_is_not_there(api: Any) -> None:
    custom = client.CustomObjectsApi(api)
    queue = custom.get_cluster_custom_object(*KUEUE, "clusterqueues", "vision-cq")
    assert queue["spec"]["cohortName"] == "research"
    with pytest.raises(ApiException) as caught:
        custom.get_cluster_custom_object(*KUEUE, "clusterqueues", "nope")
    assert caught.value.status == 404
    assert status(caught.value)["message"] == 'clusterqueues.kueue.x-k8s.io "nope" not found'


def test_an_absent_group_is_404_and_not_in_discovery() -> None:
    with running(scenario=True, days=0.1, absent=["kueue"]) as sim:
        api = config.new_client_from_config(str(sim.kubeconfig))
        with pytest.raises(ApiException) as caught:
            client.CustomObjectsApi(api).list_cluster_custom_object(*KUEUE, "workloads")
        assert caught.value.status == 404
        assert "kueue.x-k8s.io" not in {g.name for g in client.ApisApi(api).get_api_versions().groups}
        client.CustomObjectsApi(api).list_cluster_custom_object("scheduling.volcano.sh", "v1beta1", "queues")


def test_only_v1beta1_is_served_in_its_own_shape() -> None:
    with running(scenario=True, days=0.2, kueue_versions=["v1beta1"]) as sim:
        custom = client.CustomObjectsApi(config.new_client_from_config(str(sim.kubeconfig)))
        with pytest.raises(ApiException) as caught:
            custom.list_cluster_custom_object(*KUEUE, "clusterqueues")
        assert caught.value.status == 404
        listed = custom.list_cluster_custom_object("kueue.x-k8s.io", "v1beta1", "clusterqueues")
        by_name = {queue["metadata"]["name"]: queue for queue in listed["items"]}
        assert listed["apiVersion"] == "kueue.x-k8s.io/v1beta1"
        assert by_name["vision-cq"]["spec"]["cohort"] == "research"
        assert "cohortName" not in by_name["vision-cq"]["spec"]
        assert by_name["external-cq"]["spec"]["admissionChecks"] == ["budget-check"]
        assert by_name["vision-cq"]["spec"]["flavorFungibility"]["whenCanBorrow"] == "Borrow"
        work = custom.list_cluster_custom_object("kueue.x-k8s.io", "v1beta1", "workloads")["items"]
        assert work[0]["spec"]["priorityClassName"]


def test_bad_versions_are_refused_as_by_the_real_server(api: Any) -> None:
    core = client.CoreV1Api(api)
    with pytest.raises(ApiException) as caught:
        core.list_node(resource_version="abc")
    assert caught.value.status == 400
    assert "strconv.ParseUint" in status(caught.value)["message"]
    with pytest.raises(ApiException) as caught:
        core.list_node(resource_version="9" * 18)
    assert caught.value.status == 504
    assert status(caught.value)["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


# ---- who asks ---------------------------------------------------------------------------------------------------
def test_a_bad_token_is_401(demo: Running) -> None:
    configuration = client.Configuration(host=demo.url)
    configuration.api_key = {"authorization": "Bearer wrong"}
    with pytest.raises(ApiException) as caught:
        client.CoreV1Api(client.ApiClient(configuration)).list_node()
    assert caught.value.status == 401
    assert status(caught.value)["reason"] == "Unauthorized"


def test_a_viewer_reads_some_and_changes_nothing(demo: Running) -> None:
    api = config.new_client_from_config(str(demo.kubeconfig), context="viewer")
    assert client.CoreV1Api(api).list_node().items
    with pytest.raises(ApiException) as caught:
        client.CoreV1Api(api).list_event_for_all_namespaces()
    assert caught.value.status == 403
    assert 'cannot list resource "events"' in status(caught.value)["message"]
    with pytest.raises(ApiException) as caught:
        client.CustomObjectsApi(api).patch_cluster_custom_object(
            *KUEUE, "clusterqueues", "vision-cq", {"spec": {}}
        )
    assert caught.value.status == 403


# ---- watching ---------------------------------------------------------------------------------------------------
def collect(api: Any, since: str, seconds: int = 1) -> list[tuple[str, str]]:
    found = []
    stream = watch.Watch().stream(
        client.CoreV1Api(api).list_pod_for_all_namespaces,
        resource_version=since,
        timeout_seconds=seconds,
        allow_watch_bookmarks=True,
    )
    for event in stream:
        raw = event["raw_object"]
        found.append((event["type"], raw["metadata"].get("name", "")))
    return found


def test_a_watch_gives_what_changed_in_order_and_a_bookmark(empty: Running, empty_api: Any) -> None:
    empty.store.upsert("Pod", pod("a"))
    since = client.CoreV1Api(empty_api).list_pod_for_all_namespaces().metadata.resource_version
    empty.store.upsert("Pod", pod("b"))
    empty.store.upsert("Pod", {**pod("a"), "status": {"phase": "Succeeded"}})
    empty.store.delete("Pod", "b", "default")
    seen = collect(empty_api, since)
    assert seen == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b"), ("BOOKMARK", "")]


def test_headers_of_a_quiet_watch_come_at_once(empty: Running, empty_api: Any) -> None:
    core = client.CoreV1Api(empty_api)
    since = core.list_pod_for_all_namespaces().metadata.resource_version
    started = time.monotonic()
    answer = core.list_pod_for_all_namespaces(
        watch=True, resource_version=since, timeout_seconds=30, _preload_content=False
    )
    assert time.monotonic() - started < 10  # of a watch of 30 seconds
    assert answer.headers["Transfer-Encoding"] == "chunked"
    assert answer.headers["Date"].endswith("GMT")
    timer = threading.Timer(0.1, lambda: empty.store.upsert("Pod", pod("late")))
    timer.start()
    line = json.loads(answer.read1(1 << 16))
    assert (line["type"], line["object"]["metadata"]["name"]) == ("ADDED", "late")
    answer.close()


def test_the_version_of_a_deletion_is_newer_than_the_object(empty: Running, empty_api: Any) -> None:
    written = empty.store.upsert("Pod", pod("a"))
    since = client.CoreV1Api(empty_api).list_pod_for_all_namespaces().metadata.resource_version
    empty.store.delete("Pod", "a", "default")
    stream = watch.Watch().stream(
        client.CoreV1Api(empty_api).list_pod_for_all_namespaces, resource_version=since, timeout_seconds=1
    )
    deleted = next(iter(stream))["raw_object"]
    assert int(deleted["metadata"]["resourceVersion"]) > written


def test_a_watch_without_a_version_starts_with_what_is_there(empty: Running, empty_api: Any) -> None:
    empty.store.upsert("Pod", pod("a"))
    assert collect(empty_api, "")[0] == ("ADDED", "a")


def test_event_watches_send_no_bookmark(empty: Running, empty_api: Any) -> None:
    core = client.CoreV1Api(empty_api)
    since = core.list_event_for_all_namespaces().metadata.resource_version
    stream = watch.Watch().stream(
        core.list_event_for_all_namespaces,
        resource_version=since,
        timeout_seconds=1,
        allow_watch_bookmarks=True,
    )
    assert list(stream) == []


def test_a_watch_from_a_compacted_version_gets_410_and_a_list_recovers(
    empty: Running, empty_api: Any
) -> None:
    core = client.CoreV1Api(empty_api)
    since = core.list_pod_for_all_namespaces().metadata.resource_version
    empty.store.upsert("Pod", pod("a"))
    empty.store.compact()
    with pytest.raises(ApiException) as caught:
        collect(empty_api, since)
    assert caught.value.status == 410
    assert "too old resource version" in caught.value.reason
    fresh = core.list_pod_for_all_namespaces()
    assert [one.metadata.name for one in fresh.items] == ["a"]
    assert ("BOOKMARK", "") in collect(empty_api, fresh.metadata.resource_version)


def test_a_continue_token_from_before_a_compaction_is_410(empty: Running, empty_api: Any) -> None:
    core = client.CoreV1Api(empty_api)
    for name in "abc":
        empty.store.upsert("Pod", pod(name))
    token = core.list_pod_for_all_namespaces(limit=1).metadata._continue
    empty.store.upsert("Pod", pod("d"))
    empty.store.compact()
    with pytest.raises(ApiException) as caught:
        core.list_pod_for_all_namespaces(limit=1, _continue=token)
    assert caught.value.status == 410
    assert status(caught.value)["reason"] == "Expired"


# ---- writing ----------------------------------------------------------------------------------------------------
QUOTA = "/spec/resourceGroups/0/flavors/0/resources/2/nominalQuota"


def patch(api: Any, body: Any, **kw: Any) -> dict[str, Any]:
    kind = "application/json-patch+json" if isinstance(body, list) else "application/merge-patch+json"
    found: dict[str, Any] = client.CustomObjectsApi(api).patch_cluster_custom_object(
        *KUEUE, "clusterqueues", "speech-cq", body, _content_type=kind, **kw
    )
    return found


def refused(api: Any, body: Any, **kw: Any) -> tuple[int, dict[str, Any]]:
    with pytest.raises(ApiException) as caught:
        patch(api, body, **kw)
    return caught.value.status, status(caught.value)


def test_a_dry_run_changes_nothing(demo: Running, api: Any) -> None:
    before = demo.store.get("ClusterQueue", "speech-cq")
    answer = patch(api, [{"op": "replace", "path": QUOTA, "value": "10"}], dry_run="All")
    assert answer["spec"]["resourceGroups"][0]["flavors"][0]["resources"][2]["nominalQuota"] == "10"
    assert demo.store.get("ClusterQueue", "speech-cq") == before


def test_a_stale_resource_version_is_a_conflict(api: Any) -> None:
    code, body = refused(api, {"metadata": {"resourceVersion": "1"}, "spec": {"stopPolicy": "Hold"}})
    assert (code, body["reason"]) == (409, "Conflict")
    assert "the object has been modified" in body["message"]


def test_a_failed_test_of_a_json_patch_is_422(api: Any) -> None:
    code, body = refused(api, [{"op": "test", "path": "/metadata/resourceVersion", "value": "1"}])
    assert (code, body["reason"]) == (422, "Invalid")


def test_an_invalid_quantity_is_422_with_its_field(api: Any) -> None:
    code, body = refused(api, [{"op": "replace", "path": QUOTA, "value": "eight"}], dry_run="All")
    assert code == 422
    cause = body["details"]["causes"][0]
    assert cause["field"] == "spec.resourceGroups[0].flavors[0].resources[2].nominalQuota"
    assert cause["message"].startswith('Invalid value: "eight"')


def test_the_webhook_refuses_with_403(api: Any) -> None:
    code, body = refused(api, [{"op": "replace", "path": QUOTA, "value": "-1"}])
    assert code == 403
    assert body["message"].startswith('admission webhook "vclusterqueue.kb.io" denied the request: spec.')


def test_limits_without_a_cohort_are_refused(api: Any) -> None:
    code, body = refused(api, {"spec": {"cohortName": None}})
    assert code == 422
    assert body["details"]["causes"][0]["message"].endswith("borrowingLimit must be nil when cohort is empty")


def test_an_immutable_field_is_422(api: Any) -> None:
    with pytest.raises(ApiException) as caught:
        client.CustomObjectsApi(api).patch_namespaced_custom_object(
            *KUEUE, "speech", "localqueues", "train", {"spec": {"clusterQueue": "vision-cq"}}
        )
    assert caught.value.status == 422
    assert "field is immutable" in status(caught.value)["message"]


def test_an_unknown_format_is_415(api: Any) -> None:
    with pytest.raises(ApiException) as caught:
        client.CustomObjectsApi(api).patch_cluster_custom_object(
            *KUEUE, "clusterqueues", "speech-cq", {"spec": {}}, _content_type="application/apply-patch+yaml"
        )
    assert caught.value.status == 415


def test_a_lowered_quota_takes_effect_and_survives_a_restart(tmp_path: Path) -> None:
    now = time.time()
    with running(scenario=True, days=1, folder=tmp_path, clock=lambda: now) as sim:
        api = config.new_client_from_config(str(sim.kubeconfig))
        written = patch(api, [{"op": "replace", "path": QUOTA, "value": "3"}])
        assert written["metadata"]["generation"] == 2
        assert sim.driver is not None
        tree = sim.driver.simulation.quota.tree
        assert tree.subtree_quota("ClusterQueue", "speech-cq", ("a100", "nvidia.com/gpu")) == 3
    with running(scenario=True, days=1, folder=tmp_path, clock=lambda: now) as again:
        queue = again.store.get("ClusterQueue", "speech-cq")
    assert queue is not None
    assert queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][2]["nominalQuota"] == "3"


def test_the_config_map_of_volcanos_scheduler_is_read_by_name_and_edited(tmp_path: Path) -> None:
    where = {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"}
    now = time.time()
    with running(scenario=True, days=0.1, folder=tmp_path, clock=lambda: now) as sim:
        core = client.CoreV1Api(config.new_client_from_config(str(sim.kubeconfig)))
        before = core.read_namespaced_config_map(**where)
        assert list(before.data) == ["volcano-scheduler.conf"]
        assert "name: capacity" in before.data["volcano-scheduler.conf"]
        core.patch_namespaced_config_map(**where, body={"data": {"volcano-scheduler.conf": "actions: a"}})
        with pytest.raises(ApiException) as caught:
            core.read_namespaced_config_map(**{**where, "name": "other"})
        assert status(caught.value)["message"] == 'configmaps "other" not found'
    with running(scenario=True, days=0.1, folder=tmp_path, clock=lambda: now) as again:
        core = client.CoreV1Api(config.new_client_from_config(str(again.kubeconfig)))
        after = core.read_namespaced_config_map(**where)
        assert after.data == {"volcano-scheduler.conf": "actions: a"}
        assert after.metadata.uid != ""


def test_a_stopped_queue_says_so_and_so_does_its_work(tmp_path: Path) -> None:
    with running(scenario=True, days=1.5) as sim:
        api = config.new_client_from_config(str(sim.kubeconfig))
        patch(api, {"spec": {"stopPolicy": "HoldAndDrain"}})
        assert sim.driver is not None
        sim.driver.simulation.run_until(sim.driver.simulation.now + 30)
        queue = sim.store.get("ClusterQueue", "speech-cq")
        assert queue is not None
        active = queue["status"]["conditions"][0]
        assert (active["status"], active["reason"]) == ("False", "Stopped")
        assert queue["status"]["reservingWorkloads"] == 0
        local = sim.store.get("LocalQueue", "train", "speech")
        assert local is not None
        assert local["status"]["conditions"][0]["reason"] == "ClusterQueueIsInactive"
        pending = sim.driver.simulation.quota.queues["speech-cq"].pending.values()
        assert pending
        for job in pending:
            reasons = {c["type"]: c for c in job.obj["status"]["conditions"]}
            assert reasons["QuotaReserved"]["message"] == "ClusterQueue speech-cq is inactive"


def test_a_deactivated_workload_gives_its_quota_back() -> None:
    with running(scenario=True, days=1) as sim:
        custom = client.CustomObjectsApi(config.new_client_from_config(str(sim.kubeconfig)))
        assert sim.driver is not None
        simulation = sim.driver.simulation
        job = next(job for queue in simulation.quota.queues.values() for job in queue.holding.values())
        patched = {"spec": {"active": False}}
        custom.patch_namespaced_custom_object(*KUEUE, job.namespace, "workloads", job.workload, patched)
        simulation.run_until(simulation.now + 30)
        found = sim.store.get("Workload", job.workload, job.namespace)
        assert found is not None
        said = {c["type"]: (c["status"], c["reason"]) for c in found["status"]["conditions"]}
        assert said["Evicted"] == ("True", "Deactivated")
        assert said["QuotaReserved"][0] == "False"
        assert "admission" not in found["status"]
        assert job.number not in simulation.quota.queues[job.queue].holding
        names = {pod["metadata"]["name"] for pod in sim.store.objects("Pod")}
        assert not any(name.startswith(f"{job.name}-") for name in names)


def test_a_node_that_is_cordoned_by_hand() -> None:
    with running(scenario=True, days=0.2) as sim:
        core = client.CoreV1Api(config.new_client_from_config(str(sim.kubeconfig)))
        core.patch_node("h100-02", {"spec": {"unschedulable": True}})
        node = sim.store.get("Node", "h100-02")
        assert node is not None
        assert node["spec"]["taints"] == [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
        core.patch_node("h100-02", {"spec": {"unschedulable": None}})
        node = sim.store.get("Node", "h100-02")
        assert node is not None
        assert "taints" not in node["spec"]
