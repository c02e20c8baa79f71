"""The engine against an HTTP server: lists, resumed watches, relists, versions, and what is not installed."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from apps.observations.models import ClusterObject, Event, Pod, Quarantine, SourceState, Transition, Workload
from apps.observations.selectors import State
from apps.observations.services import lease_acquire

from .conftest import T0, Pull
from .minicluster import KUEUE, MiniCluster

pytestmark = pytest.mark.django_db


def pods(**where: Any) -> set[str]:
    return set(Pod.objects.filter(gone_at=None, **where).values_list("uid", flat=True))


def cursor(kind: str = "Pod", source: str = "pods") -> dict[str, Any]:
    found: dict[str, Any] = SourceState.objects.get(source=source).cursors.get(kind, {})
    return found


def put_pod(api: MiniCluster, name: str = "p1", **content: Any) -> None:
    api.put("pods", name, spec={"containers": []}, status={"phase": "Pending"}, **content)


def test_first_pull_lists_in_pages(api: MiniCluster, pull: Pull) -> None:
    api.page_limit = 3
    for number in range(8):
        put_pod(api, f"p{number}")
    result = pull("pods")
    assert (result.outcome, result.mode, result.objects_seen, result.rows_written) == ("ok", "list", 8, 8)
    assert sum("limit=500" in path for path in api.requests) == 3
    assert (len(pods()), result.bytes_read > 0) == (8, True)


def test_second_pull_resumes_a_watch_and_writes_nothing_when_nothing_changed(
    api: MiniCluster, pull: Pull
) -> None:
    put_pod(api)
    pull("pods")
    api.requests.clear()
    result = pull("pods", 1)
    assert (result.outcome, result.mode, result.rows_written, result.rows_gone) == ("ok", "watch", 0, 0)
    assert len(api.requests) == 1
    assert f"resourceVersion={cursor()['resource_version']}" in api.requests[0]


def test_watch_brings_changes_new_objects_and_deletions(api: MiniCluster, pull: Pull) -> None:
    put_pod(api, "p1")
    put_pod(api, "p2")
    pull("pods")
    api.put("pods", "p1", spec={"nodeName": "n1"}, status={"phase": "Running"})
    put_pod(api, "p3")
    api.delete("pods", "p2")
    result = pull("pods", 1)
    assert (result.objects_seen, result.rows_gone) == (3, 1)
    assert pods() == {"p1", "p3"}
    assert Pod.objects.get(uid="p1").phase == "Running"
    assert pull("pods", 2).rows_written == 0


def test_object_that_lived_between_two_pulls_is_known(api: MiniCluster, pull: Pull) -> None:
    pull("pods")
    put_pod(api, "brief")
    api.delete("pods", "brief")
    pull("pods", 1)
    assert Pod.objects.get().gone_at == T0 + timedelta(minutes=1)


def test_expired_version_is_listed_again_in_the_same_pull(api: MiniCluster, pull: Pull) -> None:
    put_pod(api, "p1")
    put_pod(api, "p2")
    pull("pods")
    api.delete("pods", "p1")
    api.compact()
    put_pod(api, "p3")
    result = pull("pods", 1)
    assert (result.outcome, result.mode, result.rows_gone) == ("ok", "mixed", 1)
    assert pods() == {"p2", "p3"}


def test_watch_refused_with_410_is_listed_again(api: MiniCluster, pull: Pull) -> None:
    put_pod(api)
    pull("pods")

    def gone(handler: Any) -> None:
        if handler.query.get("watch"):
            api.refuse(handler, 410, "too old resource version")
        else:
            api.list(handler, "pods")

    api.faults["pods"] = gone
    assert pull("pods", 1).outcome == "ok"


def test_lost_continue_token_starts_the_list_over_once(api: MiniCluster, pull: Pull) -> None:
    api.page_limit = 2
    for number in range(4):
        put_pod(api, f"p{number}")
    lost = iter([True])

    def second(handler: Any) -> None:
        if next(lost, False):
            api.refuse(handler, 410, "the provided continue parameter is too old")
        else:
            api.list(handler, "pods")

    api.fault_second_page("pods", second)
    assert (pull("pods").outcome, len(pods())) == ("ok", 4)
    assert Pod.objects.count() == 4


def test_continue_token_that_is_always_lost_fails_and_keeps_what_is_stored(
    api: MiniCluster, pull: Pull
) -> None:
    put_pod(api, "p0")
    pull("pods")
    api.compact()
    api.page_limit = 1
    put_pod(api, "p1")
    api.fault_second_page("pods", lambda handler: api.refuse(handler, 410, "too old"))
    result = pull("pods", 1)
    assert (result.outcome, result.error_kind) == ("failed", "expired")
    assert pods() == {"p0"}
    api.faults.clear()
    assert (pull("pods", 2).outcome, pods()) == ("ok", {"p0", "p1"})


def test_list_that_breaks_half_way_writes_nothing(api: MiniCluster, pull: Pull) -> None:
    api.page_limit = 1
    put_pod(api, "p0")
    put_pod(api, "p1")
    api.fault_second_page("pods", lambda handler: handler.cut())
    result = pull("pods")
    assert (result.outcome, result.error_kind) == ("failed", "unreachable")
    assert not Pod.objects.exists()
    assert cursor() == {}
    api.faults.clear()
    assert (pull("pods", 1).outcome, len(pods())) == ("ok", 2)


def test_watch_that_breaks_keeps_the_lines_before(api: MiniCluster, pull: Pull) -> None:
    pull("pods")
    put_pod(api, "p1")
    put_pod(api, "p2")
    first = api.log[-2]

    def cut(handler: Any) -> None:
        handler.begin_chunks()
        handler.chunk(json.dumps({"type": "ADDED", "object": first[3]}).encode() + b"\n")
        handler.chunk(b'{"type":"ADDED","object":{"metadata":{"name":"p2"')
        handler.cut()

    api.faults["pods"] = cut
    result = pull("pods", 1)
    assert (result.outcome, result.error_kind) == ("partial", "unreachable")
    assert (pods(), cursor()["resource_version"]) == ({"p1"}, str(first[0]))
    api.faults.clear()
    pull("pods", 2)
    assert pods() == {"p1", "p2"}


def test_full_list_repairs_from_time_to_time(api: MiniCluster, pull: Pull) -> None:
    put_pod(api, "p1")
    pull("pods")
    del api.items["pods"]["p1"]
    assert (pull("pods", 60).mode, pods()) == ("watch", {"p1"})
    result = pull("pods", 8 * 60)
    assert (result.mode, result.rows_gone, pods()) == ("mixed", 1, set())


def test_events_are_kept_after_the_cluster_forgot_them(api: MiniCluster, pull: Pull) -> None:
    api.put("events", "e1", reason="FailedScheduling", message="0/3 nodes", type="Warning", count=1)
    pull("events")
    api.put("events", "e1", reason="FailedScheduling", message="0/3 nodes", type="Warning", count=4)
    pull("events", 1)
    api.delete("events", "e1")
    pull("events", 2)
    api.compact()
    pull("events", 3)
    assert Event.objects.get().count == 4


# ------------------------------------------------------------------ groups and versions
def put_queue(api: MiniCluster, name: str = "cq") -> None:
    api.put("clusterqueues", name, namespace="", spec={}, status={})


def test_cluster_without_kueue_is_not_installed(api: MiniCluster, pull: Pull, status: Any) -> None:
    api.groups.clear()
    result = pull("kueue")
    assert (result.outcome, result.error) == ("ok", "")
    assert status("kueue").state is State.ABSENT
    assert pull("volcano").outcome == "ok"


def test_kueue_that_is_installed_later_is_found(api: MiniCluster, pull: Pull, status: Any) -> None:
    groups, api.groups = api.groups, {}
    pull("kueue")
    api.requests.clear()
    pull("kueue", 0.5)
    assert [path for path in api.requests if "/namespaces" not in path] == []
    api.groups = groups
    put_queue(api)
    pull("kueue", 2)
    assert status("kueue", 2).state is State.OK
    assert ClusterObject.objects.get().name == "cq"


def test_kueue_that_was_removed_leaves_its_objects_as_gone(api: MiniCluster, pull: Pull, status: Any) -> None:
    put_queue(api)
    pull("kueue")
    api.groups.clear()
    result = pull("kueue", 1)
    assert (result.outcome, result.rows_gone) == ("ok", 1)
    assert status("kueue", 1).state is State.ABSENT


def test_older_kueue_is_read_in_its_own_version(api: MiniCluster, pull: Pull) -> None:
    api.groups = {"kueue.x-k8s.io": {"v1beta1": tuple(k for k in KUEUE if k != "topologies")}}
    put_queue(api)
    assert pull("kueue").outcome == "ok"
    assert cursor("ClusterQueue", "kueue")["api_version"] == "v1beta1"
    assert "absent_at" in cursor("Topology", "kueue")


def test_version_that_went_away_is_replaced(api: MiniCluster, pull: Pull) -> None:
    api.groups = {"kueue.x-k8s.io": {"v1beta1": KUEUE}}
    put_queue(api)
    pull("kueue")
    api.groups = {"kueue.x-k8s.io": {"v1beta2": KUEUE}}
    put_queue(api, "cq2")
    assert pull("kueue", 1).outcome == "ok"
    assert cursor("ClusterQueue", "kueue")["api_version"] == "v1beta2"
    assert ClusterObject.objects.filter(gone_at=None).count() == 2


def test_kind_that_fails_leaves_the_others_and_is_named(api: MiniCluster, pull: Pull, status: Any) -> None:
    put_queue(api)
    api.fault_status("cohorts", 403)
    result = pull("kueue")
    assert (result.outcome, result.error_kind) == ("partial", "forbidden")
    assert result.error.startswith("Cohort: ")
    assert ClusterObject.objects.count() == 1
    assert status("kueue").state is State.PARTIAL


def test_waiting_work_finds_its_queue_in_the_first_pull(api: MiniCluster, pull: Pull) -> None:
    put_queue(api)
    api.put("localqueues", "lq", spec={"clusterQueue": "cq"})
    api.put("workloads", "w1", spec={"queueName": "lq", "podSets": []}, status={})
    pull("kueue")
    from apps.observations.models import StateSpan

    assert (Workload.objects.get().state, StateSpan.objects.get().queue) == ("pending", "cq")
    assert not Transition.objects.exists()


# ------------------------------------------------------------------ quarantine
BAD_POD: dict[str, Any] = {
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "lots"}}}]}
}


def test_object_with_a_bad_quantity_costs_only_itself(api: MiniCluster, pull: Pull, status: Any) -> None:
    put_pod(api, "good")
    api.put("pods", "bad", status={}, **BAD_POD)
    result = pull("pods")
    assert (result.outcome, result.error_kind, result.quarantined) == ("partial", "bad_values", 1)
    assert pods() == {"good"}
    held = Quarantine.objects.get()
    assert (held.key, held.name) == ("bad", "ns/bad")
    assert b'"lots"' in bytes(held.raw)
    assert (status("pods").state, status("pods").quarantined) == (State.PARTIAL, 1)


def test_known_object_that_became_unreadable_stays_until_it_is_readable(
    api: MiniCluster, pull: Pull, status: Any
) -> None:
    put_pod(api, "p1")
    pull("pods")
    api.put("pods", "p1", status={}, **BAD_POD)
    assert (pull("pods", 1).outcome, pods()) == ("partial", {"p1"})
    assert (pull("pods", 2).outcome, status("pods", 2).state) == ("ok", State.PARTIAL)
    api.compact()
    assert (pull("pods", 3).outcome, pods()) == ("partial", {"p1"})
    put_pod(api, "p1")
    assert (pull("pods", 4).outcome, status("pods", 4).state) == ("ok", State.OK)
    assert not Quarantine.objects.exists()


def test_unreadable_object_that_is_deleted_is_gone(api: MiniCluster, pull: Pull, status: Any) -> None:
    put_pod(api, "p1")
    pull("pods")
    api.put("pods", "p1", status={}, **BAD_POD)
    pull("pods", 1)
    api.delete("pods", "p1")
    assert pull("pods", 2).rows_gone == 1
    assert (pods(), status("pods", 2).state) == (set(), State.OK)


def test_text_that_the_database_refuses_goes_to_quarantine(api: MiniCluster, pull: Pull) -> None:
    put_pod(api, "good")
    api.put("pods", "nul", spec={}, status={"phase": "Failed", "message": "a\x00b"})
    result = pull("pods")
    assert (result.outcome, result.quarantined, pods()) == ("partial", 1, {"good"})
    assert Quarantine.objects.get().name == "ns/nul"


def test_item_without_identity_keeps_everything_that_is_stored(api: MiniCluster, pull: Pull) -> None:
    put_pod(api, "p1")
    pull("pods")
    api.compact()
    api.items["pods"] = {"x": {"metadata": {"labels": 5}}}
    result = pull("pods", 1)
    assert (result.outcome, result.quarantined, pods()) == ("partial", 1, {"p1"})


def test_pull_of_a_source_that_is_being_pulled_is_skipped(
    api: MiniCluster, pull: Pull, cluster: Any, status: Any
) -> None:
    lease_acquire(cluster_id=cluster.pk, source="pods", now=T0, seconds=60)
    result = pull("pods")
    assert (result.outcome, api.requests) == ("skipped", [])
    assert status("pods").state is State.NEVER
    assert pull("pods", 1.1).outcome == "ok"


def test_object_that_a_first_list_names_twice_is_taken_once(api: MiniCluster, pull: Pull) -> None:
    put_pod(api, "p1")
    put_pod(api, "p2")
    items = list(api.items["pods"].values())
    again = {**items[0], "status": {"phase": "Running"}}
    meta = {"resourceVersion": "900"}
    api.faults["pods"] = lambda h: api.reply(h, {"metadata": meta, "items": [*items, again]})
    result = pull("pods")
    assert (result.outcome, pods(), Pod.objects.count()) == ("ok", {"p1", "p2"}, 2)
    assert Pod.objects.get(uid="p1").phase == "Running"
