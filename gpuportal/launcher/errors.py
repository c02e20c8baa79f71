"""What a person who started the launcher is told when it cannot go on: one clear line."""

from __future__ import annotations

from pathlib import Path


class LaunchError(Exception):
    """Ends the launcher with exit code 1 and this one line; `log` names the file whose last lines help."""

    def __init__(self, message: str, *, log: Path | None = None) -> None:
        super().__init__(message)
        self.log = log


class Interrupted(BaseException):
    """SIGINT or SIGTERM arrived: stop everything. Not an Exception, so that no handler swallows it."""


def last_lines(path: Path, count: int = 12) -> list[str]:
    """The end of a log, without empty lines; nothing when it is not there."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 16_384))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]
