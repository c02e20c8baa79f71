"""Limits, counted in a real Redis: exactly as many pass as may, each for themselves, and `Retry-After` is kept."""

from __future__ import annotations

import base64
import itertools
import random
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.test import Client, override_settings

from apps.api.tests.test_problems import assert_problem
from apps.api.tests.test_tokens import bearer
from apps.api.tests.world import World
from apps.api.throttling import spend, spent

DAY = 86_400
NOON = 1_764_763_200.0  # 12:00 of a day in UTC: half of a day's window is left
_ADDRESSES = itertools.count(1)


@pytest.fixture
def address() -> str:
    """One that nothing has counted yet."""
    return f"fd00::{uuid.uuid4().hex[:4]}:{next(_ADDRESSES)}"


@pytest.fixture
def window() -> int:
    """About a day, and of a length that nothing was counted by yet: counts stay in Redis longer than rows."""
    return DAY + random.randrange(1_000_000)


def ask(
    address: str, *, path: str = "rates/", client: Client | None = None, headers: dict[str, str] | None = None
) -> Any:
    client = client or Client()
    return client.get(f"/api/v1/{path}", headers=headers or {}, REMOTE_ADDR=address)


def statuses(address: str, times: int, **more: Any) -> list[int]:
    return [ask(address, **more).status_code for _ in range(times)]


# ---- counting --------------------------------------------------------------------------------------------------------


def who() -> str:
    return f"test:{uuid.uuid4().hex}"


def test_as_many_pass_as_may_and_the_rest_waits_for_the_end_of_the_window() -> None:
    name = who()
    assert [spend(name, (3, 60), now=NOON + second) for second in (0, 1, 2, 3, 59.5)] == [0, 0, 0, 57, 1]
    assert spend(name, (3, 60), now=NOON + 60) == 0


def test_waiting_as_told_is_enough_wherever_in_the_window_one_asks() -> None:
    for tenths in range(0, 40):
        name, now = who(), NOON + tenths / 10
        assert spend(name, (1, 4), now=now) == 0
        wait = spend(name, (1, 4), now=now)
        assert 1 <= wait <= 4
        assert spend(name, (1, 4), now=now + wait) == 0


def test_looking_counts_nothing() -> None:
    name = who()
    assert [spent(name, (1, 60), now=NOON) for _ in range(5)] == [0] * 5
    spend(name, (1, 60), now=NOON)
    assert spent(name, (1, 60), now=NOON) == 60
    assert spent(name, (1, 60), now=NOON + 60) == 0


def test_names_and_windows_of_another_length_count_for_themselves() -> None:
    name = who()
    assert spend(name, (1, 60), now=NOON) == 0
    assert spend(name, (1, 3600), now=NOON) == 0
    assert spend(who(), (1, 60), now=NOON) == 0
    assert spend(name, (1, 60), now=NOON) == 60


def test_of_many_at_once_exactly_as_many_pass() -> None:
    name = who()
    with ThreadPoolExecutor(8) as pool:
        waits = list(pool.map(lambda _: spend(name, (25, 60), now=NOON), range(80)))
    assert (waits.count(0), waits.count(60)) == (25, 55)


def test_without_a_cache_everybody_is_served() -> None:
    dead = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": "redis://127.0.0.1:1/0",
        }
    }
    with override_settings(CACHES=dead):
        assert [spend("anybody", (1, 60), now=NOON) for _ in range(3)] == [0, 0, 0]
        assert spent("anybody", (1, 60), now=NOON) == 0


# ---- by REST ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def three_a_day(settings: Any, window: int) -> None:
    settings.API_RATE = (3, window)


def test_beyond_the_limit_is_a_429_that_says_when_to_come_back(
    world: World, address: str, window: int, three_a_day: None
) -> None:
    client = world.client("viewer")
    assert statuses(address, 3, client=client) == [200, 200, 200]
    answer = ask(address, client=client)
    body = assert_problem(answer, 429, "too-many-requests")
    assert body["errors"] == []
    wait = answer.headers["Retry-After"]
    assert wait.isdecimal()
    left = window - time.time() % window
    assert left - 5 <= int(wait) <= left + 6


def test_whoever_waits_as_told_is_served(world: World, address: str, settings: Any) -> None:
    settings.API_RATE = (2, 2)  # of a token whose number was counted by nobody in the last four seconds
    header = bearer(world.users["finance"], "finance:read", now=world.now)
    time.sleep(2 - time.time() % 2 + 0.05)  # the beginning of a window
    assert statuses(address, 2, headers=header) == [200, 200]
    answer = ask(address, headers=header)
    assert answer.status_code == 429
    wait = int(answer.headers["Retry-After"])
    assert wait in (1, 2)
    time.sleep(wait)
    assert ask(address, headers=header).status_code == 200


def test_tokens_users_and_strangers_count_each_for_themselves(
    world: World, address: str, three_a_day: None
) -> None:
    first, second = (bearer(world.users["finance"], now=world.now) for _ in range(2))
    elsewhere = f"{address}9"
    assert statuses(address, 4, headers=first) == [200, 200, 200, 429]
    assert statuses(address, 4, headers=second) == [200, 200, 200, 429]
    assert statuses(address, 4, client=world.client("finance")) == [200, 200, 200, 429]
    assert statuses(address, 4) == [401, 401, 401, 429]
    # a token is the same from everywhere, a stranger is another one
    assert statuses(elsewhere, 1, headers=first) == [429]
    assert statuses(elsewhere, 1) == [401]


def test_what_is_refused_counts_too(world: World, address: str, three_a_day: None) -> None:
    header = bearer(world.users["finance"], "finance:read", now=world.now)
    assert statuses(address, 4, path="teams/", headers=header) == [403, 403, 403, 429]
    assert statuses(address, 1, headers=header) == [429]
    header = bearer(world.users["finance"], now=world.now)
    assert statuses(address, 4, path="none/", headers=header) == [404, 404, 404, 429]
    client = world.client("viewer")
    answers = [client.get("/api/schema/", REMOTE_ADDR=address).status_code for _ in range(4)]
    assert answers == [200, 200, 200, 429]


def test_a_429_is_in_the_language_of_the_request(world: World, address: str, three_a_day: None) -> None:
    client = world.client("viewer")
    statuses(address, 3, client=client)
    answer = ask(address, client=client, headers={"Accept-Language": "zh-hans"})
    assert answer.json()["title"] == "请求过多"


# ---- attempts that fail ----------------------------------------------------------------------------------------------


@pytest.fixture
def two_failures(settings: Any, window: int) -> None:
    settings.API_FAILED_RATE = (2, window)


def password(user: str, text: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{text}".encode()).decode()}


WRONG = {"Authorization": "Bearer gpup_0123456789_" + "A" * 43}


@pytest.mark.parametrize("header", [WRONG, password("viewer", "wrong"), {"Authorization": "Basic %"}])
def test_failed_attempts_of_an_address_are_stopped(
    world: World, address: str, window: int, two_failures: None, header: dict[str, str]
) -> None:
    assert statuses(address, 3, headers=header) == [401, 401, 429]
    answer = ask(address, headers=header)
    assert_problem(answer, 429, "too-many-requests")
    assert 1 <= int(answer.headers["Retry-After"]) <= window
    assert ask(f"{address}9", headers=header).status_code == 401


def test_beyond_the_limit_even_the_right_password_is_not_looked_at(
    world: World, address: str, two_failures: None
) -> None:
    world.users["viewer"].set_password("right")
    world.users["viewer"].save()
    right = password("viewer", "right")
    assert statuses(address, 1, headers=right) == [200]
    assert statuses(address, 2, headers=password("viewer", "wrong")) == [401, 401]
    assert statuses(address, 1, headers=right) == [429]
    assert statuses(f"{address}9", 1, headers=right) == [200]


def test_a_token_that_holds_and_a_session_are_let_in_whatever_failed_at_their_address(
    world: World, address: str, two_failures: None
) -> None:
    header = bearer(world.users["finance"], "finance:read", now=world.now)
    assert statuses(address, 3, headers=WRONG) == [401, 401, 429]
    assert statuses(address, 3, headers=header) == [200, 200, 200]
    assert statuses(address, 3, client=world.client("finance")) == [200, 200, 200]


def test_who_sends_nothing_has_not_failed(world: World, address: str, two_failures: None) -> None:
    assert statuses(address, 4) == [401] * 4


def test_behind_the_proxy_the_address_is_the_one_that_it_wrote(
    world: World, address: str, two_failures: None, settings: Any
) -> None:
    settings.BEHIND_TLS = True
    headers = WRONG | {"X-Forwarded-For": f"1.2.3.4, {address}8", "X-Forwarded-Proto": "https"}
    assert statuses(address, 3, headers=headers) == [401, 401, 429]
    other = headers | {"X-Forwarded-For": f"1.2.3.4, {address}9"}
    assert statuses(address, 1, headers=other) == [401]
