"""Every address of the portal × every role. A route that nobody placed in ROUTES fails the first test.

A line of ROUTES is (path, anonymous, guest, viewer, red_lead, blue_lead, finance, admin): `guest` belongs to no
team, `viewer` and `red_lead` to red, `blue_lead` to blue. What a role may not see is 404, the same as what does not
exist; what it may see but not do is 403; pages send strangers to the login (302), REST tells them (401).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from apps.accounts.tokens import make_token
from apps.api.tests.world import ROLES, World, change_requests, quarantine

EVERYBODY = (302, 200, 200, 200, 200, 200, 200)
RED = (302, 404, 200, 200, 404, 200, 200)
BLUE = (302, 404, 404, 404, 200, 200, 200)
ALL_TEAMS = (302, 404, 404, 404, 404, 200, 200)
ADMIN = (302, 404, 404, 404, 404, 404, 200)
NOTHING = (302, 404, 404, 404, 404, 404, 404)
ASKERS = (302, 404, 404, 200, 200, 404, 200)
PUBLIC = (200, 200, 200, 200, 200, 200, 200)


def rest(expected: tuple[int, ...]) -> tuple[int, ...]:
    return (401, *expected[1:])


Case = tuple[str, tuple[int, ...]]

ROUTES: dict[str, list[Case]] = {
    "console:login": [("/login/", (200, *[302] * 6))],
    "console:logout": [("/logout/", (302, *[405] * 6))],
    "console:preferences": [("/preferences/", (405,) * 7)],
    "console:tokens": [("/account/tokens/", EVERYBODY)],
    "console:overview": [("/", EVERYBODY)],
    "console:teams": [("/teams/", EVERYBODY)],
    "console:team": [("/teams/red/", RED), ("/teams/blue/", BLUE), ("/teams/none/", NOTHING)],
    "console:chargeback": [
        ("/chargeback/", EVERYBODY),
        ("/chargeback/?period=2025-01", EVERYBODY),
        ("/chargeback/?period=2031-01", NOTHING),
        ("/chargeback/?format=csv&table=teams", EVERYBODY),
    ],
    "console:close_month": [("/chargeback/2025-02/close/", (302, *[405] * 6))],
    "console:statement": [
        ("/chargeback/2025-01/red/", RED),
        ("/chargeback/2025-02/blue/", BLUE),
        ("/chargeback/2025-01/-/", ALL_TEAMS),
        ("/chargeback/2025-01/none/", NOTHING),
        ("/chargeback/2031-01/red/", NOTHING),
        ("/chargeback/2025-01/red/?format=csv&table=lines", RED),
    ],
    "console:charges": [
        ("/chargeback/2025-01/red/charges/", RED),
        ("/chargeback/2025-02/blue/charges/?model=x", BLUE),
        ("/chargeback/2025-01/-/charges/", ALL_TEAMS),
        ("/chargeback/2025-01/red/charges/?format=csv", RED),
    ],
    "console:capacity": [("/capacity/", EVERYBODY), ("/capacity/?cluster=none", NOTHING)],
    "console:node": [("/capacity/nodes/gpu-1/", EVERYBODY), ("/capacity/nodes/none/", NOTHING)],
    "console:stack": [("/capacity/stack/", EVERYBODY), ("/capacity/stack/?cluster=none", NOTHING)],
    "console:topology": [
        ("/capacity/topology/", EVERYBODY),
        ("/capacity/topology/?cluster=none", NOTHING),
    ],
    "console:queues": [("/queues/", EVERYBODY)],
    "console:queue": [
        ("/queues/east/ClusterQueue/red-cq/", RED),
        ("/queues/east/ClusterQueue/blue-cq/", BLUE),
        ("/queues/east/ClusterQueue/none/", NOTHING),
        ("/queues/none/ClusterQueue/red-cq/", NOTHING),
        ("/queues/east/Pod/red-cq/", NOTHING),
        ("/queues/east/ClusterQueue/red-cq/?format=csv&table=quota", RED),
        ("/queues/east/ClusterQueue/blue-cq/?format=csv&table=held", BLUE),
        ("/queues/east/Cohort/all/", (302, 404, 200, 200, 200, 200, 200)),
        ("/queues/east/LocalQueue/red-lq/?namespace=red-ns", RED),
        ("/queues/east/LocalQueue/blue-lq/?namespace=blue-ns", BLUE),
        ("/queues/east/LocalQueue/red-lq/?namespace=blue-ns", NOTHING),
        ("/queues/east/LocalQueue/red-lq/", NOTHING),
    ],
    "console:what_if": [
        ("/queues/what-if/", EVERYBODY),
        ("/queues/what-if/?cluster=none", NOTHING),
        ("/queues/what-if/?cluster=east&queue=ClusterQueue/red-cq", RED),
        ("/queues/what-if/?cluster=east&queue=ClusterQueue/blue-cq", BLUE),
        ("/queues/what-if/?cluster=east&queue=ClusterQueue/none", NOTHING),
        ("/queues/what-if/?cluster=east&queue=Cohort/all", ALL_TEAMS),
    ],
    "console:changes": [
        ("/changes/", EVERYBODY),
        ("/changes/?inbox=on&state=open&kind=ClusterQueue&name=some-cq", EVERYBODY),
        ("/changes/?format=csv&table=changes", EVERYBODY),
        ("/changes/?cluster=none", NOTHING),
        ("/changes/?team=red", (302, 404, 200, 200, 404, 404, 200)),
        ("/changes/?team=-", ADMIN),
    ],
    "console:changes_calendar": [
        ("/changes/calendar/", EVERYBODY),
        ("/changes/calendar/?format=csv&table=calendar", EVERYBODY),
    ],
    "console:change": [
        ("/changes/{red_change}/", (302, 404, 200, 200, 404, 404, 200)),
        ("/changes/{red_change}/?format=csv&table=timeline", (302, 404, 200, 200, 404, 404, 200)),
        ("/changes/{blue_change}/", (302, 404, 404, 404, 200, 404, 200)),
        ("/changes/{platform_change}/", ADMIN),
        ("/changes/99999999999999999999/", NOTHING),
    ],
    "console:change_new": [
        ("/changes/new/", ASKERS),
        ("/changes/new/?format=csv", ASKERS),
        ("/changes/new/?cluster=none", NOTHING),
        ("/changes/new/?team=red", (302, 404, 404, 200, 404, 404, 200)),
        ("/changes/new/?cluster=east&object=ClusterQueue/red-cq", (302, 404, 404, 200, 404, 404, 200)),
        ("/changes/new/?cluster=east&object=ClusterQueue/blue-cq", (302, 404, 404, 404, 200, 404, 200)),
        ("/changes/new/?cluster=east&object=LocalQueue/red-ns/red-lq", (302, 404, 404, 200, 404, 404, 200)),
        ("/changes/new/?cluster=east&object=Cohort/all", ADMIN),
        ("/changes/new/?cluster=east&object=ClusterQueue/none", NOTHING),
        ("/changes/new/?replaces={red_change}", (302, 404, 404, 200, 404, 404, 200)),
        ("/changes/new/?replaces=0", NOTHING),
    ],
    "console:change_edit": [
        ("/changes/{red_change}/edit/", (302, 404, 403, 200, 404, 404, 403)),
        ("/changes/0/edit/", NOTHING),
    ],
    "console:findings": [
        ("/findings/", EVERYBODY),
        ("/findings/?format=csv&table=findings", EVERYBODY),
        ("/findings/?team=red", RED),
        ("/findings/?team=blue", BLUE),
        ("/findings/?cluster=none", NOTHING),
    ],
    "console:admissions": [("/admissions/", EVERYBODY)],
    "console:admissions_over_time": [
        ("/admissions/over-time/", EVERYBODY),
        ("/admissions/over-time/?format=csv&table=outcomes", EVERYBODY),
        ("/admissions/over-time/?team=red", RED),
        ("/admissions/over-time/?team=blue", BLUE),
        ("/admissions/over-time/?team=-", ALL_TEAMS),
        ("/admissions/over-time/?cluster=none", NOTHING),
    ],
    "console:wait_times": [
        ("/admissions/wait-times/", EVERYBODY),
        ("/admissions/wait-times/?format=csv&by=team", EVERYBODY),
        ("/admissions/wait-times/?team=blue", BLUE),
    ],
    "console:blocked_work": [
        ("/admissions/work/", EVERYBODY),
        ("/admissions/work/?format=csv", EVERYBODY),
        ("/admissions/work/?team=red", RED),
    ],
    "console:unknown_texts": [
        ("/admissions/unknown/", ADMIN),
        ("/admissions/unknown/?format=csv", ADMIN),
        ("/admissions/unknown/?cluster=none", NOTHING),
    ],
    "console:held_work": [
        ("/chargeback/work/?cluster=east", EVERYBODY),
        ("/chargeback/work/?format=csv", EVERYBODY),
        ("/chargeback/work/?cluster=east&team=blue", BLUE),
        ("/chargeback/work/?cluster=none", NOTHING),
    ],
    "console:idle": [
        ("/chargeback/idle/", EVERYBODY),
        ("/chargeback/idle/?format=csv&table=supply", EVERYBODY),
        ("/chargeback/idle/?team=blue", BLUE),
        ("/chargeback/idle/?team=-", ALL_TEAMS),
        ("/chargeback/idle/?cluster=none", NOTHING),
    ],
    "console:audit": [
        ("/audit/", ADMIN),
        ("/audit/?format=csv&table=audit", ADMIN),
        ("/audit/?team=red", ADMIN),
        ("/audit/?cluster=none", NOTHING),
    ],
    "console:workload": [
        ("/workloads/uid-red-waits/", RED),
        ("/workloads/uid-red-runs/", RED),
        ("/workloads/uid-blue-waits/", BLUE),
        ("/workloads/uid-nobodys/", ALL_TEAMS),
        ("/workloads/uid-red-waits/?format=csv", RED),
        ("/workloads/pod-red/", RED),
        ("/workloads/pod-blue/?format=csv", BLUE),
        ("/workloads/none/", NOTHING),
    ],
    "console:sources": [("/sources/", EVERYBODY)],
    "console:quarantined_bytes": [
        ("/sources/quarantine/{quarantine}/", ADMIN),
        ("/sources/quarantine/0/", NOTHING),
    ],
    "console:glossary": [
        ("/glossary/", EVERYBODY),
        ("/glossary/?format=csv&table=weights", EVERYBODY),
    ],
    "console:chart_json": [
        ("/charts/capacity.json", EVERYBODY),
        ("/charts/reasons.json", EVERYBODY),
        ("/charts/capacity-trend.json?bucket=month", EVERYBODY),
        ("/charts/allocation-ratio.json", EVERYBODY),
        ("/charts/node-utilisation.json?node=gpu-1", EVERYBODY),
        ("/charts/node-utilisation.json", NOTHING),
        (
            "/charts/queue-quota.json?cluster=east&kind=ClusterQueue&queue=red-cq&flavor=h100&resource=nvidia.com/gpu",
            RED,
        ),
        (
            "/charts/queue-quota.json?cluster=east&kind=ClusterQueue&queue=blue-cq&resource=nvidia.com/gpu",
            BLUE,
        ),
        ("/charts/queue-quota.json?kind=ClusterQueue&queue=red-cq&resource=nvidia.com/gpu", NOTHING),
        ("/charts/none.json", NOTHING),
    ],
    "console:chart": [
        ("/charts/capacity/", EVERYBODY),
        ("/charts/reasons/", EVERYBODY),
        ("/charts/capacity-trend/?bucket=hour", EVERYBODY),
        ("/charts/capacity-trend/?bucket=week", NOTHING),
        ("/charts/allocation-ratio/", EVERYBODY),
        ("/charts/node-utilisation/?node=gpu-1&cluster=east", EVERYBODY),
        (
            "/charts/queue-quota/?cluster=east&kind=Cohort&queue=all&flavor=h100&resource=nvidia.com/gpu&window=year",
            (302, 404, 200, 200, 200, 200, 200),
        ),
        ("/charts/queue-quota/?cluster=east&kind=Cohort&queue=none&resource=nvidia.com/gpu", NOTHING),
        ("/charts/none/", NOTHING),
    ],
    "api:clusters": [("/api/v1/clusters/", rest(EVERYBODY))],
    "api:cluster": [("/api/v1/clusters/east/", rest(EVERYBODY)), ("/api/v1/clusters/none/", rest(NOTHING))],
    "api:teams": [("/api/v1/teams/", rest(EVERYBODY))],
    "api:team": [
        ("/api/v1/teams/red/", rest(RED)),
        ("/api/v1/teams/blue/", rest(BLUE)),
        ("/api/v1/teams/none/", rest(NOTHING)),
    ],
    "api:capacity": [("/api/v1/capacity/", rest(EVERYBODY))],
    "api:topology-nodes": [("/api/v1/topology/nodes/", rest(EVERYBODY))],
    "api:topology": [("/api/v1/topology/", rest(EVERYBODY))],
    "api:nodes": [("/api/v1/nodes/", rest(EVERYBODY))],
    "api:node": [("/api/v1/nodes/east/gpu-1/", rest(EVERYBODY)), ("/api/v1/nodes/east/none/", rest(NOTHING))],
    "api:stack": [("/api/v1/stack/", rest(EVERYBODY))],
    "api:gpu-weights": [("/api/v1/gpu-weights/", rest(EVERYBODY))],
    "api:devices": [
        ("/api/v1/devices/", rest(EVERYBODY)),
        ("/api/v1/devices/?idle=yes&state=held&bucket=usable", rest(EVERYBODY)),
    ],
    "api:queues": [("/api/v1/queues/", rest(EVERYBODY))],
    "api:queue": [
        ("/api/v1/queues/east/ClusterQueue/red-cq/?raw=on", rest(RED)),
        ("/api/v1/queues/east/ClusterQueue/blue-cq/", rest(BLUE)),
        ("/api/v1/queues/east/Cohort/all/", rest((302, 404, 200, 200, 200, 200, 200))),
        ("/api/v1/queues/east/LocalQueue/red-lq/?namespace=red-ns", rest(RED)),
        ("/api/v1/queues/east/LocalQueue/blue-lq/?namespace=blue-ns&raw=on", rest(BLUE)),
        ("/api/v1/queues/east/LocalQueue/red-lq/", rest(NOTHING)),
        ("/api/v1/queues/none/ClusterQueue/red-cq/", rest(NOTHING)),
    ],
    "api:quotas": [("/api/v1/quotas/", rest(EVERYBODY))],
    "api:quota-history": [
        (
            "/api/v1/quotas/history/?cluster=east&kind=ClusterQueue&queue=red-cq&flavor=h100&resource=nvidia.com/gpu",
            rest(RED),
        ),
        (
            "/api/v1/quotas/history/?cluster=east&kind=ClusterQueue&queue=blue-cq&resource=nvidia.com/gpu",
            rest(BLUE),
        ),
        (
            "/api/v1/quotas/history/?cluster=east&kind=Cohort&queue=all&resource=nvidia.com/gpu",
            rest((302, 404, 200, 200, 200, 200, 200)),
        ),
        ("/api/v1/quotas/history/?cluster=none&kind=Cohort&queue=all&resource=nvidia.com/gpu", rest(NOTHING)),
    ],
    "api:quota-loans": [
        ("/api/v1/quotas/loans/", rest(EVERYBODY)),
        ("/api/v1/quotas/loans/?direction=lent&everything=on", rest(EVERYBODY)),
    ],
    "api:what-if": [("/api/v1/quotas/what-if/", (401, *(405,) * 6))],
    "api:quota-changes": [
        ("/api/v1/quota-changes/", rest(EVERYBODY)),
        ("/api/v1/quota-changes/?inbox=on&state=open&kind=ClusterQueue&name=some-cq", rest(EVERYBODY)),
    ],
    "api:quota-changes-calendar": [("/api/v1/quota-changes/calendar/", rest(EVERYBODY))],
    "api:quota-change": [
        ("/api/v1/quota-changes/{red_change}/", rest((302, 404, 200, 200, 404, 404, 200))),
        ("/api/v1/quota-changes/{blue_change}/", rest((302, 404, 404, 404, 200, 404, 200))),
        ("/api/v1/quota-changes/{platform_change}/", rest(ADMIN)),
        ("/api/v1/quota-changes/999999999999999999/", rest(NOTHING)),
    ],
    "api:quota-change-deed": [
        ("/api/v1/quota-changes/{red_change}/approve/", (401, *(405,) * 6)),
        ("/api/v1/quota-changes/{red_change}/none/", (401, *(405,) * 6)),
    ],
    "api:audit": [("/api/v1/audit/", rest(ADMIN)), ("/api/v1/audit/?team=red", rest(ADMIN))],
    "api:workloads": [("/api/v1/workloads/", rest(EVERYBODY))],
    "api:workload": [
        ("/api/v1/workloads/uid-red-waits/", rest(RED)),
        ("/api/v1/workloads/uid-red-runs/", rest(RED)),
        ("/api/v1/workloads/uid-blue-waits/", rest(BLUE)),
        ("/api/v1/workloads/uid-nobodys/", rest(ALL_TEAMS)),
        ("/api/v1/workloads/none/", rest(NOTHING)),
    ],
    "api:explanation": [
        ("/api/v1/workloads/uid-red-waits/explanation/", rest(RED)),
        ("/api/v1/workloads/uid-blue-waits/explanation/", rest(BLUE)),
        ("/api/v1/workloads/uid-nobodys/explanation/", rest(ALL_TEAMS)),
        ("/api/v1/workloads/pod-red/explanation/", rest(RED)),
        ("/api/v1/workloads/none/explanation/", rest(NOTHING)),
    ],
    "api:admission-failures": [("/api/v1/admission-failures/", rest(EVERYBODY))],
    "api:admission-failures-hours": [("/api/v1/admission-failures/hours/", rest(EVERYBODY))],
    "api:admission-failures-work": [("/api/v1/admission-failures/work/", rest(EVERYBODY))],
    "api:admission-failures-outcomes": [("/api/v1/admission-failures/outcomes/", rest(EVERYBODY))],
    "api:admission-failures-unknown": [("/api/v1/admission-failures/unknown/", rest(ADMIN))],
    "api:admission-failures-unmade": [("/api/v1/admission-failures/unmade/", rest(EVERYBODY))],
    "api:wait-times": [("/api/v1/wait-times/", rest(EVERYBODY))],
    "api:supply": [
        ("/api/v1/supply/", rest(EVERYBODY)),
        ("/api/v1/supply/?cluster=none", (401, *[400] * 6)),
    ],
    "api:idle": [
        ("/api/v1/idle/", rest(EVERYBODY)),
        ("/api/v1/idle/?team=blue", (401, 400, 400, 400, 200, 200, 200)),
    ],
    "api:usage": [
        ("/api/v1/usage/", rest(EVERYBODY)),
        ("/api/v1/usage/?group_by=team,queue&step=hour&format=csv", rest(EVERYBODY)),
        ("/api/v1/usage/?window=90d&step=month", rest(EVERYBODY)),
    ],
    "api:usage-work": [
        ("/api/v1/usage/work/?cluster=east", rest(EVERYBODY)),
        ("/api/v1/usage/work/", (401, *[400] * 6)),
        ("/api/v1/usage/work/?cluster=east&team=blue", (401, 400, 400, 400, 200, 200, 200)),
    ],
    "api:usage-hours": [("/api/v1/usage/hours/?cluster=east", rest(EVERYBODY))],
    "api:findings": [("/api/v1/findings/", rest(EVERYBODY))],
    "api:rates": [("/api/v1/rates/", rest(EVERYBODY))],
    "api:billing-periods": [("/api/v1/billing-periods/", rest(EVERYBODY))],
    "api:billing-period": [
        ("/api/v1/billing-periods/2025-01/", rest(EVERYBODY)),
        ("/api/v1/billing-periods/2031-01/", rest(NOTHING)),
    ],
    "api:billing-period-close": [("/api/v1/billing-periods/2025-02/close/", (401, *[405] * 6))],
    "api:charges": [
        ("/api/v1/charges/", rest(EVERYBODY)),
        ("/api/v1/charges/?period=2025-02&after_seq=1", rest(EVERYBODY)),
    ],
    "api:statements": [("/api/v1/statements/?period=2025-01", rest(EVERYBODY))],
    "api:statement": [
        ("/api/v1/statements/2025-01/red/", rest(RED)),
        ("/api/v1/statements/2025-02/blue/", rest(BLUE)),
        ("/api/v1/statements/2025-01/-/", rest(ALL_TEAMS)),
        ("/api/v1/statements/2025-01/none/", rest(NOTHING)),
        ("/api/v1/statements/2031-01/red/", rest(NOTHING)),
    ],
    "api:budgets": [
        ("/api/v1/budgets/?period=2025-02", rest(EVERYBODY)),
        ("/api/v1/budgets/?period=2025-01&team=red", (401, 400, 200, 200, 400, 200, 200)),
    ],
    "api:focus": [
        ("/api/v1/focus/?period=2025-01", rest(ALL_TEAMS)),
        ("/api/v1/focus/?period=2025-02", rest(ALL_TEAMS)),
        ("/api/v1/focus/?period=2031-01", (401, 404, 404, 404, 404, 400, 400)),
    ],
    "api:sources": [("/api/v1/sources/", rest(EVERYBODY))],
    "api:schema": [("/api/schema/", rest(EVERYBODY))],
    "api:docs": [("/api/docs/", EVERYBODY)],
    "api:nowhere": [("/api/v1/none/", rest(NOTHING)), ("/api/", rest(NOTHING))],
    "healthz-live": [("/healthz/live", PUBLIC)],
    "healthz-ready": [("/healthz/ready", PUBLIC)],
}
CASES = [(name, path, expected) for name, cases in ROUTES.items() for path, expected in cases]


def address(world: World, path: str) -> str:
    """`path` of a case, with rows for what it names."""
    named = {"quarantine": quarantine(world).pk}
    if "_change}" in path:
        named |= {f"{name}_change": request.pk for name, request in change_requests(world).items()}
    return path.format(**named)


def patterns(resolver: URLResolver, namespace: str = "", prefix: str = "") -> Iterator[tuple[str, str]]:
    """(full name, route) of every pattern below; an unnamed one goes by its route."""
    for pattern in resolver.url_patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            yield (f"{namespace}{pattern.name}" if pattern.name else route), route
        elif isinstance(pattern, URLResolver):
            inner = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            yield from patterns(pattern, inner, route)


def routes() -> set[str]:
    return {name for name, route in patterns(get_resolver()) if not route.startswith("admin/")}


def test_every_route_has_its_place_in_this_file() -> None:
    found = routes()
    assert found - set(ROUTES) == set(), "say who may use these in ROUTES"
    assert set(ROUTES) - found == set(), "these are gone"


@pytest.mark.parametrize(("name", "path", "expected"), CASES, ids=[path for _name, path, _expected in CASES])
def test_each_role_gets_what_it_may(world: World, name: str, path: str, expected: Any) -> None:
    path = address(world, path)
    got = {role: world.client(role).get(path).status_code for role in ROLES}
    assert got == dict(zip(ROLES, expected, strict=True))


# Of the addresses of REST those that a token of scope finance:read reads; to it all others are 403.
FINANCE = frozenset(
    {
        "api:schema", "api:rates", "api:charges", "api:usage", "api:usage-hours", "api:usage-work", "api:billing-periods",
        "api:supply", "api:idle",
        "api:billing-period", "api:billing-period-close", "api:statements", "api:statement", "api:budgets", "api:focus",
    }
)  # fmt: skip
REST = [case for case in CASES if case[0].startswith("api:") and case[0] != "api:docs"]


@pytest.mark.parametrize(("name", "path", "expected"), REST, ids=[path for _name, path, _expected in REST])
def test_a_token_gets_what_its_owner_may_as_far_as_its_scope_goes(
    world: World, name: str, path: str, expected: Any
) -> None:
    path = address(world, path)
    for scope in ("read", "finance:read"):
        got = {}
        for role in ROLES[1:]:
            text = make_token(world.users[role], name=scope, scope=scope, days=1, now=world.now)[1]
            got[role] = Client().get(path, headers={"Authorization": f"Bearer {text}"}).status_code
        within = scope == "read" or name in FINANCE
        assert got == dict(zip(ROLES[1:], expected[1:] if within else [403] * 6, strict=True))


@pytest.mark.parametrize(("name", "path", "expected"), [case for case in CASES if case[2][0] == 302])
def test_strangers_are_sent_to_the_login(world: World, name: str, path: str, expected: Any) -> None:
    response = world.client("anonymous").get(
        path.format(quarantine=1, red_change=1, blue_change=1, platform_change=1)
    )
    assert response.headers["Location"].startswith("/login/?next=/")


@pytest.mark.parametrize("role", ["guest", "red_lead", "finance"])
def test_what_may_not_be_seen_answers_exactly_like_what_is_not_there(world: World, role: str) -> None:
    client = world.client(role)
    hidden, absent = (
        f"/api/v1/workloads/uid-{'blue-waits' if role == 'red_lead' else 'none2'}/",
        "/api/v1/workloads/none/",
    )
    first, second = client.get(hidden), client.get(absent)
    assert first.content.replace(hidden.encode(), b"") == second.content.replace(absent.encode(), b"")
    hidden, absent = "/teams/blue/", "/teams/none/"
    if role != "finance":
        first, second = client.get(hidden), client.get(absent)
        assert anonymised(first).replace(b"blue", b"none") == anonymised(second)


def anonymised(response: Any) -> bytes:
    """A page without the token that is new in every answer."""
    assert response.status_code == 404
    content: bytes = response.content
    return re.sub(rb'name="csrfmiddlewaretoken" value="\w+"', b"", content)


SAME_THING = [
    ("/teams/{}/", "/api/v1/teams/{}/", ["red", "blue", "none", "RED", "1"]),
    (
        "/workloads/{}/",
        "/api/v1/workloads/{}/",
        ["uid-red-waits", "uid-blue-runs", "uid-nobodys", "none", "1"],
    ),
    (
        "/workloads/{}/",
        "/api/v1/workloads/{}/explanation/",
        ["uid-red-waits", "uid-blue-runs", "uid-nobodys", "pod-red", "pod-blue", "none", "1"],
    ),
    ("/capacity/nodes/{}/", "/api/v1/nodes/east/{}/", ["gpu-1", "gpu-2", "none"]),
    (
        "/queues/east/{}/",
        "/api/v1/queues/east/{}/",
        [
            "ClusterQueue/red-cq",
            "ClusterQueue/blue-cq",
            "Cohort/all",
            "Cohort/none",
            "VolcanoQueue/red-cq",
            "Pod/red-cq",
        ],
    ),
]


@pytest.mark.parametrize("role", ROLES[1:])
@pytest.mark.parametrize(
    ("html", "api", "names"), SAME_THING, ids=[html for html, _api, _names in SAME_THING]
)
def test_page_and_rest_agree_on_who_sees_what(
    world: World, role: str, html: str, api: str, names: list[str]
) -> None:
    client = world.client(role)
    for name in names:
        assert client.get(html.format(name)).status_code == client.get(api.format(name)).status_code, name


@pytest.mark.parametrize(
    "path",
    [
        "/teams/",
        "/queues/",
        "/admissions/",
        "/",
        "/queues/?everything=on",
        "/sources/",
        "/capacity/",
        "/capacity/topology/",
    ],
)
@pytest.mark.parametrize(
    ("role", "hidden"),
    [
        ("guest", ("red-", "blue-", "nobodys", "Red", "Blue")),
        ("viewer", ("blue-", "nobodys", "Blue")),
        ("red_lead", ("blue-", "nobodys", "Blue")),
        ("blue_lead", ("red-", "nobodys", "Red")),
    ],
)
def test_a_page_names_no_foreign_team_queue_or_work(world: World, path: str, role: str, hidden: Any) -> None:
    quarantine(world)
    text = world.client(role).get(path).content.decode()
    main = text[text.index("<main") :]
    for word in hidden:
        assert word not in main


@pytest.mark.parametrize(
    "path", ["/admissions/?format=csv&table=waiting", "/teams/?format=csv", "/queues/?format=csv"]
)
def test_a_download_holds_no_more_than_its_page(world: World, path: str) -> None:
    text = b"".join(world.client("red_lead").get(path)).decode()
    assert "blue" not in text.lower()
    assert "nobodys" not in text


# ---------------------------------------------------------------- the admin site
MODELS = {
    "accounts.User",
    "accounts.Team",
    "accounts.ApiToken",
    "fleet.Cluster",
    "fleet.TeamBinding",
    "fleet.Reserve",
    "chargeback.RateVersion",
    "chargeback.Budget",
    "chargeback.BudgetNotice",
}
NOT_MODELS = {
    "admin:index",
    "admin:login",
    "admin:logout",
    "admin:password_change",
    "admin:password_change_done",
    "admin:autocomplete",
    "admin:jsi18n",
    "admin:view_on_site",
    "admin:app_list",
}


def test_the_admin_site_holds_these_models_and_no_other_address() -> None:
    assert {model._meta.label for model in admin.site._registry} == MODELS
    prefixes = tuple(
        f"admin:{model._meta.app_label}_{model._meta.model_name}_" for model in admin.site._registry
    )
    names = {name for name, route in patterns(get_resolver()) if route.startswith("admin/")}
    left = {
        name
        for name in names - NOT_MODELS
        if not name.startswith((*prefixes, "admin:auth_user_password_change")) and name.startswith("admin:")
    }
    assert left == set()


def admin_pages(world: World) -> Iterator[str]:
    yield from (
        "/admin/",
        "/admin/password_change/",
        "/admin/jsi18n/",
        "/admin/autocomplete/",
        "/admin/none/",
    )
    for model in sorted(MODELS):
        base = "/admin/" + model.lower().replace(".", "/") + "/"
        row = next(m for m in admin.site._registry if m._meta.label == model)._default_manager.first()
        yield from (base, f"{base}add/")
        if row is not None:
            yield from (f"{base}{row.pk}/change/", f"{base}{row.pk}/history/", f"{base}{row.pk}/delete/")


def test_nobody_but_staff_reaches_any_page_of_the_admin_site(world: World) -> None:
    clients = {role: world.client(role) for role in ROLES[:-1]}
    for page in admin_pages(world):
        for role, client in clients.items():
            response = client.get(page)
            assert response.status_code == 302, (page, role)
            assert response.headers["Location"].startswith(("/admin/login/", "/login/")), (page, role)


def test_a_platform_admin_reaches_every_list_and_form(world: World) -> None:
    client = world.client("admin")
    for page in admin_pages(world):
        status = client.get(page, follow=True).status_code
        if page.endswith(("/delete/", "none/", "autocomplete/")):
            assert status in (200, 403, 404), page
        elif page in {
            "/admin/accounts/apitoken/add/",  # its owner makes it
            "/admin/chargeback/budgetnotice/add/",  # the portal writes it
        }:
            assert status == 403
        else:
            assert status == 200, page
