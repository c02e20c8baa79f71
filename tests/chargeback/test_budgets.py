"""Budgets of teams: which one holds, how it stands, and what is told of it: once, to whom it concerns, whatever happens."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from decimal import Decimal
from email import message_from_bytes
from email.policy import default
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from apps.accounts.models import Membership, Team, User
from apps.api.tests.world import OPEN_MONTH, World, make_world
from apps.chargeback.budget_notices import KIND, note_all_crossed, note_crossed
from apps.chargeback.budgets import team_budget, team_budgets, told_of
from apps.chargeback.models import BillingPeriod, Budget, BudgetCrossing, BudgetNotice, ProvisionalLine
from apps.core.sending import send_due
from apps.usage.models import AllocationHour
from tests.receiving import Heard, Mailbox
from worker.tasks import provide_charges, send_notices

D = Decimal


@pytest.fixture
def world(db: None) -> World:
    found = make_world()
    for name, address in (("red_lead", "lead@example.com"), ("finance", "money@example.com")):
        User.objects.filter(username=name).update(email=address)
    return found


def plan(team: Team, amount: str = "8", **more: Any) -> Budget:
    return Budget.objects.create(team=team, amount=D(amount), **{"from_month": OPEN_MONTH} | more)


def month() -> BillingPeriod:
    return BillingPeriod.objects.get(month=OPEN_MONTH)


def costs(team: Team, *, days: int | None = None, **totals: str) -> None:
    """`days`: how far the month has gone when that was computed; None: it is over."""
    period = month()
    at = period.ends_at if days is None else period.starts_at + timedelta(days=days)
    by_team = period.by_team | {str(team.pk): totals}
    BillingPeriod.objects.filter(pk=period.pk).update(by_team=by_team, updated_at=at)


def crossed() -> list[tuple[str, str, int]]:
    return list(BudgetCrossing.objects.order_by("pk").values_list("team__slug", "measure", "percent"))


# ---- which one holds, and how it stands ------------------------------------------------------------------------------


def test_the_budget_that_began_last_holds_until_it_is_over(world: World) -> None:
    plan(world.red, "100", from_month="2024-01")
    plan(world.red, "200", from_month="2025-02")
    plan(world.blue, "300", from_month="2024-01", until_month="2025-01")
    found = {
        (one.team.slug, one.period.month): one.standing.plan.amount
        for period in BillingPeriod.objects.all()
        for one in team_budgets(period, team_ids=None)
    }
    assert found == {
        ("blue", "2025-01"): D("300.00"),
        ("red", "2025-01"): D("100.00"),
        ("red", "2025-02"): D("200.00"),
    }


def test_a_reader_of_one_team_gets_one(world: World) -> None:
    plan(world.red)
    plan(world.blue)
    assert [one.team.slug for one in team_budgets(month(), team_ids=[world.blue.pk])] == ["blue"]


def test_it_stands_as_the_statement_comes_to(world: World) -> None:
    """5 of 8 after 7 of 28 days: 62.5 %, 20 by the end. The euros count for nothing."""
    plan(world.red)
    costs(world.red, days=7, USD="5", EUR="3")
    found = team_budget(month(), world.red)
    assert found is not None
    standing = found.standing
    assert (standing.spent, standing.percent, standing.forecast) == (D("5.00"), 62, D("20.00"))
    assert (standing.elsewhere, standing.at_least) == ({"EUR": D("3.00")}, False)


def test_use_without_a_price_makes_it_at_least(world: World) -> None:
    plan(world.red)
    plan(world.blue)
    ProvisionalLine.objects.filter(team=world.red).update(amount=None, currency="")
    BillingPeriod.objects.filter(month=OPEN_MONTH).update(missing={"unpriced": {"nvidia.com/gpu": "2"}})
    found = {one.team.slug: one.standing.at_least for one in team_budgets(month(), team_ids=None)}
    assert found == {"blue": False, "red": True}


# ---- noted once ------------------------------------------------------------------------------------------------------


def test_a_threshold_is_noted_once_whatever_the_cost_does(world: World) -> None:
    plan(world.red)
    for spent, noted in (("3.99", 0), ("4", 1), ("4", 0), ("1", 0), ("4.5", 0), ("9", 2), ("2", 0), ("9", 0)):
        costs(world.red, USD=spent)
        assert note_crossed(month().pk, now=world.now) == noted, spent
    assert crossed() == [("red", "spent", 50), ("red", "spent", 80), ("red", "spent", 100)]


def test_another_amount_tells_nothing_again(world: World) -> None:
    budget = plan(world.red)
    costs(world.red, USD="4")
    note_all_crossed(world.now)
    budget.amount = D(6)
    budget.save()
    assert note_all_crossed(world.now) == 0


def test_the_pace_is_noted_with_the_cost_that_it_leads_to(world: World) -> None:
    plan(world.red)
    costs(world.red, days=7, USD="2")
    note_all_crossed(world.now)
    (one,) = BudgetCrossing.objects.all()
    assert (one.measure, one.percent, one.cost, one.amount) == ("forecast", 100, D("8.0000"), D("8.0000"))


def test_each_month_tells_anew_and_a_month_closed_long_ago_not_at_all(world: World) -> None:
    plan(world.red, from_month="2025-01")
    closed = BillingPeriod.objects.get(month="2025-01").closed_at
    assert closed is not None
    assert note_all_crossed(closed + timedelta(days=2)) == 1
    assert set(BudgetCrossing.objects.values_list("period__month", flat=True)) == {OPEN_MONTH}
    assert note_all_crossed(closed + timedelta(hours=1)) == 1


def test_what_a_crash_prevented_is_told_by_the_next_computation(world: World, hook: Heard) -> None:
    plan(world.red)

    class Crash(Exception):
        pass

    def crashing() -> None:
        with transaction.atomic():
            note_crossed(month().pk, now=world.now)
            raise Crash

    with pytest.raises(Crash):
        crashing()
    assert (BudgetCrossing.objects.count(), BudgetNotice.objects.count()) == (0, 0)
    assert note_crossed(month().pk, now=world.now) == 1
    assert BudgetNotice.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_workers_at_once_one_tells(hook: Heard) -> None:
    world = make_world(charged=False)
    start = world.now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    period = BillingPeriod.objects.create(
        month=f"{start:%Y-%m}", zone="UTC", starts_at=start, ends_at=start + timedelta(days=31),
        created_at=start, updated_at=start + timedelta(days=1), by_team={str(world.red.pk): {"USD": "9"}},
    )  # fmt: skip
    plan(world.red)
    found: list[int] = []
    begin = threading.Barrier(4)

    def run() -> None:
        try:
            begin.wait()
            found.append(note_crossed(period.pk, now=world.now))
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 0, 0, 4]
    assert (BudgetCrossing.objects.count(), BudgetNotice.objects.count()) == (4, 1)


# ---- sent ------------------------------------------------------------------------------------------------------------


def test_the_hourly_computation_tells_leads_and_finance_in_both_languages(
    world: World, mailbox: Mailbox
) -> None:
    AllocationHour.objects.filter(starts_at__gte=world.now - timedelta(days=2)).delete()  # of other months
    plan(world.red)
    Membership.objects.create(
        user=world.users["finance"], team=world.red, role="lead"
    )  # told once all the same
    provide_charges()
    assert crossed() == [("red", "spent", 50)]
    assert send_notices() == 2
    assert [to for to, _text in mailbox.mails] == ["lead@example.com", "money@example.com"]
    mail = message_from_bytes(mailbox.mails[0][1].encode(), policy=default)
    assert mail["Subject"] == f"Budget of red, {OPEN_MONTH}: 50 % spent"
    body = mail.get_content().replace("\r\n", "\n")
    assert "Budget: spent 62 % of 8.00 USD" in body
    first, second, link = body.split("\n----\n")
    assert ("Team: red" in first, "月份" in first, "月份" in second) == (True, False, True)
    assert link.strip() == f"/chargeback/{OPEN_MONTH}/red/"
    provide_charges()
    assert send_notices() == 0


def test_what_is_crossed_together_is_one_message(world: World, hook: Heard) -> None:
    plan(world.red, "5", percents=[50, 100, 120])
    costs(world.red, days=14, USD="5.50", JPY="12")
    note_all_crossed(world.now)
    assert send_due(world.now, KIND) == 1
    headers, body = hook.calls[0]
    said = json.loads(body)
    assert headers["X-Portal-Event"] == said["event"] == "budget.crossed"
    assert said["thresholds"] == [
        {"measure": "spent", "percent": 50}, {"measure": "spent", "percent": 100},
        {"measure": "forecast", "percent": 100},
    ]  # fmt: skip
    assert (said["spent"], said["percent"], said["forecast"], said["forecast_percent"]) == (
        "5.50",
        110,
        "11.00",
        220,
    )
    assert (said["elsewhere"], said["at_least"], said["amount"]) == ({"JPY": "12"}, False, "5.00")
    assert said["url"] == f"https://portal.example.com/chargeback/{OPEN_MONTH}/red/"


def test_what_nobody_takes_is_tried_again_and_shown(world: World, mailbox: Mailbox, hook: Heard) -> None:
    plan(world.red)
    note_all_crossed(world.now)
    mailbox.refuses, hook.status = True, 503
    assert send_due(world.now, KIND) == 0
    (told,) = told_of(month(), world.red)
    assert (told.sent, told.waiting, told.given_up) == (0, 1, 2)
    path = f"/chargeback/{OPEN_MONTH}/red/"
    shown = world.client("finance").get(path).content.decode()
    assert "2 messages were given up" in shown
    assert "no such person" in shown
    assert "no such person" not in world.client("red_lead").get(path).content.decode()
    hook.status = 204
    assert send_due(world.now + timedelta(minutes=1), KIND) == 1
    mailbox.refuses = False
    chosen = list(BudgetNotice.objects.values_list("pk", flat=True))
    answer = world.client("admin").post(
        "/admin/chargeback/budgetnotice/", {"action": "try_again", "_selected_action": chosen}
    )
    assert answer.status_code == 302
    assert send_due(timezone.now(), KIND) == 2
    assert not BudgetNotice.objects.filter(sent_at__isnull=True).exists()


def test_without_a_way_or_an_address_it_is_noted_all_the_same(world: World, mailbox: Mailbox) -> None:
    User.objects.all().update(email="")
    plan(world.red)
    assert note_all_crossed(world.now) == 1
    assert [(one.sent, one.waiting, one.given_up) for one in told_of(month(), world.red)] == [(0, 0, 0)]
