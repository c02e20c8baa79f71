"""One owner at a time: what the service says, what the trigger refuses, and two sessions at once.

The concurrent tests use real connections in threads and watch in pg_stat_activity that the second session waits."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction
from django.db.utils import InternalError

from apps.fleet.models import Reserve, TeamBinding
from apps.fleet.services import binding_close, binding_open
from apps.fleet.tests.builders import HOUR, NOON, binding, bound, cluster, team

OVERLAPS = [
    pytest.param(NOON, None, NOON + HOUR, None, id="both open"),
    pytest.param(NOON, None, NOON - HOUR, NOON + HOUR, id="ends inside an open one"),
    pytest.param(NOON, NOON + 2 * HOUR, NOON + HOUR, NOON + 3 * HOUR, id="starts inside"),
    pytest.param(NOON, NOON + HOUR, NOON, NOON + HOUR, id="the same period"),
    pytest.param(NOON, NOON + 4 * HOUR, NOON + HOUR, NOON + 2 * HOUR, id="within"),
    pytest.param(NOON, NOON + HOUR, NOON - HOUR, None, id="around"),
]
APART = [
    pytest.param(NOON, NOON + HOUR, NOON + HOUR, None, id="touching, later"),
    pytest.param(NOON, NOON + HOUR, NOON - HOUR, NOON, id="touching, earlier"),
    pytest.param(NOON, None, NOON - 2 * HOUR, NOON - HOUR, id="a gap between"),
]


@pytest.mark.django_db
@pytest.mark.parametrize(("start", "end", "start2", "end2"), OVERLAPS)
def test_overlapping_periods_are_refused_by_check_and_by_trigger(
    start: Any, end: Any, start2: Any, end2: Any
) -> None:
    bound("first", "q", start, end)
    second = binding("second", "q", start2, end2)
    with pytest.raises(ValidationError) as caught:
        second.full_clean()
    assert caught.value.error_dict["valid_from"][0].code == "overlap"
    assert "Team First owns this from" in caught.value.message_dict["valid_from"][0]
    with pytest.raises(IntegrityError, match="overlap"), transaction.atomic():
        second.save()
    assert TeamBinding.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize(("start", "end", "start2", "end2"), APART)
def test_periods_that_share_no_instant_are_taken(start: Any, end: Any, start2: Any, end2: Any) -> None:
    bound("first", "q", start, end)
    second = binding("second", "q", start2, end2)
    second.full_clean()
    second.save()
    assert TeamBinding.objects.count() == 2


@pytest.mark.django_db
@pytest.mark.parametrize(
    "other",
    [
        {"kind": "volcano_queue"},
        {"kind": "namespace"},
        {"kind": "local_queue", "namespace": "lab"},
        {"name": "q2"},
        {"cluster": "west"},
    ],
    ids=lambda value: next(iter(value)) + "=" + next(iter(value.values())),
)
def test_another_thing_is_free(other: dict[str, Any]) -> None:
    bound("first", "q")
    if "cluster" in other:
        other = {"cluster": cluster("west")}
    bound("second", other.pop("name", "q"), **other)
    assert TeamBinding.objects.count() == 2


@pytest.mark.django_db
def test_local_queues_of_one_name_in_two_namespaces_are_two_things() -> None:
    bound("first", "q", kind="local_queue", namespace="a")
    bound("second", "q", kind="local_queue", namespace="b")
    with pytest.raises(IntegrityError), transaction.atomic():
        bound("third", "q", kind="local_queue", namespace="b")


@pytest.mark.django_db
def test_one_statement_cannot_bring_in_an_overlap() -> None:
    rows = [binding("first", "q", NOON), binding("second", "q", NOON + HOUR)]
    with pytest.raises(IntegrityError, match="overlap"), transaction.atomic():
        TeamBinding.objects.bulk_create(rows)
    assert not TeamBinding.objects.exists()


@pytest.mark.django_db
def test_one_statement_may_move_touching_periods_together() -> None:
    bound("first", "q", NOON, NOON + HOUR)
    bound("second", "q", NOON + HOUR, NOON + 2 * HOUR)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE fleet_teambinding SET valid_from = valid_from + interval '1 hour',"
            " valid_to = valid_to + interval '1 hour'"
        )
    assert TeamBinding.objects.filter(valid_from=NOON + 2 * HOUR).count() == 1


@pytest.mark.django_db
def test_reopening_a_closed_binding_over_its_successor_is_refused() -> None:
    first = bound("first", "q", NOON, NOON + HOUR)
    bound("second", "q", NOON + HOUR)
    with pytest.raises(ValidationError):
        binding_close(binding=first, at=NOON + 2 * HOUR)
    with pytest.raises(IntegrityError), transaction.atomic():
        TeamBinding.objects.filter(pk=first.pk).update(valid_to=None)


@pytest.mark.django_db
def test_a_change_of_owner_ends_one_binding_and_starts_the_next() -> None:
    first = bound("first", "q", NOON)
    second = binding_open(
        team=team("second"),
        cluster=cluster(),
        kind="cluster_queue",
        name="q",
        valid_from=NOON + HOUR,
        take_over=True,
    )
    first.refresh_from_db()
    assert (first.valid_to, second.valid_from, second.valid_to) == (NOON + HOUR, NOON + HOUR, None)


@pytest.mark.django_db
def test_a_take_over_does_not_swallow_a_binding_that_starts_later() -> None:
    first = bound("first", "q", NOON, NOON + 2 * HOUR)
    bound("third", "q", NOON + 2 * HOUR)
    with pytest.raises(ValidationError):
        binding_open(
            team=team("second"),
            cluster=cluster(),
            kind="cluster_queue",
            name="q",
            valid_from=NOON + HOUR,
            take_over=True,
        )
    first.refresh_from_db()
    assert first.valid_to == NOON + 2 * HOUR


@pytest.mark.django_db
@pytest.mark.parametrize("at", [NOON, NOON - HOUR])
def test_a_binding_cannot_end_before_it_starts(at: Any) -> None:
    with pytest.raises(ValidationError):
        binding_close(binding=bound("first", "q"), at=at)
    with pytest.raises(IntegrityError), transaction.atomic():
        bound("first", "q2", NOON, at)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("kind", "namespace"), [("local_queue", ""), ("cluster_queue", "lab"), ("namespace", "lab")]
)
def test_only_a_local_queue_takes_a_namespace(kind: str, namespace: str) -> None:
    with pytest.raises(ValidationError) as caught:
        binding("first", "q", NOON, kind=kind, namespace=namespace).full_clean()
    assert "namespace" in caught.value.message_dict


@pytest.mark.django_db
def test_a_reserve_cannot_end_before_it_starts() -> None:
    reserve = Reserve(
        cluster=cluster(), model="H100", devices=2, reason="spare", valid_from=NOON, valid_to=NOON
    )
    with pytest.raises(ValidationError):
        reserve.full_clean()


class Session(threading.Thread):
    """Runs one piece of work on a connection of its own and keeps what it raised."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.work = work
        self.error: ValidationError | IntegrityError | None = None
        self.start()

    def run(self) -> None:
        try:
            self.work()
        except (ValidationError, IntegrityError) as error:
            self.error = error
        finally:
            connection.close()


def wait_for_a_blocked_session() -> None:
    for _ in range(200):
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
                " WHERE l.locktype = 'advisory' AND NOT l.granted AND d.datname = current_database()"
            )
            if cursor.fetchone()[0]:
                return
        time.sleep(0.02)
    pytest.fail("the second session did not wait for the first")


def open_binding(owner: str, name: str = "q", **extra: Any) -> TeamBinding:
    return binding_open(
        team=team(owner), cluster=cluster(), kind="cluster_queue", name=name, valid_from=NOON, **extra
    )


@pytest.fixture
def things() -> list[Any]:
    """Committed rows that both sessions see."""
    return [cluster(), team("first"), team("second")]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", ["service", "bare write"])
def test_of_two_sessions_that_bind_the_same_thing_one_wins(things: list[Any], way: str) -> None:
    second_work = (lambda: open_binding("second")) if way == "service" else (lambda: bound("second", "q"))
    with transaction.atomic():
        open_binding("first")
        second = Session(second_work)
        wait_for_a_blocked_session()
    second.join(10)
    if way == "service":
        assert isinstance(second.error, ValidationError)
        assert "Team First owns this" in second.error.messages[0]
    else:
        assert isinstance(second.error, IntegrityError)
    assert [row.team.slug for row in TeamBinding.objects.all()] == ["first"]


@pytest.mark.django_db(transaction=True)
def test_the_second_session_gets_the_thing_when_the_first_gives_up(things: list[Any]) -> None:
    try:
        with transaction.atomic():
            open_binding("first")
            second = Session(lambda: open_binding("second"))
            wait_for_a_blocked_session()
            raise ZeroDivisionError
    except ZeroDivisionError:
        second.join(10)
    assert second.error is None
    assert [row.team.slug for row in TeamBinding.objects.all()] == ["second"]


@pytest.mark.django_db(transaction=True)
def test_the_database_lets_sessions_bind_different_things_side_by_side(things: list[Any]) -> None:
    """Written in bulk: single deeds wait for each other, since the trail of them has no holes."""

    def bind(owner: str, name: str) -> None:
        TeamBinding.objects.bulk_create([binding(owner, name, NOON)])

    with transaction.atomic():
        bind("first", "q")
        second = Session(lambda: bind("second", "q2"))
        second.join(10)
        assert not second.is_alive()
    assert second.error is None
    assert TeamBinding.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_a_session_with_an_old_snapshot_is_refused(things: list[Any]) -> None:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        with pytest.raises(InternalError, match="READ COMMITTED"):
            bound("first", "q")
        transaction.set_rollback(True)
