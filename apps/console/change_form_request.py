"""What a change request says beside its edits: for which team, why, from when to when. Input: posted fields or a stored
request; output: `Asked`, with what was typed as it was typed and what it means. No queries.

Times are typed in the display zone, to the minute; one that the clocks jump over or show twice is a fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone

from apps.changes.errors import Fault
from apps.changes.models import ChangeRequest

TYPED = "%Y-%m-%dT%H:%M"
TIMES = ("starts_at", "ends_at")


@dataclass(slots=True)
class Asked:
    """`team`: a slug, "" for the platform, None when nothing was chosen yet; `typed`: the times as they stand in their
    inputs; `times`: what they mean, None for none."""

    reason: str = ""
    team: str | None = None
    typed: dict[str, str] = field(default_factory=dict)
    times: dict[str, datetime | None] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)


def posted_request(data: Mapping[str, str]) -> Asked:
    asked = Asked(reason=data.get("reason", ""), team=data.get("team"))
    for name in TIMES:
        text = data.get(name, "").strip()
        asked.typed[name] = text
        asked.times[name] = None
        try:
            asked.times[name] = _read(text)
        except ValidationError as error:
            asked.faults.append(Fault(name, "time", " ".join(error.messages)))
    return asked


def asked_of(request: ChangeRequest) -> Asked:
    """What a request that exists says."""
    times = {name: getattr(request, name) for name in TIMES}
    return Asked(
        reason=request.reason,
        team=request.team.slug if request.team is not None else "",
        typed={
            name: timezone.localtime(at).strftime(TYPED) if at is not None else ""
            for name, at in times.items()
        },
        times=times,
    )


def _read(text: str) -> datetime | None:
    """Raises ValidationError for what is no time, and for one that the zone has not, or has twice."""
    found: datetime | None = forms.DateTimeField(required=False).clean(text)
    return found
