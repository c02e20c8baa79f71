"""A small fleet as the collectors would have left it, and one person of each role.

`red` and `blue` are teams; `red_lead` and `blue_lead` lead one each; `viewer` belongs to red without leading it;
`guest` belongs to no team. Cluster `east` is collected and up to date, `west` is not collected any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.test import Client
from django.utils import timezone

from apps.accounts.models import Membership, Team, User
from apps.changes.models import ChangeRequest
from apps.changes.requests import Wanted
from apps.changes.services import create_request
from apps.chargeback.models import BillingPeriod, LedgerEntry, ProvisionalLine
from apps.chargeback.rate_cards import draft, publish
from apps.core.windows import DAY, HOUR, floor_hour
from apps.fleet.models import Cluster, TeamBinding
from apps.observations.models import (
    ClusterObject,
    Node,
    Outcome,
    Pod,
    Presence,
    Quarantine,
    Source,
    SourceState,
    StateSpan,
    Workload,
)
from apps.usage.models import ALLOCATION, AllocationDay, AllocationHour, UsageHour, Watermark

GPU = "nvidia.com/gpu"
ROLES = ("anonymous", "guest", "viewer", "red_lead", "blue_lead", "finance", "admin")


@dataclass
class World:
    now: datetime
    east: Cluster
    west: Cluster
    red: Team
    blue: Team
    users: dict[str, User] = field(default_factory=dict)

    def client(self, role: str) -> Client:
        client = Client(raise_request_exception=False)
        if role != "anonymous":
            client.force_login(self.users[role])
        return client


def make_world(*, charged: bool = True) -> World:
    """`charged`: with lines of the ledger, which nobody can delete, nor whom they name."""
    now = timezone.now()
    world = World(
        now=now,
        east=Cluster.objects.create(
            slug="east", name="East", kubeconfig_path="/etc/portal/secret-kubeconfig"
        ),
        west=Cluster.objects.create(slug="west", name="West", kubeconfig_path="/nowhere", enabled=False),
        red=Team.objects.create(slug="red", name="Red", cost_centre="CC-1"),
        blue=Team.objects.create(slug="blue", name="Blue", cost_centre="CC-2"),
    )
    world.users = _people(world)
    _bindings(world)
    _sources(world)
    _queues(world)
    _nodes(world)
    for name, team, state in (
        ("red-waits", "red", "pending"),
        ("red-runs", "red", "admitted"),
        ("blue-waits", "blue", "pending"),
        ("blue-runs", "blue", "admitted"),
        ("nobodys", "nobody", "pending"),
    ):
        workload(world, name, team=team, state=state)
    _usage(world)
    if charged:
        _charges(world)
    return world


def _people(world: World) -> dict[str, User]:
    users = {
        name: User(username=name, role=role, is_staff=name == "admin")
        for name, role in (
            ("guest", "viewer"),
            ("viewer", "viewer"),
            ("red_lead", "viewer"),
            ("blue_lead", "viewer"),
            ("finance", "finance"),
            ("admin", "platform_admin"),
        )
    }
    for user in users.values():
        user.set_unusable_password()
        user.save()
    for name, team, role in (
        ("viewer", world.red, "member"),
        ("red_lead", world.red, "lead"),
        ("blue_lead", world.blue, "lead"),
    ):
        Membership.objects.create(user=users[name], team=team, role=role)
    return users


def _bindings(world: World) -> None:
    start = world.now - timedelta(days=30)
    for team in (world.red, world.blue):
        TeamBinding.objects.create(
            team=team, cluster=world.east, kind="cluster_queue", name=f"{team.slug}-cq", valid_from=start
        )


def _sources(world: World) -> None:
    for source in Source.values:
        SourceState.objects.create(
            cluster=world.east,
            source=source,
            presence=Presence.INSTALLED,
            last_run_at=world.now,
            last_ok_at=world.now,
            last_outcome=Outcome.OK,
        )


def cluster_object(
    world: World, kind: str, name: str, *, namespace: str = "", **fields: Any
) -> ClusterObject:
    return ClusterObject.objects.create(
        cluster=world.east,
        uid=f"{kind}-{namespace}-{name}",
        kind=kind,
        namespace=namespace,
        name=name,
        first_seen_at=world.now,
        observed_at=world.now,
        created_at=world.now,
        **fields,
    )


def queue(world: World, team: str, nominal: str = "8") -> None:
    """A ClusterQueue `<team>-cq` and the LocalQueue `<team>-lq` of namespace `<team>-ns` that leads to it."""
    quota = {"name": GPU, "nominal": nominal, "borrowing_limit": None, "lending_limit": None}
    cluster_object(
        world,
        "ClusterQueue",
        f"{team}-cq",
        spec={
            "cohort": "all",
            "resource_groups": [{"covered": [GPU], "flavors": [{"name": "h100", "resources": [quota]}]}],
            "stop_policy": "None",
            "fair_weight": None,
            "checks": [],
        },
        status={
            "conditions": {"Active": {"status": "True", "reason": "Ready", "message": "", "since": None}}
        },
    )
    cluster_object(
        world,
        "LocalQueue",
        f"{team}-lq",
        namespace=f"{team}-ns",
        spec={"cluster_queue": f"{team}-cq"},
        status={},
    )


def _queues(world: World) -> None:
    cluster_object(
        world,
        "ResourceFlavor",
        "h100",
        spec={"node_labels": {"pool": "h100"}, "node_taints": [], "tolerations": [], "topology": ""},
    )
    for team in ("red", "blue"):
        queue(world, team)


def _nodes(world: World) -> None:
    labels = {"pool": "h100", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8"}
    for number in (1, 2):
        Node.objects.create(
            cluster=world.east,
            uid=f"node-{number}",
            name=f"gpu-{number}",
            labels={**labels, "kubernetes.io/hostname": f"gpu-{number}"},
            capacity={GPU: "8"},
            allocatable={GPU: "8"},
            conditions={"Ready": {"status": "True", "reason": "KubeletReady", "message": "", "since": None}},
            first_seen_at=world.now,
            observed_at=world.now,
            created_at=world.now,
        )
    for team in ("red", "blue"):
        Pod.objects.create(
            cluster=world.east,
            uid=f"pod-{team}",
            namespace=f"{team}-ns",
            name=f"{team}-pod",
            node_name="gpu-1",
            phase="Running",
            queue_name=f"{team}-lq",
            requests={GPU: "2"},
            devices=Decimal(2),
            bound_at=world.now,
            created_at=world.now,
            first_seen_at=world.now,
            observed_at=world.now,
        )


def workload(
    world: World, name: str, *, team: str = "red", state: str = "pending", **fields: Any
) -> Workload:
    held = state == "admitted"
    values: dict[str, Any] = {
        "uid": f"uid-{name}",
        "namespace": f"{team}-ns",
        "queue_name": f"{team}-lq",
        "cluster_queue": f"{team}-cq" if held else "",
        "reason": "" if held else "Pending",
        "message": ""
        if held
        else "couldn't assign flavors to pod set main: insufficient unused quota for "
        "nvidia.com/gpu in flavor h100, 4 more needed",
        "requests": {GPU: "4"},
        "usage": [{"flavor": "h100", "resource": GPU, "quantity": "4"}] if held else [],
        "queued_at": world.now - HOUR,
        "created_at": world.now - HOUR,
        "first_seen_at": world.now - HOUR,
        "observed_at": world.now,
        **fields,
    }
    made = Workload.objects.create(cluster=world.east, kind="Workload", name=name, state=state, **values)
    StateSpan.objects.create(
        cluster=world.east,
        kind="Workload",
        uid=made.uid,
        namespace=made.namespace,
        name=made.name,
        queue_name=made.queue_name,
        queue=f"{team}-cq",
        state=state,
        reason=made.reason,
        message=made.message,
        requests=made.requests,
        usage=made.usage,
        started_at=world.now - HOUR,
    )
    return made


def usage_hour(
    world: World, team: Team | None, hour: datetime, units: str = "14400.5", **fields: Any
) -> UsageHour:
    values = {
        "cluster": world.east,
        "queue": f"{team.slug if team else 'nobody'}-cq",
        "flavor": "h100",
        **fields,
    }
    return UsageHour.objects.create(
        team=team,
        resource=GPU,
        hour=hour,
        reserved_unit_seconds=Decimal(units),
        admitted_unit_seconds=Decimal(units) / 2,
        **values,
    )


def held_hour(world: World, team: Team | None, hour: datetime, **fields: Any) -> AllocationHour:
    """Two cards for an hour, by reserved quota."""
    values = {
        "cluster": world.east,
        "basis": "reserved",
        "kind": "Workload",
        "queue": f"{team.slug}-cq" if team else "nobodys-cq",
        "flavor": "h100",
        "resource": GPU,
        "model": MODEL,
        "sharing_mode": "exclusive",
        "weight_over": 1,
        "weight_under": 1,
        "seen": "observed",
        "unit_seconds": Decimal(7200),
        **fields,
    }
    return AllocationHour.objects.create(team=team, starts_at=hour, ends_at=hour + HOUR, **values)


def _usage(world: World) -> None:
    this_hour = floor_hour(world.now)
    for hours_ago in (0, 1, 2):
        for team in (world.red, world.blue, None):
            usage_hour(world, team, this_hour - hours_ago * HOUR)
            held_hour(world, team, this_hour - hours_ago * HOUR)
    for rollup in ("usage_hours", ALLOCATION):
        Watermark.objects.create(cluster=world.east, rollup=rollup, done_until=this_hour)


CLOSED_MONTH, OPEN_MONTH = "2025-01", "2025-02"
MODEL = "NVIDIA-H100-80GB-HBM3"


def _charges(world: World) -> None:
    """A closed month and an open one, in each of which red, blue and nobody held two cards for an hour at 2.50."""
    card = draft(
        valid_from=datetime(2025, 1, 1, tzinfo=UTC),
        currency="USD",
        prices=[{"model": MODEL, "amount": Decimal("2.5")}],
    )
    publish(card.pk, by=world.users["finance"], now=world.now)
    price = card.prices.get()
    slugs = {
        "teams": {team.pk: team.slug for team in (world.red, world.blue)},
        "clusters": {world.east.pk: "east"},
    }
    for number, month in enumerate((CLOSED_MONTH, OPEN_MONTH)):
        start = datetime(2025, number + 1, 1, tzinfo=UTC)
        period = BillingPeriod.objects.create(
            month=month,
            zone="UTC",
            starts_at=start,
            ends_at=datetime(2025, number + 2, 1, tzinfo=UTC),
            created_at=start,
            updated_at=world.now,
            totals={"USD": "15"},
            entries=3,
            by_team={str(world.red.pk): {"USD": "5"}, str(world.blue.pk): {"USD": "5"}, "": {"USD": "5"}},
            **(
                {"state": "closed", "closed_at": world.now, "digest": "d" * 64, "names": slugs}
                if number == 0
                else {}
            ),
        )
        held: list[dict[str, Any]] = [
            {
                "cluster": world.east,
                "team": team,
                "basis": "reserved",
                "kind": "Workload",
                "queue": f"{team.slug}-cq" if team else "nobodys-cq",
                "flavor": "h100",
                "resource": GPU,
                "model": MODEL,
                "weight_over": 1,
                "weight_under": 1,
                "seen": "observed",
                "starts_at": start,
                "ends_at": start + HOUR,
                "unit_seconds": Decimal(7200),
            }
            for team in (world.red, world.blue, None)
        ]
        AllocationHour.objects.bulk_create(AllocationHour(**one) for one in held)
        AllocationDay.objects.bulk_create(AllocationDay(**{**one, "ends_at": start + DAY}) for one in held)
        priced = {
            "version": card,
            "price": price,
            "currency": "USD",
            "price_per_hour": price.amount,
            "factor": Decimal(1),
            "priced_over": 1,
            "priced_under": 1,
            "amount": Decimal(5),
        }
        lines = [{"sequence": place, "period": period, **one, **priced} for place, one in enumerate(held, 1)]
        if number == 0:
            LedgerEntry.objects.bulk_create(LedgerEntry(**line) for line in lines)
        else:
            ProvisionalLine.objects.bulk_create(ProvisionalLine(**line) for line in lines)


def change_requests(world: World) -> dict[str, ChangeRequest]:
    """A draft of each team's lead about the own queue, and one of the platform admin for the platform."""
    return {
        name: create_request(
            Wanted(
                cluster=world.east,
                team=team,
                edits=[{"kind": "ClusterQueue", "name": f"{queue}-cq", "set": {"stop_policy": "Hold"}}],
                reason=f"{name} maintenance",
            ),
            actor=world.users[who],
            now=world.now,
        )
        for name, who, team, queue in (
            ("red", "red_lead", world.red, "red"),
            ("blue", "blue_lead", world.blue, "blue"),
            ("platform", "admin", None, "red"),
        )
    }


def quarantine(world: World) -> Quarantine:
    return Quarantine.objects.create(
        cluster=world.east,
        source="kueue",
        kind="Workload",
        key="k",
        name="red-ns/broken",
        error="not a quantity",
        raw=b"{}",
        first_seen_at=world.now,
        last_seen_at=world.now,
    )
