"""How long findings last: they appear, stay, vanish and come back; what nobody can see has not ended."""

from __future__ import annotations

from datetime import datetime

import pytest

from apps.admissions.tests.builders import (
    bind,
    hours,
    local_queue,
    make_cluster,
    make_object,
    make_team,
    make_work,
)
from apps.findings.models import FindingSpan
from apps.findings.selectors import findings
from apps.findings.services import drop_old_spans, note_findings
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, Source, SourceState

pytestmark = pytest.mark.django_db
KEY = "quota/local_queue_nowhere/east/LocalQueue/ml/main"


def read(cluster: Cluster, at: datetime) -> None:
    """Every source was pulled well at this time."""
    for source in Source.values:
        SourceState.objects.update_or_create(
            cluster=cluster,
            source=source,
            defaults={"presence": "installed", "last_outcome": "ok", "last_run_at": at, "last_ok_at": at},
        )


def spans() -> list[tuple[datetime, datetime, datetime | None]]:
    found = FindingSpan.objects.filter(key=KEY).order_by("first_seen_at")
    return list(found.values_list("first_seen_at", "last_seen_at", "ended_at"))


def goes(at: datetime) -> None:
    ClusterObject.objects.filter(kind="LocalQueue").update(gone_at=at)


def test_appears_stays_vanishes_and_returns() -> None:
    cluster = make_cluster()
    read(cluster, hours(1))
    local_queue(cluster, "ml", "main", "nowhere")
    assert note_findings(now=hours(1)) == 1
    assert spans() == [(hours(1), hours(1), None)]
    read(cluster, hours(2))
    note_findings(now=hours(2))
    note_findings(now=hours(2))
    assert spans() == [(hours(1), hours(2), None)]
    (found,) = findings(now=hours(2), clusters=[cluster])
    assert (found.first_seen, found.last_seen, found.started) == (hours(1), hours(2), hours(1))
    goes(hours(3))
    read(cluster, hours(3))
    assert note_findings(now=hours(3)) == 0
    assert spans() == [(hours(1), hours(2), hours(3))]
    ClusterObject.objects.update(gone_at=None)
    read(cluster, hours(4))
    (found,) = findings(now=hours(4), clusters=[cluster])
    assert (found.first_seen, found.last_seen) == (None, None)  # not noted yet
    note_findings(now=hours(4))
    assert spans() == [(hours(1), hours(2), hours(3)), (hours(4), hours(4), None)]


def test_what_vanishes_while_its_source_is_not_read_has_not_ended() -> None:
    cluster = make_cluster()
    read(cluster, hours(1))
    local_queue(cluster, "ml", "main", "nowhere")
    note_findings(now=hours(1))
    goes(hours(2))
    note_findings(now=hours(2))  # the last pull is an hour old
    assert spans() == [(hours(1), hours(1), None)]
    read(cluster, hours(3))
    SourceState.objects.filter(source="events").update(last_ok_at=hours(1))  # not what it rests on
    note_findings(now=hours(3))
    assert spans() == [(hours(1), hours(1), hours(3))]


def test_a_cluster_no_longer_collected_has_no_findings() -> None:
    cluster = make_cluster()
    read(cluster, hours(1))
    local_queue(cluster, "ml", "main", "nowhere")
    note_findings(now=hours(1))
    Cluster.objects.update(enabled=False)
    note_findings(now=hours(2))
    assert spans() == [(hours(1), hours(1), hours(2))]


def test_only_what_ended_long_ago_is_dropped() -> None:
    cluster = make_cluster()
    read(cluster, hours(1))
    local_queue(cluster, "ml", "main", "nowhere")
    note_findings(now=hours(1))
    assert drop_old_spans(now=hours(24 * 4000)) == 0
    goes(hours(2))
    read(cluster, hours(2))
    note_findings(now=hours(2))
    assert drop_old_spans(now=hours(3)) == 0
    assert drop_old_spans(now=hours(24 * 4000)) == 1


def test_a_lead_hears_of_the_own_queues_and_never_the_name_of_another() -> None:
    cluster = make_cluster()
    red, blue = make_team("red"), make_team("blue")
    bind(red, cluster, "red-q")
    bind(blue, cluster, "blue-q")
    bind(red, cluster, "red-child", "volcano_queue")
    for name, parent in (("left", "right"), ("right", "left")):
        make_object(cluster, "Cohort", name, spec={"parent": parent})
    for name, cohort in (("red-q", "left"), ("blue-q", "right")):
        make_object(cluster, "ClusterQueue", name, spec={"cohort": cohort, "namespace_selector": None})
    make_object(
        cluster, "VolcanoQueue", "blue-parent", spec={"capability": {"cpu": "1"}}, status={"state": "Closed"}
    )
    make_object(
        cluster, "VolcanoQueue", "red-child", spec={"parent": "blue-parent", "capability": {"cpu": "2"}}
    )
    mine = findings(now=hours(1), clusters=[cluster], team_ids=[red.pk])
    quota = [item for item in mine if item.key.startswith("quota/")]
    assert [item.text for item in quota if "circle" in item.text] == [
        "The cohorts above queue red-q of East form a circle: Kueue skips it."
    ]
    assert {item.code for item in quota} == {"never_admits", "volcano_children_over_parent"}
    for item in quota:
        said = (item.text, item.args, item.objects)
        assert "blue" not in repr(said)
        assert "right" not in repr(said)
    everything = findings(now=hours(1), clusters=[cluster])
    assert any("blue-q" in item.text for item in everything)
    assert any("left → right → left" in item.text for item in everything)
    assert [
        item for item in findings(now=hours(1), clusters=[cluster], team_ids=[]) if item.code != "source"
    ] == [
        item
        for item in findings(now=hours(1), clusters=[cluster], team_ids=[])
        if item.key.startswith("source-")
    ]


def test_every_finding_says_why_and_what_to_do() -> None:
    cluster = make_cluster()
    make_object(cluster, "ClusterQueue", "q", spec={"namespace_selector": None})
    make_object(cluster, "VolcanoQueue", "v", spec={"parent": "gone"})
    local_queue(cluster, "ml", "main", "nowhere")
    found = findings(now=hours(1), clusters=[cluster])
    assert len(found) == 5  # q: no selector, no ceiling, nothing leads to it; v: no parent; main: no queue
    assert [item.key for item in found if not (item.why and item.advice)] == []


def test_work_too_large_for_a_shared_queue_is_told_to_its_team_only() -> None:
    cluster = make_cluster()
    teams = {slug: make_team(slug) for slug in ("red", "blue")}
    cell = {"name": "nvidia.com/gpu", "nominal": "8", "borrowing_limit": None, "lending_limit": None}
    group = {"covered": ["nvidia.com/gpu"], "flavors": [{"name": "h100", "resources": [cell]}]}
    make_object(
        cluster, "ClusterQueue", "shared", spec={"namespace_selector": {}, "resource_groups": [group]}
    )
    make_object(cluster, "ResourceFlavor", "h100")
    for slug, team in teams.items():
        bind(team, cluster, f"{slug}-lq", "local_queue", namespace="ml")
        local_queue(cluster, "ml", f"{slug}-lq", "shared")
        pods = [{"name": "main", "count": 9, "min_count": None, "requests": {"nvidia.com/gpu": "1"}}]
        make_work(cluster, f"{slug}-big", queue_name=f"{slug}-lq", pod_sets=pods, message="")
    # With at least 8 of 9 pods it fits: not told.
    pods = [{"name": "main", "count": 9, "min_count": 8, "requests": {"nvidia.com/gpu": "1"}}]
    make_work(cluster, "red-partial", queue_name="red-lq", pod_sets=pods, message="")

    def told(team_ids: list[int] | None) -> list[tuple[str, tuple[str, ...]]]:
        found = findings(now=hours(1), clusters=[cluster], team_ids=team_ids)
        large = [item for item in found if item.code == "larger_than_ceiling"]
        return [(item.text, tuple(ref.name for ref in item.objects)) for item in large]

    def line(slug: str) -> tuple[str, tuple[str, ...]]:
        text = (
            f"{slug}-big in queue shared of East asks for more nvidia.com/gpu than the queue can ever give."
        )
        return text, ("shared", f"{slug}-lq", f"{slug}-big")

    assert told([teams["red"].pk]) == [line("red")]
    assert told([teams["blue"].pk]) == [line("blue")]
    assert sorted(told(None)) == [line("blue"), line("red")]
    keys = [item.key for item in findings(now=hours(1), clusters=[cluster])]
    assert len(keys) == len(set(keys))
