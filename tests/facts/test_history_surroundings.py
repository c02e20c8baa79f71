"""Work whose text misleads, in a cluster that changes: the past names the causes that the present named (tests/data/history/
surroundings.yaml, added up by hand), whoever computes it later."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import yaml

from apps.admissions.life_selectors import life_of_work
from apps.admissions.models import SurroundingsNote
from apps.admissions.noting import note_surroundings
from apps.admissions.selectors import Criteria, reason_series
from apps.core.partitions import keep_partitions
from apps.core.windows import Bucket, Window
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, Event, Node, Pod, StateSpan, Workload
from apps.observations.retention import drop_gone, partitioned_tables
from apps.usage import admission_rollup, reclassify
from apps.usage.admission_reading import AdmissionCriteria
from apps.usage.admission_rollup import compute_hours, rollup_admissions
from apps.usage.blocked import blocked_series
from apps.usage.blocked_work import blocked_work

from .by_hand import DATA, GPU

pytestmark = pytest.mark.django_db
D = Decimal
GIVEN: dict[str, Any] = yaml.safe_load((DATA / "surroundings.yaml").read_text())
EXPECTED: dict[str, Any] = GIVEN["expected"]
LOOKS: list[tuple[float, dict[str, Any]]] = GIVEN["looks"]


def at(hours: float) -> datetime:
    start: datetime = GIVEN["start"]
    return start + timedelta(hours=hours)


END = at(LOOKS[-1][0])
WINDOW = Window(at(0), END)


def lay() -> Cluster:
    keep_partitions(tables=partitioned_tables(), now=END)
    cluster = Cluster.objects.create(slug="north", name="North", kubeconfig_path="/nowhere")
    for name, (model, gpus, taint) in GIVEN["nodes"].items():
        Node.objects.create(
            cluster=cluster, uid=name, name=name, labels={"model": model}, capacity={GPU: str(gpus)},
            allocatable={GPU: str(gpus)}, taints=[{"key": taint, "effect": "NoSchedule"}],
            conditions={"Ready": {"status": "True"}}, first_seen_at=at(0), observed_at=at(0),
        )  # fmt: skip
    queue = GIVEN["queue"]
    ClusterObject.objects.create(
        cluster=cluster, kind="VolcanoQueue", uid="q", name=queue["name"], first_seen_at=at(0), observed_at=at(0),
        spec={"capability": {GPU: str(queue["capability"])}},
    )  # fmt: skip
    for name, (since, _placed, text, selector) in GIVEN["pods"].items():
        pod(cluster, name, since, text, selector)
    for name, (since, let_in, placed, gpus, text) in GIVEN["groups"].items():
        group(cluster, name, since, let_in, placed, gpus, GIVEN["texts"][text])
    for name, (admitted, text, selector) in GIVEN["jobs"].items():
        work = workload(cluster, name, "Workload", "admitted", 1, "", admitted, owner_uid=f"job-{name}")
        span(work, "admitted", admitted, None, "", "")
        pod(cluster, f"{name}-0", admitted, text, selector, owner_uid=f"job-{name}")
    return cluster


def pod(
    cluster: Cluster, name: str, since: float, text: str, selector: Mapping[str, str], **more: Any
) -> None:
    said = {"status": "False", "reason": "Unschedulable", "message": GIVEN["texts"][text]}
    Pod.objects.create(
        cluster=cluster, uid=name, namespace="ml", name=name, phase="Pending", requests={GPU: "1"}, devices=1,
        conditions={"PodScheduled": said}, placement={"node_selector": selector} if selector else {},
        created_at=at(since), first_seen_at=at(since), observed_at=at(since), **more,
    )  # fmt: skip
    Event.objects.create(
        cluster=cluster, uid=f"e-{name}", object_uid=name, created_at=at(since), first_at=at(since), last_at=at(since),
        observed_at=at(since), reason="FailedScheduling", message=said["message"],
    )  # fmt: skip


def workload(
    cluster: Cluster, name: str, kind: str, state: str, gpus: int, message: str, since: float, **more: Any
) -> Workload:
    return Workload.objects.create(
        cluster=cluster, kind=kind, uid=name, name=name, namespace="ml", state=state, message=message,
        reason="Unschedulable" if message else "", queue_name="research", requests={GPU: str(gpus)},
        pod_sets=[{"name": "main", "count": 1}], created_at=at(since), first_seen_at=at(since), observed_at=at(since),
        **more,
    )  # fmt: skip


def span(work: Workload, state: str, since: float, until: float | None, reason: str, message: str) -> None:
    StateSpan.objects.create(
        cluster=work.cluster, kind=work.kind, uid=work.uid, namespace="ml", name=work.name, queue_name="research",
        queue="research", state=state, reason=reason, message=message, requests=work.requests,
        started_at=at(since), ended_at=None if until is None else at(until),
    )  # fmt: skip


def group(
    cluster: Cluster,
    name: str,
    since: float,
    let_in: float | None,
    placed: float | None,
    gpus: int,
    text: str,
) -> None:
    work = workload(cluster, name, "PodGroup", "pending" if let_in is None else "reserved", gpus, text, since)
    if let_in is None:
        span(work, "pending", since, None, "Unschedulable", text)
        return
    span(work, "reserved", let_in, placed, "Unschedulable", text)
    span(work, "admitted", placed or 0, None, "", "")
    pod(cluster, f"{name}-0", let_in, "full", {}, pod_group=name)


def pass_until(when: float, cluster: Cluster, change: Mapping[str, Any]) -> None:
    """The cluster at the next look: work that was placed by then, and what the look finds changed."""
    placed = {name: row[1] for name, row in GIVEN["pods"].items() if row[1] is not None and row[1] <= when}
    placed |= {
        f"{name}-0": row[2] for name, row in GIVEN["groups"].items() if row[2] is not None and row[2] <= when
    }
    for name, hour in placed.items():
        since = at(hour).isoformat()
        conditions = {"PodScheduled": {"status": "True"}, "Ready": {"status": "True", "since": since}}
        Pod.objects.filter(uid=name).update(
            bound_at=at(hour), node_name="h100-1", phase="Running", placement={}, conditions=conditions
        )
        Workload.objects.filter(uid=name.removesuffix("-0"), kind="PodGroup").update(
            state="admitted", message=""
        )
    Node.objects.filter(cluster=cluster, name__in=change.get("untaint", ())).update(taints=[])


@pytest.fixture
def north() -> Cluster:
    """Looked at as it changes."""
    cluster = lay()
    for when, change in LOOKS:
        pods = Pod.objects.filter(created_at__gt=at(when))
        later = list(pods)
        pods.delete()
        pass_until(when, cluster, change)
        rollup_admissions(cluster=cluster, now=at(when))
        Pod.objects.bulk_create(later)
    return cluster


def totals() -> dict[str, Decimal]:
    return blocked_series(window=WINDOW, team_ids=None).totals


def said(name: str) -> dict[str, Decimal]:
    return {cause: D(hours) for cause, hours in EXPECTED[name].items()}


@pytest.mark.usefixtures("north")
def test_the_hours_say_what_was_said_while_it_waited() -> None:
    assert totals() == said("blocked_work_hours_by_cause")


@pytest.mark.usefixtures("north")
def test_the_list_behind_a_bar_and_the_chart_of_what_waits_say_the_same() -> None:
    behind: dict[str, Decimal] = {}
    for row in blocked_work(now=END, window=WINDOW, team_ids=None):
        for cause in row.causes:
            found = blocked_work(
                now=END, window=WINDOW, team_ids=None, criteria=AdmissionCriteria(cause=cause)
            )
            behind[cause] = sum((one.hours for one in found), D(0))
    assert behind == said("blocked_work_hours_by_cause")
    waited = reason_series(
        now=END,
        window=WINDOW,
        bucket=Bucket.HOUR,
        by="cause",
        team_ids=None,
        criteria=Criteria(kind="PodGroup"),
    )
    sums = {cause: sum(value for value in line if value is not None) for cause, line in waited.values.items()}
    assert sums == {"model": D(3), "quota": D(6)}


def test_a_change_within_an_hour_counts_from_when_it_was_seen(north: Cluster) -> None:
    by_hour: dict[str, list[Decimal]] = {}
    for hour in range(8):
        window = Window(at(hour), at(hour + 1))
        for cause in EXPECTED["of_p_taint_by_hour"]:
            rows = blocked_work(
                now=END,
                window=window,
                team_ids=None,
                criteria=AdmissionCriteria(cause=cause, cluster=north.slug),
            )
            mine = sum((row.hours for row in rows if row.uid == "p-taint"), D(0))
            by_hour.setdefault(cause, []).append(mine)
    assert by_hour == {
        cause: [D(hours) for hours in line] for cause, line in EXPECTED["of_p_taint_by_hour"].items()
    }


def test_one_piece_of_work_is_judged_in_its_past_as_it_was(north: Cluster) -> None:
    def causes(uid: str) -> list[tuple[str, str]]:
        life = life_of_work(cluster_id=north.pk, uid=uid, now=END)
        return [(each.phase, each.cause) for each in life.stretches if each.cause]

    assert causes("p-label") == [("unplaced", "model")]
    assert causes("p-quick") == [("unplaced", "capacity")]
    assert causes("gang") == [("unplaced", "model")]
    assert causes("job") == [("unplaced", "model")]
    [over] = life_of_work(cluster_id=north.pk, uid="over", now=END).stretches
    assert over.rule == EXPECTED["rule_of_over"]


def test_whoever_computes_it_again_keeps_the_judgement(
    north: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    Node.objects.all().delete()
    compute_hours(cluster=north, start=at(0), end=END, now=END)
    assert totals() == said("blocked_work_hours_by_cause")
    newer = type("Book", (), {"version": 9_999})
    for module in (admission_rollup, reclassify):
        monkeypatch.setattr(module, "rule_book", newer)
    assert reclassify.reclassify(cluster=north, now=END).until == END
    assert totals() == said("blocked_work_hours_by_cause")
    assert reclassify.moved_seconds(cluster=north) == []


def test_without_notes_the_texts_decide(north: Cluster) -> None:
    SurroundingsNote.objects.all().delete()
    compute_hours(cluster=north, start=at(0), end=END, now=END)
    assert totals() == said("by_texts_alone")


def test_only_what_changed_is_noted_and_what_nobody_can_ask_about_is_forgotten(north: Cluster) -> None:
    notes = {(note.uid, note.steps, tuple(note.over_ceiling)) for note in SurroundingsNote.objects.all()}
    # Of five steps: 2 is tainted, 1 is the wrong label, 5 is room when it is empty.
    assert notes == {
        ("p-taint", 2, ()), ("p-taint", 5, ()), ("p-label", 1, ()), ("gang", 2, ()), ("gang-0", 2, ()),
        ("job", 1, ()), ("job-0", 1, ()), ("over", None, (GPU,)),
    }  # fmt: skip
    assert note_surroundings(cluster=north, now=END) == 0
    count = SurroundingsNote.objects.count()
    late = END + timedelta(days=400)
    Pod.objects.update(gone_at=END)
    drop_gone(now=late)
    note_surroundings(cluster=north, now=late)
    assert {note.uid for note in SurroundingsNote.objects.all()} == {"gang", "job", "over"}
    assert SurroundingsNote.objects.count() < count
