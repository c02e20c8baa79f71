"""`/chargeback/`: months, statements, the hours behind them, and closing a month."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.api.tests.world import CLOSED_MONTH, GPU, MODEL, OPEN_MONTH, World
from apps.chargeback.budget_notices import note_all_crossed
from apps.chargeback.ledger import provide
from apps.chargeback.models import BillingPeriod, Budget, TeamUse
from apps.usage.models import AllocationHour

from .test_pages import download, text


def test_the_latest_month_with_lines_is_shown_and_another_can_be_chosen(world: World) -> None:
    client = world.client("finance")
    latest = text(client, "/chargeback/")
    assert f'<option value="{OPEN_MONTH}" selected>' in latest
    assert "Provisional, as computed" in latest
    earlier = text(client, f"/chargeback/?period={CLOSED_MONTH}")
    assert "it never changes again" in earlier
    assert f"{CLOSED_MONTH}: 15.00 USD" in earlier


def test_a_team_reads_its_own_costs_and_no_sums_of_others(world: World) -> None:
    body = text(world.client("red_lead"), f"/chargeback/?period={CLOSED_MONTH}")
    assert f"{CLOSED_MONTH}: 5.00 USD" in body
    assert "15.00" not in body
    assert "Blue" not in body


def test_teams_and_models_as_csv(world: World) -> None:
    rows = download(world.client("finance"), f"/chargeback/?period={CLOSED_MONTH}&format=csv&table=teams")
    head, *lines = rows
    assert MODEL in head
    assert [(row[0], row[1], row[head.index(MODEL)]) for row in lines] == [
        ("Blue", "5", "5"),
        ("Red", "5", "5"),
        ("", "5", "5"),
    ]


def test_a_statement_says_its_lines_their_price_and_the_month_before(world: World) -> None:
    body = text(world.client("red_lead"), f"/chargeback/{OPEN_MONTH}/red/")
    assert "Statement of Red" in body
    assert MODEL in body
    assert f"Against {CLOSED_MONTH}." in body
    rows = download(world.client("red_lead"), f"/chargeback/{OPEN_MONTH}/red/?format=csv&table=lines")
    line = dict(zip(rows[0], rows[1], strict=True))
    assert (line["Model"], line["Basis"], line["Unit-hours"]) == (MODEL, "reserved", "2")
    assert (line["Price per hour"], line["Factor"], line["Cost"], line["Currency"]) == (
        "2.5",
        "1",
        "5",
        "USD",
    )
    models = download(world.client("red_lead"), f"/chargeback/{OPEN_MONTH}/red/?format=csv&table=models")
    assert models[1] == [MODEL, "5", "5", "0", "USD"]


def test_use_without_a_price_is_in_no_total_and_said(world: World) -> None:
    period = BillingPeriod.objects.get(month=OPEN_MONTH)
    held = AllocationHour.objects.filter(team=world.red, starts_at__gte=period.starts_at)
    held.update(model="unknown-card")
    provide(period.pk, now=world.now)
    body = text(world.client("finance"), f"/chargeback/?period={OPEN_MONTH}")
    assert "2 unit-hours of nvidia.com/gpu without a price" in body
    statement = text(world.client("red_lead"), f"/chargeback/{OPEN_MONTH}/red/")
    assert "no price" in statement
    assert "2 × GPU (unit-hours)" in statement


def test_the_hours_behind_a_statement_are_there_one_by_one(world: World) -> None:
    rows = download(world.client("red_lead"), f"/chargeback/{CLOSED_MONTH}/red/charges/?format=csv")
    assert len(rows) == 2
    line = dict(zip(rows[0], rows[1], strict=True))
    assert (line["Queue"], line["Cost"], line["Unit-hours"]) == ("red-cq", "5", "2")
    assert "red-cq" in text(
        world.client("red_lead"), f"/chargeback/{CLOSED_MONTH}/red/charges/?model={MODEL}"
    )
    hours = text(world.client("red_lead"), f"/chargeback/{CLOSED_MONTH}/red/charges/")
    behind = "/chargeback/work/?cluster=east&amp;team=red&amp;queue=red-cq&amp;basis=reserved"
    assert f'{behind}&amp;from=2025-01-01T00%3A00%3A00Z&amp;to=2025-01-01T01%3A00%3A00Z"' in hours
    assert "There is no such line." in text(
        world.client("red_lead"), f"/chargeback/{CLOSED_MONTH}/red/charges/?model=nothing"
    )


def test_the_team_page_says_what_the_latest_months_cost(world: World) -> None:
    body = text(world.client("red_lead"), "/teams/red/")
    for month in (CLOSED_MONTH, OPEN_MONTH):
        assert f'{month}: <a href="/chargeback/{month}/red/">5.00 USD</a>' in body
    assert body.count("(provisional, ") == 1
    BillingPeriod.objects.filter(month=OPEN_MONTH).update(by_team={})
    assert "nothing is charged" in text(world.client("red_lead"), "/teams/red/")


# ---- closing --------------------------------------------------------------------------------------------------------


def post(client: Client, month: str, **given: str) -> Any:
    return client.post(f"/chargeback/{month}/close/", given)


def test_finance_closes_a_month_on_its_page(world: World) -> None:
    client = world.client("finance")
    assert f"Close {OPEN_MONTH}" in text(client, "/chargeback/")
    answer = post(client, OPEN_MONTH)
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/chargeback/?period={OPEN_MONTH}")
    period = BillingPeriod.objects.get(month=OPEN_MONTH)
    assert (period.state, period.closed_by) == ("closed", world.users["finance"])
    assert f"Close {OPEN_MONTH}" not in text(client, f"/chargeback/?period={OPEN_MONTH}")


def test_what_is_missing_is_said_and_needs_a_reason(world: World) -> None:
    AllocationHour.objects.filter(team=world.red).update(model="unknown-card")
    client = world.client("finance")
    answer = post(client, OPEN_MONTH)
    assert answer.status_code == 200
    assert "without a price" in answer.content.decode()
    assert BillingPeriod.objects.get(month=OPEN_MONTH).state == "open"
    assert post(client, OPEN_MONTH, reason="its price comes in March").status_code == 302
    body = text(client, f"/chargeback/?period={OPEN_MONTH}")
    assert "Closed although something was missing" in body
    assert "its price comes in March" in body


@pytest.mark.parametrize("role", ["guest", "viewer", "red_lead", "blue_lead"])
def test_for_others_there_is_nothing_to_close(world: World, role: str) -> None:
    client = world.client(role)
    assert post(client, OPEN_MONTH).status_code == 404
    assert f"Close {OPEN_MONTH}" not in text(client, "/chargeback/")


def test_the_trend_is_of_the_readers_teams(world: World) -> None:
    for role, names in (("finance", ["Start", "Blue", "Red", "no team"]), ("red_lead", ["Start", "Red"])):
        rows = list(
            csv.reader(
                io.StringIO(text(world.client(role), "/charts/costs/?format=csv").removeprefix("\ufeff"))
            )
        )
        assert sorted(rows[0]) == sorted(names)
        assert [row[1] for row in rows[1:]] == ["5", "5"]


@pytest.mark.django_db
def test_before_the_first_hour_the_page_says_so() -> None:
    client = Client()
    client.force_login(User.objects.create_user("books", role="finance"))
    body = text(client, "/chargeback/")
    assert "No hours of use have been computed yet" in body
    assert "Nothing has been read from the clusters yet" not in body


# ---- budgets ---------------------------------------------------------------------------------------------------------


def planned(world: World) -> None:
    """5 of 12 are spent after 7 of 28 days: 41.67 %; 20 by the end: 166.67 %."""
    Budget.objects.create(team=world.red, from_month=OPEN_MONTH, amount=Decimal(12))
    period = BillingPeriod.objects.get(month=OPEN_MONTH)
    BillingPeriod.objects.filter(pk=period.pk).update(updated_at=period.starts_at + timedelta(days=7))


@pytest.mark.parametrize("path", [f"/chargeback/{OPEN_MONTH}/red/", "/teams/red/"])
def test_how_the_budget_stands_is_said_in_words(world: World, path: str) -> None:
    planned(world)
    body = text(world.client("red_lead"), path)
    said = "spent 41 % of 12.00 USD; at this pace 166 % by the month&#x27;s end"
    assert f"Budget of {OPEN_MONTH}: {said}" in body
    assert "7.00 USD left" in body
    assert "Budget of" not in text(world.client("blue_lead"), path.replace("red", "blue"))


def test_a_budget_that_is_spent_says_so(world: World) -> None:
    Budget.objects.create(team=world.red, from_month=OPEN_MONTH, amount=Decimal(4))
    note_all_crossed(world.now)
    body = text(world.client("red_lead"), f"/chargeback/{OPEN_MONTH}/red/")
    for said in (
        "spent 125 % of 4.00 USD",
        "over budget",
        "1.00 USD beyond it",
        "50 % spent (",
        "100 % spent (",
    ):
        assert said in body


def test_the_table_of_teams_has_their_budgets(world: World) -> None:
    assert "Spent of it" not in text(world.client("finance"), "/chargeback/")
    planned(world)
    body = text(world.client("finance"), "/chargeback/")
    for said in ("12.00", "41 %", "166 %"):
        assert said in body
    rows = download(world.client("finance"), "/chargeback/?format=csv&table=teams")
    lines = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    names = ("Budget", "Spent of it", "By the month's end at this pace")
    assert [[line[name] for name in names] for line in lines] == [
        ["", "", ""],
        ["12", "41", "166"],
        ["", "", ""],
    ]


def test_a_statement_says_how_busy_what_was_held_was_and_what_nobody_saw(world: World) -> None:
    """Reserved 2 hours, half an hour of it bridged; a quarter of an hour more left out; bound 1.5 hours, a quarter busy."""
    TeamUse.objects.create(
        period=BillingPeriod.objects.get(month=OPEN_MONTH), team=world.red, resource=GPU, model=MODEL,
        reserved=7200, bridged=1800, left_out=900, bound=5400, measured=5400, busy=1350, energy_joules=3_600_000,
    )  # fmt: skip
    client = world.client("red_lead")
    head, row = download(client, f"/chargeback/{OPEN_MONTH}/red/?format=csv&table=use")
    line = dict(zip(head, row, strict=True))
    assert [line[name] for name in ("Reserved", "Bound to pods", "Reserved, no pod", "Measured", "Busy")] == [
        "7200", "5400", "1800", "5400", "1350",
    ]  # fmt: skip
    assert [line[name] for name in ("Held idle", "Efficiency", "Energy, kWh", "Memory, GiB-hours")] == [
        "4050", "0.25", "3600000", "",
    ]  # fmt: skip
    body = text(client, f"/chargeback/{OPEN_MONTH}/red/")
    assert "25 %" in body
    assert "In 0.5 × GPU unit-hours the portal could not look" in body
    assert "0.3 × GPU unit-hours were seen by nobody" in body
    assert "utilisation of 1.5 device-hours beside 1.5 unit-hours of pods" in body
