"""Why something about a change request was refused. Each kind is answered in its own way by pages and REST."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from apps.changes.models import State


@dataclass(frozen=True, slots=True)
class Fault:
    """`code`: that of `edits.ChangeFault`, or "too_long", "past", "order" of reason and times."""

    field: str
    code: str
    part: str = ""


class ChangeRefused(Exception):
    """Nothing was written, but for the entry in the audit trail where somebody may see but not do it."""


class NotVisible(ChangeRefused):
    """There is no such request, or the reader may not see it: both look the same (404)."""


class NotAllowed(ChangeRefused):
    """The actor sees the request and may not do this to it (403). `code`: "role", or "own" where four eyes are
    wanted."""

    def __init__(self, transition: str, request_id: int | None, code: str) -> None:
        super().__init__(f"{transition} of {request_id}: {code}")
        self.transition, self.request_id, self.code = transition, request_id, code


class VersionRequired(ChangeRefused):
    """Whoever decides has to say which version they saw (428)."""


class Conflict(ChangeRefused):
    """The request moved on since it was looked at (409). `who` did it and `state`/`version` are the present ones."""

    def __init__(self, state: str, version: int, who: str) -> None:
        super().__init__(f"now {state}, version {version}, by {who}")
        self.state, self.version, self.who = State(state), version, who


class NotPossible(ChangeRefused):
    """The request is not where this can be done (409). `code`: "state", "origin", or that of the guard that refused
    (see `guards`)."""

    def __init__(self, transition: str, state: str, code: str = "state") -> None:
        super().__init__(f"{transition} from {state}: {code}")
        self.transition, self.state, self.code = transition, State(state), code


class BadRequest(ChangeRefused):
    """What was asked for cannot be read or named (400): every fault, with its field ("edits.0.set.weight",
    "reason", "ends_at"), so that it stands where it was typed."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(f"{fault.field}: {fault.code}" for fault in self.faults))
