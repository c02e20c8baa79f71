"""The example of the documents, run as a client runs it: over HTTP, with a token, twice, and with a line missing."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import User
from apps.accounts.tokens import make_token
from apps.api.tests.world import OPEN_MONTH, make_world
from apps.chargeback.ledger import close
from apps.chargeback.models import BillingPeriod

pytestmark = pytest.mark.django_db(transaction=True)
SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "examples" / "sync_ledger.py"


def secret_of(user: User) -> str:
    _token, secret = make_token(user, name="sync", scope="finance:read", days=1, now=datetime.now(UTC))
    return secret


def sync(server: Any, file: Path, token: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), server.url, str(file)],
        env={**os.environ, "PORTAL_TOKEN": token},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_copy_is_whole_goes_on_and_tells_when_it_is_not(live_server: Any, tmp_path: Path) -> None:
    world, file = make_world(), tmp_path / "ledger.sqlite"
    token = secret_of(world.users["finance"])
    assert sync(live_server, file, token) == (0, "3 lines up to 3 of 3, 1 closed periods: whole\n")
    close(BillingPeriod.objects.get(month=OPEN_MONTH).pk, by=None, reason="", now=world.now)
    assert sync(live_server, file, token) == (0, "6 lines up to 6 of 6, 2 closed periods: whole\n")
    with sqlite3.connect(file) as copy:
        copy.execute("DELETE FROM line WHERE sequence = 2")
    assert sync(live_server, file, token) == (1, "5 lines up to 6 of 6, 2 closed periods: NOT WHOLE\n")


def test_without_a_good_token_nothing_is_copied(live_server: Any, tmp_path: Path) -> None:
    make_world()
    status, said = sync(live_server, tmp_path / "ledger.sqlite", "gpup_nobody_knows")
    assert status == 1
    assert "401" in said
