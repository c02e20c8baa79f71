"""The ledger over REST: what finance pulls, in full and once; what a closed period answers for ever; who closes it."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client

from apps.accounts.models import Team, User
from apps.api.tests.world import CLOSED_MONTH, MODEL, OPEN_MONTH, World
from apps.chargeback.ledger import close, keep_periods, provide
from apps.chargeback.models import BillingPeriod, LedgerEntry, ProvisionalLine
from apps.chargeback.tests.test_ledger import LATER, PERIOD, REASON, close_until_march, filled
from apps.fleet.models import Cluster
from apps.usage.models import Watermark
from apps.usage.tests import golden_month

V1 = "/api/v1"
EXPECTED = golden_month.month()["expected"]


def ask(client: Client, path: str, **headers: str) -> Any:
    return client.get(
        f"{V1}/{path}", headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


def body(client: Client, path: str) -> dict[str, Any]:
    answer = ask(client, path)
    assert answer.status_code == 200, answer.content[:500]
    found: dict[str, Any] = answer.json()
    return found


def pull(client: Client, path: str) -> list[dict[str, Any]]:
    """All rows, page by page."""
    found: list[dict[str, Any]] = []
    while path:
        page = body(client, path)
        found += page["results"]
        path = (page["next"] or "").removeprefix(f"{V1}/")
    return found


def signed_in(name: str, **more: Any) -> Client:
    client = Client()
    client.force_login(User.objects.create_user(name, **more))
    return client


@pytest.fixture
def month(db: None, settings: object) -> Cluster:
    return filled(settings)


@pytest.fixture
def finance(month: Cluster) -> Client:
    return signed_in("books", role="finance")


# ---- the month worked out by hand -----------------------------------------------------------------------------------


def test_statements_are_what_was_worked_out_and_add_up_to_the_period(finance: Client) -> None:
    close_until_march()
    told = body(finance, "billing-periods/2026-03/")["result"]
    assert (told["state"], told["totals"]) == ("closed", {"EUR": str(EXPECTED["total"])})
    found = body(finance, "statements/?period=2026-03")["results"]
    assert {one["team"]: one["totals"]["EUR"] for one in found if one["totals"]} == EXPECTED["statements"]
    total = sum(Decimal(one["totals"].get("EUR", 0)) for one in found)
    assert total == Decimal(EXPECTED["total"])


def test_a_statement_tells_what_was_held_beside_its_lines(finance: Client) -> None:
    """Its lines are all of reserved quota here: what was held adds up to them, and pods were not seen."""
    close_until_march()
    for team in EXPECTED["statements"]:
        told = body(finance, f"statements/2026-03/{team}/")["result"]
        lines = sum(Decimal(line["unit_seconds"]) for line in told["lines"])
        assert sum(Decimal(one["reserved_unit_seconds"]) for one in told["use"]) == lines
        assert all(one["efficiency"] is None for one in told["use"])


def test_a_statements_lines_add_up_to_it_and_say_what_has_no_price(finance: Client) -> None:
    close_until_march()
    for team, total in EXPECTED["statements"].items():
        lines = body(finance, f"statements/2026-03/{team}/")["result"]["lines"]
        priced = [line for line in lines if line["amount"] is not None]
        assert sum(Decimal(line["amount"]) for line in priced) == Decimal(total), team
    lines = body(finance, "statements/2026-03/t12/")["result"]
    assert lines["unpriced"] == {"example.com/npu": "10"}
    unpriced = [line for line in lines["lines"] if line["amount"] is None]
    assert [(one["resource"], one["unit_seconds"], one["currency"]) for one in unpriced] == [
        ("example.com/npu", "36000", None)
    ]


def test_before_the_close_the_same_is_told_provisionally(finance: Client) -> None:
    for period in keep_periods(LATER):
        provide(period.pk, now=LATER)
    before = body(finance, "statements/?period=2026-03")["results"]
    assert {one["provisional"] for one in before} == {True}
    lines = pull(finance, "charges/?period=2026-03&page_size=7")
    assert [line["sequence"] for line in lines] == list(range(1, len(lines) + 1))
    close_until_march()
    after = body(finance, "statements/?period=2026-03")["results"]
    assert [one | {"provisional": False} for one in before] == after
    closed = pull(finance, "charges/?period=2026-03")
    first = closed[0]["sequence"] - 1
    assert [line | {"sequence": line["sequence"] + first} for line in lines] == closed
    assert not ProvisionalLine.objects.filter(period__month="2026-03").exists()


def test_a_period_tells_what_the_billing_period_of_focus_does(
    finance: Client, settings: LazySettings
) -> None:
    settings.ORGANISATION = "Example Labs"
    march = next(one for one in keep_periods(LATER) if one.month == "2026-03")
    provide(march.pk, now=LATER + timedelta(hours=1))
    expected = {
        "starts_at": "2026-02-28T23:00:00Z",
        "ends_at": "2026-03-31T22:00:00Z",
        "state": "open",
        "invoice_issuer_name": "Example Labs",
        "created_at": "2026-04-02T22:00:00Z",
        "updated_at": "2026-04-02T23:00:00Z",
    }
    (told,) = (one for one in body(finance, "billing-periods/")["results"] if one["month"] == "2026-03")
    assert {name: told[name] for name in expected} == expected
    close_until_march()
    told = body(finance, "billing-periods/2026-03/")["result"]
    assert {name: told[name] for name in expected} == expected | {
        "state": "closed",
        "updated_at": "2026-04-02T22:00:00Z",
    }


def test_another_issuer_is_another_etag(finance: Client, settings: LazySettings) -> None:
    close_until_march()
    etag = ask(finance, "billing-periods/2026-03/").headers["ETag"]
    settings.ORGANISATION = "Example Labs, renamed"
    again = ask(finance, "billing-periods/2026-03/", If_None_Match=etag)
    assert again.status_code == 200
    assert again.json()["result"]["invoice_issuer_name"] == "Example Labs, renamed"


@pytest.mark.parametrize("size", [7, 10_000])
def test_the_ledger_is_pulled_in_full_and_every_line_once(finance: Client, size: int) -> None:
    close_until_march()
    lines = pull(finance, f"charges/?page_size={size}")
    sequences = LedgerEntry.objects.order_by("sequence").values_list("sequence", flat=True)
    assert [line["sequence"] for line in lines] == list(sequences)
    total = Fraction(0)
    for line in lines:
        if line["amount"] is None or line["period"] != "2026-03":
            continue
        over, under = map(int, line["weight"].split("/"))
        each = Fraction(line["price_per_unit_hour"]) * Fraction(line["factor"]) * Fraction(over, under)
        exact = Fraction(line["unit_seconds"]) * each / 3600
        assert abs(Fraction(line["amount"]) - exact) <= Fraction(1, 2 * 10**18)
        assert line["currency"] == "EUR"
        total += exact
    assert total == sum(Fraction(amount) for *_kind, amount in EXPECTED["lines"])


def test_what_was_pulled_is_gone_on_from(finance: Client) -> None:
    close_until_march()
    every = pull(finance, "charges/")
    half = every[len(every) // 2]["sequence"]
    assert pull(finance, f"charges/?after_seq={half}&page_size=11") == [
        line for line in every if line["sequence"] > half
    ]
    page = body(finance, f"charges/?after_seq={every[-1]['sequence']}")
    assert (page["results"], page["next"], page["last_sequence"]) == ([], None, every[-1]["sequence"])


# ---- closed for ever ------------------------------------------------------------------------------------------------

CLOSED_PATHS = (
    "billing-periods/2026-03/",
    "statements/?period=2026-03",
    "statements/2026-03/t07/",
    "charges/?period=2026-03&page_size=50",
)


def test_a_closed_periods_bytes_and_etags_never_change(month: Cluster, finance: Client) -> None:
    close_until_march()
    before = [ask(finance, path) for path in CLOSED_PATHS]
    for answer in before:
        assert answer.headers["ETag"].startswith('"')
        assert "max-age" in answer.headers["Cache-Control"]
        assert "private" in answer.headers["Cache-Control"]
    Team.objects.filter(slug="t07").update(name="Renamed")
    Team.objects.filter(slug="t02").update(slug="renamed")
    Cluster.objects.update(slug="elsewhere", name="Elsewhere")
    Watermark.objects.update(done_until=LATER + timedelta(days=60))
    may = LATER + timedelta(days=40)
    april = next(one for one in keep_periods(may) if one.month == "2026-04")
    close(april.pk, by=None, reason=REASON, now=may)
    for path, old in zip(CLOSED_PATHS, before, strict=True):
        again = ask(finance, path)
        assert (again.content, again.headers["ETag"]) == (old.content, old.headers["ETag"]), path
        unchanged = ask(finance, path, If_None_Match=old.headers["ETag"])
        assert (unchanged.status_code, unchanged.content) == (304, b"")
        assert unchanged.headers["ETag"] == old.headers["ETag"]


def test_an_open_periods_etag_is_weak_and_moves_with_its_lines(finance: Client) -> None:
    march = next(one for one in keep_periods(LATER) if one.month == "2026-03")
    provide(march.pk, now=LATER)
    first = ask(finance, "statements/?period=2026-03")
    assert first.headers["ETag"].startswith('W/"')
    assert "no-cache" in first.headers["Cache-Control"]
    assert ask(finance, "statements/?period=2026-03", If_None_Match=first.headers["ETag"]).status_code == 304
    provide(march.pk, now=LATER + timedelta(hours=1))
    assert ask(finance, "statements/?period=2026-03", If_None_Match=first.headers["ETag"]).status_code == 200


def test_another_reader_does_not_share_an_etag(world: World) -> None:
    path = f"statements/?period={CLOSED_MONTH}"
    tags = {
        role: ask(world.client(role), path).headers["ETag"] for role in ("finance", "red_lead", "blue_lead")
    }
    assert len(set(tags.values())) == 3


# ---- who reads what -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("month", [CLOSED_MONTH, OPEN_MONTH])
@pytest.mark.parametrize(
    ("role", "teams"),
    [
        ("guest", []), ("viewer", ["red"]), ("red_lead", ["red"]), ("blue_lead", ["blue"]),
        ("finance", ["blue", "red", None]), ("admin", ["blue", "red", None]),
    ],
)  # fmt: skip
def test_lines_and_statements_are_of_the_own_teams(
    world: World, month: str, role: str, teams: list[str]
) -> None:
    client = world.client(role)
    assert [one["team"] for one in body(client, f"statements/?period={month}")["results"]] == teams
    found = {line["team"] for line in pull(client, f"charges/?period={month}")}
    assert found == set(teams)
    period = body(client, f"billing-periods/{month}/")["result"]
    whole = role in ("finance", "admin")
    assert [period[name] is not None for name in ("totals", "entries", "missing")] == [whole] * 3


def test_a_statement_of_a_team_that_held_nothing_is_empty_and_a_line_reads_as_it_is(world: World) -> None:
    team = Team.objects.create(slug="idle", name="Idle")
    found = body(world.client("finance"), f"statements/{CLOSED_MONTH}/{team.slug}/")["result"]
    assert (found["lines"], found["totals"], found["unpriced"]) == ([], {}, {})
    (line,) = body(world.client("red_lead"), f"statements/{CLOSED_MONTH}/red/")["result"]["lines"]
    assert line == {
        "model": MODEL, "sharing_mode": None, "profile": None, "resource": "nvidia.com/gpu", "basis": "reserved",
        "correction": False, "entries": 1, "unit_seconds": "7200", "currency": "USD", "price_per_unit_hour": "2.5",
        "factor": "1", "weight": "1/1", "amount": "5.00",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "parameter", "code"),
    [
        ("statements/", "period", "required"),
        ("statements/?period=2031-01", "period", "no_period"),
        ("statements/?period=March", "period", "invalid"),
        ("charges/?period=2026-13", "period", "invalid"),
        ("charges/?after_seq=-1", "after_seq", "min_value"),
        ("charges/?page_size=10001", "page_size", "max_value"),
        ("charges/?basis=spot", "basis", "invalid_choice"),
        ("charges/?window=7d", "window", "unknown"),
    ],
)
def test_bad_parameters_are_named(world: World, path: str, parameter: str, code: str) -> None:
    answer = ask(world.client("finance"), path)
    assert answer.status_code == 400
    assert [(one["parameter"], one["code"]) for one in answer.json()["errors"]] == [(parameter, code)]


# ---- closing --------------------------------------------------------------------------------------------------------


def close_by_rest(client: Client, month: str, given: Any = None) -> tuple[int, dict[str, Any]]:
    answer = client.post(f"{V1}/billing-periods/{month}/close/", given or {}, content_type="application/json")
    return answer.status_code, answer.json()


def test_finance_closes_a_period_once_and_says_why(month: Cluster, finance: Client) -> None:
    keep_periods(LATER)
    status, refused = close_by_rest(finance, "2026-03")
    assert (status, refused["code"]) == (409, "before")
    for period in keep_periods(LATER):
        if period.starts_at < PERIOD["start"]:
            assert close_by_rest(finance, period.month)[0] == 200
    status, refused = close_by_rest(finance, "2026-03")
    assert (status, refused["code"]) == (409, "accept")
    assert refused["missing"] == {"unpriced": {"example.com/npu": "10"}, "left_out": {"nvidia.com/gpu": "12"}}
    assert "10" in refused["detail"]
    status, done = close_by_rest(finance, "2026-03", {"reason": REASON})
    assert (status, done["result"]["state"], done["result"]["reason"]) == (200, "closed", REASON)
    assert close_by_rest(finance, "2026-03", {"reason": "again"})[1]["result"]["reason"] == REASON
    assert BillingPeriod.objects.get(month="2026-03").closed_by == User.objects.get(username="books")


@pytest.mark.parametrize("role", ["guest", "viewer", "red_lead"])
def test_nobody_else_closes_one(world: World, role: str) -> None:
    status, refused = close_by_rest(world.client(role), OPEN_MONTH, {"reason": "x"})
    assert (status, refused["code"]) == (403, "role")
    assert BillingPeriod.objects.get(month=OPEN_MONTH).state == "open"


@pytest.mark.parametrize("given", [{"reason": 1}, {"reason": "x" * 2001}, {"why": "x"}])
def test_a_close_is_read_strictly(world: World, given: dict[str, Any]) -> None:
    assert close_by_rest(world.client("finance"), OPEN_MONTH, given)[0] == 400


def test_there_is_no_close_of_no_period(world: World) -> None:
    assert close_by_rest(world.client("finance"), "2031-01")[0] == 404
