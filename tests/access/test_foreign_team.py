"""A lead of one team gets nothing of another team, on no route and in no format: by enumeration of the URL table.

Every route stands in FOREIGN with addresses that name something of another team (a team, queue, workload, namespace,
search text), or in NAMELESS with why it takes no such name. Each address is asked for three times by red's lead: with
blue's names (`{team}` = "blue"), with names that do not exist ("nope") and, where it is an object, with red's own.
Blue's answer has to be the answer to what does not exist, byte for byte but for the name that was asked for; and nothing
of blue may stand in it. Filters of REST lists are taken from the views, so that a new one has to be placed, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from apps.api.base import ReadView
from apps.api.tests.world import CLOSED_MONTH, GPU, World, change_requests
from apps.changes.services import DEEDS
from apps.fleet.models import TeamBinding

from .test_busy_fleet import make_busy
from .test_roles import routes


@pytest.fixture
def busy(world: World) -> World:
    """The busy fleet, in which each team owns its Volcano queue too."""
    make_busy(world)
    for team in (world.red, world.blue):
        TeamBinding.objects.create(
            team=team,
            cluster=world.east,
            kind="volcano_queue",
            name=f"{team.slug}-vq",
            valid_from=world.now - timedelta(days=1),
        )
    return world


OTHER, ABSENT, OWN = "blue", "nope", "red"
GONE, REFUSED, NOTHING = 404, 400, 200
"""GONE: an object of that name. REFUSED: a filter that names a team in REST. NOTHING: a filter that leaves no rows, or a
page that says at the filter that there is no such team."""

Case = tuple[int, str]


def csv(page: str, *tables: str, **filters: str) -> list[Case]:
    query = "".join(f"&{name}={value}" for name, value in filters.items())
    return [(NOTHING, f"{page}?format=csv&table={table}{query}") for table in tables]


FOREIGN: dict[str, list[Case]] = {
    "console:overview": [(NOTHING, "/?team={team}"), (NOTHING, "/?all=1&team={team}")],
    "console:teams": [(NOTHING, "/teams/?team={team}"), (NOTHING, "/teams/?format=csv&team={team}")],
    "console:team": [
        (GONE, "/teams/{team}/"),
        *((GONE, f"/teams/{{team}}/?format=csv&table={table}")
          for table in ("quota", "numbers", "other", "lent", "borrowed", "waiting", "unmade", "running", "finished")),
        (GONE, "/teams/{team}/?attention=1"),
        (GONE, "/teams/{team}/?queue={team}-cq"),
        (NOTHING, "/teams/red/?queue={team}-cq"),
        *csv("/teams/red/", "waiting", "running", queue="{team}-cq"),
    ],
    "console:statement": [
        (GONE, "/chargeback/2025-01/{team}/"),
        (GONE, "/chargeback/2025-02/{team}/?format=csv&table=lines"),
    ],
    "console:charges": [
        (GONE, "/chargeback/2025-01/{team}/charges/"),
        (GONE, "/chargeback/2025-02/{team}/charges/?format=csv"),
        (NOTHING, "/chargeback/2025-01/red/charges/?queue={team}-cq"),
    ],
    "console:capacity": [(NOTHING, "/capacity/?q={team}-pod"), *csv("/capacity/", "nodes", "pools", q="{team}-pod")],
    "console:node": [
        (GONE, "/capacity/nodes/{team}-node/"),
        *((NOTHING, f"/capacity/nodes/gpu-1/?format=csv&table={table}&q={{team}}-pod")
          for table in ("cards", "pods", "objects")),
    ],
    "console:stack": [(NOTHING, "/capacity/stack/?q={team}-pod")],
    "console:topology": [
        (NOTHING, "/capacity/topology/?q={team}-train"),
        *csv("/capacity/topology/", "fits", "domains", "nodes", q="{team}-train"),
    ],
    "console:queues": [
        (NOTHING, "/queues/?team={team}"),
        (NOTHING, "/queues/?q={team}-cq"),
        (NOTHING, "/queues/?under=Cohort/{team}-a"),
        (NOTHING, "/queues/?open=east/kueue/Cohort/{team}-a"),
        (NOTHING, "/queues/?format=csv&team={team}"),
        (NOTHING, "/queues/?format=csv&q={team}-cq&everything=on"),
        (NOTHING, "/queues/?format=csv&under=Cohort/{team}-a"),
        (GONE, "/queues/?part=east/kueue/Cohort/{team}-a"),
    ],
    "console:queue": [
        (GONE, "/queues/east/ClusterQueue/{team}-cq/"),
        (GONE, "/queues/east/Cohort/{team}-a/"),
        (GONE, "/queues/east/VolcanoQueue/{team}-vq/"),
        (GONE, "/queues/east/LocalQueue/{team}-lq/?namespace={team}-ns"),
        (GONE, "/queues/east/ClusterQueue/{team}-cq/?format=csv&table=quota"),
        (GONE, "/queues/east/ClusterQueue/{team}-cq/?format=csv&table=waiting"),
    ],
    "console:what_if": [
        (GONE, "/queues/what-if/?queue=ClusterQueue/{team}-cq"),
        (GONE, "/queues/what-if/?queue=Cohort/{team}-a"),
        *((GONE, "/queues/what-if/?change=" + change) for change in (
            '[{{"kind":"ClusterQueue","name":"{team}-cq","set":{{"stop_policy":"Hold"}}}}]',
            '[{{"kind":"Cohort","name":"{team}-a","set":{{"fair_weight":"2"}}}}]',
            '[{{"kind":"ClusterQueue","name":"red-cq","set":{{"cohort":"{team}-a"}}}}]',
            '[{{"kind":"Workload","action":"remove","uid":"uid-{team}-runs"}}]',
        )),
    ],
    "console:changes": [
        (GONE, "/changes/?team={team}"),
        (GONE, "/changes/?format=csv&table=changes&team={team}"),
        (NOTHING, "/changes/?kind=ClusterQueue&name={team}-cq&requester={team}_lead"),
        *csv("/changes/", "changes", name="{team}-cq"),
        *csv("/changes/", "changes", namespace="{team}-ns"),
    ],
    "console:change": [
        (GONE, "/changes/{change}/"),
        *((GONE, f"/changes/{{change}}/?format=csv&table={table}") for table in ("plan", "measured", "timeline")),
    ],
    "console:change_new": [
        *((GONE, f"/changes/new/?cluster=east&object={name}") for name in (
            "ClusterQueue/{team}-cq", "Cohort/{team}-a", "LocalQueue/{team}-ns/{team}-lq", "VolcanoQueue/{team}-vq",
        )),
        (GONE, "/changes/new/?team={team}"),
        (GONE, "/changes/new/?replaces={change}"),
        (NOTHING, "/changes/new/?q={team}-cq"),
        (NOTHING, "/changes/new/?format=csv&q={team}-lq"),
        *((NOTHING, "/changes/new/?cluster=east&change=" + change) for change in (
            '[{{"kind":"ClusterQueue","name":"{team}-cq","set":{{"stop_policy":"Hold"}}}}]',
            '[{{"kind":"ClusterQueue","name":"red-cq","set":{{"cohort":"{team}-a"}}}}]',
            '[{{"kind":"LocalQueue","namespace":"{team}-ns","name":"{team}-lq","set":{{"stop_policy":"Hold"}}}}]',
        )),
    ],
    "console:change_edit": [(GONE, "/changes/{change}/edit/")],
    "console:findings": [
        (NOTHING, "/findings/?q={team}"),
        (NOTHING, "/findings/?kind=ClusterQueue&name={team}-cq"),
        (NOTHING, "/findings/?format=csv&table=findings&q={team}"),
    ],
    "console:admissions": [
        (GONE, "/admissions/?team={team}"),
        (NOTHING, "/admissions/?queue={team}-cq"),
        (NOTHING, "/admissions/?q={team}-waits"),
        (GONE, "/admissions/?format=csv&team={team}"),
        (GONE, "/admissions/?format=csv&table=unmade&team={team}"),
        (NOTHING, "/admissions/?format=csv&queue={team}-cq"),
        (NOTHING, "/admissions/?format=csv&q={team}-waits"),
    ],
    "console:admissions_over_time": [
        (GONE, "/admissions/over-time/?team={team}"),
        (NOTHING, "/admissions/over-time/?queue={team}-cq"),
        (GONE, "/admissions/over-time/?format=csv&table=shapes&team={team}"),
        (NOTHING, "/admissions/over-time/?format=csv&table=shapes&queue={team}-cq"),
    ],
    "console:wait_times": [
        (GONE, "/admissions/wait-times/?team={team}"),
        (NOTHING, "/admissions/wait-times/?queue={team}-cq"),
        (NOTHING, "/admissions/wait-times/?format=csv&queue={team}-cq"),
    ],
    "console:held_work": [
        (GONE, "/chargeback/work/?cluster=east&team={team}"),
        (NOTHING, "/chargeback/work/?cluster=east&queue={team}-cq"),
        (NOTHING, "/chargeback/work/?cluster=east&format=csv&queue={team}-cq"),
    ],
    "console:idle": [
        (GONE, "/chargeback/idle/?team={team}"),
        (NOTHING, "/chargeback/idle/?queue={team}-cq"),
        (NOTHING, "/chargeback/idle/?format=csv&queue={team}-cq"),
    ],
    "console:blocked_work": [
        (GONE, "/admissions/work/?team={team}"),
        (NOTHING, "/admissions/work/?queue={team}-cq"),
        (NOTHING, "/admissions/work/?format=csv&queue={team}-cq"),
    ],
    "console:workload": [
        (GONE, "/workloads/uid-{team}-waits/"),
        (GONE, "/workloads/uid-{team}-runs/"),
        (GONE, "/workloads/pod-{team}/"),
        (GONE, "/workloads/uid-{team}-waits/?format=csv"),
        (GONE, "/workloads/pod-{team}/?format=csv"),
    ],
    "console:sources": [(NOTHING, "/sources/?q={team}"), *csv("/sources/", "sources", q="{team}")],
    "console:chart_json": [
        (GONE, "/charts/reasons.json?team={team}"),
        (GONE, "/charts/blocked.json?team={team}"),
        (NOTHING, "/charts/reasons.json?queue={team}-cq"),
        (NOTHING, "/charts/capacity.json?team={team}"),
    ],
    "console:chart": [
        (GONE, "/charts/reasons/?team={team}"),
        (NOTHING, "/charts/reasons/?format=csv&queue={team}-cq"),
    ],
    "api:cluster": [(GONE, "/api/v1/clusters/{team}/")],
    "api:team": [(GONE, "/api/v1/teams/{team}/")],
    "api:node": [(GONE, "/api/v1/nodes/east/{team}-node/")],
    "api:queue": [
        (GONE, "/api/v1/queues/east/ClusterQueue/{team}-cq/"),
        (GONE, "/api/v1/queues/east/Cohort/{team}-a/"),
        (GONE, "/api/v1/queues/east/VolcanoQueue/{team}-vq/"),
    ],
    "api:workload": [(GONE, "/api/v1/workloads/uid-{team}-waits/"), (GONE, "/api/v1/workloads/uid-{team}-runs/")],
    "api:explanation": [
        (GONE, "/api/v1/workloads/uid-{team}-waits/explanation/"),
        (GONE, "/api/v1/workloads/uid-{team}-runs/explanation/"),
        (GONE, "/api/v1/workloads/pod-{team}/explanation/"),
    ],
    "api:quota-change": [(GONE, "/api/v1/quota-changes/{change}/")],
    "api:nowhere": [(GONE, "/api/v1/{team}/")],
    "api:statement": [
        (GONE, "/api/v1/statements/2025-01/{team}/"),
        (GONE, "/api/v1/statements/2025-02/{team}/"),
    ],
}  # fmt: skip

NAMELESS = {
    "console:chargeback": "months are nobody's; its rows are of the reader's teams",
    "console:close_month": "a month is nobody's",
    "api:billing-period": "a month is nobody's; sums of all teams are for who reads them all",
    "api:billing-period-close": "a month is nobody's",
    "console:changes_calendar": "takes no name",
    "console:login": "before anybody is known",
    "console:logout": "takes no name",
    "console:preferences": "takes no name",
    "console:tokens": "only the own ones; another's is tested with the page",
    "console:quarantined_bytes": "for platform admins",
    "console:unknown_texts": "for platform admins",
    "console:audit": "for platform admins",
    "api:audit": "for platform admins",
    "api:focus": "for finance and platform admins",
    "console:glossary": "words, not objects",
    "api:what-if": "tested with bodies below",
    "api:quota-change-deed": "tested with bodies below",
    "api:schema": "the document is the same for all",
    "api:docs": "the document is the same for all",
    "healthz-live": "takes no name",
    "healthz-ready": "takes no name",
}

# Filters of REST lists that can name something of a team, with the name; all others are of the fleet.
NAMING = {
    "team": (REFUSED, "{team}"),
    "queue": (NOTHING, "{team}-cq"),
    "namespace": (NOTHING, "{team}-ns"),
    "q": (NOTHING, "{team}-"),
    "under": (NOTHING, "Cohort/{team}-a"),
    "name": (NOTHING, "{team}-cq"),
    "requester": (NOTHING, "{team}_lead"),
    "cost_centre": (NOTHING, "{team}-centre"),
}
OF_THE_FLEET = frozenset(
    {
        "cluster", "system", "state", "flavor", "resource", "everything", "bucket", "model", "sharing_mode", "node",
        "idle", "component", "version", "outliers", "capacity_type", "kind", "level", "pod", "cause", "reason",
        "deactivated", "by", "window", "severity", "code", "basis", "since", "until", "from", "to", "step",
        "after_seq", "period", "correction", "mine", "inbox", "area", "direction", "origin", "size", "which", "layer",
        "priority_class", "borrowed", "profile", "group_by", "nominal", "format",
    }
)  # fmt: skip


def api_views(
    resolver: URLResolver | None = None, namespace: str = "", prefix: str = "/"
) -> Iterator[tuple[str, str, type[ReadView]]]:
    """(full name, route, view) of every REST read without a name in its address."""
    for pattern in (resolver or get_resolver()).url_patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from api_views(pattern, f"{pattern.namespace}:" if pattern.namespace else namespace, route)
        elif isinstance(pattern, URLPattern):
            view = getattr(pattern.callback, "view_class", None) or getattr(pattern.callback, "cls", None)
            if isinstance(view, type) and issubclass(view, ReadView) and "<" not in route:
                yield f"{namespace}{pattern.name}", route, view


NEEDED = {
    "cluster": "east",
    "node": "gpu-1",
    "kind": "ClusterQueue",
    "flavor": "h100",
    "resource": GPU,
    "window": "day",
    "period": CLOSED_MONTH,
}


def filter_cases() -> list[tuple[str, int, str]]:
    found = []
    for name, route, view in api_views():
        if name in NAMELESS:
            continue
        fields = view.filter_class.base_fields if view.filter_class else {}
        needed = "".join(f"&{f}={NEEDED[f]}" for f in fields if f in NEEDED and fields[f].required)
        found += [
            (
                name,
                GONE if route.endswith("/quotas/history/") else NAMING[f][0],
                f"{route}?{f}={NAMING[f][1]}{needed}",
            )
            for f in fields
            if f in NAMING
        ]
    return found


CASES = [
    (name, expected, path) for name, cases in FOREIGN.items() for expected, path in cases
] + filter_cases()
LISTS = {name for name, _route, _view in api_views()}


def test_every_route_has_its_place_in_this_file() -> None:
    found = routes()
    placed = set(FOREIGN) | set(NAMELESS) | LISTS
    assert found - placed == set(), "name something of another team there, or say why that cannot be"
    assert (set(FOREIGN) | set(NAMELESS)) - found == set(), "these are gone"


def test_every_filter_of_rest_has_its_place_in_this_file() -> None:
    fields = {
        field
        for name, _route, view in api_views()
        if view.filter_class and name not in NAMELESS
        for field in view.filter_class.base_fields
    }
    assert fields - set(NAMING) - OF_THE_FLEET == set(), "can it name something of a team?"


def ask(client: Client, path: str) -> tuple[int, str, str]:
    """(status, body, file name) of an address."""
    response = client.get(path)
    body: bytes = b"".join(response) if response.streaming else response.content
    return response.status_code, body.decode(), response.headers.get("Content-Disposition", "")


def changes_of(busy: World) -> dict[str, int]:
    """A change request of each team; nobody's is none."""
    made = change_requests(busy)
    return {OWN: made[OWN].pk, OTHER: made[OTHER].pk, ABSENT: 999_999}


def named(path: str, team: str, changes: dict[str, int]) -> str:
    return path.format(team=team, change=changes[team])


def without_name(text: str, name: str) -> str:
    """A text with the name that was asked for taken out, as is what differs between any two answers."""
    text = without_noise(text)
    return text.replace(name, "NAME").replace(name.title(), "NAME")


def without_noise(text: str) -> str:
    """A text without times, ages, hashes and tokens: they go on between two answers, and may spell any name."""
    text = re.sub(r"<time [^>]*>[^<]*</time>", "TIME", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)|\d{8}T\d{4}Z|\d+\.\d{3,}", "TIME", text)
    text = re.sub(r"(changes/|replaces=)\d+", "", text)
    text = re.sub(r"-[0-9a-f]{10}(?=\")", "", text)  # charts go by a hash of their address
    return re.sub(r'"age_seconds":\d+|name="(csrfmiddlewaretoken|key)" value="\w+"', "", text)


def test_a_token_that_spells_a_name_is_noise() -> None:
    page = '<input name="csrfmiddlewaretoken" value="fpBlueEE"><p>red</p><img id="chart-00b1ueb1ue">'
    assert OTHER not in without_noise(page).lower()
    assert OTHER in without_noise(page + "<td>blue-pod</td>")


def test_a_time_that_goes_on_between_two_answers_is_noise() -> None:
    first, second = (
        f'<p>until <time datetime="2026-11-05T{text}Z">11-05 {text} UTC</time> for blue</p>'
        for text in ("04:41:59", "04:42")
    )
    assert without_noise(first) == without_noise(second)
    assert OTHER in without_noise(first)


@pytest.mark.parametrize(("name", "expected", "path"), CASES, ids=[path for _name, _expected, path in CASES])
def test_what_is_anothers_answers_like_what_does_not_exist(
    busy: World, name: str, expected: int, path: str
) -> None:
    client, changes = busy.client("red_lead"), changes_of(busy)
    foreign, absent = (ask(client, named(path, team, changes)) for team in (OTHER, ABSENT))
    assert foreign[0] == absent[0] == expected
    assert without_name(foreign[1], OTHER) == without_name(absent[1], ABSENT)
    assert without_name(foreign[2], OTHER) == without_name(absent[2], ABSENT)
    # Nothing of blue is there even when nobody asked for it.
    assert OTHER not in without_noise(absent[1]).lower()


@pytest.mark.parametrize(
    "path",
    sorted({path for _name, expected, path in CASES if expected == GONE and "{team}-node" not in path and "Cohort" not in path
            and path not in ("/api/v1/{team}/", "/api/v1/clusters/{team}/") and '"red-cq"' not in path}),
)  # fmt: skip
def test_the_same_address_answers_for_the_own_team(busy: World, path: str) -> None:
    """The addresses above are right: with the own name there is something."""
    assert ask(busy.client("red_lead"), named(path, OWN, changes_of(busy)))[0] == 200


# ---- what-if by REST --------------------------------------------------------------------------------------------

POD_SETS: list[dict[str, Any]] = [{"requests": {GPU: "1"}}]
BODIES: dict[str, dict[str, Any]] = {
    "queue": {"kind": "ClusterQueue", "name": "{team}-cq", "set": {"stop_policy": "Hold"}},
    "cohort": {"kind": "Cohort", "name": "{team}-a", "set": {"fair_weight": "2"}},
    "move": {"kind": "ClusterQueue", "name": "red-cq", "set": {"cohort": "{team}-a"}},
    "remove": {"kind": "Workload", "action": "remove", "uid": "uid-{team}-runs"},
    "priority": {"kind": "Workload", "action": "priority", "uid": "uid-{team}-waits", "priority": 1},
    "add": {"kind": "Workload", "action": "add", "queue": "{team}-cq", "pod_sets": POD_SETS},
    "add-local": {
        "kind": "Workload", "action": "add", "local_queue": "{team}-ns/{team}-lq", "pod_sets": POD_SETS,
    },
}  # fmt: skip


def post(world: World, change: dict[str, Any], team: str, role: str = "red_lead") -> tuple[int, str]:
    body = json.dumps({"cluster": "east", "changes": [change]}).replace("{team}", team)
    response = world.client(role).post("/api/v1/quotas/what-if/", body, content_type="application/json")
    return response.status_code, response.content.decode()


@pytest.mark.parametrize("change", BODIES.values(), ids=BODIES)
def test_a_what_if_about_another_team_is_about_nothing(busy: World, change: dict[str, Any]) -> None:
    foreign, absent = post(busy, change, OTHER), post(busy, change, ABSENT)
    assert foreign[0] == absent[0] == 404
    assert foreign[1] == absent[1]
    assert OTHER not in foreign[1].lower()


@pytest.mark.parametrize("name", ["queue", "remove", "priority", "add", "add-local"])
def test_a_what_if_about_the_own_team_names_nobody_else(busy: World, name: str) -> None:
    status, text = post(busy, BODIES[name], OWN)
    assert status == 200, text
    assert OTHER not in text.lower()
    assert "nobodys" not in text


@pytest.mark.parametrize("name", list(BODIES))
def test_who_reads_every_team_may_try_everything(busy: World, name: str) -> None:
    assert post(busy, BODIES[name], OTHER, role="finance")[0] == 200


# ---- writes about change requests by REST ---------------------------------------------------------------------------

WRITES = [
    ("put", "{change}/"),
    ("patch", "{change}/"),
    *(("post", f"{{change}}/{deed}/") for deed in DEEDS),
]


@pytest.mark.parametrize(("method", "path"), WRITES)
def test_a_write_to_another_teams_request_answers_like_one_to_none(
    busy: World, method: str, path: str
) -> None:
    client, changes = busy.client("red_lead"), changes_of(busy)
    body = json.dumps({"version": 1, "reason": "x"})
    foreign, absent = (
        getattr(client, method)(
            "/api/v1/quota-changes/" + named(path, team, changes), body, content_type="application/json"
        )
        for team in (OTHER, ABSENT)
    )
    assert foreign.status_code == absent.status_code == 404
    assert without_name(foreign.content.decode(), OTHER) == without_name(absent.content.decode(), ABSENT)
    assert foreign.headers.get("ETag") is None


EDITS: dict[str, dict[str, Any]] = {
    name: BODIES[name] for name in ("queue", "cohort", "move")
} | {
    "local": {"kind": "LocalQueue", "namespace": "{team}-ns", "name": "{team}-lq", "set": {"stop_policy": "Hold"}},
    "volcano": {"kind": "VolcanoQueue", "name": "{team}-vq", "set": {"weight": 3}},
}  # fmt: skip


@pytest.mark.parametrize("team", [OWN, "{team}"], ids=["for-the-own-team", "for-the-other"])
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_what_is_another_teams_cannot_be_asked_for(busy: World, edit: dict[str, Any], team: str) -> None:
    body = json.dumps({"cluster": "east", "team": team, "edits": [edit], "reason": "x"})
    answers = [
        busy.client("red_lead").post(
            "/api/v1/quota-changes/", body.replace("{team}", name), content_type="application/json"
        )
        for name in (OTHER, ABSENT)
    ]
    assert [found.status_code for found in answers] == [400, 400]
    assert answers[0].content == answers[1].content
