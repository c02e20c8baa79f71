"""The trail takes nothing back, tells tampering of every kind, and has no holes, however many write at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from apps.changes import audit
from apps.changes.acting import Acting
from apps.changes.models import AuditEntry

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
BY = Acting(7, "zhang", "10.0.0.7")
SUBJECT = audit.Subject("Team", "3", label="red", team="red", cluster="east")


def write(**more: Any) -> AuditEntry:
    given: dict[str, Any] = {
        "by": BY,
        "at": NOON,
        "reason": "why",
        "before": {"name": "a"},
        "after": {"name": "b"},
    }
    with transaction.atomic():
        return audit.record("team.edit", SUBJECT, **given | more)


@pytest.fixture
def three(db: None) -> list[AuditEntry]:
    return [write(resource_version=str(number)) for number in range(3)]


@contextmanager
def unguarded() -> Iterator[Any]:
    """As somebody who owns the database: without triggers."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        try:
            yield cursor
        finally:
            cursor.execute("SET session_replication_role = DEFAULT")


def said(**options: Any) -> str:
    out = StringIO()
    call_command("verify_audit", stdout=out, **options)
    return out.getvalue().strip()


def noted(entry: AuditEntry) -> tuple[int, str]:
    return entry.sequence, entry.hash


# ---- what the database refuses -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE changes_auditentry SET reason = 'another' WHERE sequence = 2", "update of entry 2 refused"),
        ("UPDATE changes_auditentry SET reason = reason", "update of entry 1 refused"),
        ("DELETE FROM changes_auditentry WHERE sequence = 3", "delete of entry 3 refused"),
        ("TRUNCATE changes_auditentry", "truncate refused"),
    ],
)
def test_the_database_refuses_everything_but_new_entries(
    three: list[AuditEntry], statement: str, what: str
) -> None:
    with connection.cursor() as cursor:
        # The tests' own database lets a flush empty it (conftest).
        cursor.execute("ALTER TABLE changes_auditentry ENABLE TRIGGER changes_audit_never_emptied")
        with pytest.raises(DatabaseError, match=what), transaction.atomic():
            cursor.execute(statement)
    assert list(AuditEntry.objects.order_by("sequence").values_list("sequence", flat=True)) == [1, 2, 3]
    assert audit.verify() is None


def test_neither_does_the_orm_get_past_it(three: list[AuditEntry]) -> None:
    deeds: list[Callable[[], Any]] = [
        three[1].delete,
        AuditEntry.objects.all().delete,
        lambda: AuditEntry.objects.update(reason=""),
        three[1].save,
    ]
    for deed in deeds:
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            deed()


def test_an_entry_belongs_to_a_transaction(transactional_db: None) -> None:
    with pytest.raises(transaction.TransactionManagementError):
        audit.record("team.edit", SUBJECT, by=BY, at=NOON)


# ---- the chain -----------------------------------------------------------------------------------------------------


def test_the_hash_is_that_of_the_canonical_text(db: None) -> None:
    """Worked out outside: printf '%s' TEXT | sha256sum, with
    {"action":"team.edit","actor_id":7,"actor_name":"zhang","address":"10.0.0.7","after":{"n":1},
    "at":"2026-12-01T12:00:00.000000+00:00","before":null,"cluster_slug":"east","outcome":"done","previous_hash":"0…0",
    "reason":"why","resource_version":"","sequence":1,"subject_id":"3","subject_kind":"Team","subject_label":"red",
    "team_slug":"red"} on one line."""
    entry = write(before=None, after={"n": 1})
    assert entry.previous_hash == "0" * 64
    assert entry.hash == "9bfb235b1b6068b85323b23165a5c2e35037ae05504d4507ae981202c8ed7e70"


def test_each_entry_holds_the_hash_of_the_one_before(three: list[AuditEntry]) -> None:
    first, second, third = three
    assert (second.previous_hash, third.previous_hash) == (first.hash, second.hash)
    assert audit.tip() == noted(third)
    assert audit.walk() == audit.Verified(3, third.hash, None)


TAMPERED: dict[str, Any] = {
    "at": datetime(2026, 12, 1, 12, 0, 0, 1, tzinfo=UTC),
    "actor_id": None,
    "sequence": 9,
    "before": '{"name": "x"}',
    "after": None,
    "previous_hash": "1" * 64,
    "hash": "1" * 64,
}


@pytest.mark.parametrize("column", [field.attname for field in AuditEntry._meta.concrete_fields])
def test_tampering_with_any_column_is_found(three: list[AuditEntry], column: str) -> None:
    value = TAMPERED.get(column, "tampered")
    with unguarded() as cursor:
        # The column is one of the model's own.
        cursor.execute(f"UPDATE changes_auditentry SET {column} = %s WHERE sequence = 2", [value])  # noqa: S608
    assert audit.verify() == 2
    with pytest.raises(CommandError, match=r"^entry 2: .*; 1 entries before it fit$"):
        said()


def test_whoever_writes_the_hash_anew_breaks_the_next_entry(three: list[AuditEntry]) -> None:
    entry = three[1]
    entry.reason = "another"
    with unguarded() as cursor:
        cursor.execute(
            "UPDATE changes_auditentry SET reason = %s, hash = %s WHERE sequence = 2",
            [entry.reason, audit.entry_hash(entry)],
        )
    assert audit.walk().broken == audit.Broken(3, "chain")


@pytest.mark.parametrize("gone", [1, 2])
def test_an_entry_that_was_taken_out_is_found(three: list[AuditEntry], gone: int) -> None:
    with unguarded() as cursor:
        cursor.execute("DELETE FROM changes_auditentry WHERE sequence = %s", [gone])
    assert audit.walk().broken == audit.Broken(gone, "missing")


def test_what_is_cut_off_at_the_end_is_found_by_what_was_noted_outside(three: list[AuditEntry]) -> None:
    """Without the note nothing is missing; with it, also a trail that was made anew is another one."""
    known = [noted(entry) for entry in three]
    for expected in known:
        assert audit.walk(expect=expected).broken is None
    with unguarded() as cursor:
        cursor.execute("DELETE FROM changes_auditentry WHERE sequence = 3")
    assert audit.walk().broken is None
    assert audit.walk(expect=known[2]).broken == audit.Broken(3, "tip")
    write(reason="in its place")
    assert audit.walk().broken is None
    assert audit.walk(expect=known[2]).broken == audit.Broken(3, "tip")
    assert audit.walk(expect=known[1]).broken is None


@pytest.mark.parametrize("text", ["a\x00b", "half \ud800 of it", "汉字", "1e400", "\u2028"])
def test_text_of_any_kind_is_hashed_as_it_is_stored(db: None, text: str) -> None:
    write(reason=text, before={text: text}, after={"list": [text, None, 1, NOON], "set": {2, 1}})
    assert audit.verify() is None


# ---- many at once --------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_writers_at_once_leave_no_hole_and_what_is_rolled_back_leaves_nothing() -> None:
    """6 threads with 10 deeds each, every third of which is taken back: 6 × (10 − 4) are left."""
    start, failures = threading.Barrier(6), []

    def work() -> None:
        try:
            start.wait(10)
            for number in range(10):
                with transaction.atomic():
                    audit.record("team.edit", SUBJECT, by=BY, at=NOON, reason=str(number))
                    transaction.set_rollback(number % 3 == 0)
        except Exception as error:  # noqa: BLE001 -- told by the test's own thread
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert list(AuditEntry.objects.order_by("sequence").values_list("sequence", flat=True)) == [*range(1, 37)]
    assert audit.verify() is None


# ---- the command ---------------------------------------------------------------------------------------------------


def test_the_command_prints_what_to_note_and_notes_that_it_ran(three: list[AuditEntry]) -> None:
    assert audit.last_verified() is None
    assert said() == f"3 entries fit; the last is 3:{three[2].hash}"
    entry = audit.last_verified()
    assert entry is not None
    assert (entry.sequence, entry.after) == (4, {"entries": 3, "hash": three[2].hash})
    assert said(expect=noted(three[2]), read_only=True).startswith("4 entries fit")
    assert AuditEntry.objects.count() == 4


def test_the_command_takes_what_it_printed(three: list[AuditEntry]) -> None:
    line = said(read_only=True).rpartition(" ")[2]
    call_command("verify_audit", "--read-only", f"--expect={line}", stdout=StringIO())
    with pytest.raises(CommandError, match="entry 3: it is not the entry that was expected"):
        call_command("verify_audit", f"--expect=3:{'0' * 64}")
    with pytest.raises(CommandError, match="write SEQUENCE:HASH"):
        call_command("verify_audit", "--expect=3")


def test_an_empty_trail_fits(db: None) -> None:
    assert said(read_only=True) == f"0 entries fit; the last is 0:{audit.GENESIS}"
