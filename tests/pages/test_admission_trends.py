"""The pages of what kept work from running say what was worked out by hand, in HTML, CSV and REST alike."""

from __future__ import annotations

import csv
import io
import re
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.models import Membership, Team, User
from tests.facts.by_hand import EXPECTED, NOW, WINDOW, lay_rolled_up

pytestmark = pytest.mark.django_db
SPAN = {"from": f"{WINDOW.start:%Y-%m-%dT%H:%M:%SZ}", "to": f"{WINDOW.end:%Y-%m-%dT%H:%M:%SZ}"}
D = Decimal


def reader(name: str, role: str, *teams: str) -> Client:
    user = User.objects.create(username=name, role=role)
    for team in Team.objects.filter(slug__in=teams):
        Membership.objects.create(user=user, team=team, role=Membership.Role.LEAD)
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Client:
    """Looks at the history when it ends."""
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    lay_rolled_up()
    return reader("admin", User.Role.PLATFORM_ADMIN)


def rows(client: Client, path: str, **query: str) -> list[dict[str, str]]:
    answer = client.get(f"{path}?{urlencode({**SPAN, **query, 'format': 'csv'})}")
    assert answer.status_code == 200
    text = b"".join(answer).decode("utf-8-sig") if answer.streaming else answer.content.decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text)))


def rest(client: Client, path: str, **query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    url = f"/api/v1/{path}/?{urlencode({**SPAN, 'page_size': '200', **query})}"
    while url:
        answer = client.get(url)
        assert answer.status_code == 200, answer.content
        body = answer.json()
        found += body["results"]
        url = body["next"] or ""
    return found


def sums(pairs: list[tuple[str, str | None]]) -> dict[str, Decimal]:
    found: dict[str, Decimal] = {}
    for key, hours in pairs:
        found[key] = found.get(key, D(0)) + D(hours or 0)
    return {key: hours for key, hours in found.items() if hours}


def said(name: str) -> dict[str, Decimal]:
    return {key: D(value) for key, value in EXPECTED[name].items()}


def test_hours_by_cause_are_the_same_everywhere(admin: Client) -> None:
    expected = said("blocked_work_hours_by_cause")
    table = rows(admin, "/admissions/over-time/", table="queues")
    assert sums([(row["cause"], row["hours"]) for row in table]) == expected
    hours = rest(admin, "admission-failures/hours")
    assert sums([(row["key"], row["hours"]) for row in hours]) == expected
    for cause, total in expected.items():
        work = rest(admin, "admission-failures/work", cause=cause)
        assert sum(D(row["hours"]) for row in work) == total
        listed = rows(admin, "/admissions/work/", cause=cause)
        assert sum(D(row["Hours"]) for row in listed) == total


def test_layers_and_devices(admin: Client) -> None:
    layers = rest(admin, "admission-failures/hours", by="layer")
    assert sums([(row["key"], row["hours"]) for row in layers]) == said("blocked_work_hours_by_layer")
    gpus = rest(admin, "admission-failures/hours", resource="nvidia.com/gpu")
    assert sums([(row["key"], row["hours"]) for row in gpus]) == said("blocked_gpu_hours_by_cause")


def test_every_number_of_the_page_opens_its_work(admin: Client) -> None:
    page = admin.get(f"/admissions/over-time/?{urlencode(SPAN)}").content.decode()
    links = {link.replace("&amp;", "&") for link in re.findall(r'href="(/admissions/work/\?[^"]+)"', page)}
    assert len(links) > 10
    for link in sorted(links):
        text = admin.get(link).content.decode()
        assert re.search(r"<h2[^>]*>[1-9][0-9]* workloads?,", text), link


def test_each_sum_says_of_which_time_it_is(admin: Client) -> None:
    """Columns of hours keep their tenth, so that the figures stand below each other."""
    text = admin.get(f"/admissions/over-time/?{urlencode({**SPAN, 'by': 'cause'})}").content.decode()
    for panel in ("h-trend", "h-queues"):
        assert re.search(
            rf'id="{panel}">.*?</h2>\s*<p class="muted mb-0"><time datetime="2026-11-30T00:', text
        ), panel
    (trend,) = re.findall(r'<section class="panel" aria-labelledby="h-trend">.*?</section>', text, re.S)
    hours = re.findall(r'<td class="num">(<?[\d,.]+|&lt;0\.1)</td>', trend)
    assert hours
    assert all(re.fullmatch(r"[\d,]+\.\d|&lt;0\.1", each) for each in hours), hours


def test_a_bar_leads_to_its_work(admin: Client) -> None:
    figure = admin.get(f"/charts/blocked.json?{urlencode({**SPAN, 'by': 'cause'})}").json()
    for trace in figure["data"]:
        for value, url in zip(trace["y"], trace["customdata"], strict=True):
            if value:
                behind = admin.get(f"{url}&format=csv")
                text = b"".join(behind).decode("utf-8-sig") if behind.streaming else behind.content.decode()
                total = sum(D(row["Hours"]) for row in csv.DictReader(io.StringIO(text)))
                assert abs(total - D(str(value))) < D("0.001"), url


@pytest.mark.parametrize("by", ["queue", "team", "size", "flavor"])
def test_wait_times(admin: Client, by: str) -> None:
    found = {
        f"{row['key']} {row['which']}": [
            *(row[f"{p}_seconds"] for p in ("p50", "p90", "p99")),
            *(row[name] for name in ("reserved", "gave_up", "still_waiting")),
        ]
        for row in rest(admin, "wait-times", by=by)
    }
    assert found == EXPECTED["waits"][by]


def test_a_lead_sees_the_own_teams_numbers(admin: Client) -> None:
    lead = reader("lead", User.Role.VIEWER, "speech")
    table = rows(lead, "/admissions/over-time/", table="queues")
    quota = sum(D(row["hours"]) for row in table if row["cause"] == "quota")
    assert quota == D(EXPECTED["blocked_quota_hours_by_team"]["speech"])
    assert {row["Team"] for row in rows(lead, "/admissions/work/")} == {"Speech"}
    assert lead.get("/admissions/over-time/?team=vision").status_code == 404


def test_a_span_that_is_too_long_to_list_says_so(admin: Client) -> None:
    answer = admin.get("/admissions/work/?window=90d")
    assert answer.status_code == 200
    assert "at most 31 days" in answer.content.decode()
    assert admin.get("/api/v1/admission-failures/work/?window=90d").status_code == 400
    page = admin.get("/admissions/over-time/?window=90d").content.decode()
    queues = page[page.index('id="h-queues"') : page.index('id="h-week"')]
    assert "/admissions/over-time/?" in queues
    assert "/admissions/work/" not in queues


def statements(client: Client, **query: str) -> list[str]:
    with CaptureQueriesContext(connection) as seen:
        rows(client, "/admissions/over-time/", **query)
    return [each["sql"] for each in seen.captured_queries]


@pytest.mark.parametrize(
    ("table", "reads"),
    [
        ("", {"usage_blockhour", "usage_watermark"}),
        ("queues", {"usage_blockhour"}),
        ("outcomes", {"usage_outcomehour"}),
        ("shapes", set()),
        ("never", set()),
    ],
)
def test_a_table_as_csv_reads_what_it_shows_and_nothing_else(
    admin: Client, table: str, reads: set[str]
) -> None:
    asked = " ".join(statements(admin, table=table))
    rollups = {"usage_blockhour", "usage_watermark", "usage_outcomehour", "usage_waithour"}
    assert {name for name in rollups if f'"{name}"' in asked} == reads


def test_the_page_asks_once_how_far_the_rollups_are(admin: Client) -> None:
    with CaptureQueriesContext(connection) as seen:
        page = admin.get(f"/admissions/over-time/?{urlencode(SPAN)}")
    assert page.status_code == 200
    assert sum('FROM "usage_watermark"' in each["sql"] for each in seen.captured_queries) == 1
    assert (
        admin.get(f"/admissions/over-time/?{urlencode({**SPAN, 'format': 'csv', 'table': 'x'})}").status_code
        == 200
    )
