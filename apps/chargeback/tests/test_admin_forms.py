"""What finance types into the admin site: factors by priority class, prices and groups of clusters, and budgets."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.models import Team, User
from apps.admissions.tests.builders import make_cluster
from apps.chargeback.factors import factor_faults, factor_lines, read_factors
from apps.chargeback.models import Budget, RateVersion
from apps.chargeback.rate_cards import draft, load_tariff, publish
from apps.chargeback.tariff import Use

D = Decimal
JANUARY = datetime(2026, 1, 1, tzinfo=UTC)

# ---- factors ---------------------------------------------------------------------------------------------------------


def test_lines_are_read_and_written_back() -> None:
    text = ["urgent = 1.5\n\n  batch-low=0.80 ", "team.example.com/x"][0]
    found, faults = read_factors(text)
    assert (found, faults) == ({"urgent": "1.5", "batch-low": "0.80"}, [])
    assert factor_lines(found) == "urgent = 1.5\nbatch-low = 0.80"


NUMBER = "give a number of 0 or more, with at most 4 digits before the point and 6 after it"


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("urgent = -1", [f"Line 1: urgent: {NUMBER}."]),
        ("a = 1\nb 2\nc = x", ["Line 2: give a priority class, = and a factor.", f"Line 3: c: {NUMBER}."]),
        ("a = 1\na = 2", ["Line 2: a has a factor already."]),
        ("Über = 1", ["Line 1: “Über” is no name of a priority class."]),
        (" = 1", ["Line 1: “” is no name of a priority class."]),
        ("a = NaN", [f"Line 1: a: {NUMBER}."]),
        ("a = 1e9", [f"Line 1: a: {NUMBER}."]),
        ("a = 1.1234567", [f"Line 1: a: {NUMBER}."]),
        ("a = 1.5 = 2", [f"Line 1: a: {NUMBER}."]),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, faults: list[str]) -> None:
    assert read_factors(text)[1] == faults


@pytest.mark.parametrize(
    "kept", [[], "a", None, 1, {"a": 1}, {"a": None}, {"a": "-1"}, {"A B": "1"}, {"": "1"}]
)
def test_other_shapes_are_refused(kept: Any) -> None:
    assert factor_faults(kept)


NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
FACTORS = st.from_regex(r"[0-9]{1,4}(\.[0-9]{1,6})?", fullmatch=True)


@given(st.dictionaries(NAMES, FACTORS, max_size=6))
def test_whatever_is_kept_reads_back_as_it_was(kept: dict[str, str]) -> None:
    assert factor_faults(kept) == []
    assert read_factors(factor_lines(kept)) == (kept, [])


# ---- in the admin site -----------------------------------------------------------------------------------------------


@pytest.fixture
def finance(db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_user("books", role="finance", is_staff=True))
    return client


def card_given(factors: str, **more: Any) -> dict[str, Any]:
    return {
        "valid_from_0": "2026-03-01", "valid_from_1": "00:00", "currency": "USD", "borrowed_factor": "0.5",
        "priority_factors": factors, "idle": "platform", "note": "",
        "group_clusters-TOTAL_FORMS": 0, "group_clusters-INITIAL_FORMS": 0,
        "prices-TOTAL_FORMS": 1, "prices-INITIAL_FORMS": 0, "prices-0-basis": "reserved",
        "prices-0-model": "H100", "prices-0-per": "unit", "prices-0-amount": "4",
    } | more  # fmt: skip


def test_factors_typed_as_lines_price_what_was_held(finance: Client) -> None:
    answer = finance.post("/admin/chargeback/rateversion/add/", card_given("urgent = 1.25\r\nlow = 0"))
    assert answer.status_code == 302, answer.context["adminform"].form.errors
    card = RateVersion.objects.get()
    assert card.priority_factors == {"urgent": "1.25", "low": "0"}
    shown = finance.get(f"/admin/chargeback/rateversion/{card.pk}/change/").content.decode()
    assert "low = 0\nurgent = 1.25</textarea>" in shown
    publish(card.pk, by=None, now=JANUARY)
    version = load_tariff().at(card.valid_from)
    assert version is not None

    def cost(priority: str, *, borrowed: bool = False) -> Any:
        use = Use("reserved", 1, "H100", "", "", None, priority, borrowed)
        applied = version.applied_to(use)
        return applied and applied.amount(D(7200))

    assert [cost("urgent"), cost("urgent", borrowed=True), cost("low"), cost("")] == [10, 5, 0, 8]


def test_a_wrong_line_is_named_and_nothing_is_kept(finance: Client) -> None:
    answer = finance.post("/admin/chargeback/rateversion/add/", card_given("urgent = 1.25\nlow = -1"))
    assert answer.status_code == 200
    assert "Line 2: low: give a number of 0 or more" in answer.content.decode()
    assert not RateVersion.objects.exists()


@pytest.mark.django_db
def test_a_card_with_another_shape_is_not_published() -> None:
    card = draft(
        valid_from=JANUARY, currency="USD", prices=[{"model": "H100", "amount": D(1)}], priority_factors=["a"]
    )
    with pytest.raises(ValidationError) as caught:
        publish(card.pk, by=None, now=JANUARY)
    assert list(caught.value.message_dict) == ["priority_factors"]


TWO_ROWS = {
    "group_clusters-TOTAL_FORMS": 2, "prices-TOTAL_FORMS": 2, "prices-1-basis": "reserved", "prices-1-per": "unit",
}  # fmt: skip


def test_finance_makes_a_card_with_groups_and_another_like_it(finance: Client) -> None:
    east = make_cluster()
    typed = card_given("", **TWO_ROWS | {
        "group_clusters-0-group": "training", "group_clusters-0-cluster": east.pk,
        "prices-1-model": "H100", "prices-1-group": "training", "prices-1-amount": "3",
    })  # fmt: skip
    answer = finance.post("/admin/chargeback/rateversion/add/", typed)
    assert answer.status_code == 302, answer.context["errors"]
    card = RateVersion.objects.get()
    assert [(row.group, row.cluster) for row in card.group_clusters.all()] == [("training", east)]
    deed = {"action": "draft_like_these", "_selected_action": [card.pk]}
    finance.post("/admin/chargeback/rateversion/", deed)
    assert [row.group for row in RateVersion.objects.exclude(pk=card.pk).get().group_clusters.all()] == [
        "training"
    ]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"prices-1-model": "H100", "prices-1-amount": "3"},
            "There is another price of the same: basis, cluster or group, model, sharing mode and profile.",
        ),
        (
            {"prices-1-model": "H100", "prices-1-amount": "3", "prices-1-group": "a", "prices-1-cluster": "east"},
            "A price is of a cluster or of a group of clusters, not of both.",
        ),
        (
            {
                "group_clusters-0-group": "a", "group_clusters-0-cluster": "east",
                "group_clusters-1-group": "b", "group_clusters-1-cluster": "east",
            },
            "Please correct the duplicate data for cluster.",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_row_is_said(finance: Client, wrong: dict[str, Any], said: str) -> None:
    east = make_cluster()
    typed = card_given(
        "", **TWO_ROWS, **{name: east.pk if value == "east" else value for name, value in wrong.items()}
    )
    answer = finance.post("/admin/chargeback/rateversion/add/", typed)
    assert answer.status_code == 200
    assert said in answer.content.decode()
    assert not RateVersion.objects.exists()


def budget_given(**more: Any) -> dict[str, Any]:
    return {
        "team": Team.objects.get_or_create(slug="red", name="Red")[0].pk, "from_month": "2026-03",
        "until_month": "", "amount": "12000.50", "currency": "USD", "percents": "50, 80, 100",
        "forecast_percent": "110",
    } | more  # fmt: skip


def test_finance_keeps_budgets(finance: Client) -> None:
    answer = finance.post("/admin/chargeback/budget/add/", budget_given())
    assert answer.status_code == 302, answer.context["adminform"].form.errors
    kept = Budget.objects.get()
    assert (kept.amount, kept.percents, kept.forecast_percent) == (D("12000.5000"), [50, 80, 100], 110)
    path = f"/admin/chargeback/budget/{kept.pk}/change/"
    assert 'value="50, 80, 100"' in finance.get(path).content.decode()
    assert (
        finance.post(path, budget_given(until_month="2026-05", percents="", forecast_percent="")).status_code
        == 302
    )
    kept.refresh_from_db()
    assert (kept.until_month, kept.percents, kept.forecast_percent) == ("2026-05", [], None)


@pytest.mark.parametrize(
    ("wrong", "field", "said"),
    [
        ({"amount": "-1"}, "amount", "A budget is more than 0."),
        ({"amount": "0"}, "amount", "A budget is more than 0."),
        ({"amount": "1.001"}, "amount", "USD has 2 decimals."),
        ({"percents": "80, 50"}, "percents", "Give them from the lowest up: 50 stands after 80."),
        ({"percents": "50, 50"}, "percents", "50 is given twice."),
        ({"percents": "0"}, "percents", "0 is no threshold: give percents from 1 to 1000."),
        ({"percents": "-5"}, "percents", "-5 is no threshold: give percents from 1 to 1000."),
        ({"percents": "50, many"}, "percents", "“many” is no whole percent."),
        ({"percents": "99.5"}, "percents", "“99.5” is no whole percent."),
        ({"forecast_percent": "0"}, "forecast_percent", "0 is no threshold: give percents from 1 to 1000."),
        ({"from_month": "March"}, "from_month", "Give a month such as 2026-03."),
        ({"from_month": ""}, "from_month", "This field is required."),
        ({"until_month": "2026-13"}, "until_month", "Give a month such as 2026-03."),
        ({"until_month": "2026-02"}, "until_month", "The last month lies before the first."),
        ({"currency": "XXX"}, "currency", "XXX is no currency: give a code such as USD."),
        (
            {"currency": "EUR"},
            "currency",
            "Rate cards of that time are in USD: nothing would ever be spent of a budget in EUR.",
        ),
    ],
)
def test_what_is_wrong_with_a_budget_is_said(finance: Client, wrong: Any, field: str, said: str) -> None:
    card = draft(valid_from=JANUARY, currency="USD", prices=[{"model": "H100", "amount": D(1)}])
    publish(card.pk, by=None, now=JANUARY)
    answer = finance.post("/admin/chargeback/budget/add/", budget_given(**wrong))
    assert answer.status_code == 200
    assert answer.context["adminform"].form.errors == {field: [said]}
    assert not Budget.objects.exists()


def test_a_card_that_takes_over_later_may_bring_another_currency(finance: Client) -> None:
    for month, currency in ((1, "JPY"), (2, "USD"), (6, "EUR")):
        card = draft(
            valid_from=datetime(2026, month, 1, tzinfo=UTC), currency=currency,
            prices=[{"model": "H100", "amount": D(1)}],
        )  # fmt: skip
        publish(card.pk, by=None, now=JANUARY)
    for currency, status in (("JPY", 200), ("USD", 302), ("EUR", 302)):
        given = budget_given(currency=currency, amount="5", from_month="2026-03")
        Budget.objects.all().delete()
        assert finance.post("/admin/chargeback/budget/add/", given).status_code == status


def test_one_team_has_one_budget_from_a_month_on(finance: Client) -> None:
    finance.post("/admin/chargeback/budget/add/", budget_given())
    assert finance.post("/admin/chargeback/budget/add/", budget_given()).status_code == 200
    assert Budget.objects.count() == 1


@pytest.mark.parametrize("role", ["viewer"])
def test_nobody_else_keeps_budgets(db: None, role: str) -> None:
    client = Client()
    client.force_login(User.objects.create_user("staff", role=role, is_staff=True))
    assert client.post("/admin/chargeback/budget/add/", budget_given()).status_code == 403
    assert not Budget.objects.exists()
