"""Findings about sight, queues and waiting work: what is said, to whom, in which order."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import translation

from apps.admissions.tests.builders import (
    bind,
    hours,
    local_queue,
    make_cluster,
    make_object,
    make_team,
    make_work,
)
from apps.findings.demand import queue_findings, waiting_findings
from apps.findings.rows import Finding, duration, some_names
from apps.findings.selectors import findings
from apps.findings.sources import source_findings
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, Quarantine, Source, SourceState

pytestmark = pytest.mark.django_db
NOW = hours(48)
NEVER = (
    "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor h100, previously"
    " considered podsets requests (0) + current podset request (64) > maximum capacity (16)"
)


def healthy(cluster: Cluster, *sources: str) -> None:
    for source in sources or Source.values:
        SourceState.objects.create(
            cluster=cluster,
            source=source,
            presence="installed",
            last_outcome="ok",
            last_run_at=NOW,
            last_ok_at=NOW,
        )


def said(found: Any) -> list[tuple[str, str]]:
    return [(item.severity, item.text) for item in found]


def test_a_healthy_quiet_cluster_has_no_finding() -> None:
    cluster = make_cluster()
    healthy(cluster)
    assert findings(now=NOW, clusters=[cluster], team_ids=[]) == []


def test_sources_that_fail_or_age() -> None:
    cluster = make_cluster(prometheus_url="http://127.0.0.1:9")
    healthy(cluster)
    states = {state.source: state for state in SourceState.objects.all()}
    changes: dict[str, dict[str, Any]] = {
        "nodes": {
            "last_outcome": "failed",
            "error_kind": "unreachable",
            "last_ok_at": NOW - timedelta(hours=3),
        },
        "pods": {"last_outcome": "failed", "error_kind": "forbidden", "last_ok_at": None},
        "kueue": {"last_ok_at": NOW - timedelta(minutes=10), "last_run_at": NOW - timedelta(minutes=10)},
        "dcgm": {"last_outcome": "partial", "error_kind": "bad_values"},
        "volcano": {"presence": "absent"},
    }
    for source, fields in changes.items():
        for name, value in fields.items():
            setattr(states[source], name, value)
        states[source].save()
    Quarantine.objects.create(
        cluster=cluster,
        source="events",
        kind="Event",
        key="k",
        error="x",
        raw=b"",
        first_seen_at=NOW,
        last_seen_at=NOW,
    )
    found = list(source_findings(now=NOW, clusters=[cluster]))
    assert said(found) == [
        (
            "bad",
            "East: reading Nodes fails, the numbers are 3 hours old. The address does not accept connections.",
        ),
        ("bad", "East: reading Pods fails, nothing was read yet. Our account may not read this."),
        ("warn", "East: 1 object of Events could not be read and is left out."),
        ("warn", "East: the numbers of Kueue are 10 minutes old."),
        (
            "warn",
            "East: only a part of Prometheus / DCGM was read. Some of the answer could not be used, or it had nothing that the portal reads.",
        ),
    ]
    assert [item.args["source"] for item in found] == ["nodes", "pods", "events", "kueue", "dcgm"]
    assert len({item.key for item in found}) == 5


def inactive(cluster: Cluster, name: str, reason: str, message: str) -> None:
    active = {"status": "False", "reason": reason, "message": message, "since": hours(1).isoformat()}
    cell = {"name": "nvidia.com/gpu", "nominal": "8", "borrowing_limit": None, "lending_limit": None}
    group = {"covered": ["nvidia.com/gpu"], "flavors": [{"name": "h100", "resources": [cell]}]}
    spec = {"namespace_selector": {}, "resource_groups": [group]}
    make_object(cluster, "ClusterQueue", name, spec=spec, status={"conditions": {"Active": active}})


def test_broken_and_stopped_queues_for_those_who_see_them() -> None:
    cluster, direct, through = make_cluster(), make_team("direct"), make_team("through")
    inactive(cluster, "broken", "FlavorNotFound", "references missing ResourceFlavor(s): h200.")
    inactive(cluster, "stopped", "Stopped", "is stopped.")
    make_object(
        cluster,
        "ClusterQueue",
        "fine",
        status={"conditions": {"Active": {"status": "True", "reason": "Ready"}}},
    )
    make_object(cluster, "VolcanoQueue", "closed", status={"state": "Closed"})
    local_queue(cluster, "ml", "main", "broken")
    bind(direct, cluster, "stopped")
    bind(through, cluster, "ml", "namespace")

    def texts(team_ids: list[int] | None) -> list[tuple[str, str]]:
        return said(queue_findings(now=NOW, clusters=[cluster], team_ids=team_ids))

    broken = ("bad", "Queue broken of East is broken: references missing ResourceFlavor(s): h200.")
    stopped = ("note", "Queue stopped of East is stopped: it lets nothing in.")
    closed = ("note", "Queue closed of East is stopped: it lets nothing in.")
    assert texts(None) == [broken, stopped, closed]
    assert texts([direct.pk]) == [stopped]
    assert texts([through.pk]) == [broken]
    assert texts([]) == []


def test_waiting_work_that_needs_somebody() -> None:
    cluster, other, team = make_cluster(), make_cluster("west"), make_team("vision")
    bind(team, cluster, "team-a")
    local_queue(cluster, "ml", "main", "team-a")
    make_work(cluster, "recent", queued_at=NOW - timedelta(hours=23))
    make_work(cluster, "day", queued_at=NOW - timedelta(hours=30))
    make_work(cluster, "days", queued_at=NOW - timedelta(days=3))
    make_work(cluster, "too-big", queued_at=NOW - timedelta(minutes=5), message=NEVER)
    make_work(cluster, "lost", message="LocalQueue x doesn't exist", queue_name="x", queued_at=NOW)
    make_work(cluster, "odd", message="never heard of this", queued_at=NOW)
    make_work(other, "elsewhere", queued_at=NOW - timedelta(days=9))
    found = list(waiting_findings(now=NOW, clusters=[cluster], team_ids=None))
    assert sorted(said(found)) == [
        (
            "note",
            "1 workload of Vision waits for a reason that no rule knows.",
        ),
        ("warn", "1 workload of Vision asks for more than its queue can ever give."),
        ("warn", "1 workload of no team waits because of a mistake in its configuration."),
        ("warn", "2 workloads of Vision have waited for more than a day, the longest for 3 days."),
    ]
    longest = next(item for item in found if item.key == "waiting-long/vision")
    assert (longest.since, longest.count, longest.args) == (NOW - timedelta(days=3), 2, {"team": "vision"})
    assert list(waiting_findings(now=NOW, clusters=[cluster], team_ids=[])) == []


def test_a_lead_hears_of_the_own_teams_and_of_sources_only() -> None:
    cluster, ours, theirs = make_cluster(), make_team("ours"), make_team("theirs")
    healthy(cluster, "nodes", "pods", "events", "volcano")
    bind(ours, cluster, "team-a")
    bind(theirs, cluster, "team-b")
    inactive(cluster, "team-a", "Ready", "")
    ClusterObject.objects.update(status={})
    make_object(cluster, "ResourceFlavor", "h100")
    local_queue(cluster, "ml", "a", "team-a")
    local_queue(cluster, "ml", "b", "team-b")
    for queue in ("a", "b"):
        make_work(cluster, f"{queue}-1", queue_name=queue, message=NEVER, queued_at=NOW)
    inactive(cluster, "team-b", "FlavorNotFound", "x")
    SourceState.objects.create(
        cluster=cluster,
        source="kueue",
        last_outcome="failed",
        error_kind="timeout",
        last_run_at=NOW,
        last_ok_at=NOW,
    )
    found = findings(now=NOW, clusters=[cluster], team_ids=[ours.pk])
    assert [item.key for item in found] == ["source-failed/east/kueue", "waiting-never/ours"]


def test_order_is_severity_then_age() -> None:
    cluster, team = make_cluster(), make_team("vision")
    healthy(cluster)
    bind(team, cluster, "stopped")
    bind(team, cluster, "broken")
    bind(team, cluster, "ml", "namespace")
    local_queue(cluster, "ml", "main", "stopped")
    local_queue(cluster, "ml", "other", "broken")
    make_object(cluster, "ResourceFlavor", "h100")
    inactive(cluster, "stopped", "Stopped", "")
    inactive(cluster, "broken", "FlavorNotFound", "x")
    make_work(cluster, "b", message=NEVER, queued_at=NOW - timedelta(hours=1))
    make_work(cluster, "a", queued_at=NOW - timedelta(hours=47))
    found = findings(now=NOW, clusters=[cluster], team_ids=[team.pk])
    assert [item.severity for item in found] == ["bad", "warn", "warn", "note"]
    assert [item.key for item in found[1:3]] == ["waiting-long/vision", "waiting-never/vision"]


def test_the_number_of_queries_does_not_grow_with_what_waits(django_assert_max_num_queries: Any) -> None:
    cluster = make_cluster()
    for index in range(5):
        make_work(cluster, f"w{index}", message=f"LocalQueue q{index} doesn't exist", queue_name=f"q{index}")
        inactive(cluster, f"q{index}", "FlavorNotFound", "x")
    with django_assert_max_num_queries(15):
        assert len(findings(now=NOW, team_ids=[])) == 0
    with django_assert_max_num_queries(20):
        assert list(waiting_findings(now=NOW, clusters=[cluster], team_ids=None))
        assert len(list(queue_findings(now=NOW, clusters=[cluster], team_ids=None))) == 5


def test_words_for_lengths_and_lists() -> None:
    assert [duration(seconds) for seconds in (5, 3600, 86400, 86400 * 2, 86400 * 30)] == [
        "1 minute",
        "1 hour",
        "24 hours",
        "2 days",
        "30 days",
    ]
    assert some_names(["a", "b", "c"]) == "a, b, c"
    assert some_names(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_findings_read_in_the_active_language() -> None:
    cluster = make_cluster()
    make_work(cluster, "odd", message="never heard of this", queued_at=NOW)
    with translation.override("zh-hans"):
        (found,) = waiting_findings(now=NOW, clusters=[cluster], team_ids=None)
    assert isinstance(found, Finding)
    assert type(found.text) is str
    assert "%(" not in found.text
