"""A repeated call with connections of its own, as two web processes make it: at the same time, after a failure, late."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

import pytest
from django.db import connection

from apps.accounts.models import User
from apps.changes.idempotency import KEPT, Answer, KeyReused, digest_of, forget_old_keys, once
from apps.changes.models import ChangeRequest, IdempotencyKey
from worker.tasks.upkeep import upkeep

from .conftest import Desk
from .test_rest import BODY, answer

pytestmark = pytest.mark.django_db(transaction=True)
NOW = datetime(2026, 11, 5, 12, tzinfo=UTC)
CALL = digest_of(b"POST", b"/a", b"{}")
SECONDS = 20
Result = TypeVar("Result")


@pytest.fixture
def caller() -> User:
    return User.objects.create_user("caller")


@contextmanager
def at_once(*calls: Callable[[], Result]) -> Iterator[list[Future[Result]]]:
    """Each call in a thread, and so on a connection, of its own."""

    def run(call: Callable[[], Result]) -> Result:
        try:
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        yield [pool.submit(run, call) for call in calls]


def waiting_for_a_lock() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return int(cursor.fetchone()[0])


def someone_waits() -> None:
    beat = threading.Event()
    for _turn in range(SECONDS * 50):
        if waiting_for_a_lock():
            return
        beat.wait(0.02)
    raise AssertionError("the second call did not wait")


@pytest.mark.parametrize("ends_well", [True, False], ids=["the-first-answers", "the-first-fails"])
def test_the_same_call_at_the_same_time_waits_for_the_first(caller: User, ends_well: bool) -> None:
    deeds: list[str] = []
    inside, go_on = threading.Event(), threading.Event()

    def first() -> Answer:
        deeds.append("first")
        inside.set()
        assert go_on.wait(SECONDS)
        if not ends_well:
            raise ZeroDivisionError
        return Answer(201, {"by": "first"})

    def second() -> Answer:
        deeds.append("second")
        return Answer(201, {"by": "second"})

    def made_by(deed: Callable[[], Answer]) -> Answer:
        return once(user=caller, key="k", digest=CALL, now=NOW, deed=deed)

    def after_the_first() -> Answer:
        assert inside.wait(SECONDS)
        return made_by(second)

    with at_once(lambda: made_by(first), after_the_first) as (one, other):
        someone_waits()
        assert deeds == ["first"]
        go_on.set()
        answered = other.result(SECONDS)
        if ends_well:
            assert one.result(SECONDS) == Answer(201, {"by": "first"})
            assert answered == Answer(201, {"by": "first"}, again=True)
            assert deeds == ["first"]
        else:
            assert isinstance(one.exception(SECONDS), ZeroDivisionError)
            assert answered == Answer(201, {"by": "second"})
            assert deeds == ["first", "second"]
    assert IdempotencyKey.objects.get().status == 201


def test_a_request_asked_for_eight_times_at_once_is_one(desk: Desk) -> None:
    def ask() -> tuple[int, object]:
        found = answer(desk.world.client("red_lead"), "post", "", BODY, Idempotency_Key="k")
        return found.status_code, found.json()

    with at_once(*[ask] * 8) as answers:
        told = [one.result(SECONDS) for one in answers]
    assert {status for status, _body in told} == {201}
    assert all(body == told[0][1] for _status, body in told)
    assert ChangeRequest.objects.count() == 1


def test_a_decision_taken_eight_times_at_once_under_keys_of_their_own_is_taken_once(desk: Desk) -> None:
    request = desk.do("submit", desk.checked(desk.ask()), "red_lead")

    def approve(key: int) -> int:
        given = {"version": request.version}
        client = desk.world.client("admin" if key % 2 else "approver")
        found = answer(client, "post", f"{request.pk}/approve/", given, Idempotency_Key=f"k{key}")
        return int(found.status_code)

    with at_once(*(partial(approve, key) for key in range(8))) as answers:
        told = sorted(one.result(SECONDS) for one in answers)
    assert told == [200, *[409] * 7]


def test_a_key_is_remembered_for_two_days_and_no_longer(caller: User) -> None:
    assert timedelta(hours=48) == KEPT

    def asked(key: str, digest: str, now: datetime) -> bool:
        return once(user=caller, key=key, digest=digest, now=now, deed=lambda: Answer(200, {})).again

    assert not asked("k", CALL, NOW)
    assert forget_old_keys(now=NOW + KEPT) == 0
    assert asked("k", CALL, NOW + KEPT)
    with pytest.raises(KeyReused):
        asked("k", digest_of(b"another"), NOW + KEPT)
    assert forget_old_keys(now=NOW + KEPT + timedelta(microseconds=1)) == 1
    assert not asked("k", digest_of(b"another"), NOW + KEPT)


def test_the_daily_upkeep_forgets_old_keys(caller: User) -> None:
    for key, age in (("old", KEPT + timedelta(minutes=1)), ("young", KEPT - timedelta(minutes=5))):
        once(user=caller, key=key, digest=CALL, now=datetime.now(UTC) - age, deed=lambda: Answer(200, {}))
    upkeep()
    assert list(IdempotencyKey.objects.values_list("key", flat=True)) == ["young"]
