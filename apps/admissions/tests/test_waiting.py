"""The list of waiting work: what is on it, whose it is, and what narrows it."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from apps.admissions.filters import WaitingForm
from apps.admissions.selectors import (
    NO_REASON,
    Criteria,
    oldest_wait,
    reason_counts,
    team_waiting,
    waiting,
)
from apps.fleet.selectors import UNBOUND

from .builders import (
    T0,
    bind,
    hours,
    local_queue,
    make_cluster,
    make_event,
    make_object,
    make_pod,
    make_span,
    make_team,
    make_work,
)

pytestmark = pytest.mark.django_db


def names(**asked: Any) -> list[str]:
    values = {"now": hours(5), "team_ids": None, **asked}
    return [row.name for row in waiting(**values)]


def test_a_row_says_who_waits_for_what_since_when() -> None:
    cluster, team = make_cluster(), make_team("vision")
    bind(team, cluster, "team-a")
    local_queue(cluster, "ml", "main", "team-a")
    work = make_work(cluster, "train", priority=100, queued_at=hours(1), observed_at=hours(3))
    (row,) = waiting(now=hours(5), team_ids=None)
    assert (row.cluster_slug, row.kind, row.uid, row.namespace) == ("east", "Workload", work.uid, "ml")
    assert (row.team_slug, row.queue_name, row.queue, row.priority) == ("vision", "main", "team-a", 100)
    assert (row.cause, row.layer, row.reason) == ("quota", "admission", "Pending")
    assert row.asked == {"nvidia.com/gpu": Decimal(8), "cpu": Decimal(64)}
    assert row.devices == {"nvidia.com/gpu": Decimal(8)}
    assert (row.since, row.queued_at, row.wait_seconds) == (hours(3), hours(1), 4 * 3600)
    assert row.message_source == "condition"
    assert row.verdict.primary is not None
    assert row.verdict.primary.needed == 8


def test_what_waits_and_what_does_not() -> None:
    cluster = make_cluster()
    off = make_cluster("off", enabled=False)
    make_work(cluster, "pending")
    make_work(
        cluster, "checks", state="reserved", reason="UnsatisfiedAdmissionChecks", cluster_queue="team-a"
    )
    make_work(cluster, "given-up", state="deactivated", reason="Deactivated")
    make_work(cluster, "admitted", state="admitted")
    make_work(cluster, "finished", state="finished")
    make_work(cluster, "gone", gone_at=hours(1))
    make_work(off, "not-collected")
    make_pod(cluster, "bare")
    make_pod(cluster, "bound", node_name="n1")
    make_pod(cluster, "cpu-only", devices=0)
    make_pod(cluster, "queued", queue_name="main")
    make_pod(cluster, "member", pod_group="gang")
    make_pod(cluster, "leaving", deleting_since=hours(1))
    make_pod(cluster, "vanished", gone_at=hours(1))
    assert sorted(names()) == ["bare", "checks", "pending"]
    assert sorted(names(criteria=Criteria(deactivated=True))) == ["bare", "checks", "given-up", "pending"]


def test_pods_of_admitted_work_wait_for_a_node_under_its_queue() -> None:
    cluster, team = make_cluster(), make_team("vision")
    bind(team, cluster, "team-a")
    make_work(cluster, "job", state="admitted", cluster_queue="team-a", owner_uid="job-1")
    make_work(cluster, "other", owner_uid="job-2")
    make_pod(cluster, "unplaced", owner_uid="job-1")
    make_pod(cluster, "of-waiting", owner_uid="job-2")
    (row,) = waiting(now=hours(5), team_ids=[team.pk])
    assert (row.name, row.kind, row.queue, row.cause, row.layer) == (
        "unplaced",
        "Pod",
        "team-a",
        "capacity",
        "placement",
    )


def test_a_lead_never_sees_other_teams_or_unbound_work() -> None:
    cluster, ours, theirs = make_cluster(), make_team("ours"), make_team("theirs")
    bind(ours, cluster, "team-a")
    bind(theirs, cluster, "team-b")
    make_work(cluster, "a", cluster_queue="team-a", state="reserved")
    make_work(cluster, "b", cluster_queue="team-b", state="reserved")
    make_work(cluster, "nobodys", queue_name="x")
    make_pod(cluster, "bare")
    assert names(team_ids=[ours.pk]) == ["a"]
    assert names(team_ids=[]) == []
    assert sorted(names(team_ids=[ours.pk, theirs.pk])) == ["a", "b"]
    assert names(team_ids=[ours.pk], criteria=Criteria(team="theirs")) == []
    assert names(team_ids=[ours.pk], criteria=Criteria(team=UNBOUND)) == []
    assert sorted(names(criteria=Criteria(team=UNBOUND))) == ["bare", "nobodys"]
    assert names(criteria=Criteria(team="theirs")) == ["b"]
    assert names(criteria=Criteria(team="no-such-team")) == []
    counted = reason_counts(now=hours(5), team_ids=[ours.pk], by="cause")
    assert [(count.key, count.count) for count in counted] == [("quota", 1)]
    assert [row.name for row in team_waiting(now=hours(5), team_id=theirs.pk)] == ["b"]
    oldest = oldest_wait(now=hours(5), team_ids=[ours.pk])
    assert {team_id: row.name for team_id, row in oldest.items()} == {ours.pk: "a"}


def test_the_binding_of_the_local_queue_beats_the_cluster_queue_beats_the_namespace() -> None:
    cluster = make_cluster()
    by_local, by_cluster, by_namespace = make_team("l"), make_team("c"), make_team("n")
    local_queue(cluster, "ml", "main", "team-a")
    local_queue(cluster, "ml", "side", "team-a")
    bind(by_local, cluster, "main", "local_queue", namespace="ml")
    bind(by_cluster, cluster, "team-a")
    bind(by_namespace, cluster, "ml", "namespace")
    make_work(cluster, "one", queue_name="main")
    make_work(cluster, "two", queue_name="side")
    make_work(cluster, "three", queue_name="ghost")
    owners = {row.name: row.team_slug for row in waiting(now=hours(5), team_ids=None)}
    assert owners == {"one": "l", "two": "c", "three": "n"}


def test_filters_narrow_the_list() -> None:
    east, west = make_cluster("east"), make_cluster("west")
    make_work(east, "quota-1", cluster_queue="team-a", state="reserved")
    make_work(east, "stuck", reason="Inadmissible", message="LocalQueue x doesn't exist", queue_name="x")
    make_work(west, "silent", reason="", message="")
    make_work(west, "group", kind="PodGroup", queue_name="research", reason="", message="")
    make_pod(west, "bare_1")
    make_pod(west, "bareX1")
    assert sorted(names(criteria=Criteria(cluster="east"))) == ["quota-1", "stuck"]
    assert names(criteria=Criteria(cluster="nowhere")) == []
    assert names(criteria=Criteria(queue="team-a")) == ["quota-1"]
    assert names(criteria=Criteria(queue="x")) == ["stuck"]
    assert names(criteria=Criteria(cause="configuration")) == ["stuck"]
    assert names(criteria=Criteria(reason="Inadmissible")) == ["stuck"]
    assert sorted(names(criteria=Criteria(reason=NO_REASON))) == ["group", "silent"]
    assert names(criteria=Criteria(kind="PodGroup")) == ["group"]
    assert names(criteria=Criteria(q="DOESN'T")) == ["stuck"]
    assert names(criteria=Criteria(q="ml/bare_1")) == ["bare_1"]
    assert names(criteria=Criteria(q="100%")) == []
    assert names(criteria=Criteria(q="'; drop table x; --")) == []


def test_longest_wait_first_and_slices_read_only_their_rows(django_assert_max_num_queries: Any) -> None:
    cluster = make_cluster()
    for index in range(30):
        make_work(cluster, f"w{index:02}", queued_at=hours(2) - timedelta(minutes=index))
    rows = waiting(now=hours(5), team_ids=None)
    assert len(rows) == 30
    with django_assert_max_num_queries(3):
        page = rows[0:10]
    assert [row.name for row in page] == [f"w{index:02}" for index in range(29, 19, -1)]
    assert rows[29].name == "w00"
    assert rows[40:50] == []
    oldest = oldest_wait(now=hours(5), team_ids=None)
    assert oldest[None].name == "w29"


def test_volcanos_reason_is_its_newest_normal_event() -> None:
    cluster = make_cluster()
    group = make_work(cluster, "gang", kind="PodGroup", queue_name="research", reason="", message="")
    make_event(group, "queue resource quota insufficient: insufficient nvidia.com/gpu", at=hours(1))
    make_event(group, "resource in cluster is overused: overused nvidia.com/gpu", at=hours(2))
    make_event(
        group,
        "0/0 tasks in gang unschedulable: pod group is not ready, 2 minAvailable",
        at=hours(3),
        kind="Warning",
    )
    (row,) = waiting(now=hours(5), team_ids=None)
    assert row.message == "resource in cluster is overused: overused nvidia.com/gpu"
    assert (row.cause, row.reason, row.message_source) == ("capacity", "Unschedulable", "event")


def test_a_groups_own_condition_beats_old_events() -> None:
    cluster = make_cluster()
    message = "1/1 tasks in gang unschedulable: pod group is not ready, 1 Pending, 1 minAvailable; Pending: 1 Unschedulable. Origin reason is t-0: 0/24 nodes are unavailable: 24 node(s) had untolerated taint(s)."
    group = make_work(
        cluster, "gang", kind="PodGroup", state="reserved", reason="NotEnoughResources", message=message
    )
    make_event(group, "queue resource quota insufficient", at=hours(1))
    (row,) = waiting(now=hours(5), team_ids=None)
    assert (row.cause, row.message_source, row.message) == ("model", "condition", message)


def test_queues_and_checks_explain_what_the_work_does_not() -> None:
    cluster = make_cluster()
    for name, reason in (("held-cq", "Stopped"), ("broken-cq", "FlavorNotFound")):
        make_object(
            cluster,
            "ClusterQueue",
            name,
            status={
                "conditions": {"Active": {"status": "False", "reason": reason, "message": "", "since": None}}
            },
        )
        local_queue(cluster, "ml", name[:-3], name)
    make_object(
        cluster, "AdmissionCheck", "nodes", spec={"controller": "kueue.x-k8s.io/provisioning-request"}
    )
    make_work(
        cluster, "held", queue_name="held", reason="Inadmissible", message="ClusterQueue held-cq is inactive"
    )
    make_work(
        cluster,
        "broken",
        queue_name="broken",
        reason="Inadmissible",
        message="ClusterQueue broken-cq is inactive",
    )
    check = {"name": "nodes", "state": "Pending", "message": "", "since": None, "retry_after_seconds": None}
    make_work(cluster, "nodes", state="reserved", reason="", message="nodes: Pending", checks=[check])
    causes = {row.name: row.cause for row in waiting(now=hours(5), team_ids=None)}
    assert causes == {"held": "held", "broken": "configuration", "nodes": "scale_up"}


def test_a_queue_under_a_cycle_of_cohorts_is_broken_not_stopped() -> None:
    cluster = make_cluster()
    for name, parent in (
        ("a", "b"),
        ("b", "a"),
        ("loop", "loop"),
        ("top", ""),
        ("leaf", "top"),
        ("below", "a"),
    ):
        make_object(cluster, "Cohort", name, spec={"parent": parent})
    inactive = {"a": True, "loop": True, "below": True, "leaf": False, "unmade": False, "": False}
    for cohort in inactive:
        make_object(cluster, "ClusterQueue", f"in-{cohort}", spec={"cohort": cohort})
        local_queue(cluster, "ml", f"to-{cohort}", f"in-{cohort}")
        make_work(
            cluster, f"w-{cohort}", queue_name=f"to-{cohort}", message=f"ClusterQueue in-{cohort} is inactive"
        )
    found = {row.name.removeprefix("w-"): row.verdict.rule for row in waiting(now=T0, team_ids=None)}
    assert found == {name: "queue-broken" if loops else "queue-inactive" for name, loops in inactive.items()}


def test_counts_keep_kinds_of_units_apart() -> None:
    cluster = make_cluster()
    make_work(cluster, "a")
    make_work(cluster, "b", requests={"nvidia.com/mig-1g.10gb": "3", "memory": "1000"})
    make_work(cluster, "c", reason="", message="")
    counts = reason_counts(now=hours(5), team_ids=None)
    assert [(c.key, c.label, c.count, dict(c.asked)) for c in counts] == [
        ("Pending", "Pending", 2, {"nvidia.com/gpu": Decimal(8), "nvidia.com/mig-1g.10gb": Decimal(3)}),
        (NO_REASON, "no reason given", 1, {"nvidia.com/gpu": Decimal(8)}),
    ]


def test_a_row_that_vanishes_between_two_reads_is_left_out() -> None:
    cluster = make_cluster()
    make_work(cluster, "stays")
    work = make_work(cluster, "goes")
    rows = waiting(now=hours(5), team_ids=None)
    work.delete()
    assert [row.name for row in rows[0:10]] == ["stays"]


def test_the_form_refuses_unknown_names_alike() -> None:
    cluster, ours = make_cluster(), make_team("ours")
    make_team("theirs")
    bind(ours, cluster, "team-a")
    form = WaitingForm(
        {"team": "ours", "cluster": "east", "cause": "quota", "by": "cause"}, now=T0, team_ids=[ours.pk]
    )
    assert form.is_valid()
    assert form.criteria == Criteria(team="ours", cluster="east", cause="quota")
    assert form.grouping == "cause"
    assert form.time_window.length == timedelta(days=7)
    for team in ("theirs", "no-such-team", UNBOUND):
        refused = WaitingForm({"team": team}, now=T0, team_ids=[ours.pk])
        assert not refused.is_valid()
        assert refused.errors.as_data()["team"][0].code == "not_found"
    assert WaitingForm({"team": "theirs"}, now=T0).is_valid()
    assert WaitingForm({"team": UNBOUND}, now=T0).is_valid()
    wrong = WaitingForm({"cluster": "nowhere", "cause": "bad luck", "kind": "Job", "window": "x"}, now=T0)
    assert set(wrong.errors) == {"cluster", "cause", "kind", "window"}


def test_a_span_that_is_missing_falls_back_to_our_first_sight() -> None:
    cluster = make_cluster()
    work = make_work(cluster, "a", observed_at=hours(2))
    make_span(work, start=hours(0), end=hours(1))
    (row,) = waiting(now=hours(5), team_ids=None)
    assert row.since == hours(2)
