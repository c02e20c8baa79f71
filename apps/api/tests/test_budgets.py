"""Budgets over REST: those of the reader's teams, in one month."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from apps.api.tests.world import OPEN_MONTH, World
from apps.chargeback.models import BillingPeriod, Budget

PATH = f"/api/v1/budgets/?period={OPEN_MONTH}"


@pytest.fixture
def planned(world: World) -> World:
    """5 of 12 and of 4 are spent after 7 of 28 days."""
    Budget.objects.create(team=world.red, from_month="2025-01", amount=Decimal(12))
    Budget.objects.create(
        team=world.blue, from_month="2025-02", amount=Decimal(4), percents=[90], forecast_percent=None
    )
    period = BillingPeriod.objects.get(month=OPEN_MONTH)
    BillingPeriod.objects.filter(pk=period.pk).update(updated_at=period.starts_at + timedelta(days=7))
    return world


def rows(world: World, who: str, path: str = PATH) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = world.client(who).get(path).json()["results"]
    return found


def test_a_budget_and_how_it_stands(planned: World) -> None:
    assert rows(planned, "red_lead") == [
        {
            "period": OPEN_MONTH, "team": "red", "provisional": True, "as_of": "2025-02-08T00:00:00Z",
            "amount": "12.00", "currency": "USD", "spent": "5.00", "at_least": False, "left": "7.00",
            "percent": 41, "forecast": "20.00", "forecast_percent": 166, "thresholds": [50, 80, 100],
            "forecast_threshold": 100, "crossed": [{"measure": "forecast", "percent": 100}], "elsewhere": {},
        }
    ]  # fmt: skip


def test_finance_reads_all_and_pages_through(planned: World) -> None:
    assert [row["team"] for row in rows(planned, "finance")] == ["blue", "red"]
    first = planned.client("finance").get(f"{PATH}&page_size=1").json()
    second = planned.client("finance").get(first["next"]).json()
    assert [row["team"] for row in (*first["results"], *second["results"])] == ["blue", "red"]
    assert second["next"] is None
    (blue,) = rows(planned, "finance", f"{PATH}&team=blue")
    assert (blue["left"], blue["percent"], blue["forecast_threshold"]) == ("-1.00", 125, None)
    assert blue["crossed"] == [{"measure": "spent", "percent": 90}]


def test_another_team_s_is_not_told(planned: World) -> None:
    assert rows(planned, "guest") == []
    assert planned.client("red_lead").get(f"{PATH}&team=blue").status_code == 400


@pytest.mark.parametrize("path", ["/api/v1/budgets/", "/api/v1/budgets/?period=2031-01", f"{PATH}&team=-"])
def test_what_cannot_be_answered_is_said(planned: World, path: str) -> None:
    assert planned.client("finance").get(path).status_code == 400
