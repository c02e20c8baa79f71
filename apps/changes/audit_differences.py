"""What an entry of the trail says differs, as lines for people. Input: `before` and `after` as stored; output: lines with
a field, its value before and after. Pure.

Invariants: what is the same on both sides has no line; absent (None) is not the empty text; long lists are one value; the
steps of a plan read as the fields of their objects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from apps.changes.specs import flat, same

_STEP = frozenset({"object", "before", "after"})
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """None: there is no value on this side."""

    field: str
    before: str | None
    after: str | None


def differences(before: Values | None, after: Values | None) -> list[Difference]:
    """In the order of the fields as stored."""
    old, new = dict(before or {}), dict(after or {})
    found: list[Difference] = []
    for name in dict.fromkeys([*old, *new]):
        if name == "steps" and (steps := _plan(new.get(name))):
            for step in steps:
                found += _of_step(step)
        else:
            found += _between(name, old.get(name), new.get(name))
    return found


def _plan(value: Any) -> list[Values]:
    """The steps of a plan; [] of anything else."""
    if not isinstance(value, list) or not all(isinstance(one, dict) and one.keys() >= _STEP for one in value):
        return []
    return value


def _of_step(step: Values) -> Iterator[Difference]:
    """The object's fields that differ, under its name."""
    old, new = flat(step["before"] or {}), flat(step["after"] or {})
    for path in dict.fromkeys([*old, *new]):
        if not same(path, old.get(path), new.get(path)):
            field = f"{step['object']} {path.removeprefix('/spec/')}"
            yield Difference(field, _text(old.get(path)), _text(new.get(path)))


def _between(field: str, old: Any, new: Any) -> Iterator[Difference]:
    if isinstance(old, Mapping) or isinstance(new, Mapping):
        was = old if isinstance(old, Mapping) else {}
        now = new if isinstance(new, Mapping) else {}
        for name in dict.fromkeys([*was, *now]):
            yield from _between(f"{field}.{name}", was.get(name), now.get(name))
    elif old != new:
        yield Difference(field, _text(old), _text(new))


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
