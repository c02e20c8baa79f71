"""API tokens: what is kept of them, when they hold, how often their use is written, how they are made by command."""

from __future__ import annotations

import hashlib
import io
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from psycopg.sql import SQL, Identifier

from apps.accounts.models import ApiToken, User
from apps.accounts.tokens import make_token, note_use, token_of

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


def person(name: str = "ledger", **more: Any) -> User:
    user = User(username=name, role="finance", **more)
    user.set_unusable_password()
    user.save()
    return user


def made(user: User | None = None, **more: Any) -> tuple[ApiToken, str]:
    values: dict[str, Any] = {"name": "sap", "scope": "finance:read", "days": 30, "now": NOON}
    return make_token(user or person(), **(values | more))


def all_that_is_stored() -> str:
    """Every row of every table, as PostgreSQL writes it."""
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(SQL("SELECT t::text FROM {} t").format(Identifier(table)))
            found += [str(row[0]) for row in cursor.fetchall()]
    return "\n".join(found)


def test_the_text_has_a_key_that_finds_it_and_a_secret_that_is_nowhere_in_the_database() -> None:
    token, text = made()
    match = re.fullmatch(r"(gpup_[0-9a-f]{10})_([A-Za-z0-9_-]{43})", text)
    assert match is not None
    stored = all_that_is_stored()
    assert token.key == match[1]
    assert match[1] in stored  # the search finds what is there
    assert match[2] not in stored
    assert token.secret_digest == hashlib.sha256(text.encode()).hexdigest()
    assert token.expires_at == datetime(2026, 12, 31, 12, tzinfo=UTC)


def test_no_two_tokens_are_alike() -> None:
    user = person()
    texts = {made(user, name=str(number))[1] for number in range(50)}
    assert len(texts) == 50


@pytest.mark.parametrize(
    ("after", "holds"),
    [
        (timedelta(0), True),
        (timedelta(days=30) - timedelta(microseconds=1), True),
        (timedelta(days=30), False),
        (timedelta(days=400), False),
    ],
)
def test_it_holds_until_it_expires(after: timedelta, holds: bool) -> None:
    token, text = made()
    assert token_of(text, now=NOON + after) == (token if holds else None)


def test_a_revoked_one_and_one_of_somebody_who_may_not_sign_in_hold_no_longer() -> None:
    user = person()
    token, text = made(user)
    user.is_active = False
    user.save()
    assert token_of(text, now=NOON) is None
    user.is_active = True
    user.save()
    assert token_of(text, now=NOON) == token
    token.delete()
    assert token_of(text, now=NOON) is None


def test_another_secret_of_the_same_key_is_no_token() -> None:
    _token, text = made()
    last = "A" if text[-1] != "A" else "B"
    for wrong in (text[:-1] + last, text[:16] + "A" * 43, text[:-1], text + "A", text.upper(), f" {text}"):
        assert token_of(wrong, now=NOON) is None, wrong


@pytest.mark.parametrize(
    "text", ["", "gpup_", "x" * 10_000, "gpup_0123456789_" + "A" * 43, "\x00", "ÿ" * 59, "令牌"]
)
def test_any_other_text_is_no_token(text: str) -> None:
    assert token_of(text, now=NOON) is None


def test_a_look_up_asks_the_database_for_the_key_only() -> None:
    """What takes longer the more of it is right must not be the secret."""
    _token, text = made()
    with CaptureQueriesContext(connection) as queries:
        token_of(text, now=NOON)
    (query,) = queries.captured_queries
    where = query["sql"].partition("WHERE")[2]
    assert text[:15] in where
    assert text[16:] not in where
    assert hashlib.sha256(text.encode()).hexdigest() not in where


def test_its_use_is_written_at_most_once_a_minute() -> None:
    token, _text = made()
    seen = []
    for second in (0, 1, 59, 60, 61, 119, 120):
        token.refresh_from_db()
        note_use(token, now=NOON + timedelta(seconds=second))
        token.refresh_from_db()
        assert token.last_used_at is not None
        seen.append((token.last_used_at - NOON).total_seconds())
    assert seen == [0, 0, 0, 60, 60, 60, 120]


def test_a_use_that_another_request_wrote_meanwhile_is_not_written_again() -> None:
    token, text = made()
    late = token_of(text, now=NOON)
    assert late is not None
    note_use(token, now=NOON)
    note_use(late, now=NOON + timedelta(seconds=5))
    token.refresh_from_db()
    assert token.last_used_at == NOON


def test_the_use_of_one_that_is_revoked_meanwhile_is_no_fault() -> None:
    token, text = made()
    read = token_of(text, now=NOON)
    assert read is not None
    token.delete()
    note_use(read, now=NOON)
    assert not ApiToken.objects.exists()


def test_a_name_is_given_once_per_owner() -> None:
    user = person()
    made(user)
    made(person("other"))
    with pytest.raises(IntegrityError), transaction.atomic():
        made(user)


# ---- by command ------------------------------------------------------------------------------------------------------


def run(**options: Any) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    values: dict[str, Any] = {"user": "ledger", "scope": "finance:read", "name": "sap", "days": "30"}
    arguments = [f"--{name}={value}" for name, value in (values | options).items()]
    call_command("create_token", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_the_command_prints_the_token_and_nothing_else() -> None:
    user = person()
    out, err = run()
    token = token_of(out.removesuffix("\n"), now=datetime.now(UTC))
    assert token is not None
    assert (token.user, token.name, token.scope) == (user, "sap", "finance:read")
    assert (token.expires_at - token.created_at) == timedelta(days=30)
    assert out.strip()[16:] not in err


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"user": "nobody"}, "there is no user nobody"),
        ({"days": "0"}, "days: "),
        ({"days": "366"}, "days: "),
        ({"days": "soon"}, "days: "),
        ({"name": ""}, "name: "),
        ({"name": "n" * 81}, "name: "),
        ({"scope": "write"}, "scope"),
    ],
)
def test_the_command_says_what_is_wrong_and_makes_nothing(options: dict[str, str], fault: str) -> None:
    person()
    with pytest.raises(CommandError, match=fault):
        run(**options)
    assert not ApiToken.objects.exists()


def test_the_command_makes_a_name_once() -> None:
    person()
    run()
    with pytest.raises(CommandError, match="name: There is a token of this name already"):
        run()
    assert ApiToken.objects.count() == 1
