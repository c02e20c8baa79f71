"""As much CEL as device classes use in practice: comparisons joined by `&&`. Pure.

Input: the expressions of a class or rule and one device; output: whether it matches, or None where the expression
says more than this reads. Invariants: True and False are certain; what cannot be read is never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Attributes = Mapping[str, Any]

_LITERAL = r"""(?P<quote>['"])(?P<text>[^'"]*)(?P=quote)|(?P<bare>true|false|-?\d+)"""
_DRIVER = re.compile(r"""device\.driver\s*==\s*(['"])([^'"]*)\1""")
_TYPE = re.compile(r"""device\.attributes\[(['"])[^'"]*\1\]\.type\s*==\s*(['"])([^'"]*)\2""")
_DOMAIN = re.compile(r"""device\.attributes\[(['"])([^'"]*)\1\]""")
_STANDARD = ("resource.kubernetes.io",)
_DRIVER_TERM = re.compile(rf"device\.driver\s*(?P<op>==|!=)\s*(?:{_LITERAL})")
_ATTRIBUTE_TERM = re.compile(
    r"""device\.attributes\[(?P<q>['"])(?P<domain>[^'"]*)(?P=q)\]\.(?P<name>\w+)\s*(?P<op>==|!=)\s*"""
    rf"(?:{_LITERAL})"
)
_PRESENCE_TERM = re.compile(r"""(['"])(?P<domain>[^'"]*)\1\s+in\s+device\.attributes""")


def named_drivers(expressions: Sequence[str]) -> list[str]:
    """The drivers that plain comparisons name, in order, else those whose attributes are asked for; [] when negation
    makes them say something else."""
    own = [name for name in _named(expressions, _DOMAIN, 2) if name not in _STANDARD]
    return _named(expressions, _DRIVER, 2) or own


def named_types(expressions: Iterable[str]) -> list[str]:
    """The device types that plain comparisons name, as `named_drivers`."""
    return _named(expressions, _TYPE, 3)


def _named(expressions: Iterable[str], pattern: re.Pattern[str], group: int) -> list[str]:
    readable = [text for text in expressions if "!" not in text]
    return list(dict.fromkeys(found[group] for text in readable for found in pattern.finditer(text)))


def matches(expressions: Iterable[str], driver: str, attributes: Attributes) -> bool | None:
    """Whether all expressions hold for a device. `attributes` as stored: the driver's own without a domain."""
    unknown = False
    for expression in expressions:
        for term in expression.split("&&"):
            held = _term(term.strip(), driver, attributes)
            if held is False:
                return False
            unknown = unknown or held is None
    return None if unknown else True


def _unwrapped(term: str) -> str:
    while term.startswith("(") and term.endswith(")") and "(" not in term[1:-1] and ")" not in term[1:-1]:
        term = term[1:-1].strip()
    return term


def _term(term: str, driver: str, attributes: Attributes) -> bool | None:
    term = _unwrapped(term)
    if found := _DRIVER_TERM.fullmatch(term):
        return _compared(found, driver)
    if found := _PRESENCE_TERM.fullmatch(term):
        domain = f"{found['domain']}/"
        return found["domain"] == driver or any(name.startswith(domain) for name in attributes)
    if found := _ATTRIBUTE_TERM.fullmatch(term):
        own = found["domain"] == driver
        name = found["name"] if own else f"{found['domain']}/{found['name']}"
        # A name that the device does not have is an error in CEL, and an error selects nothing.
        return name in attributes and _compared(found, attributes[name])
    return None


def _compared(found: re.Match[str], value: Any) -> bool:
    bare = found["bare"]
    literal: Any = found["text"] if bare is None else {"true": True, "false": False}.get(bare)
    if literal is None:
        literal = int(bare)
    same = type(value) is type(literal) and value == literal
    return same if found["op"] == "==" else not same
