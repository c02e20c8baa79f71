"""Every operation of the OpenAPI document, asked with what schemathesis makes of it, by everybody who may come.

Each operation is called with requests that fit the document and with such as do not; names of the world are mixed in,
so that requests reach rows and not only refusals. Each request goes to the whole WSGI application once for each caller:
strangers, the tokens of every role and, since tokens do not write, every role with its password too where something is
written. Whatever comes back
- is no fault of the portal and has a status, a media type and a body that the document has for this operation,
- names nothing of a team that the caller does not belong to.

What a request changes is taken back before the next one. The examples are the same in each run.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import hypothesis
import pytest
import schemathesis
from django.conf import LazySettings
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from apps.accounts.tokens import make_token
from apps.api.openapi import document
from apps.api.tests.test_openapi import closed
from apps.api.tests.world import CLOSED_MONTH, GPU, MODEL, OPEN_MONTH, ROLES, World
from apps.changes.models import ChangeRequest
from apps.changes.services import DEEDS

from .test_busy_fleet import make_busy
from .test_foreign_team import without_noise

EXAMPLES = 10
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
HIDDEN = {
    "guest": r"\b(red|blue|nobodys)\b",
    "viewer": r"\b(blue|nobodys)\b",
    "red_lead": r"\b(blue|nobodys)\b",
    "blue_lead": r"\b(red|nobodys)\b",
    "anonymous": r"\b(red|blue|nobodys|east)\b",
}
"""Names of which the caller must not read one; who is not here sees every team."""


def _document() -> dict[str, Any]:
    """The document, in which an object has no other fields than those that are told."""
    told = document()
    return {**told, "components": closed(told["components"])}


SCHEMA = schemathesis.openapi.from_dict(_document())
SCHEMA.app = get_wsgi_application()
OPERATIONS = [result.ok() for result in SCHEMA.get_all_operations() if isinstance(result, Ok)]


@dataclass(frozen=True)
class Caller:
    role: str
    headers: dict[str, str]


@pytest.fixture
def one_connection() -> Iterator[None]:
    """A request does not end the transaction of its test: Django's test client does the same around its requests."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


def callers(world: World, *, writing: bool) -> Iterator[Caller]:
    """`writing`: with passwords too, which nothing but writes asks for."""
    yield Caller("anonymous", {})
    yield bearer("anonymous", f"gpup_0123456789_{'x' * 43}")
    for role in ROLES[1:]:
        yield bearer(role, token_of(world, role, "read"))
        if writing:
            yield with_password(world, role)
    yield bearer("finance", token_of(world, "finance", "finance:read"))


def token_of(world: World, role: str, scope: str) -> str:
    _row, text = make_token(world.users[role], name=f"fuzz {scope}", scope=scope, days=1, now=world.now)
    return text


def bearer(role: str, token: str) -> Caller:
    return Caller(role, {"Authorization": f"Bearer {token}"})


def with_password(world: World, role: str) -> Caller:
    user = world.users[role]
    user.set_password("of the test")
    user.save()
    pair = base64.b64encode(f"{user.username}:of the test".encode()).decode()
    return Caller(role, {"Authorization": f"Basic {pair}"})


def cases_of(operation: Any, known: dict[str, list[str]]) -> st.SearchStrategy[Any]:
    """Requests that fit, with names of the world and nothing else; that fit; and that do not fit."""
    fit = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    unfit = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
    names = st.fixed_dictionaries(
        {p.name: st.sampled_from(known[p.name]) for p in operation.path_parameters},
        optional={
            p.name: st.sampled_from(known[p.name])
            for p in operation.query
            if p.name in known and not p.is_required
        },
    )
    needed = {p.name: known[p.name][0] for p in operation.query if p.is_required}
    return st.one_of(st.builds(_with_names, fit, names, st.just(needed)), fit, unfit)


def _with_names(case: Any, names: dict[str, str], needed: dict[str, str]) -> Any:
    places = set(case.path_parameters)
    case.path_parameters = {name: value for name, value in names.items() if name in places}
    case.query = needed | {name: value for name, value in names.items() if name not in places}
    return case


def names_of_the_world() -> dict[str, list[str]]:
    """Parameter → values of it that are there; of a needed one the first is taken."""
    return {
        "slug": ["red", "blue", "east"],
        "team": ["red", "blue", "-"],
        "cluster": ["east"],
        "kind": ["ClusterQueue", "Cohort", "LocalQueue", "VolcanoQueue"],
        "name": ["red-cq", "blue-cq", "gpu-1", "gpu-2", "red-a", "blue-a", "blue-vq"],
        "namespace": ["red-ns", "blue-ns"],
        "uid": ["uid-red-waits", "uid-blue-waits", "uid-blue-runs", "uid-nobodys", "pod-blue"],
        "queue": ["red-cq", "blue-cq"],
        "q": ["red", "blue"],
        "month": [CLOSED_MONTH, OPEN_MONTH],
        "period": [CLOSED_MONTH, OPEN_MONTH],
        "id": [str(pk) for pk in ChangeRequest.objects.order_by("pk").values_list("pk", flat=True)],
        "deed": list(DEEDS),
        "resource": [GPU],
        "model": [MODEL],
        "flavor": ["h100"],
        "format": ["parquet", "csv"],
    }


def foreign_names(caller: Caller, case: Any, response: Any) -> list[str]:
    """Names in an answer that the caller must not read, but for those that the request itself says."""
    hidden = HIDDEN.get(caller.role)
    if hidden is None or response.status_code == 304:
        return []
    told = response.json()
    told.pop("next", None)  # the address of the next page repeats the question
    text = without_noise(json.dumps(told, ensure_ascii=False, separators=(",", ":")))
    said: set[str] = set()
    if response.status_code >= 400:
        asked = json.dumps([case.path_parameters, case.query, case.body], default=str)
        said = set(re.findall(hidden, asked))
    return [name for name in re.findall(hidden, text) if name not in said]


def test_every_operation_of_the_document_is_asked() -> None:
    methods = {"get", "put", "post", "patch", "delete"}
    told = sum(len(methods & set(path)) for path in document()["paths"].values())
    assert len(OPERATIONS) == told


@pytest.mark.parametrize("operation", OPERATIONS, ids=[operation.label for operation in OPERATIONS])
def test_whatever_is_asked_the_answer_is_as_documented_and_ones_own(
    world: World, one_connection: None, settings: LazySettings, operation: Any
) -> None:
    settings.API_RATE = settings.API_FAILED_RATE = None
    make_busy(world)
    reads = operation.method == "get"
    asking = list(callers(world, writing=not reads))
    seen: set[int] = set()

    @hypothesis.settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(cases_of(operation, names_of_the_world()))
    def ask(case: Any) -> None:
        case.headers.pop("Authorization", None)
        case.cookies.clear()
        for caller in asking:
            before = transaction.savepoint()
            response = case.call(headers=caller.headers)
            transaction.savepoint_rollback(before)
            case.validate_response(response, checks=CHECKS, headers=caller.headers)
            assert foreign_names(caller, case, response) == [], (caller.role, response.status_code)
            seen.add(response.status_code)

    ask()
    assert 401 in seen
    reached = {200} if reads else {200, 201, 403, 409}
    assert seen & reached, f"no request reached anything: {seen}"
