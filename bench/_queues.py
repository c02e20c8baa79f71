"""A cluster of many queues, as specs and in the database. Input: a number of queues; output: nodes, rows.

Ten departments at most, of ten teams each, of ten queues each for a thousand; every queue lists 8 flavors × 3
resources. The same number gives the same cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.quotas.tree import Cell, FlavorResource, QuotaNode

GPU = "nvidia.com/gpu"
RESOURCES = {GPU: 8, "cpu": 64, "memory": 512 * 2**30}
FLAVORS = tuple(f"flavor-{number}" for number in range(8))
TEAM, DEPARTMENT = 10, 100  # queues of each
WORK_OF_A_QUEUE = 10
BATCH = 2000


def queue_name(number: int) -> str:
    return f"research-queue-{number:04d}"


def cells(number: int) -> dict[FlavorResource, Cell]:
    """Every third queue may borrow 4 units of each; every fifth lends at most 8."""
    return {
        (flavor, resource): Cell(
            Decimal(amount * (1 + (number + place) % 7)),
            None if number % 3 else Decimal(4),
            None if number % 5 else Decimal(8),
        )
        for place, flavor in enumerate(FLAVORS)
        for resource, amount in RESOURCES.items()
    }


def quota_nodes(queues: int) -> list[QuotaNode]:
    found = [
        QuotaNode(queue_name(number), "ClusterQueue", f"team-{number // TEAM:03d}", cells(number))
        for number in range(queues)
    ]
    return found + [
        QuotaNode(f"team-{team:03d}", "Cohort", f"department-{team * TEAM // DEPARTMENT}", {})
        for team in range(queues // TEAM)
    ]


def held(queues: int) -> dict[str, dict[FlavorResource, Decimal]]:
    """Every other queue holds its whole quota and a little more of each flavor, the others nothing."""
    return {
        queue_name(number): {cell: quota.nominal + 2 for cell, quota in cells(number).items()}
        for number in range(0, queues, 2)
    }


# ---- in the database ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Written:
    cluster: Any
    team: Any
    queues: int


def _spec(number: int) -> dict[str, Any]:
    found = cells(number)
    flavors = [
        {
            "name": flavor,
            "resources": [
                {
                    "name": resource,
                    "nominal": str(found[flavor, resource].nominal),
                    "borrowing_limit": _text(found[flavor, resource].borrowing_limit),
                    "lending_limit": _text(found[flavor, resource].lending_limit),
                }
                for resource in RESOURCES
            ],
        }
        for flavor in FLAVORS
    ]
    groups = [{"covered": list(RESOURCES), "flavors": flavors}]
    return {"cohort": f"team-{number // TEAM:03d}", "resource_groups": groups, "stop_policy": "None"}


def _text(amount: Decimal | None) -> str | None:
    return None if amount is None else str(amount)


def _objects(queues: int) -> Iterator[dict[str, Any]]:
    active = {"conditions": {"Active": {"status": "True", "reason": "Ready", "message": "", "since": None}}}
    for flavor in FLAVORS:
        yield {"kind": "ResourceFlavor", "name": flavor, "spec": {"node_labels": {"flavor": flavor}}}
    for team in range(queues // TEAM):
        parent = f"department-{team * TEAM // DEPARTMENT}"
        spec = {"parent": parent, "resource_groups": []}
        yield {"kind": "Cohort", "name": f"team-{team:03d}", "spec": spec}
    for number in range(queues):
        name = queue_name(number)
        yield {"kind": "ClusterQueue", "name": name, "spec": _spec(number), "status": active}
        yield {
            "kind": "LocalQueue",
            "namespace": f"team-{number // TEAM:03d}",
            "name": name,
            "spec": {"cluster_queue": name},
        }


def _work(queues: int) -> Iterator[dict[str, Any]]:
    """Seven of ten admitted, three waiting."""
    for number in range(queues * WORK_OF_A_QUEUE):
        name, turn = queue_name(number // WORK_OF_A_QUEUE), number % WORK_OF_A_QUEUE
        asked = {GPU: "1", "cpu": "8", "memory": str(64 * 2**30)}
        flavor = FLAVORS[turn % len(FLAVORS)]
        admitted = turn < 7
        usage = [{"flavor": flavor, "resource": key, "quantity": amount} for key, amount in asked.items()]
        yield {
            "kind": "Workload",
            "namespace": f"team-{number // WORK_OF_A_QUEUE // TEAM:03d}",
            "name": f"work-{number}",
            "queue_name": name,
            "cluster_queue": name,
            "state": "admitted" if admitted else "pending",
            "usage": usage if admitted else [],
            "requests": asked,
        }


def write_queues(slug: str, queues: int, *, now: datetime) -> Written:
    """A cluster with these queues, ten pieces of work each, and a team that owns the first ten."""
    from apps.accounts.models import Team
    from apps.fleet.models import Cluster, TeamBinding
    from apps.observations.models import ClusterObject, Source, SourceState, Workload

    cluster = Cluster.objects.create(slug=slug, name=slug)
    team = Team.objects.create(slug=f"{slug}-team", name=f"{slug} team")
    common = {"cluster": cluster, "first_seen_at": now, "observed_at": now}
    objects = (
        ClusterObject(**common, **{"uid": f"object-{number}", **row})
        for number, row in enumerate(_objects(queues))
    )
    ClusterObject.objects.bulk_create(objects, batch_size=BATCH)
    work = (
        Workload(**common, created_at=now, queued_at=now, **{"uid": f"work-{number}", **row})
        for number, row in enumerate(_work(queues))
    )
    Workload.objects.bulk_create(work, batch_size=BATCH)
    TeamBinding.objects.bulk_create(
        TeamBinding(cluster=cluster, kind="cluster_queue", name=queue_name(number), team=team, valid_from=now)
        for number in range(TEAM)
    )
    for source in Source:
        SourceState.objects.create(
            cluster=cluster,
            source=source,
            presence="installed",
            last_run_at=now,
            last_ok_at=now,
            last_outcome="ok",
        )
    return Written(cluster, team, queues)


def remove_queues(written: Written) -> None:
    from apps.fleet.models import TeamBinding

    TeamBinding.objects.filter(cluster=written.cluster).delete()
    written.cluster.delete()
    written.team.delete()
