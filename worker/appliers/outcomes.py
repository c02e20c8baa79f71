"""What came of one step of a change."""

from __future__ import annotations

from dataclasses import dataclass

from apps.changes.patching import FieldChange


@dataclass(frozen=True, slots=True)
class Done:
    """It is in effect, by this write or found so."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Nobody can say yet: no answer, no verdict, or a controller that has not acted. The next tick asks again."""

    why: str


@dataclass(frozen=True, slots=True)
class Changed:
    """The object is not what was approved any more: per field (path, as approved, as it is). `gone`: there is no such
    object, or it is another one of the same name."""

    fields: tuple[FieldChange, ...] = ()
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """The cluster looked at it and said no; `said`: verbatim."""

    said: str


Outcome = Done | Waits | Changed | Refused
