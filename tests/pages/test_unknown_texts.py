"""The page of unknown texts and its REST twin: the same groups and numbers, for platform admins."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

import pytest

from apps.api.tests.world import World
from apps.observations.models import StateSpan

ODD = 'workload "a-1" waits for 3 of 8 leases <b>now</b>'


@pytest.fixture
def odd(world: World) -> World:
    for uid, hours in (("uid-red-waits", 2), ("uid-blue-waits", 3)):
        StateSpan.objects.filter(uid=uid).update(
            state="pending",
            reason="Odd",
            message=ODD,
            started_at=world.now - timedelta(hours=hours),
            ended_at=None,
        )
    return world


def page(world: World, query: str = "", language: str = "en") -> str:
    response = world.client("admin").get(
        f"/admissions/unknown/{query}", headers={"accept-language": language}
    )
    assert response.status_code == 200
    body: str = response.content.decode()
    return body[body.index("<main") :]


def test_a_group_with_its_sample_and_links(odd: World) -> None:
    body = page(odd)
    assert "workload &lt;text&gt; waits for &lt;n&gt; of &lt;n&gt; leases" in body
    assert "&lt;b&gt;now&lt;/b&gt;" in body
    assert "<b>now</b>" not in body
    assert '"/workloads/uid-red-waits/"' in body
    assert "1 text without a rule" in body
    assert "Rules, version 2." in body
    assert '<option value="event">events</option>' in body


def test_nothing_unknown_says_so(world: World) -> None:
    assert "Every text of this window is known." in page(world)


def test_the_filter_is_in_the_address_and_checked(odd: World) -> None:
    assert "leases" not in page(odd, "?origin=pod")
    assert "leases" in page(odd, "?origin=condition&window=24h")
    assert 'class="errors' in page(odd, "?origin=nowhere") or "errorlist" in page(odd, "?origin=nowhere")


def test_csv_and_rest_have_the_same_numbers(odd: World) -> None:
    client = odd.client("admin")
    text = b"".join(client.get("/admissions/unknown/?format=csv")).decode("utf-8-sig")
    (row,) = csv.DictReader(io.StringIO(text))
    found = client.get("/api/v1/admission-failures/unknown/").json()
    (result,) = found["results"]
    assert found["rules_version"] == 2
    assert row["Text"] == result["group"]
    assert row["Sample"] == result["sample"] == ODD
    assert int(row["Workloads"]) == result["works"] == 2
    assert result["decides"] is True
    # 2 h and 3 h, until the moment of each answer.
    assert 5 * 3600 <= float(result["seconds"]) < 5 * 3600 + 600
    assert sorted(result["uids"]) == ["uid-blue-waits", "uid-red-waits"]


def test_only_admins_are_shown_the_way(world: World) -> None:
    link = 'href="/admissions/unknown/"'
    assert link in world.client("admin").get("/admissions/").content.decode()
    for role in ("red_lead", "finance", "guest"):
        assert link not in world.client(role).get("/admissions/").content.decode()
