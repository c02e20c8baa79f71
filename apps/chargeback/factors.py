"""Factors by priority class as somebody writes them. Input: lines such as "urgent = 1.5"; output: {class: factor as text}, as a
rate card keeps them, or what is wrong with which line.

Invariants: what is read is written back as the same lines; a factor has at most 4 digits before the point and 6 after it, as
that of borrowed use, so that the two multiply to what a line of the ledger can hold exactly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

_CLASS = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_FACTOR = re.compile(r"\d{1,4}(\.\d{1,6})?", re.ASCII)
_LONGEST = 253


def factor_lines(factors: Mapping[str, str]) -> str:
    return "\n".join(f"{name} = {value}" for name, value in factors.items())


def read_factors(text: str) -> tuple[dict[str, str], list[str]]:
    """The factors, and what is wrong, by line; empty lines count for nothing."""
    found: dict[str, str] = {}
    faults = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        fault = _fault(name, value) if equals else _("give a priority class, = and a factor")
        if not fault and name in found:
            fault = _("%(name)s has a factor already") % {"name": name}
        if fault:
            faults.append(_("Line %(number)s: %(fault)s.") % {"number": number, "fault": fault})
        found[name] = value
    return found, faults


def factor_faults(kept: Any) -> list[str]:
    """What is wrong with factors that came another way than by lines."""
    if not isinstance(kept, dict):
        return [_("Factors are an object of priority classes, each with its factor.")]
    found = [_fault(name, value) for name, value in kept.items()]
    return [_("%(fault)s.") % {"fault": fault} for fault in found if fault]


def _fault(name: str, value: Any) -> str:
    """Without a full stop."""
    if len(name) > _LONGEST or not _CLASS.fullmatch(name):
        return _("“%(name)s” is no name of a priority class") % {"name": name[:_LONGEST]}
    if not isinstance(value, str) or not _FACTOR.fullmatch(value):
        return _(
            "%(name)s: give a number of 0 or more, with at most 4 digits before the point and 6 after it"
        ) % {"name": name}
    return ""
