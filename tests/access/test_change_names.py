"""What somebody may ask to be changed, and which requests a filter keeps: by role and by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.selectors import led_teams
from apps.api.tests.world import World, cluster_object
from apps.changes.editable import Editable, place_of
from apps.changes.filters import AuditForm, ChangeForm, team_ids_of_requests
from apps.changes.models import AuditEntry, ChangeRequest
from apps.fleet.models import TeamBinding
from apps.quotas.situation import load_scene

RED = ["ClusterQueue/red-cq", "LocalQueue/red-ns/red-lq", "VolcanoQueue/red-vq"]
BLUE = [key.replace("red", "blue") for key in RED]
ALL = sorted([*RED, *BLUE, "Cohort/all"])


@pytest.fixture
def fleet(world: World) -> World:
    """Each team owns a Volcano queue too."""
    for team in (world.red, world.blue):
        name = f"{team.slug}-vq"
        cluster_object(
            world,
            "VolcanoQueue",
            name,
            spec={
                "weight": 1,
                "capability": {},
                "deserved": {},
                "guarantee": {},
                "parent": "",
                "priority": None,
            },
            status={"state": "Open", "allocated": {}},
        )
        TeamBinding.objects.create(
            team=team,
            cluster=world.east,
            kind="volcano_queue",
            name=name,
            valid_from=world.now - timedelta(days=1),
        )
    return world


def editable(fleet: World, role: str) -> Editable:
    user = fleet.users[role]
    teams = None if user.is_platform_admin else list(led_teams(user).values_list("pk", flat=True))
    return Editable.of(load_scene(now=fleet.now, cluster=fleet.east), teams)


@pytest.mark.parametrize(
    ("role", "may"),
    [("guest", []), ("viewer", []), ("red_lead", RED), ("blue_lead", BLUE), ("finance", []), ("admin", ALL)],
)
def test_what_each_role_may_ask_to_be_changed(fleet: World, role: str, may: list[str]) -> None:
    """Every object of the cluster is tried: what is not offered cannot be opened either."""
    found = editable(fleet, role)
    assert sorted(place.key for place in found.places()) == may
    opened = [key for key in ALL if (place := place_of(key)) is not None and found.find(place) is not None]
    assert opened == sorted(may)


def test_what_is_opened_is_as_it_was_observed(fleet: World) -> None:
    found = editable(fleet, "admin")
    volcano = found.find(place_of("VolcanoQueue/red-vq"))  # type: ignore[arg-type]
    queue = found.find(place_of("ClusterQueue/red-cq"))  # type: ignore[arg-type]
    assert volcano is not None
    assert (volcano.spec["weight"], volcano.state) == (1, "Open")
    assert queue is not None
    assert queue.node is not None
    assert queue.node.node.parent == "all"


def test_a_queue_is_of_whom_it_is_bound_to(fleet: World) -> None:
    found = editable(fleet, "admin")
    for key in RED:
        assert list(found.owners(place_of(key))) == [fleet.red.pk]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["", "ClusterQueue", "ClusterQueue/", "ClusterQueue/a/b", "LocalQueue/a", "LocalQueue//b"]
)
def test_what_names_no_object_is_no_place(text: str) -> None:
    assert place_of(text) is None


# ---- filters --------------------------------------------------------------------------------------------------------


def asked(fleet: World, name: str, *, team: Any = None, **fields: Any) -> ChangeRequest:
    edit = {"kind": "ClusterQueue", "name": name, "set": {"stop_policy": "Hold"}}
    return ChangeRequest.objects.create(
        cluster=fleet.east,
        team=team,
        edits=fields.pop("edits", [edit]),
        reason="maintenance",
        created_by=fleet.users[fields.pop("by", "admin")],
        created_at=fleet.now,
        **fields,
    )


def kept(fleet: World, **filters: str) -> set[int]:
    form = ChangeForm(filters, now=fleet.now)
    assert form.is_valid(), form.errors
    return set(form.keep(ChangeRequest.objects.all()).values_list("pk", flat=True))


def test_each_filter_keeps_what_it_names(fleet: World) -> None:
    local = [{"kind": "LocalQueue", "namespace": "red-ns", "name": "red-lq", "set": {"stop_policy": "Hold"}}]
    red = asked(fleet, "red-cq", team=fleet.red, by="red_lead", state="awaiting_approval").pk
    platform = asked(fleet, "blue-cq").pk
    stop = asked(fleet, "", team=fleet.red, edits=local).pk
    assert kept(fleet) == {red, platform, stop}
    assert kept(fleet, cluster="east") == {red, platform, stop}
    assert kept(fleet, team="red") == {red, stop}
    assert kept(fleet, team="-") == {platform}
    assert kept(fleet, state="awaiting_approval") == {red}
    assert kept(fleet, requester="red_lead") == {red}
    assert kept(fleet, object="ClusterQueue/red-cq") == {red}
    assert kept(fleet, object="LocalQueue/red-ns/red-lq") == {stop}
    assert kept(fleet, object="LocalQueue/blue-ns/red-lq") == set()
    assert kept(fleet, team="red", object="ClusterQueue/blue-cq") == set()


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
def test_only_teams_whose_requests_are_seen_may_be_named(fleet: World, role: str, known: list[str]) -> None:
    teams = team_ids_of_requests(fleet.users[role])
    valid = [
        slug
        for slug in ("red", "blue", "-", "none")
        if ChangeForm({"team": slug}, now=fleet.now, team_ids=teams).is_valid()
    ]
    assert valid == known


def test_a_foreign_team_is_the_same_fault_as_none(fleet: World) -> None:
    teams = team_ids_of_requests(fleet.users["red_lead"])
    faults = [ChangeForm({"team": slug}, now=fleet.now, team_ids=teams).errors for slug in ("blue", "none")]
    assert faults[0].as_data()["team"][0].code == "not_found"
    assert faults[0] == faults[1]


def test_what_names_no_object_is_said_at_the_filter(fleet: World) -> None:
    assert list(ChangeForm({"object": "red-cq"}, now=fleet.now).errors) == ["object"]


def test_the_trail_is_narrowed_by_who_what_and_when(fleet: World) -> None:
    for sequence, (actor, action, kind) in enumerate(
        [
            ("admin", "approve", "ChangeRequest"),
            ("red_lead", "save", "ChangeRequest"),
            ("admin", "change", "Rate"),
        ],
        1,
    ):
        AuditEntry.objects.create(
            sequence=sequence,
            at=fleet.now + timedelta(minutes=sequence),
            actor_name=actor,
            action=action,
            subject_kind=kind,
            subject_id=str(sequence),
            subject_label=f"thing {sequence}",
            previous_hash="",
            hash=str(sequence),
        )

    def entries(**filters: str) -> list[int]:
        form = AuditForm(filters)
        assert form.is_valid(), form.errors
        return sorted(form.keep(AuditEntry.objects.all()).values_list("sequence", flat=True))

    assert entries() == [1, 2, 3]
    assert entries(actor="admin") == [1, 3]
    assert entries(action="save") == [2]
    assert entries(kind="ChangeRequest") == [1, 2]
    assert entries(subject="thing 3") == [3]
    assert entries(subject="1") == [1]
    assert entries(outcome="refused") == []
    assert entries(until="2000-01-01") == []
    assert entries(since="2000-01-01T10:00") == [1, 2, 3]
