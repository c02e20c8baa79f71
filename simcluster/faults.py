"""Faults that the simulated APIs show on request. Input: rules as dicts (also by HTTP at /_sim/faults); output: what
to do with one answer.

A rule says where: `kind` (a kind's name, "prometheus", "metrics" or "*"), `on` ("list", "watch", "get", "patch",
"*") and how often (`times`, absent = until it is taken away), and what, any of:
  delay          seconds to wait before the answer            status   answer this HTTP status instead
  retry_after    seconds, with status 429 or 503              hang     never answer (the client has to give up)
  cut            close the connection after this share of the body (0…1)
  truncate       end the body, with a correct length, after this share of it
  expire         answer 410 for every continue token, and the ERROR event 410 for every watch
  break_items    this many objects of each list or watch become something that is no object of their kind
  bad_quantity   this many objects get a quantity that is not one
  value          Prometheus: every value becomes this text ("NaN", "+Inf")
  empty          Prometheus: no series
  error          Prometheus: status "error" with this text
`clock_skew` (seconds, outside of the rules) puts the Date header and all timestamps ahead of the real time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec


class Effect(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What happens to one answer: a rule's own, or all rules that apply together."""

    delay: float = 0.0
    status: int | None = None
    message: str = ""
    retry_after: int | None = None
    hang: bool = False
    cut: float | None = None
    truncate: float | None = None
    expire: bool = False
    break_items: int = 0
    bad_quantity: int = 0
    value: str | None = None
    empty: bool = False
    error: str | None = None


class Rule(Effect):
    """One fault: where and how often, and what; see the module."""

    kind: str = "*"
    on: str = "*"
    times: int | None = None

    def matches(self, kind: str, on: str) -> bool:
        return self.kind in ("*", kind) and self.on in ("*", on)


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    rules: list[Rule] = []
    clock_skew: float = 0.0


_NOTHING = Effect()
_FIELDS = Effect.__struct_fields__


class Faults:
    """The faults that are switched on now. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self.clock_skew = 0.0
        self.over = threading.Event()
        """Set when the server stops, so that a hanging answer ends."""

    def add(self, kind: str = "*", on: str = "*", **what: Any) -> Rule:
        """Switch one on; keywords as in the module."""
        rule = msgspec.convert({"kind": kind, "on": on, **what}, Rule)
        with self._lock:
            self._rules.append(rule)
        return rule

    def clear(self) -> None:
        with self._lock:
            self._rules = []
            self.clock_skew = 0.0

    def replace(self, document: bytes) -> None:
        """All rules at once, from JSON. Raises msgspec.MsgspecError."""
        found = msgspec.json.decode(document, type=_Document)
        with self._lock:
            self._rules, self.clock_skew = list(found.rules), found.clock_skew

    def document(self) -> bytes:
        with self._lock:
            return msgspec.json.encode(_Document(list(self._rules), self.clock_skew))

    def effect(self, kind: str, on: str) -> Effect:
        """What happens to this answer; a rule with `times` is used up by asking."""
        with self._lock:
            if not self._rules:
                return _NOTHING
            found = [rule for rule in self._rules if rule.matches(kind, on)]
            for rule in found:
                if rule.times is not None:
                    rule.times -= 1
            self._rules = [rule for rule in self._rules if rule.times is None or rule.times > 0]
        return _merged(found)


def _merged(rules: Iterable[Rule]) -> Effect:
    effect = Effect()
    for rule in rules:
        for name in _FIELDS:
            value = getattr(rule, name)
            if value not in (None, 0, "", False) or (name in ("cut", "truncate") and value is not None):
                setattr(effect, name, value)
    return effect


def broken_item(raw: bytes) -> bytes:
    """An item of a list whose metadata and spec are of the wrong type."""
    name = _name_in(raw)
    return msgspec.json.encode({"metadata": {"name": name, "uid": 17, "labels": "none"}, "spec": ["broken"]})


_QUANTITIES = (
    b'"cpu":"',
    b'"nvidia.com/gpu":"',
    b'"nominalQuota":"',
    b'"memory":"',
    b'"capability":{"nvidia.com/gpu":"',
)


def with_bad_quantity(raw: bytes) -> bytes:
    """The object with its first quantity replaced by something that is not one."""
    for marker in _QUANTITIES:
        start = raw.find(marker)
        if start >= 0:
            value = start + len(marker)
            return raw[:value] + b"eight" + raw[raw.index(b'"', value) :]
    return raw


def spoiled(raws: list[bytes], effect: Effect) -> list[bytes]:
    """The items of a list with the broken ones among them."""
    if not (effect.break_items or effect.bad_quantity):
        return raws
    done = list(raws)
    for index in range(min(effect.break_items, len(done))):
        done[index] = broken_item(done[index])
    first = effect.break_items
    for index in range(first, min(first + effect.bad_quantity, len(done))):
        done[index] = with_bad_quantity(done[index])
    return done


def _name_in(raw: bytes) -> str:
    try:
        found: Mapping[str, Any] = msgspec.json.decode(raw)
    except msgspec.MsgspecError:
        return "unknown"
    return str(found.get("metadata", {}).get("name", "unknown"))
