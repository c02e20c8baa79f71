"""Objects as an API server serves them, through parsers, tables and hours: what each kind of case holds, worked out by hand. The golden
month has these cases together; here each stands alone."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from apps.admissions.tests.builders import bind, hours, local_queue, make_cluster, make_team, make_work
from apps.fleet.models import Cluster
from apps.observations.models import Workload
from apps.observations.services import Target, apply_changes
from apps.observations.staging import Change
from apps.usage.allocation_rollup import rollup_allocation
from apps.usage.models import AllocationHour
from worker.parsers.kinds import KINDS, decode_list, page_rows

from .golden import written

pytestmark = pytest.mark.django_db
GPU = "nvidia.com/gpu"
TEN_SECONDS = 10 / 3600


def served(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def true(kind: str, at: float) -> dict[str, str]:
    return {
        "type": kind,
        "status": "True",
        "reason": kind,
        "message": "",
        "lastTransitionTime": served(hours(at)),
    }


def held(basis: str) -> dict[str, Decimal]:
    """Unit-seconds by team, "" for nobody's."""
    found: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in AllocationHour.objects.filter(basis=basis, seen="observed").select_related("team"):
        found[row.team.slug if row.team else ""] += row.unit_seconds
    return dict(found)


# ---- pods -----------------------------------------------------------------------------------------------------------


def container(cards: int, restart: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {"name": "c", "resources": {"limits": {GPU: str(cards)}}}
    return {**found, "restartPolicy": restart} if restart else found


SIDECAR = container(1, "Always")


def pod(spec: dict[str, Any], start: float, end: float, **status: Any) -> dict[str, Any]:
    ended = {"name": "c", "state": {"terminated": {"exitCode": 0, "finishedAt": served(hours(end))}}}
    return {
        "metadata": {"uid": "p", "name": "p", "namespace": "ml", "creationTimestamp": served(hours(start))},
        "spec": {"nodeName": "n1", **spec},
        "status": {
            "phase": "Succeeded", "conditions": [true("PodScheduled", start)], "containerStatuses": [ended], **status,
        },
    }  # fmt: skip


def pod_held(item: dict[str, Any]) -> Decimal:
    """What a pod held that was listed when it was over, in a cluster that was watched before."""
    cluster = make_cluster()
    make_work(cluster, "waits")
    bind(make_team("red"), cluster, "ml", kind="namespace")
    written(cluster, "Pod", [item], hours(3))
    rollup_allocation(cluster=cluster, now=hours(4))
    return held("pod").get("red", Decimal(0))


@pytest.mark.parametrize(
    ("containers", "init", "cards"),
    [
        ([container(2), container(1)], [], 3),  # they run beside each other
        (
            [container(2)],
            [container(4), container(3)],
            4,
        ),  # one after the other, before the rest: the largest
        ([container(2)], [container(1)], 2),  # the init container fits into what runs later
        ([container(2)], [SIDECAR], 3),  # it stays beside the container
        ([container(2)], [SIDECAR, container(4)], 5),  # the init container runs beside the sidecar
        ([container(2)], [container(4), SIDECAR], 4),  # the sidecar comes when the init container is over
        ([container(1), container(1)], [SIDECAR, container(1), SIDECAR], 4),  # 1 + 1 and two sidecars
    ],
)
def test_init_containers_and_sidecars(
    containers: list[dict[str, Any]], init: list[dict[str, Any]], cards: int
) -> None:
    """max(init containers with the sidecars before them, all containers + sidecars), for an hour and a half."""
    spec = {"containers": containers, "initContainers": init}
    assert pod_held(pod(spec, 1, 2.5)) == cards * 5400


def test_a_pod_of_ten_seconds() -> None:
    assert pod_held(pod({"containers": [container(2)]}, 1, 1 + TEN_SECONDS)) == 20


def test_what_a_claim_serves_is_not_held_twice() -> None:
    """The pod asks for two cards and a claim serves them: the claim holds, not the request."""
    mapped = [{"containerName": "c", "resourceName": GPU, "requestName": "r"}]
    status = {"resourceClaimName": "p-extended", "requestMappings": mapped}
    item = pod({"containers": [container(2)]}, 1, 2.5, extendedResourceClaimStatus=status)
    assert pod_held(item) == 0


# ---- work -----------------------------------------------------------------------------------------------------------


def workload(
    count: int, admitted: int, conditions: list[dict[str, str]], reclaimed: int = 0
) -> dict[str, Any]:
    """`count` pods of two cards are asked for, `admitted` of them were given quota, `reclaimed` are over."""
    request = {"containers": [container(2)]}
    assigned = {
        "name": "main", "count": admitted, "flavors": {GPU: "h100"}, "resourceUsage": {GPU: str(2 * admitted)},
    }  # fmt: skip
    return {
        "metadata": {"uid": "w", "name": "w", "namespace": "ml", "creationTimestamp": served(hours(0))},
        "spec": {
            "queueName": "main",
            "podSets": [{"name": "main", "count": count, "minCount": 1, "template": {"spec": request}}],
        },
        "status": {
            "admission": {"clusterQueue": "qa", "podSetAssignments": [assigned]},
            "conditions": conditions,
            "reclaimablePods": [{"name": "main", "count": reclaimed}] if reclaimed else [],
        },
    }


def saw(cluster: Cluster, *versions: tuple[float, dict[str, Any]]) -> None:
    """What a watch told, each version at its hour."""
    kind, changes = KINDS["Workload"], []
    for at, item in versions:
        body = json.dumps({"metadata": {}, "items": [item]}).encode()
        rows, bad = page_rows(kind, decode_list(kind, kind.versions[0], body))
        assert not bad
        changes += [Change(hours(at), False, row) for row in rows]
    target = Target(Workload, kind.name, kind.columns)
    _written, rejected = apply_changes(cluster_id=cluster.pk, target=target, changes=changes)
    assert not rejected


def cluster_with_queue() -> Cluster:
    cluster = make_cluster()
    local_queue(cluster, "ml", "main", "qa")
    return cluster


def running(at: float) -> list[dict[str, str]]:
    return [true("QuotaReserved", at), true("Admitted", at)]


def test_a_job_of_ten_seconds() -> None:
    """Four pods of two cards."""
    cluster = cluster_with_queue()
    bind(make_team("red"), cluster, "qa")
    over = 1.5 + TEN_SECONDS
    saw(
        cluster,
        (1.5, workload(4, 4, running(1.5))),
        (over, workload(4, 4, [*running(1.5), true("Finished", over)])),
    )
    rollup_allocation(cluster=cluster, now=hours(4))
    assert held("reserved") == {"red": 80}


def test_partial_admission_holds_what_was_admitted() -> None:
    """Five of eight pods: ten cards for two hours, not sixteen."""
    cluster = cluster_with_queue()
    bind(make_team("red"), cluster, "qa")
    saw(cluster, (1, workload(8, 5, running(1))), (3, workload(8, 5, [*running(1), true("Finished", 3)])))
    rollup_allocation(cluster=cluster, now=hours(4))
    assert held("reserved") == {"red": 10 * 7200}


def test_reclaimable_pods_hold_nothing_any_more() -> None:
    """Ten cards for an hour, then two of five pods are over: six cards for half an hour."""
    cluster = cluster_with_queue()
    bind(make_team("red"), cluster, "qa")
    saw(
        cluster,
        (1, workload(5, 5, running(1))),
        (2, workload(5, 5, running(1), reclaimed=2)),
        (2.5, workload(5, 5, [*running(1), true("Finished", 2.5)], reclaimed=2)),
    )
    rollup_allocation(cluster=cluster, now=hours(4))
    assert held("reserved") == {"red": 10 * 3600 + 6 * 1800}


def test_a_moved_binding_moves_what_is_held_from_then_on() -> None:
    """Two cards for two hours; after half an hour the queue becomes the other team's, in the end nobody's."""
    cluster = cluster_with_queue()
    bind(make_team("red"), cluster, "qa", valid_to=hours(1.5))
    bind(make_team("blue"), cluster, "qa", valid_from=hours(1.5), valid_to=hours(2.75))
    saw(cluster, (1, workload(1, 1, running(1))), (3, workload(1, 1, [*running(1), true("Finished", 3)])))
    rollup_allocation(cluster=cluster, now=hours(4))
    assert held("reserved") == {"red": 2 * 1800, "blue": 2 * 4500, "": 2 * 900}
