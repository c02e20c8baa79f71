"""A month of what a large fleet held, written straight into the database: what charging is measured on.

200 teams in 60 ClusterQueues over 12 kinds of units; lengths from seconds to days (log-normal, median 15 minutes), some
queues with less quota than they use, one rate card. Each piece of work held quota twice: it was evicted once. The same
numbers give the same month."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
END = datetime(2026, 12, 1, tzinfo=UTC)
NOW = END + timedelta(hours=6)
TEAMS, QUEUES = 200, 60
FLAVORS_OF_A_QUEUE = 3
SLUG = "bench-month"
SHORTEST, LONGEST = 5.0, 5 * 86400.0
BLOCK = 20_000


@dataclass(frozen=True)
class Kind:
    """A flavor and what a unit of it is. `cards`: whole cards a unit, as a fraction."""

    flavor: str
    resource: str
    model: str
    mode: str
    profile: str
    cards: tuple[int, int]
    price: str


_GPU = "nvidia.com/gpu"
KINDS = (
    Kind("b200", _GPU, "NVIDIA B200", "exclusive", "", (1, 1), "6.25"),
    Kind("h200", _GPU, "NVIDIA H200", "exclusive", "", (1, 1), "4.1"),
    Kind("h100-sxm", _GPU, "NVIDIA H100 80GB HBM3", "exclusive", "", (1, 1), "3.2"),
    Kind("h100-pcie", _GPU, "NVIDIA H100 PCIe", "exclusive", "", (1, 1), "2.75"),
    Kind("a100-80", _GPU, "NVIDIA A100-SXM4-80GB", "exclusive", "", (1, 1), "1.9"),
    Kind("a100-40", _GPU, "NVIDIA A100-SXM4-40GB", "exclusive", "", (1, 1), "1.45"),
    Kind("l40s", _GPU, "NVIDIA L40S", "exclusive", "", (1, 1), "1.1"),
    Kind("l4", _GPU, "NVIDIA L4", "exclusive", "", (1, 1), "0.55"),
    Kind("l4-slices", "nvidia.com/gpu.shared", "NVIDIA L4", "time-slicing", "", (1, 4), "0.15"),
    Kind("mig-small", "nvidia.com/mig-1g.10gb", "NVIDIA H100 80GB HBM3", "mig", "1g.10gb", (1, 7), "0.5"),
    Kind("mig-large", "nvidia.com/mig-3g.40gb", "NVIDIA H100 80GB HBM3", "mig", "3g.40gb", (1, 2), "1.55"),
    Kind("mi300x", "amd.com/gpu", "AMD Instinct MI300X", "exclusive", "", (1, 1), "2.9"),
)  # fmt: skip
_QUANTITIES, _QUANTITY_WEIGHTS = (1, 2, 4, 8, 16, 64), (40, 15, 15, 22, 6, 2)
_CLASSES, _CLASS_WEIGHTS = ("", "batch", "urgent"), (80, 14, 6)

_SPANS = """COPY observations_statespan (cluster_id, kind, uid, namespace, name, queue_name, queue, state, reason, message,
  requests, usage, started_at, ended_at) FROM STDIN"""
_WORKLOADS = """COPY observations_workload (cluster_id, kind, uid, namespace, name, resource_version, labels, created_at,
  first_seen_at, observed_at, gone_at, state, reason, message, queue_name, cluster_queue, priority_class, owner_kind,
  owner_name, owner_uid, active, pod_sets, requests, usage, conditions, checks, evictions) FROM STDIN"""


def kinds_of_queue(queue: int) -> list[Kind]:
    return [KINDS[(queue + step * 5) % len(KINDS)] for step in range(FLAVORS_OF_A_QUEUE)]


def queue_of_team(team: int) -> int:
    return team % QUEUES


def write_month(spells: int) -> None:
    """`spells` times that something was held, on a cluster of its own, and all that they are judged and priced by."""
    from django.db import connection

    from apps.fleet.models import Cluster

    cluster = Cluster.objects.create(slug=SLUG, name="Bench", kubeconfig_path="/nowhere", enabled=True)
    _write_surroundings(cluster, spells)
    _write_rates()
    for statement, rows in ((_WORKLOADS, _work_rows), (_SPANS, _span_rows)):
        lines = rows(cluster.pk, spells)
        while block := "".join(islice(lines, BLOCK)):
            with connection.cursor() as cursor, cursor.copy(statement) as copy:
                copy.write(block)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


# ---- work -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    number: int
    team: int
    kind: Kind
    quantity: int
    priority_class: str
    held: tuple[tuple[float, float], ...]


def _work(spells: int) -> Iterator[Work]:
    draw = random.Random(7)
    month = (END - BEGIN).total_seconds()
    for number in range(spells // 2):
        # A few teams hold much, many hold little.
        team = int(TEAMS * draw.random() ** 1.5)
        start = draw.random() * (month - 7200)
        first = min(_length(draw), (month - start) / 3)
        again = start + first + 30 + draw.random() * 600
        yield Work(
            number,
            team,
            draw.choice(kinds_of_queue(queue_of_team(team))),
            draw.choices(_QUANTITIES, _QUANTITY_WEIGHTS)[0],
            draw.choices(_CLASSES, _CLASS_WEIGHTS)[0],
            ((start, start + first), (again, min(again + _length(draw), month))),
        )


def _length(draw: random.Random) -> float:
    return min(max(draw.lognormvariate(6.8, 1.8), SHORTEST), LONGEST)


def _at(seconds: float) -> str:
    return (BEGIN + timedelta(seconds=seconds)).isoformat()


def _names(one: Work) -> tuple[str, str, str]:
    """uid, namespace, queue."""
    return (
        f"7c0de{one.number:07d}-4b1d-4f6e-9a53",
        f"team-{one.team:03d}",
        f"queue-{queue_of_team(one.team):02d}",
    )


def _span_rows(cluster: int, spells: int) -> Iterator[str]:
    for one in _work(spells):
        uid, namespace, queue = _names(one)
        usage = f'[{{"flavor": "{one.kind.flavor}", "resource": "{one.kind.resource}", "quantity": "{one.quantity}"}}]'
        asked = f'{{"{one.kind.resource}": "{one.quantity}", "cpu": "{8 * one.quantity}"}}'
        for start, end in one.held:
            yield (
                f"{cluster}\tWorkload\t{uid}\t{namespace}\tjob-train-{one.number}\tmain\t{queue}\tadmitted\tAdmitted\t\t"
                f"{asked}\t{usage}\t{_at(start)}\t{_at(end)}\n"
            )


def _work_rows(cluster: int, spells: int) -> Iterator[str]:
    for one in _work(spells):
        uid, namespace, queue = _names(one)
        start, end = _at(one.held[0][0]), _at(one.held[-1][1])
        yield (
            f"{cluster}\tWorkload\t{uid}\t{namespace}\tjob-train-{one.number}\t\t{{}}\t{start}\t{start}\t{end}\t{end}\t"
            f"finished\tSucceeded\t\tmain\t{queue}\t{one.priority_class}\tJob\ttrain-{one.number}\tjob-{one.number}\tt\t"
            "[]\t{}\t[]\t{}\t[]\t1\n"
        )


# ---- what it is judged and priced by --------------------------------------------------------------------------------


def _write_surroundings(cluster: Any, spells: int) -> None:
    """Teams with their queues and quotas; every third queue has less quota than it uses at busy times."""
    from apps.accounts.models import Team
    from apps.fleet.models import TeamBinding
    from apps.observations.models import Presence, Source, SourceState
    from apps.quotas.models import QuotaPoint
    from apps.usage.models import UnitSeen

    teams = Team.objects.bulk_create(
        Team(slug=f"bench-{n:03d}", name=f"Team {n}", cost_centre=f"CC-{n // 4:03d}") for n in range(TEAMS)
    )
    long_ago = BEGIN - timedelta(days=100)
    TeamBinding.objects.bulk_create(
        TeamBinding(team=team, cluster=cluster, kind="namespace", name=f"team-{n:03d}", valid_from=long_ago)
        for n, team in enumerate(teams)
    )
    UnitSeen.objects.bulk_create(
        UnitSeen(
            cluster=cluster, basis="reserved", on=kind.flavor, resource=kind.resource, model=kind.model,
            sharing_mode=kind.mode, profile=kind.profile, weight_over=kind.cards[0], weight_under=kind.cards[1],
            seen_from=BEGIN,
        )
        for kind in KINDS
    )  # fmt: skip
    # Units that a queue holds of one flavor at a time, on average, of a million spells.
    held = Decimal(45) * spells / 1_000_000
    QuotaPoint.objects.bulk_create(
        QuotaPoint(
            cluster=cluster, at=BEGIN, kind="ClusterQueue", queue=f"queue-{queue:02d}", flavor=kind.flavor,
            resource=kind.resource, nominal=round(held * (Decimal("1.2") if queue % 3 == 0 else 100)),
        )
        for queue in range(QUEUES)
        for kind in kinds_of_queue(queue)
    )  # fmt: skip
    SourceState.objects.create(
        cluster=cluster, source=Source.KUEUE, presence=Presence.INSTALLED, last_ok_at=NOW
    )


def _write_rates() -> None:
    from apps.accounts.models import User
    from apps.chargeback.models import RatePrice, RateVersion
    from apps.chargeback.rate_cards import publish

    admin = User.objects.create(username="bench-finance", role=User.Role.FINANCE)
    version = RateVersion.objects.create(
        valid_from=BEGIN - timedelta(days=30),
        borrowed_factor=Decimal("0.8"),
        priority_factors={"batch": "0.5", "urgent": "1.5"},
    )
    RatePrice.objects.bulk_create(
        RatePrice(
            version=version, model=kind.model, sharing_mode=kind.mode, profile=kind.profile, amount=kind.price
        )
        for kind in KINDS
    )
    publish(version.pk, by=admin, now=BEGIN)
