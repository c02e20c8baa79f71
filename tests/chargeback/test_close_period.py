"""`close_period`: closes once, and says what is in the way."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from apps.accounts.models import User
from apps.api.tests.world import OPEN_MONTH, World, make_world
from apps.chargeback.models import BillingPeriod


@pytest.fixture
def world(db: None) -> World:
    return make_world()


def run(*given: str, **options: Any) -> str:
    out = StringIO()
    call_command("close_period", *given, stdout=out, **options)
    return out.getvalue()


def test_a_period_is_closed_once_and_told(world: World) -> None:
    said = run(OPEN_MONTH, user="finance")
    period = BillingPeriod.objects.get(month=OPEN_MONTH)
    assert (period.state, period.closed_by) == ("closed", User.objects.get(username="finance"))
    assert f"{OPEN_MONTH} is closed: 3 lines, 15 USD, digest {period.digest}" in said
    assert run(OPEN_MONTH) == said


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("2031-01",), "There is no billing period '2031-01'"),
        (("March",), "There is no billing period 'March'"),
        ((OPEN_MONTH, "--user=nobody"), "There is no user 'nobody'"),
        ((OPEN_MONTH, "--user=red_lead"), "red_lead may not close periods"),
    ],
)
def test_what_is_in_the_way_is_said(world: World, given: tuple[str, ...], says: str) -> None:
    with pytest.raises(CommandError, match=says):
        run(*given)
    assert BillingPeriod.objects.get(month=OPEN_MONTH).state == "open"


def test_a_running_month_is_not_closed(world: World) -> None:
    latest = BillingPeriod.objects.order_by("starts_at").last()
    assert latest is not None
    run(OPEN_MONTH)
    newest = BillingPeriod.objects.filter(ends_at__gt=world.now).get()
    for period in BillingPeriod.objects.filter(state="open", ends_at__lte=world.now).order_by("starts_at"):
        run(period.month)
    with pytest.raises(CommandError, match="has not ended"):
        run(newest.month)
