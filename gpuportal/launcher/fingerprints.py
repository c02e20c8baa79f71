"""Whether something has to be done again: a hash of what it was made from, kept beside what was made."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def fingerprint(root: Path, patterns: Iterable[str]) -> str:
    """A hash over names and contents of the files that match."""
    found = hashlib.sha256()
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(f"{path.relative_to(root)}\0".encode())
                found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def static_fingerprint(root: Path) -> str:
    return fingerprint(root, ["requirements.txt", "static/**/*", "apps/*/static/**/*"])


def schema_fingerprint(root: Path) -> str:
    return fingerprint(root, ["requirements.txt", "apps/*/migrations/*.py"])


def matches(stamp: Path, expected: str) -> bool:
    return stamp.exists() and stamp.read_text() == expected


def record(stamp: Path, value: str) -> None:
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(value)
