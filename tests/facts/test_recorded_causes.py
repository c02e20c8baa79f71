"""Every piece of provoked work in the recordings, with the cause that an honest reader concludes.

The first column of causes is the table of the recordings' own description. Where the waiting list cannot know it
from what is collected so far, `now` is what it says today, and `missing` why.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import NamedTuple

import pytest

from apps.admissions.selectors import By, Criteria, WaitingRow, reason_counts, waiting

from .recorded import collected

AT = datetime(2026, 12, 2, 3, 5, tzinfo=UTC)
KUEUE = [
    ("Node", "kueue/nodes.json"),
    ("ClusterQueue", "kueue/clusterqueues.json"),
    ("LocalQueue", "kueue/localqueues.json"),
    ("AdmissionCheck", "kueue/admissionchecks.json"),
    ("Workload", "kueue/workloads.json"),
    ("Pod", "kueue/pods.json"),
    ("Event", "kueue/events-core.json"),
    ("DeviceClass", "kueue/deviceclasses.json"),
    ("ResourceClaim", "kueue/resourceclaims.json"),
]
VOLCANO = [
    ("Node", "nodes.json"),
    ("VolcanoQueue", "queues.json"),
    ("PodGroup", "podgroups.json"),
    ("Pod", "pods.json"),
    ("Event", "events.json"),
]


class Work(NamedTuple):
    """`cause`: of the table; `now`: what is said today where it differs ("" = not in the waiting list)."""

    name: str
    cause: str
    rule: str
    now: str | None = None
    missing: str = ""


RUNS_AGAIN = "runs again when the list was taken; its preemption is in the past"
TRIES_AGAIN = "placed again and within its ready timeout when this list was taken; see the later list"
NO_WORKLOAD = "no Workload exists; needs the Job's events"

KUEUE_WORK = [
    Work("team-a/a-too-big", "quota", "exceeds-max"),
    Work("team-b/b-pend-1", "quota", "quota-unused"),
    Work("team-b/b-pend-2", "quota", "quota-unused"),
    Work("team-c/c-pend", "quota", "quota-unused"),
    Work("lab/lab-amd-2", "quota", "quota-unused"),
    Work("infer/infer-head-blocks", "quota", "quota-unused"),
    Work("team-b/b-pretrain", "quota", "", "", RUNS_AGAIN),
    Work("team-c/c-borrow", "quota", "quota-unused"),
    Work("team-a/a-no-flavor", "model", "flavor-affinity"),
    Work("team-b/b-spot-untolerated", "model", "flavor-affinity"),
    Work("lab/lab-mig-uncovered", "model", "resource-not-covered"),
    Work("team-a/tas-host-too-big", "topology", "topology-fit"),
    Work("team-a/tas-bad-level", "configuration", "topology-config"),
    Work("team-a/a-no-queue", "configuration", "queue-missing"),
    Work("team-b/b-ghost-cq", "configuration", "queue-missing"),
    Work("lab/lab-wrong-ns", "configuration", "namespace-selector"),
    Work("small/small-limitrange", "configuration", "limits"),
    Work("team-a/a-broken-cq", "configuration", "queue-broken"),
    Work("team-a/a-dead-check", "configuration", "queue-broken"),
    Work("team-c/c-unknown-prio", "configuration", "", "", NO_WORKLOAD),
    Work("team-a/a-held", "held", "queue-inactive"),
    Work("team-a/a-drain", "held", "queue-inactive"),
    Work("infer/infer-stopped-lq", "held", "queue-inactive"),
    Work("team-b/b-spot", "held", "deactivated"),
    Work("team-a/chk-retry", "held", "check-retry"),
    Work("team-a/chk-wait", "held", "check-pending"),
    Work("team-a/chk-reject", "held", "check-rejected"),
    Work("team-a/a-never-ready", "startup", "", "", TRIES_AGAIN),
    Work("team-a/a-max-exec", "held", "time-limit"),
    Work("lab/p-too-many-gpus", "capacity", "node-too-small"),
    Work("lab/dra-nine", "capacity", "dra-claims"),
    Work("lab/p-no-such-label", "model", "node-affinity"),
    Work("lab/p-taint", "model", "node-taint"),
    Work("lab/p-cordoned", "capacity", "node-out-of-use"),
    Work("lab/p-notready", "capacity", "node-out-of-use"),
    Work("lab/p-ascend-wait", "capacity", "insufficient-device"),
    Work("lab/dra-mig-3", "capacity", "dra-claims"),
    Work("lab/p-gated", "held", "scheduling-gated"),
    Work("infer/infer-behind-strict", "transient", "not-evaluated"),
]
LATER_WORK = [
    Work("team-a/a-never-ready", "startup", "ready-timeout"),
    Work("team-a/a-no-room", "startup", "ready-timeout"),
    Work("team-b/b-urgent", "startup", "ready-timeout"),
]
VOLCANO_WORK = [
    Work("nlp/llm-pretrain", "quota", "volcano-over-ceiling"),
    Work("speech/over-capability", "quota", "volcano-over-ceiling"),
    Work("vision/huge-cpu", "quota", "volcano-over-ceiling"),
    Work("batch/urgent", "quota", "volcano-quota"),
    Work("speech/wrong-model", "model", "node-affinity"),
    Work("nlp/tolerates-nothing", "model", "node-taint"),
    Work("nlp/orphan-group", "transient", "gang-no-tasks"),
]
IN_PROPORTION = [*VOLCANO_WORK, Work("vision/gang-too-big", "capacity", "insufficient-device")]
IN_CAPACITY = [
    *VOLCANO_WORK,
    Work("vision/gang-too-big", "quota", "volcano-over-ceiling"),
    Work("batch/vgpu-share", "capacity", "volcano-overused"),
]


def by_work(rows: list[WaitingRow]) -> dict[str, WaitingRow]:
    """Rows by namespace/name of the work: Kueue and Volcano put a prefix or suffix around the job's name."""
    return {f"{row.namespace}/{row.name}": row for row in rows}


def find(rows: dict[str, WaitingRow], name: str) -> WaitingRow | None:
    namespace, job = name.split("/")
    for prefix in ("job-", "pod-", ""):
        for key, row in rows.items():
            start = f"{namespace}/{prefix}{job}"
            rest = key[len(start) :]
            if key.startswith(start) and (not rest or (rest[0] == "-" and len(rest) in (6, 37))):
                return row
    return None


def check(rows: list[WaitingRow], table: list[Work]) -> None:
    named = by_work(rows)
    said = {}
    expected = {}
    for work in table:
        row = find(named, work.name)
        said[work.name] = (row.cause, row.verdict.rule) if row else ("", "")
        cause = work.cause if work.now is None else work.now
        assert (work.now is None) == (work.missing == ""), work.name
        expected[work.name] = (cause, work.rule)
    assert said == expected


@pytest.mark.django_db
def test_kueue_work_has_the_cause_that_was_provoked() -> None:
    collected("recorded", KUEUE, at=AT)
    rows = list(waiting(now=AT, team_ids=None, criteria=Criteria(deactivated=True)))
    check(rows, KUEUE_WORK)
    assert [row.message for row in rows if row.cause == "unknown"] == []


@pytest.mark.django_db
def test_pods_that_ask_through_claims_wait_for_devices_of_a_class() -> None:
    """Pods without any GPU among their requests; those whose claims were served do not wait."""
    collected("recorded", KUEUE, at=AT)
    rows = waiting(now=AT, team_ids=None, criteria=Criteria(kind="Pod"))
    asked = {row.name: row.asked for row in rows if row.name.startswith("dra-")}
    of_class = {
        pod: {name: amount for name, amount in amounts.items() if "/" in name}
        for pod, amounts in asked.items()
    }
    assert of_class == {
        "dra-nine": {"deviceclass/gpu.nvidia.com": Decimal(9)},
        "dra-mig-3": {"deviceclass/mig.nvidia.com": Decimal(1)},
    }


@pytest.mark.django_db
def test_kueue_work_that_was_given_up_later() -> None:
    collected("later", [*KUEUE[:4], ("Workload", "kueue/deactivated-workloads.json")], at=AT)
    check(list(waiting(now=AT, team_ids=None, criteria=Criteria(deactivated=True))), LATER_WORK)
    assert find(by_work(list(waiting(now=AT, team_ids=None))), "team-b/b-urgent") is None


@pytest.mark.django_db
def test_kueue_numbers_and_second_reasons_are_kept() -> None:
    collected("recorded", KUEUE, at=AT)
    rows = by_work(list(waiting(now=AT, team_ids=None)))
    too_big = find(rows, "team-a/a-too-big")
    assert too_big is not None
    assert [(p.flavor, p.resource, p.ceiling) for p in too_big.verdict.parts] == [
        ("a100", "nvidia.com/gpu", Decimal(24)),
        ("h100", "nvidia.com/gpu", Decimal(16)),
    ]
    assert too_big.devices == {"nvidia.com/gpu": Decimal(64)}
    pending = find(rows, "team-b/b-pend-1")
    assert pending is not None
    assert pending.verdict.primary is not None
    assert (pending.verdict.primary.needed, pending.verdict.primary.flavor) == (Decimal(16), "h100")
    assert [part.rule for part in pending.verdict.parts] == ["quota-unused", "flavor-taint"]
    assert (pending.queue_name, pending.queue) == ("main", "team-b-cq")


@pytest.mark.django_db
@pytest.mark.parametrize(("run", "table"), [("proportion", IN_PROPORTION), ("capacity", IN_CAPACITY)])
def test_volcano_work_has_the_cause_that_was_provoked(run: str, table: list[Work]) -> None:
    collected("recorded", [(kind, f"volcano-{run}/{file}") for kind, file in VOLCANO], at=AT)
    rows = list(waiting(now=AT, team_ids=None))
    check(rows, table)
    assert [row.message for row in rows if row.cause == "unknown"] == []
    quota = find(by_work(rows), "batch/urgent")
    assert quota is not None
    assert quota.message == "queue resource quota insufficient: insufficient nvidia.com/gpu"
    assert (quota.message_source, quota.queue) == ("event", "scratch")


@pytest.mark.django_db
def test_counts_add_up_to_the_list() -> None:
    collected("recorded", KUEUE, at=AT)
    everything = waiting(now=AT, team_ids=None)
    groupings: tuple[By, By] = ("reason", "cause")
    for by in groupings:
        counts = reason_counts(now=AT, team_ids=None, by=by)
        assert sum(count.count for count in counts) == len(everything) > 20
        for count in counts:
            criteria = Criteria(cause=count.key) if by == "cause" else Criteria(reason=count.key)
            assert len(waiting(now=AT, team_ids=None, criteria=criteria)) == count.count, count
