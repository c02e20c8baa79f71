"""Work of which no Workload was made, from its owner's events: on the lists, with its cause, to its namespace's team."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from typing import Any

import pytest

from apps.admissions.pending import Criteria
from apps.admissions.unmade import unmade
from apps.api.tests.world import World, workload
from apps.fleet.models import TeamBinding
from apps.observations.models import Event, Pod

pytestmark = pytest.mark.django_db

# Reason, text, and the cause and rule that the text has by hand.
SAID = [
    (
        "WorkloadPriorityClassNotFound",
        'WorkloadPriorityClass "nope" not found',
        "configuration",
        "priority-class-missing",
    ),
    (
        "FailedCreate",
        'Error creating: pods "a-1" is forbidden: exceeded quota: gpu, requested: requests.nvidia.com/gpu=8, used:'
        " requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8",
        "quota",
        "namespace-full",
    ),
    (
        "FailedCreate",
        'Error creating: admission webhook "validate.example.com" denied the request: no cost center',
        "configuration",
        "webhook-refused",
    ),
]


@pytest.fixture
def owned(world: World) -> World:
    for team in (world.red, world.blue):
        TeamBinding.objects.create(
            team=team, cluster=world.east, kind="namespace", name=f"{team.slug}-jobs",
            valid_from=world.now - timedelta(days=1),
        )  # fmt: skip
    return world


def said(
    world: World, name: str, reason: str, message: str, *, minutes: int = 5, team: str = "red", **more: Any
) -> None:
    at = world.now - timedelta(minutes=minutes)
    values = {"object_kind": "Job", "type": "Warning", "first_at": at, "last_at": at, "count": 2, **more}
    Event.objects.create(
        cluster=world.east, created_at=at, uid=f"e-{name}-{minutes}", namespace=f"{team}-jobs", object_uid=f"job-{name}",
        object_name=name, reason=reason, message=message, observed_at=at, **values,
    )  # fmt: skip


def rows(world: World, **more: Any) -> list[tuple[str, str]]:
    found = unmade(now=world.now, team_ids=more.pop("team_ids", None), criteria=Criteria(**more))
    return [(row.name, row.verdict.rule) for row in found]


@pytest.mark.parametrize(("reason", "message", "cause", "rule"), SAID)
def test_each_reason_has_its_cause(owned: World, reason: str, message: str, cause: str, rule: str) -> None:
    said(owned, "a", reason, message)
    (row,) = unmade(now=owned.now, team_ids=None)
    assert (row.verdict.layer, row.cause, row.verdict.rule) == ("admission", cause, rule)
    assert (row.kind, row.name, row.team_slug, row.times) == ("Job", "a", "red", 2)


def test_the_newest_text_counts_and_the_first_is_its_beginning(owned: World) -> None:
    said(owned, "a", *SAID[1][:2], minutes=50)
    said(owned, "a", *SAID[0][:2], minutes=5)
    (row,) = unmade(now=owned.now, team_ids=None)
    assert (row.verdict.rule, row.times) == ("priority-class-missing", 4)
    assert row.since == owned.now - timedelta(minutes=50)


def test_what_has_work_or_pods_or_is_over_is_none(owned: World) -> None:
    said(owned, "queued", *SAID[0][:2])
    workload(owned, "made", namespace="red-jobs", owner_uid="job-queued")
    said(owned, "started", *SAID[1][:2])
    Pod.objects.filter(uid="pod-red").update(namespace="red-jobs", owner_uid="job-started")
    said(owned, "long-ago", *SAID[2][:2], minutes=61)
    said(owned, "no-failure", "FailedCreate", "x", type="Normal")
    said(owned, "no-job", *SAID[2][:2], object_kind="ReplicaSet")
    assert rows(owned) == []


def test_a_suspended_job_that_no_queue_takes_says_so(owned: World) -> None:
    """All that is seen of a missing WorkloadPriorityClass where the queue's controller says nothing."""
    told: dict[str, Any] = {"type": "Normal", "count": 1}
    said(owned, "left", "Suspended", "Job suspended", **told)
    said(owned, "just-made", "Suspended", "Job suspended", minutes=2, **told)
    said(owned, "old", "Suspended", "Job suspended", minutes=61, **told)
    said(owned, "queued", "Suspended", "Job suspended", **told)
    workload(owned, "made", namespace="red-jobs", owner_uid="job-queued")
    said(owned, "refused", *SAID[0][:2], minutes=9)
    said(owned, "refused", "Suspended", "Job suspended", minutes=4, **told)
    assert rows(owned) == [("refused", "priority-class-missing"), ("left", "misconfigured")]
    (row,) = unmade(now=owned.now, team_ids=None, criteria=Criteria(q="left"))
    assert (row.verdict.layer, row.cause) == ("admission", "configuration")


def test_filters_and_teams(owned: World) -> None:
    said(owned, "mine", *SAID[0][:2])
    said(owned, "theirs", *SAID[1][:2], team="blue")
    assert rows(owned, team_ids=[owned.red.pk]) == [("mine", "priority-class-missing")]
    assert rows(owned, team="blue") == [("theirs", "namespace-full")]
    assert rows(owned, cause="quota") == [("theirs", "namespace-full")]
    assert rows(owned, q="RED-jobs/") == [("mine", "priority-class-missing")]
    assert rows(owned, queue="red-lq") == []
    assert rows(owned, cluster="west") == []


@pytest.mark.parametrize("page", ["/admissions/", "/teams/red/"])
def test_lists_show_it_to_its_team_alone(owned: World, page: str) -> None:
    said(owned, "mine", *SAID[0][:2])
    said(owned, "theirs", *SAID[1][:2], team="blue")
    client = owned.client("red_lead")
    body = client.get(page).content.decode()
    assert "No workload was made" in body
    assert "mine" in body
    assert "theirs" not in body
    answer = client.get(f"{page}?format=csv&table=unmade")
    text = b"".join(answer.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined]
    assert [row["Belongs to"] for row in csv.DictReader(io.StringIO(text))] == ["mine"]


def test_rest_says_what_the_list_says_with_its_filters_and_to_its_team_alone(owned: World) -> None:
    said(owned, "older", *SAID[1][:2], minutes=50)
    said(owned, "mine", *SAID[0][:2])
    said(owned, "theirs", *SAID[1][:2], team="blue")
    path = "/api/v1/admission-failures/unmade/"

    def names(role: str, query: str = "") -> list[str]:
        return [row["name"] for row in owned.client(role).get(path + query).json()["results"]]

    assert names("red_lead") == ["older", "mine"]
    assert names("admin", "?team=blue") == ["theirs"]
    assert names("admin", "?cause=configuration") == ["mine"]
    assert names("admin", "?queue=red-lq") == []
    first = owned.client("red_lead").get(path + "?page_size=1").json()
    assert (first["count"], [row["name"] for row in first["results"]]) == (2, ["older"])
    row = owned.client("red_lead").get(first["next"]).json()["results"][0]
    assert (row["name"], row["kind"], row["team"], row["times"]) == ("mine", "Job", "red", 2)
    assert (row["layer"], row["cause"], row["rule"]) == ("admission", *SAID[0][2:])
    assert (row["reason"], row["message"]) == SAID[0][:2]
    assert row["sentence"] in owned.client("red_lead").get("/admissions/").content.decode().replace(
        "&quot;", '"'
    )


def test_without_such_work_there_is_no_panel(owned: World) -> None:
    assert "No workload was made" not in owned.client("admin").get("/admissions/").content.decode()
