"""What a simulated cluster keeps between starts: DIR/state.json, DIR/journal.ndjson, and the kubeconfig it writes.

Invariants: seed and epoch of the first start stay; a file that cannot be read stops the start with one line; files
are written whole (a temporary file, then renamed).
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import msgspec

OLDEST_EPOCH_SECONDS = 60 * 86400


class StateError(Exception):
    """The folder or a file in it is unusable; the message is one line for a person."""


class State(msgspec.Struct):
    """state.json."""

    seed: int
    epoch: int
    admin_token: str
    viewer_token: str


class Entry(msgspec.Struct):
    """One line of the journal: an object as it was after an edit through the API."""

    at: float
    kind: str
    object: dict[str, Any]


def load_state(folder: Path, *, seed: int | None, days: float, now: float) -> State:
    """The stored state; a new one at the first start, when the epoch is too old, or when another seed is asked for."""
    path = folder / "state.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = msgspec.json.decode(path.read_bytes(), type=State) if path.exists() else None
    except OSError as error:
        raise StateError(f"{error.filename or folder}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise StateError(f"{path}: not a state file ({error}); remove it to start over") from error
    if (
        found
        and now - found.epoch <= OLDEST_EPOCH_SECONDS
        and seed in (None, found.seed)
        and found.epoch <= now
    ):
        return found
    epoch = int(now - days * 86400) // 60 * 60
    state = State(
        seed=1 if seed is None else seed,
        epoch=epoch,
        admin_token=found.admin_token if found else secrets.token_urlsafe(24),
        viewer_token=found.viewer_token if found else secrets.token_urlsafe(24),
    )
    write_file(path, msgspec.json.encode(state))
    (folder / "journal.ndjson").unlink(missing_ok=True)
    return state


def read_journal(folder: Path) -> list[Entry]:
    path = folder / "journal.ndjson"
    if not path.exists():
        return []
    try:
        lines = [line for line in path.read_bytes().splitlines() if line.strip()]
        return [msgspec.json.decode(line, type=Entry) for line in lines]
    except (OSError, msgspec.MsgspecError) as error:
        raise StateError(f"{path}: {error}; remove it to forget the edits") from error


def append_journal(folder: Path, entry: Entry) -> None:
    with (folder / "journal.ndjson").open("ab") as file:
        file.write(msgspec.json.encode(entry) + b"\n")


def write_file(path: Path, body: bytes, mode: int = 0o600) -> None:
    """Whole or not at all."""
    temporary = path.with_suffix(path.suffix + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(body)
    temporary.replace(path)


def kubeconfig(url: str, admin_token: str, viewer_token: str) -> bytes:
    """A kubeconfig with two contexts: "demo" reads and writes, "viewer" reads some."""
    text = f"""apiVersion: v1
kind: Config
current-context: demo
clusters:
- name: demo
  cluster:
    server: {url}
users:
- name: admin
  user:
    token: {admin_token}
- name: viewer
  user:
    token: {viewer_token}
contexts:
- name: demo
  context: {{cluster: demo, user: admin}}
- name: viewer
  context: {{cluster: demo, user: viewer}}
"""
    return text.encode()
