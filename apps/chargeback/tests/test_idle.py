"""Idle capacity that is charged: by hand for each policy, never more nor less than what was idle, corrected when facts come
late; and how busy a team was, kept with the period."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import yaml
from django.conf import settings as django_settings
from django.core.exceptions import ValidationError
from django.db import DatabaseError, connection, transaction
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from apps.accounts.models import Team, User
from apps.admissions.tests.builders import T0, hours, make_cluster, make_team
from apps.chargeback.idle_shares import fill_shares
from apps.chargeback.ledger import close, keep_periods, provide
from apps.chargeback.models import BillingPeriod, LedgerEntry, ProvisionalLine, RatePrice, RateVersion
from apps.chargeback.rate_cards import load_tariff, publish
from apps.chargeback.team_use import use_of
from apps.chargeback.use_models import TeamUse
from apps.fleet.models import Cluster
from apps.usage.models import AllocationDay, AllocationHour, SupplyHour, UseHour

D = Decimal
LATER = T0 + timedelta(days=40)
MONTH = yaml.safe_load((django_settings.BASE_DIR / "tests/data/chargeback/idle.yaml").read_text())
KINDS: dict[str, dict[str, Any]] = {
    "H100": {"resource": "nvidia.com/gpu", "sharing_mode": "exclusive", "weight_over": 1, "weight_under": 1},
    "L4": {
        "resource": "nvidia.com/gpu.shared",
        "sharing_mode": "time_slicing",
        "weight_over": 1,
        "weight_under": 4,
    },
}
PRICES = {"H100": D("0.70"), "L4": D("0.10")}


def kind(model: str) -> dict[str, Any]:
    return {"model": model, **KINDS[model]}


def hold(cluster: Cluster, row: dict[str, Any], teams: dict[str, Team]) -> None:
    AllocationHour.objects.create(
        cluster=cluster, basis=row["basis"], team=teams.get(row["team"]), cost_centre=row["cost_centre"],
        kind="Workload", queue="qa", seen=row.get("seen", "observed"), starts_at=hours(row["hour"]),
        ends_at=hours(row["hour"] + 1), unit_seconds=D(row["units"]) * 3600, **kind(row["model"]),
    )  # fmt: skip


def offer(cluster: Cluster, row: dict[str, Any]) -> None:
    for bucket in ("held", "idle"):
        SupplyHour.objects.create(
            cluster=cluster, bucket=bucket, starts_at=hours(row["hour"]), ends_at=hours(row["hour"] + 1),
            unit_seconds=D(row[bucket]) * 3600, **kind(row["model"]),
        )  # fmt: skip


def rate_card(policy: str, bases: list[str]) -> None:
    version = RateVersion.objects.create(valid_from=T0, currency="EUR", idle=policy)
    for basis in bases:
        for model, amount in PRICES.items():
            # What is held costs nothing here, so that totals are of idle capacity alone.
            RatePrice.objects.create(
                version=version, basis=basis, model=model, amount=amount if basis == "idle" else D(0)
            )
    publish(version.pk, by=User.objects.create(username="finance-lead", role=User.Role.FINANCE), now=LATER)


def world(settings: object, policy: str, bases: list[str]) -> BillingPeriod:
    settings.BILLING_ZONE = "UTC"  # type: ignore[attr-defined]
    cluster = make_cluster()
    teams = {slug: make_team(slug) for slug in ("red", "blue")}
    for row in MONTH["supply"]:
        offer(cluster, row)
    for row in MONTH["held"]:
        hold(cluster, row, teams)
    rate_card(policy, bases)
    return keep_periods(LATER)[0]


def shares(period: BillingPeriod) -> list[tuple[str, str, str, str]]:
    rows = LedgerEntry.objects.filter(period=period, basis="idle").order_by("sequence")
    return sorted(
        (
            row.team.slug if row.team else "nobody",
            row.cost_centre,
            row.model,
            f"{row.unit_seconds.normalize():f}",
        )
        for row in rows
    )


@pytest.mark.django_db
@pytest.mark.parametrize(
    "case", MONTH["cases"], ids=lambda case: f"{case['policy']}-{'-'.join(case['bases'])}"
)
def test_idle_capacity_is_shared_as_worked_out_by_hand(settings: object, case: dict[str, Any]) -> None:
    period = world(settings, case["policy"], case["bases"])
    provided = provide(period.pk, now=LATER)
    shown = set(ProvisionalLine.objects.filter(basis="idle").values_list("team", "model", "unit_seconds"))
    period = close(period.pk, by=None, reason="", now=LATER)
    assert shares(period) == sorted(tuple(row) for row in case["shares"])
    assert D(period.totals.get("EUR", "0")) == D(case["total"])
    assert (provided.totals, provided.by_team) == (period.totals, period.by_team)
    assert shown == set(LedgerEntry.objects.filter(basis="idle").values_list("team", "model", "unit_seconds"))
    lines = LedgerEntry.objects.filter(basis="idle")
    assert {(line.starts_at, line.ends_at, line.queue) for line in lines} <= {
        (period.starts_at, period.ends_at, "")
    }


@pytest.mark.django_db
def test_of_a_month_that_runs_a_share_ends_where_the_month_has_come_to(settings: object) -> None:
    period = world(settings, "even", ["reserved", "idle"])
    provide(period.pk, now=hours(2) + timedelta(minutes=5))
    assert {(line.starts_at, line.ends_at) for line in ProvisionalLine.objects.filter(basis="idle")} == {
        (hours(0), hours(2))
    }


@pytest.mark.django_db
def test_a_new_card_begins_a_stretch_of_its_own(settings: object) -> None:
    """From the second hour on the platform carries it: red and blue share 4 unit-hours, nobody has 5."""
    period = world(settings, "even", ["reserved", "idle"])
    second = RateVersion.objects.create(valid_from=hours(1), currency="EUR")
    RatePrice.objects.create(version=second, basis="idle", model="H100", amount=D(1))
    RatePrice.objects.create(version=second, basis="reserved", model="H100", amount=D(0))
    publish(second.pk, by=None, now=LATER)
    period = close(period.pk, by=None, reason="", now=LATER)
    assert shares(period) == [
        ("blue", "2", "H100", "7200"),
        ("blue", "2", "L4", "3600"),
        ("nobody", "", "H100", "18000"),
        ("red", "1", "H100", "7200"),
        ("red", "1", "L4", "3600"),
    ]
    # 4 × 0.70 + 2 × 0.10 + 5 × 1
    assert period.totals == {"EUR": "8"}


@pytest.mark.django_db
def test_facts_that_come_late_correct_every_share(settings: object) -> None:
    """Blue held two more cards in the first hour: 2 idle less, so 7 in all; red's part is 4/9, blue's 5/9."""
    period = close(world(settings, "proportional", ["reserved", "idle"]).pk, by=None, reason="", now=LATER)
    cluster, teams = Cluster.objects.get(), {team.slug: team for team in Team.objects.all()}
    SupplyHour.objects.filter(model="H100", starts_at=hours(0), bucket="idle").update(unit_seconds=2 * 3600)
    SupplyHour.objects.filter(model="H100", starts_at=hours(0), bucket="held").update(unit_seconds=6 * 3600)
    for basis in ("reserved", "pod"):
        late = {"hour": 0, "basis": basis, "team": "blue", "cost_centre": "2", "model": "H100", "units": "2"}
        hold(cluster, late | {"seen": "bridged"}, teams)
    following = keep_periods(LATER + timedelta(days=31))[1]
    close(following.pk, by=None, reason="", now=LATER + timedelta(days=31))
    corrected = LedgerEntry.objects.filter(period=following, basis="idle")
    first = {
        line.team_id: line for line in LedgerEntry.objects.filter(period=period, basis="idle", model="H100")
    }
    assert [(line.correction, line.corrects) for line in corrected] == [
        (True, first[line.team_id].sequence) for line in corrected
    ]
    sums = {
        slug: sum(
            line.unit_seconds
            for line in LedgerEntry.objects.filter(basis="idle", model="H100", team__slug=slug)
        )
        for slug in ("red", "blue")
    }
    # 7 × 3600 × 4/9 and the rest
    assert sums == {"red": D("11200"), "blue": D("14000")}


@pytest.mark.django_db
def test_what_has_no_price_of_its_kind_is_missing_and_not_free(settings: object) -> None:
    period = world(settings, "platform", ["reserved"])
    card = RateVersion.objects.create(valid_from=hours(1), currency="EUR")
    RatePrice.objects.create(version=card, basis="idle", model="L4", amount=D(1))
    RatePrice.objects.create(version=card, basis="reserved", model="H100", amount=D(0))
    publish(card.pk, by=None, now=LATER)
    assert provide(period.pk, now=LATER).missing == {"unpriced": {"nvidia.com/gpu": "5"}, "left_out": {}}


@pytest.mark.django_db
def test_a_card_that_shares_out_what_has_no_price_is_not_published() -> None:
    card = RateVersion.objects.create(valid_from=T0, currency="EUR", idle="even")
    RatePrice.objects.create(version=card, basis="reserved", model="H100", amount=D(1))
    with pytest.raises(ValidationError) as caught:
        publish(card.pk, by=None, now=LATER)
    assert set(caught.value.message_dict) == {"idle"}


amounts = st.decimals(min_value=0, max_value=9, places=3)


@pytest.mark.django_db
@hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    idle=st.lists(amounts, min_size=1, max_size=4),
    held=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(("red", "blue", "green", "")), amounts), max_size=8
    ),
    policy=st.sampled_from(RateVersion.Idle.values),
)
def test_sharing_out_changes_no_total(
    idle: list[Decimal], held: list[tuple[int, str, Decimal]], policy: str
) -> None:
    with transaction.atomic():
        cluster = make_cluster()
        teams = {slug: make_team(slug) for slug in ("red", "blue", "green")}
        expected = D(0)
        for hour, units in enumerate(idle):
            offer(cluster, {"hour": hour, "model": "H100", "held": "0", "idle": units})
            reserved = sum(units for at, _team, units in held if at == hour)
            expected += units - min(units, reserved)
        for number, (hour, team, units) in enumerate(held):
            row = {"hour": hour, "basis": "reserved", "team": team, "model": "H100", "units": units}
            hold(cluster, row | {"cost_centre": str(number)}, teams)
        rate_card(policy, ["reserved", "idle"])
        fill_shares(load_tariff(), T0, hours(4), until=hours(4))
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT coalesce(sum(unit_seconds), 0), coalesce(min(unit_seconds), 1) FROM idle_shares"
            )
            total, least = cursor.fetchone()
        assert (total, least > 0) == (expected * 3600, True)
        transaction.set_rollback(True)


@pytest.mark.django_db
def test_how_busy_a_team_was_stays_with_the_period(settings: object) -> None:
    """Red reserved 4 unit-hours and had 4 bound; 3 device-hours were measured, half of it busy."""
    period = world(settings, "platform", ["reserved"])
    cluster, red = Cluster.objects.get(), Team.objects.get(slug="red")
    for row in AllocationHour.objects.all():
        values = {
            field.attname: getattr(row, field.attname) for field in row._meta.fields if field.name != "id"
        }
        AllocationDay.objects.create(**values)
    UseHour.objects.create(
        cluster=cluster, team=red, starts_at=hours(0), ends_at=hours(1), device_seconds=D(10800),
        measured_seconds=D(10800), busy_seconds=D(5400), memory_seconds=D(0), power_seconds=D(3600),
        energy_joules=D(7_200_000), **kind("H100"),
    )  # fmt: skip
    provide(period.pk, now=LATER)
    period = close(period.pk, by=None, reason="", now=LATER)
    (used,) = use_of(period, red)
    held = [used.reserved, used.bound, used.unbound, used.bridged, used.left_out]
    assert held == [D(4 * 3600), D(4 * 3600), D(0), D(0), D(0)]
    assert [used.measured, used.busy, used.held_idle] == [D(3 * 3600), D(5400), D(5400)]
    assert [used.efficiency, used.energy_joules, used.memory_gib_seconds] == [D("0.5"), D(7_200_000), None]
    (blue,) = use_of(period, Team.objects.get(slug="blue"))
    assert [blue.reserved, blue.bound, blue.unbound, blue.efficiency] == [
        D(3 * 3600),
        D(2 * 3600),
        D(3600),
        None,
    ]
    for statement in (
        "UPDATE chargeback_teamuse SET busy = 0",
        "DELETE FROM chargeback_teamuse",
        "INSERT INTO chargeback_teamuse SELECT 999, model, sharing_mode, profile, 1, 2, resource, 1, 0, 0, 0, 0, 0, 0, 0,"
        " period_id, NULL FROM chargeback_teamuse LIMIT 1",
    ):
        with (
            pytest.raises(DatabaseError, match="closed period"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)
    assert TeamUse.objects.count() == 2
