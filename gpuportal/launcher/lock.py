"""One portal per folder: a lock that the kernel drops when its holder ends, however it ends."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import LaunchError


@contextmanager
def installation_lock(var: Path, url: str) -> Iterator[None]:
    """Hold `var/up.lock`, or say who does."""
    path = var / "up.lock"
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip()
            raise LaunchError(f"the portal of this folder already runs{holder and f': {holder}'}") from None
        file.truncate(0)
        file.write(f"{url} (process {os.getpid()})")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
            running_file(var).unlink(missing_ok=True)


def running_file(var: Path) -> Path:
    return var / "running.json"


def remember_running(var: Path, environment: dict[str, str]) -> None:
    """Let `./portal manage` find the servers of a portal that runs; readable by its owner only."""
    path = running_file(var)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(environment, file)


def running_environment(var: Path) -> dict[str, Any] | None:
    """The environment of the portal that runs in this folder, None when none does."""
    path = var / "up.lock"
    if not path.exists():
        return None
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            try:
                found: dict[str, Any] = json.loads(running_file(var).read_text())
            except (OSError, ValueError):
                return None
            return found
    return None
