"""E-mails about change requests. Input: the payload of a notice; output: its subject and body in the language in force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

_SUBJECTS: Mapping[str, str] = {
    "submit": gettext_noop("Change %(number)s waits for approval: %(objects)s"),
    "submit_end": gettext_noop("The end of a change waits for a decision, change %(number)s: %(objects)s"),
    "approve": gettext_noop("Change %(number)s was approved: %(objects)s"),
    "approve_end": gettext_noop("Change %(number)s ends as approved: %(objects)s"),
    "reject": gettext_noop("Change %(number)s was rejected: %(objects)s"),
    "cancel": gettext_noop("Change %(number)s was cancelled: %(objects)s"),
    "cancel_end": gettext_noop("Change %(number)s was cancelled: %(objects)s"),
    "supersede": gettext_noop("Change %(number)s was replaced: %(objects)s"),
    "expire": gettext_noop("Change %(number)s has expired: %(objects)s"),
    "finish": gettext_noop("Change %(number)s was applied: %(objects)s"),
    "back_to_check": gettext_noop(
        "Change %(number)s has to be looked at again, the cluster is not as it was: %(objects)s"
    ),
    "fail": gettext_noop("Change %(number)s failed: %(objects)s"),
    "observe": gettext_noop("Change %(number)s is in effect: %(objects)s"),
    "drift": gettext_noop("Somebody else has changed what change %(number)s made: %(objects)s"),
}


def subject_of(payload: Mapping[str, Any]) -> str:
    event = str(payload["event"]).removeprefix("change.")
    text = _SUBJECTS.get(event, gettext_noop("Change %(number)s: %(objects)s"))
    names = ", ".join(str(name).rsplit("/", 1)[-1] for name in payload["objects"])
    subject = _(text) % {"number": payload["request"], "objects": names}
    return " ".join(subject.split())[:200]


def body_of(payload: Mapping[str, Any]) -> str:
    lines = [subject_of(payload), ""]
    said = [
        (_("Cluster"), payload["cluster"]),
        (_("Team"), payload["team"]),
        (_("Asked for by"), payload["requested_by"]),
        (_("Why"), payload["request_reason"]),
        (_("By"), payload["by"]),
        (_("Reason"), payload["reason"]),
        (_("What went wrong"), payload["failure"]),
    ]
    lines += [f"{name}: {value}" for name, value in said if value]
    lines += [f"- {name}" for name in payload["objects"]]
    return "\n".join([*lines, "", f"{settings.PUBLIC_URL}{payload['path']}", ""])
