"""The small part of PromQL that is served: one vector selector. Output: a metric name or matchers on labels.

`up`, `DCGM_FI_DEV_GPU_UTIL{Hostname="h100-01",modelName=~"NVIDIA.*"}`, `{__name__=~"A|B"}`. Anything else raises
QueryError, which the API answers as Prometheus would a query that it cannot parse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass


class QueryError(ValueError):
    """The query is not one that is served."""


@dataclass(frozen=True, slots=True)
class Matcher:
    label: str
    operator: str
    text: str
    test: Callable[[str], bool]


_NAME = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)?\s*")
_MATCHER = re.compile(
    r"""\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*(,|(?=\}))"""
)
_ESCAPES = {"n": "\n", "t": "\t"}


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1])


def _matcher(label: str, operator: str, text: str) -> Matcher:
    if operator in ("=", "!="):
        return Matcher(
            label, operator, text, (lambda v: v == text) if operator == "=" else (lambda v: v != text)
        )
    try:
        pattern = re.compile(f"(?:{text})")
    except re.error as error:
        raise QueryError(f"parse error: error parsing regexp: {error}") from error
    if operator == "=~":
        return Matcher(label, operator, text, lambda v: pattern.fullmatch(v) is not None)
    return Matcher(label, operator, text, lambda v: pattern.fullmatch(v) is None)


def parse(query: str) -> list[Matcher]:
    """The matchers of a selector, the metric's name among them as `__name__`."""
    head = _NAME.match(query)
    name = head[1] if head else None
    rest = query[head.end() :] if head else query
    matchers = [_matcher("__name__", "=", name)] if name else []
    if rest.startswith("{"):
        position = 1
        while not re.match(r"\s*\}", rest[position:]):
            found = _MATCHER.match(rest, position)
            if found is None:
                raise _unserved(query)
            matchers.append(_matcher(found[1], found[2], _unquoted(found[3])))
            position = found.end()
        rest = rest[rest.index("}", position) + 1 :]
    if rest.strip() or not query.strip():
        raise _unserved(query)
    if all(m.operator in ("!=", "!~") or m.test("") for m in matchers):
        raise QueryError("parse error: vector selector must contain at least one non-empty matcher")
    return matchers


def _unserved(query: str) -> QueryError:
    if not query.strip():
        return QueryError("unknown position: parse error: no expression found in input")
    return QueryError(
        f"1:1: parse error: this server evaluates plain vector selectors only: {query.strip()[:200]}"
    )


def matches(matchers: list[Matcher], labels: Mapping[str, str]) -> bool:
    """An absent label is the empty text, as in Prometheus."""
    return all(matcher.test(labels.get(matcher.label, "")) for matcher in matchers)
