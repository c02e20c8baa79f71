"""`manage.py seed_demo`: the demo's cluster, teams, owners, users, rates, budgets
and reserves. Running it again changes nothing.

Input: the state folder of the demo cluster (its kubeconfig, its epoch and the scenario's teams) and its address;
output: rows. Invariants: what somebody changed by hand stays (a binding that was closed, another password, a rate);
only the address and the files of the demo cluster follow the present start.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from apps.accounts.models import Membership, User
from apps.accounts.models import Team as PortalTeam
from apps.chargeback.budgets import begin_budget
from apps.chargeback.rate_cards import draft, publish, published
from apps.fleet.models import Cluster, Reserve, TeamBinding
from apps.fleet.services import reserve_open
from simcluster.scenario import FOLDER, ScenarioError, Team, load
from simcluster.state import State

SLUG, NAME = "demo", "Demo"
PASSWORD = "demo"  # noqa: S105 - the demo's own, printed by the launcher; the cluster behind it is simulated


class Seeded(NamedTuple):
    """A demo user: the role across teams, and the roles in teams."""

    name: str
    role: str
    staff: bool
    teams: dict[str, str]


LEAD, MEMBER = Membership.Role.LEAD.value, Membership.Role.MEMBER.value
USERS = (
    Seeded("lead", User.Role.VIEWER.value, False, {"vision": LEAD, "speech": MEMBER}),
    Seeded("admin", User.Role.PLATFORM_ADMIN.value, True, {}),
    Seeded("approver", User.Role.PLATFORM_ADMIN.value, True, {}),
    Seeded("finance", User.Role.FINANCE.value, True, {}),
    Seeded("viewer", User.Role.VIEWER.value, False, {"assistant": MEMBER}),
)
# (model as its node label says, price of a whole card's hour); habana's Gaudi has none on purpose: unpriced use is shown as
# such.
PRICES = (
    ("NVIDIA-H100-80GB-HBM3", "3.60"),
    ("NVIDIA-A100-SXM4-80GB", "2.10"),
    ("NVIDIA-L40S", "1.12"),
    ("NVIDIA-L4", "0.66"),
    ("NVIDIA-GB200", "6.80"),
    ("AMD_Instinct_MI300X_OAM", "2.80"),
    ("910B3", "1.20"),
    ("tpu-v5-lite-podslice", "1.20"),
)
# What idles costs the platform, which carries it, this part of the price: the machine without its power.
IDLE_PART = Decimal("0.6")
# (team, USD a month): the first holds so much that it is past a threshold within hours, the second is going to be, the third
# is not.
BUDGETS = (("foundation-models", "2000"), ("vision", "2500"), ("biology", "12000"))
# (node selector, cards or None for all, why)
RESERVES = (
    ("kubernetes.io/hostname=h100-fabric-03", 4, "Acceptance tests of the new fabric switches"),
    ("node-pool=media", None, "Trial of the media cards, not offered to teams yet"),
)


class Command(BaseCommand):
    help = "Make the demo's cluster, teams, bindings, users, rates, budgets and reserves. Idempotent."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--state", required=True, metavar="DIR", help="state folder of the demo cluster")
        parser.add_argument("--api", required=True, metavar="URL", help="address of the demo cluster")
        parser.add_argument("--scenario", default=str(FOLDER), metavar="DIR", help="scenario that it plays")

    def handle(self, *_args: Any, **options: Any) -> None:
        folder = Path(options["state"]).resolve()
        try:
            state = msgspec.json.decode((folder / "state.json").read_bytes(), type=State)
            teams = load(Path(options["scenario"])).teams
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}") from error
        except (msgspec.MsgspecError, ScenarioError) as error:
            raise CommandError(str(error)) from error
        start = datetime.fromtimestamp(state.epoch, tz=UTC)
        with transaction.atomic():
            cluster = seed_cluster(folder, options["api"])
            made = sum(seed_team(cluster, team, start) for team in teams)
            users = sum(seed_user(user) for user in USERS)
            rates = seed_rates(start)
            budgets = seed_budgets(start) if rates else 0
            reserves = seed_reserves(cluster, start)
        self.stdout.write(
            f"cluster {cluster.slug}: {len(teams)} teams; new: {made} bindings, {users} users, {rates} rate cards,"
            f" {budgets} budgets, {reserves} reserves"
        )


def seed_cluster(folder: Path, api: str) -> Cluster:
    cluster = Cluster.objects.filter(slug=SLUG).first() or Cluster(slug=SLUG, name=NAME)
    cluster.kubeconfig_path = str(folder / "kubeconfig.yaml")
    cluster.kube_context = "demo"
    cluster.prometheus_url = api.rstrip("/")
    cluster.enabled = cluster.is_demo = True
    try:
        cluster.full_clean()
    except ValidationError as error:
        raise CommandError("; ".join(error.messages)) from error
    cluster.save()
    return cluster


def seed_team(cluster: Cluster, team: Team, start: datetime) -> int:
    """The team and what it owns; gives how many bindings are new."""
    row, _created = PortalTeam.objects.get_or_create(
        slug=team.slug, defaults={"name": team.name, "cost_centre": team.cost_centre}
    )
    made = 0
    for kind, namespace, name in owned(team):
        thing = {"cluster": cluster, "kind": kind, "namespace": namespace, "name": name}
        if not TeamBinding.objects.filter(**thing).exists():
            TeamBinding.objects.create(team=row, valid_from=start, **thing)
            made += 1
    return made


def owned(team: Team) -> Iterator[tuple[str, str, str]]:
    """(kind, namespace, name) of everything that a team of the scenario owns."""
    kinds = TeamBinding.Kind
    yield kinds.NAMESPACE, "", team.namespace
    for queue in team.local_queues:
        yield kinds.LOCAL_QUEUE, team.namespace, queue
    for queue in team.cluster_queues:
        yield kinds.CLUSTER_QUEUE, "", queue
    for queue in team.volcano_queues:
        yield kinds.VOLCANO_QUEUE, "", queue


def seed_user(seeded: Seeded) -> int:
    user = User.objects.filter(username=seeded.name).first()
    created = user is None
    if user is None:
        user = User.objects.create_user(
            seeded.name,
            password=PASSWORD,
            role=seeded.role,
            is_staff=seeded.staff,
            is_superuser=seeded.role == User.Role.PLATFORM_ADMIN,
        )
        for slug, role in seeded.teams.items():
            Membership.objects.create(user=user, team=PortalTeam.objects.get(slug=slug), role=role)
    return int(created)


def seed_rates(start: datetime) -> int:
    """One published rate card, from the month before the first simulated day on; gives how many cards are new."""
    if published().exists():
        return 0
    before = start.replace(day=1, hour=0, minute=0, second=0, microsecond=0) - timedelta(days=31)
    card = draft(
        valid_from=before.replace(day=1),
        currency="USD",
        borrowed_factor=Decimal("0.8"),
        prices=[
            {"model": model, "basis": basis, "per": "card", "amount": Decimal(price) * part}
            for model, price in PRICES
            for basis, part in (("reserved", 1), ("idle", IDLE_PART))
        ],
    )
    publish(card.pk, by=None, now=start)
    return 1


def seed_budgets(start: datetime) -> int:
    """From the first simulated day's month on, in the currency of the rate card that was made with them; gives how many are
    new."""
    return sum(
        begin_budget(team, from_month=f"{start:%Y-%m}", amount=Decimal(amount), currency="USD")
        for slug, amount in BUDGETS
        for team in PortalTeam.objects.filter(slug=slug)
    )


def seed_reserves(cluster: Cluster, start: datetime) -> int:
    """What the platform keeps back; a reserve that somebody ended stays ended."""
    made = 0
    for selector, devices, reason in RESERVES:
        if not Reserve.objects.filter(cluster=cluster, reason=reason).exists():
            kept = Reserve(
                cluster=cluster, selector=selector, devices=devices, reason=reason, valid_from=start
            )
            reserve_open(reserve=kept, by=None)
            made += 1
    return made
