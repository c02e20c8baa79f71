"""Which change requests a filter keeps, by hand, and whom it lets name what."""

from __future__ import annotations

from typing import Any

import pytest

from apps.api.tests.world import World
from apps.changes.filters import ChangeFilterForm, team_ids_of_requests
from apps.changes.models import ChangeRequest
from apps.changes.permissions import visible_requests


def asked(world: World, name: str, *, team: Any = None, **fields: Any) -> int:
    edit = {"kind": "ClusterQueue", "name": name, "set": {"stop_policy": "Hold"}}
    made = ChangeRequest.objects.create(
        cluster=world.east,
        team=team,
        edits=fields.pop("edits", [edit]),
        reason="maintenance",
        created_by=world.users[fields.pop("by", "admin")],
        created_at=world.now,
        **fields,
    )
    return made.pk


def kept(world: World, role: str = "admin", **filters: str) -> set[int]:
    reader = world.users[role]
    form = ChangeFilterForm(filters, now=world.now, team_ids=team_ids_of_requests(reader))
    assert form.is_valid(), form.errors
    return set(form.narrowed(visible_requests(reader), reader).values_list("pk", flat=True))


def test_each_filter_keeps_what_it_names(world: World) -> None:
    local = [{"kind": "LocalQueue", "namespace": "red-ns", "name": "red-lq", "set": {"stop_policy": "Hold"}}]
    red = asked(world, "red-cq", team=world.red, by="red_lead", state="awaiting_approval")
    platform = asked(world, "blue-cq", state="awaiting_approval")
    stop = asked(world, "", team=world.red, edits=local, state="observed", origin="undo")
    assert kept(world) == {red, platform, stop}
    assert kept(world, cluster="east") == {red, platform, stop}
    assert kept(world, team="red") == {red, stop}
    assert kept(world, team="-") == {platform}
    assert kept(world, state="awaiting_approval") == kept(world, state="open") == {red, platform}
    assert kept(world, state="closed") == kept(world, origin="undo") == {stop}
    assert kept(world, requester="red_lead") == {red}
    assert kept(world, mine="on") == {platform, stop}
    assert kept(world, inbox="on") == {red}
    assert kept(world, kind="ClusterQueue", name="red-cq") == {red}
    assert kept(world, kind="LocalQueue", namespace="red-ns", name="red-lq") == {stop}
    assert kept(world, namespace="blue-ns", name="red-lq") == set()
    assert kept(world, team="red", kind="ClusterQueue", name="blue-cq") == set()


def test_a_filter_never_widens_what_is_read(world: World) -> None:
    red, blue = asked(world, "red-cq", team=world.red), asked(world, "blue-cq", team=world.blue)
    assert kept(world, "red_lead") == kept(world, "viewer", kind="ClusterQueue", name="red-cq") == {red}
    assert kept(world, "red_lead", requester="admin", state="open") == {red}
    assert kept(world, "red_lead", kind="ClusterQueue", name="blue-cq") == set()
    assert kept(world, "red_lead", inbox="on") == kept(world, "finance") == kept(world, "guest") == set()
    assert kept(world, "blue_lead", state="draft") == {blue}


@pytest.mark.parametrize(
    ("role", "known"),
    [
        ("guest", []),
        ("viewer", ["red"]),
        ("red_lead", ["red"]),
        ("finance", []),
        ("admin", ["red", "blue", "-"]),
    ],
)
def test_only_teams_whose_requests_are_seen_may_be_named(world: World, role: str, known: list[str]) -> None:
    teams = team_ids_of_requests(world.users[role])
    valid = [
        slug
        for slug in ("red", "blue", "-", "none")
        if ChangeFilterForm({"team": slug}, now=world.now, team_ids=teams).is_valid()
    ]
    assert valid == known


def test_a_foreign_team_is_the_same_fault_as_none(world: World) -> None:
    teams = team_ids_of_requests(world.users["red_lead"])
    faults = [
        ChangeFilterForm({"team": slug}, now=world.now, team_ids=teams).errors for slug in ("blue", "none")
    ]
    assert faults[0].as_data()["team"][0].code == "not_found"
    assert faults[0] == faults[1]


@pytest.mark.parametrize("filters", [{"from": "yesterday"}, {"to": "2026-12-01T08:00:00"}, {"kind": "Pod"}])
def test_what_cannot_be_read_is_said_at_the_filter(world: World, filters: dict[str, str]) -> None:
    assert list(ChangeFilterForm(filters, now=world.now).errors) == list(filters)


def test_times_are_of_asking_and_the_last_is_left_out(world: World) -> None:
    red = asked(world, "red-cq", team=world.red)
    at = world.now.isoformat()
    assert kept(world, **{"from": at}) == {red}
    assert kept(world, to=at) == set()
