"""Every cause is provoked in a real cluster, and the work's page and REST twin name the one that was provoked.

The table was written before the first run: what was done → layer, cause, and words that the answer must hold. It runs
alone, with objects of its own prefix, and takes them away."""

from __future__ import annotations

import html
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException

from apps.accounts.models import User
from apps.admissions.labels import verdict_sentence
from apps.admissions.unmade import SETTLED, unmade
from apps.fleet.models import Cluster

from .access import require_cluster
from .conftest import Pull
from .stage import GATED_BY, PRODUCT, RACK, Stage, conditions, until

require_cluster()
pytestmark = [pytest.mark.cluster, pytest.mark.django_db]
ALONE = True
REQUIRED = "kueue.x-k8s.io/podset-required-topology"


@dataclass(frozen=True, slots=True)
class Expected:
    """`words`: in the sentence; `said`: what the cluster itself must have said before it is read."""

    layer: str
    cause: str
    words: tuple[str, ...]
    said: str = ""


# {job or pod: expectation}. "{p}" is the prefix of the run.
WORK = {
    "quota": Expected("admission", "quota", ("3 more nvidia.com/gpu", "{p}-plain"), "insufficient unused"),
    "ceiling": Expected(
        "admission", "quota", ("more nvidia.com/gpu", "ever give", "{p}-plain"), "insufficient quota"
    ),
    "affinity": Expected("admission", "model", ("does not match", "{p}-plain"), "affinity"),
    "taint": Expected("admission", "model", ("does not tolerate", "{p}-tainted"), "taint"),
    "uncovered": Expected("admission", "model", ("does not offer amd.com/gpu",), "amd.com/gpu"),
    "stopped": Expected("admission", "held", ("held on purpose",), "stopped"),
    "no-cluster-queue": Expected("admission", "configuration", ("{p}-nowhere",), "ClusterQueue"),
    "no-local-queue": Expected("admission", "configuration", ("{p}-absent",), "LocalQueue"),
    "namespace": Expected("admission", "configuration", ("namespace",), "selector"),
    "broken": Expected("admission", "configuration", ("FlavorNotFound",), "inactive"),
    "topology": Expected("admission", "topology", ("topology", "1 out of 3"), "topology"),
    "victim": Expected("admission", "quota", ("evicted", "Preempted to accommodate")),
    "preemptor": Expected("admission", "quota", ("2 more nvidia.com/gpu", "{p}-plain"), "preemption"),
    "check-waits": Expected("admission", "held", ("admission check",)),
    "check-refused": Expected("admission", "held", ("admission check", "{p}-budget")),
    "deactivated": Expected("admission", "held", ("deactivated",)),
    "no-room": Expected("placement", "capacity", ("1 nodes have too few free nvidia.com/gpu",)),
    "selector": Expected("placement", "model", ("do not match the selector",)),
    "too-large": Expected("placement", "capacity", ("too large for each of the 1 nodes",)),
    "gated": Expected("placement", "held", ("gate",)),
}
PHASES = {
    "quota": "queued", "stopped": "held", "topology": "queued", "victim": "evicted", "preemptor": "queued",
    "check-waits": "reserved", "check-refused": "held", "deactivated": "held", "no-room": "unplaced", "gated": "gated",
}  # fmt: skip
PODS = ("no-room", "selector", "too-large", "gated")


@pytest.fixture(scope="module")
def stage(writer: ApiClient, kueue: str) -> Iterator[Stage]:
    made = Stage(writer, kueue)
    try:
        made.open()
        made.node("n1", model="card", gpus=16, rack="r1")
        made.node("n2", model="row", gpus=4, rack="r2")
        made.node("n3", model="row", gpus=4, rack="r2")
        made.node("n4", model="full", gpus=2, rack="r3")
        if not made.nodes_are_ready():
            pytest.skip("nothing in this cluster keeps fake nodes alive")
        _queues(made)
        yield made
    except ApiException as error:
        if error.status in (403, 405):
            pytest.skip(f"this cluster lets nobody provoke anything: {error.reason}")
        raise
    finally:
        made.clear()


def _queues(stage: Stage) -> None:
    nodes = {"nodeLabels": {PRODUCT: stage.name("card")}}
    levels = [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]
    stage.make("Topology", "racks", {"levels": levels})
    stage.make("ResourceFlavor", "plain", nodes)
    stage.make(
        "ResourceFlavor",
        "close",
        {"nodeLabels": {PRODUCT: stage.name("row")}, "topologyName": stage.name("racks")},
    )
    taint = {"key": "portal-test/apart", "value": "yes", "effect": "NoSchedule"}
    stage.make("ResourceFlavor", "tainted", {**nodes, "nodeTaints": [taint]})
    stage.make("WorkloadPriorityClass", "high", value=1000, description="of a test")
    stage.make("AdmissionCheck", "budget", {"controllerName": "portal-test/budget"})
    stage.activate_check("budget")
    checks = {"admissionChecks": [{"name": stage.name("budget")}]}
    preempt = {"withinClusterQueue": "LowerPriority"}
    foreign = {"matchLabels": {"portal-test": "another"}}
    stage.queue("main", flavor="plain", gpus=4)
    stage.queue("preempt", flavor="plain", gpus=2, preemption=preempt)
    stage.queue("life", flavor="plain", gpus=2, preemption=preempt)
    stage.queue("ready", flavor="plain", gpus=1)
    stage.queue("gate", flavor="plain", gpus=1)
    stage.queue("tainted", flavor="tainted", gpus=4)
    stage.queue("stopped", flavor="plain", gpus=4, stopPolicy="Hold")
    stage.queue("foreign", flavor="plain", gpus=4, namespaceSelector=foreign)
    stage.queue("broken", flavor="missing", gpus=4)
    stage.queue("close", flavor="close", gpus=100)
    stage.queue("checked", flavor="plain", gpus=4, admissionChecksStrategy=checks)
    stage.make("LocalQueue", "ghost", {"clusterQueue": stage.name("nowhere")})
    stage.job("never-ready", queue="ready", model="card", annotations={"rig.test/start-delay": "1h"})


@pytest.fixture
def reader(db: None) -> Client:
    client = Client(headers={"Accept-Language": "en"})
    client.force_login(User.objects.create_user("admin", password=None, role=User.Role.PLATFORM_ADMIN))
    return client


def uid_for(stage: Stage, owner: str) -> str:
    work = until(lambda: stage.workload(owner), f"{owner} has its Workload")
    return str(work["metadata"]["uid"])


def explained(reader: Client, uid: str) -> dict[str, Any]:
    """The REST answer, after the page was seen to hold the same sentence and action."""
    answer: Any = reader.get(f"/api/v1/workloads/{uid}/explanation/")
    assert answer.status_code == 200, uid
    found: dict[str, Any] = answer.json()["result"]
    page: Any = reader.get(f"/workloads/{uid}/")
    assert page.status_code == 200, uid
    text = " ".join(html.unescape(page.content.decode()).split())
    assert " ".join(found["sentence"].split()) in text
    assert " ".join(found["action"].split()) in text
    return found


def has(stage: Stage, owner: str, kind: str, status: str = "True", reason: str = "") -> dict[str, Any] | None:
    """The condition of the work, when it stands so."""
    found = conditions(stage.workload(owner) or {}).get(kind)
    if found is None or found["status"] != status:
        return None
    return found if reason in found["reason"] else None


def says(stage: Stage, owner: str, text: str) -> bool:
    reserved = conditions(stage.workload(owner) or {}).get("QuotaReserved") or {}
    return text.lower() in reserved.get("message", "").lower() and reserved.get("status") == "False"


def unscheduled(stage: Stage, pod: str) -> bool:
    found: Any = stage.core.read_namespaced_pod(pod, stage.namespace)
    return any(c.type == "PodScheduled" and c.status == "False" for c in found.status.conditions or ())


def running(stage: Stage, pod: str) -> bool:
    found: Any = stage.core.read_namespaced_pod(pod, stage.namespace)
    return bool(found.status.phase == "Running")


def _provoke(stage: Stage) -> dict[str, str]:
    """{name: uid} of everything in WORK, once the cluster has said what it has to say."""
    stage.job("holder", queue="main", gpus=3, model="card")
    stage.job("victim", queue="preempt", gpus=2, model="card", manager="portal-test/nobody")
    stage.pod("fills", gpus=2, model="full")
    until(lambda: has(stage, "holder", "Admitted"), "holder is admitted")
    until(lambda: has(stage, "victim", "Admitted"), "the victim is admitted")
    stage.stays_active("victim")
    until(lambda: running(stage, "fills"), "the node is full")
    stage.job("quota", queue="main", gpus=4, model="card")
    stage.job("ceiling", queue="main", pods=2, gpus=4, model="card")
    stage.job("affinity", queue="main", model="other")
    stage.job("taint", queue="tainted", model="card")
    stage.job("uncovered", queue="main", resource="amd.com/gpu")
    stage.job("stopped", queue="stopped")
    stage.job("no-cluster-queue", queue="ghost")
    stage.job("no-local-queue", queue="absent")
    stage.job("namespace", queue="foreign")
    stage.job("broken", queue="broken")
    stage.job("topology", queue="close", pods=3, gpus=4, annotations={REQUIRED: "kubernetes.io/hostname"})
    stage.job("preemptor", queue="preempt", priority="high", gpus=2, model="card")
    stage.job("check-waits", queue="checked", model="card")
    stage.job("check-refused", queue="checked", model="card")
    stage.job("deactivated", queue="main", gpus=4, model="card")
    for pod, model, gpus in (("no-room", "full", 1), ("selector", "other", 1), ("too-large", "full", 64)):
        stage.pod(pod, gpus=gpus, model=model)
    uids = {"gated": stage.pod("gated", model="full", gates=["portal-test/wait"])}
    refused(stage, "check-refused")
    until(lambda: has(stage, "check-waits", "QuotaReserved"), "check-waits holds its quota")
    work = until(lambda: stage.workload("deactivated"), "deactivated has its Workload")
    stage.patch_workload(work["metadata"]["name"], {"spec": {"active": False}})
    until(lambda: has(stage, "deactivated", "Evicted", reason="Deactivated"), "deactivated is taken out")
    until(lambda: refused(stage, "check-refused"), "check-refused is taken out")
    until(lambda: has(stage, "victim", "Evicted", reason="Preempted"), "the victim is preempted")
    for name, expected in WORK.items():
        if expected.said:
            until(lambda n=name, t=expected.said: says(stage, n, t), f"{name}: {expected.said}")  # type: ignore[misc]
    for pod in PODS:
        until(lambda p=pod: unscheduled(stage, p), f"the scheduler spoke of {pod}")  # type: ignore[misc]
        uids[pod] = str(stage.core.read_namespaced_pod(pod, stage.namespace).metadata.uid)
    return {name: uids.get(name) or uid_for(stage, name) for name in WORK}


def refused(stage: Stage, name: str) -> bool:
    """Whether its check's refusal has taken the work out; said again while it has not."""
    if has(stage, name, "Evicted"):
        return True
    stage.answer_check(name, "Rejected", "the cost center is over its budget")
    return False


def collect(pull: Pull) -> datetime:
    """One pull of everything; when it was over. Borders of a life lie between the cluster's own time and this one."""
    for source in ("nodes", "kueue", "pods", "events", "devices"):
        assert pull(source).outcome == "ok", source
    return timezone.now()


def test_every_cause_that_is_provoked_is_the_one_on_the_page(
    stage: Stage, cluster: Cluster, pull: Pull, reader: Client
) -> None:
    uids = _provoke(stage)
    collect(pull)
    found = {name: explained(reader, uid) for name, uid in uids.items()}
    causes = {name: (answer["layer"], answer["cause"]) for name, answer in found.items()}
    assert causes == {name: (expected.layer, expected.cause) for name, expected in WORK.items()}
    assert {name: found[name]["phase"] for name in PHASES} == PHASES
    unsaid = {
        name: (found[name]["sentence"], word)
        for name, expected in WORK.items()
        for word in (text.replace("{p}", stage.prefix) for text in expected.words)
        if word.lower() not in found[name]["sentence"].lower()
    }
    assert unsaid == {}
    assert all(answer["action"] for answer in found.values())


def test_work_that_is_never_made_is_explained_by_its_owners_event(
    stage: Stage, cluster: Cluster, pull: Pull
) -> None:
    uid = stage.job("no-class", queue="main", priority="no-such-class")
    until(lambda: stage.events_about(uid) or None, "the owner was told why")
    assert stage.workload("no-class") is None
    collect(pull)
    later = timezone.now() + SETTLED
    (row,) = [row for row in unmade(now=later, team_ids=None) if row.uid == uid]
    assert (row.verdict.layer, row.cause) == ("admission", "configuration")
    assert "WorkloadPriorityClass" in verdict_sentence(row.verdict)


def test_work_behind_an_admission_gate_is_held_until_the_gate_is_gone(
    stage: Stage, cluster: Cluster, pull: Pull, reader: Client
) -> None:
    """The queue has room, so that only the gate can be what holds it. Where the feature is off, Kueue does not look at
    the annotation and lets the work in."""
    stage.job("behind-a-gate", queue="gate", model="card", gate="portal-test/approval")
    work = until(
        lambda: (
            (found := stage.workload("behind-a-gate"))
            and (found.get("status") or {}).get("conditions")
            and found
        ),
        "Kueue has looked at it",
    )
    if GATED_BY not in (work["metadata"].get("annotations") or {}):
        pytest.skip(
            "this cluster's Kueue has no feature AdmissionGatedBy, or it is off (as by default in 0.17)"
        )
    until(
        lambda: has(stage, "behind-a-gate", "QuotaReserved", "False", "AdmissionGated"), "the gate holds it"
    )
    collect(pull)
    uid = uid_for(stage, "behind-a-gate")
    held = explained(reader, uid)
    assert (held["phase"], held["layer"], held["cause"]) == ("gated", "admission", "held")
    assert "portal-test/approval" in held["sentence"]
    assert held["action"]
    stage.open_gate("behind-a-gate")
    until(lambda: has(stage, "behind-a-gate", "Admitted"), "it is admitted once the gate is gone")
    until(lambda: _pod_of(stage, "behind-a-gate"), "its pod runs")
    collect(pull)
    runs = explained(reader, uid)
    assert (runs["phase"], runs["cause"], runs["action"]) == ("running", "", "")
    assert _phases(runs) == ["gated", "running"]


def at(condition: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(condition["lastTransitionTime"])


def test_a_life_with_a_preemption_is_that_of_the_clusters_own_conditions(
    stage: Stage, cluster: Cluster, pull: Pull, reader: Client
) -> None:
    """Queued, admitted, preempted, queued again, admitted again: read while it happens, as the portal does."""
    stage.job("before", queue="life", gpus=2, model="card")
    until(lambda: has(stage, "before", "Admitted"), "before is admitted")
    stage.job("lives", queue="life", gpus=2, model="card")
    until(lambda: says(stage, "lives", "insufficient unused"), "lives has to wait")
    collect(pull)
    time.sleep(1)
    stage.batch.delete_namespaced_job("before", stage.namespace, propagation_policy="Background")
    first = until(lambda: has(stage, "lives", "Admitted"), "lives is admitted")
    until(lambda: _pod_of(stage, "lives"), "its pod runs")
    pulls = [collect(pull)]
    urgent = stage.job("urgent", queue="life", priority="high", gpus=2, model="card")
    evicted = until(lambda: has(stage, "lives", "Evicted", reason="Preempted"), "lives is preempted")
    released = until(lambda: has(stage, "lives", "QuotaReserved", "False"), "lives gave its quota back")
    until(lambda: has(stage, "urgent", "Admitted"), "urgent is admitted")
    until(lambda: says(stage, "lives", "insufficient unused"), "lives was looked at again")
    urgent_work = uid_for(stage, "urgent")
    pulls.append(collect(pull))
    uid = uid_for(stage, "lives")
    waits = explained(reader, uid)
    assert (waits["phase"], waits["layer"], waits["cause"]) == ("queued", "admission", "quota")
    stage.batch.delete_namespaced_job("urgent", stage.namespace, propagation_policy="Background")
    again = until(lambda: has(stage, "lives", "Admitted"), "lives is admitted again")
    until(lambda: _pod_of(stage, "lives"), "its pod runs again")
    pulls.append(collect(pull))
    life = explained(reader, uid)
    assert (life["phase"], life["cause"], life["action"]) == ("running", "", "")
    assert _phases(life) == PHASES_OF_A_PREEMPTED_LIFE
    assert [attempt["number"] for attempt in life["attempts"]] == [1, 2]
    one, two = life["attempts"]
    for said, border, seen_at in (
        (first, one["began_at"], pulls[0]),
        (released, one["ended_at"], pulls[1]),
        (again, two["began_at"], pulls[2]),
    ):
        assert at(said) <= datetime.fromisoformat(border) <= seen_at
    assert [wait["which"] for wait in life["waits"]] == ["first", "again"]
    (eviction,) = life["evictions"]
    assert (eviction["reason"], eviction["preemption"]["why"]) == (
        "EvictedDueToPreempted",
        "prioritization in the ClusterQueue",
    )
    assert f"(UID: {urgent_work}, JobUID: {urgent})" in eviction["message"]
    assert abs((datetime.fromisoformat(eviction["at"]) - at(evicted)).total_seconds()) <= 1
    ends = [
        (a["ended_at"], b["started_at"])
        for a, b in zip(life["stretches"], life["stretches"][1:], strict=False)
    ]
    assert all(end == begin for end, begin in ends)


# Stretches shorter than the second in which the cluster counts time may be missing from it.
PHASES_OF_A_PREEMPTED_LIFE = ["queued", "running", "queued", "running"]
BRIEF = frozenset({"reserved", "unplaced", "starting", "evicted"})


def _phases(life: dict[str, Any]) -> list[str]:
    """In order, without the brief ones and neighbours of one phase joined."""
    found: list[str] = []
    for stretch in life["stretches"]:
        if stretch["phase"] not in BRIEF and found[-1:] != [stretch["phase"]]:
            found.append(stretch["phase"])
    return found


def _pod_of(stage: Stage, job: str) -> bool:
    pods: Any = stage.core.list_namespaced_pod(stage.namespace, label_selector=f"job-name={job}").items
    return any(pod.status.phase == "Running" and not pod.metadata.deletion_timestamp for pod in pods)


def test_pods_that_are_never_ready_are_said_to_be_it(
    stage: Stage, cluster: Cluster, pull: Pull, reader: Client
) -> None:
    """Begun with the stage; the cluster waits for its own timeout."""
    if not conditions(until(lambda: stage.workload("never-ready"), "never-ready is queued")).get("PodsReady"):
        pytest.skip("this cluster's Kueue does not wait for pods to be ready")
    until(
        lambda: (
            has(stage, "never-ready", "Evicted", reason="PodsReadyTimeout")
            or has(stage, "never-ready", "Evicted", reason="Deactivated")
        ),
        "the timeout has passed",
        90,
    )
    collect(pull)
    found = explained(reader, uid_for(stage, "never-ready"))
    assert (found["layer"], found["cause"]) == ("placement", "startup")
    assert "PodsReady timeout" in found["sentence"] or "requeuing" in found["sentence"]
    assert found["action"]
