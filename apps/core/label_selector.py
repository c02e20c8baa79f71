"""Kubernetes label selectors, as text (`pool=infer,zone in (a,b),!spot`) and as objects. Pure.

Input: the text as `kubectl -l` takes it; output: a `Selector` that says whether labels match. Invariants, as in
Kubernetes: all requirements have to hold; `!=` and `notin` also match where the label is missing; an empty text
matches everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Operator = Literal["in", "notin", "exists", "absent", "gt", "lt"]

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = re.compile(rf"(?:[a-z0-9](?:[-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}")
_VALUE = re.compile(rf"(?:{_NAME})?")
_TERM = re.compile(
    r"""\s*(?:
      !\s*(?P<absent>[^\s,=!()<>]+)
      | (?P<key>[^\s,=!()<>]+)
        (?: \s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\)
          | \s*(?P<operator>==|!=|=|<|>)\s*(?P<value>[^\s,=!()<>]*) )?
    )\s*""",
    re.VERBOSE,
)


class SelectorError(ValueError):
    """A text that is no selector; `code` and `part` say what is wrong and where, for a sentence."""

    def __init__(self, code: str, part: str) -> None:
        super().__init__(f"{code}: {part!r}")
        self.code, self.part = code, part


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        found = labels.get(self.key)
        match self.operator:
            case "exists":
                return found is not None
            case "absent":
                return found is None
            case "in":
                return found in self.values
            case "notin":
                return found not in self.values
            case "gt" | "lt":
                if found is None or not re.fullmatch(r"-?\d+", found):
                    return False
                limit = int(self.values[0])
                return int(found) > limit if self.operator == "gt" else int(found) < limit


@dataclass(frozen=True, slots=True)
class Selector:
    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.holds(labels) for requirement in self.requirements)


def parse_selector(text: str) -> Selector:
    """Raises SelectorError: "term" (no requirement can be read here), "key", "value" or "number"."""
    found: list[Requirement] = []
    rest = text.strip()
    while rest:
        match = _TERM.match(rest)
        if match is None:
            raise SelectorError("term", rest)
        after = rest[match.end() :]
        if after and (not after.startswith(",") or not after[1:].strip()):
            raise SelectorError("term", after if after.strip(", ") else rest)
        found.append(_requirement(match))
        rest = after[1:].strip()
    return Selector(tuple(found))


def _requirement(match: re.Match[str]) -> Requirement:
    if absent := match["absent"]:
        return Requirement(_key(absent), "absent")
    key = _key(match["key"])
    if match["set"]:
        values = tuple(_value(part.strip()) for part in match["values"].split(","))
        if values == ("",):
            raise SelectorError("value", match[0].strip())
        return Requirement(key, "in" if match["set"] == "in" else "notin", values)
    if not (operator := match["operator"]):
        return Requirement(key, "exists")
    value = _value(match["value"])
    if operator in "<>":
        if not re.fullmatch(r"-?\d+", value):
            raise SelectorError("number", match[0].strip())
        return Requirement(key, "gt" if operator == ">" else "lt", (value,))
    return Requirement(key, "notin" if operator == "!=" else "in", (value,))


def _key(text: str) -> str:
    if not _KEY.fullmatch(text):
        raise SelectorError("key", text)
    return text


def _value(text: str) -> str:
    if not _VALUE.fullmatch(text):
        raise SelectorError("value", text)
    return text


_OPERATORS: Mapping[str, Operator] = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "absent",
}
_NODE_OPERATORS: Mapping[str, Operator] = {**_OPERATORS, "Gt": "gt", "Lt": "lt"}


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """A LabelSelector object as served; None selects nothing, {} everything."""
    if selector is None:
        return False
    return all_hold(selector.get("matchLabels"), selector.get("matchExpressions"), labels)


def all_hold(
    equal: Mapping[str, str] | None,
    expressions: Iterable[Mapping[str, Any]] | None,
    labels: Mapping[str, str],
) -> bool:
    """The two halves of a LabelSelector object. An operator that Kubernetes does not have there selects nothing."""
    return all(labels.get(key) == value for key, value in (equal or {}).items()) and all(
        _holds(item, labels, _OPERATORS) for item in expressions or ()
    )


def node_expression_holds(item: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """One expression of a node selector's term, which also knows Gt and Lt."""
    return _holds(item, labels, _NODE_OPERATORS)


def _holds(item: Mapping[str, Any], labels: Mapping[str, str], operators: Mapping[str, Operator]) -> bool:
    operator = operators.get(str(item.get("operator")))
    values = tuple(str(value) for value in item.get("values") or ())
    if operator in ("gt", "lt") and not (values and re.fullmatch(r"-?\d+", values[0])):
        return False
    return operator is not None and Requirement(str(item.get("key")), operator, values).holds(labels)
