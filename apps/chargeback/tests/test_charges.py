"""Charges from rollups and rates, computed by hand first."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import RequestFactory

from apps.accounts.models import User
from apps.admissions.tests.builders import bind, hours, make_cluster, make_team
from apps.chargeback.filters import ChargesForm
from apps.chargeback.models import Rate
from apps.chargeback.selectors import charges, rates
from apps.core.windows import Window
from apps.usage.selectors import UsageCriteria
from apps.usage.services import rollup_hours
from apps.usage.tests.test_rollup import span

pytestmark = pytest.mark.django_db
D = Decimal


def window(start: float, end: float) -> Window:
    return Window(hours(start), hours(end))


def make_rate(price: str, start: float = -1000, **fields: Any) -> Rate:
    return Rate.objects.create(price_per_hour=D(price), valid_from=hours(start), **fields)


@pytest.fixture
def fleet() -> dict[str, Any]:
    """Team a: 8 GPUs reserved for hours 0…4, admitted from 1 on; team b: 8 of another flavor for 20 minutes."""
    cluster, a, b = make_cluster(), make_team("a"), make_team("b")
    bind(a, cluster, "team-a")
    bind(b, cluster, "team-b")
    span(cluster, 0, 1, state="reserved")
    span(cluster, 1, 4)
    usage = [
        {"flavor": "l4", "resource": "nvidia.com/gpu", "quantity": "8"},
        {"flavor": "l4", "resource": "cpu", "quantity": "16"},
    ]
    span(cluster, 2, 2 + 1 / 3, queue="team-b", usage=usage)
    rollup_hours(cluster=cluster, now=hours(6))
    return {"cluster": cluster, "a": a, "b": b}


def test_a_price_change_inside_the_window_makes_two_rows(fleet: dict[str, Any]) -> None:
    make_rate("2.50", flavor="h100")
    make_rate("3.00", start=3, flavor="h100")
    make_rate("0.40")
    report = charges(window=window(0, 5), team_ids=None)
    found = [
        (r.team_slug, r.flavor, r.resource, r.unit_hours.quantize(D("0.01")), r.price_per_hour, r.amount)
        for r in report.rows
    ]
    assert found == [
        ("a", "h100", "nvidia.com/gpu", D("24.00"), D("2.500000"), D("60.00")),
        ("a", "h100", "nvidia.com/gpu", D("8.00"), D("3.000000"), D("24.00")),
        ("b", "l4", "cpu", D("5.33"), None, None),
        ("b", "l4", "nvidia.com/gpu", D("2.67"), D("0.400000"), D("1.07")),
    ]
    assert report.totals == {"USD": D("85.07")}
    assert report.unpriced_unit_seconds == {"cpu": D(19200)}
    assert not report.rows[2].is_priced


def test_a_rate_that_starts_within_an_hour_takes_over_with_the_next(fleet: dict[str, Any]) -> None:
    make_rate("1", flavor="h100")
    make_rate("2", start=2.5, flavor="h100")
    report = charges(window=window(0, 4), team_ids=[fleet["a"].pk])
    assert [(r.unit_hours, r.amount) for r in report.rows] == [(D(24), D("24.00")), (D(8), D("16.00"))]


def test_use_before_the_first_rate_is_unpriced(fleet: dict[str, Any]) -> None:
    make_rate("1", start=1, flavor="h100")
    report = charges(window=window(0, 4), team_ids=[fleet["a"].pk])
    assert [(r.unit_hours, r.amount) for r in report.rows] == [(D(8), None), (D(24), D("24.00"))]
    assert report.totals == {"USD": D("24.00")}


def test_the_basis_decides_what_is_charged(fleet: dict[str, Any]) -> None:
    make_rate("1", flavor="h100")
    criteria = UsageCriteria(team="a")
    reserved = charges(window=window(0, 4), team_ids=None, criteria=criteria)
    admitted = charges(window=window(0, 4), team_ids=None, criteria=criteria, basis="admitted")
    assert (reserved.totals, admitted.totals) == ({"USD": D("32.00")}, {"USD": D("24.00")})


def test_a_lead_sees_only_the_own_team(fleet: dict[str, Any]) -> None:
    make_rate("1")
    report = charges(window=window(0, 4), team_ids=[fleet["b"].pk])
    assert {row.team_slug for row in report.rows} == {"b"}
    assert charges(window=window(0, 4), team_ids=[]).rows == []
    assert charges(window=window(0, 4), team_ids=[fleet["b"].pk], criteria=UsageCriteria(team="a")).rows == []


def test_amounts_of_the_rows_add_up(fleet: dict[str, Any]) -> None:
    make_rate("0.333333")
    make_rate("0.777777", resource="cpu")
    report = charges(window=window(0, 5), team_ids=None)
    assert sum(row.amount or D(0) for row in report.rows) == report.totals["USD"]
    # (32 + 8/3) × 0.333333 + 16/3 × 0.777777 = 11.555544 + 4.148144 = 15.703688
    assert report.totals["USD"] == D("15.70")


def test_rates_are_checked() -> None:
    with pytest.raises(ValidationError, match="full hour"):
        Rate(price_per_hour=D(1), valid_from=hours(0.5)).full_clean()
    with pytest.raises(ValidationError, match="ISO 4217"):
        Rate(price_per_hour=D(1), valid_from=hours(0), currency="EUX").full_clean()
    with pytest.raises(ValidationError):
        Rate(price_per_hour=D(-1), valid_from=hours(0)).full_clean()
    rate = Rate(price_per_hour=D("2.5"), valid_from=hours(0), flavor="h100")
    rate.full_clean()
    assert str(rate) == "nvidia.com/gpu h100: 2.5 USD"


def test_a_rate_that_has_started_cannot_be_edited() -> None:
    from django.contrib.admin import site

    started = make_rate("1", start=-48)
    future = Rate.objects.create(price_per_hour=D(1), valid_from=hours(24 * 365 * 50), flavor="x")
    request = RequestFactory().get("/")
    request.user = User.objects.create_superuser("root")
    model_admin = site.get_model_admin(Rate)
    assert [model_admin.has_change_permission(request, rate) for rate in (started, future, None)] == [
        False,
        True,
        True,
    ]
    assert not model_admin.has_delete_permission(request, started)
    assert list(rates()) == [started, future]


def test_the_form_knows_the_basis() -> None:
    form = ChargesForm({"basis": "admitted"}, now=hours(0))
    assert form.is_valid()
    assert form.chosen_basis == "admitted"
    assert form.time_window.length.days == 30
