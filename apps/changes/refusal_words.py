"""Why something about a change request was refused, in words. Input: a `ChangeRefused` or one of its faults; output: sentences
in the active language. Shared by pages and REST."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.changes.errors import (
    BadRequest,
    ChangeRefused,
    Conflict,
    Fault,
    NotAllowed,
    NotPossible,
    VersionRequired,
)
from apps.quotas.what_if_change import ChangeFault
from apps.quotas.what_if_words import fault_text

_FAULTS: dict[str, str | Promise] = {
    "too_long": gettext_lazy("This is longer than %(part)s characters."),
    "past": gettext_lazy("This is in the past."),
    "order": gettext_lazy("It would end before it starts."),
    "not_yours": gettext_lazy(
        "Change %(part)s was asked for by somebody else: only they or a platform admin replace it."
    ),
    "time": gettext_lazy("%(part)s"),
}
_IN_THE_WAY: dict[str, str | Promise] = {
    "state": gettext_lazy("This cannot be done now: the request is “%(state)s”."),
    "origin": gettext_lazy("This cannot be done with a request that takes back another one."),
    "unchecked": gettext_lazy("What is asked for now has not been checked yet."),
    "refused": gettext_lazy("The check found what cannot be; edit the request first."),
    "empty": gettext_lazy("There is nothing to write: everything is already as asked for."),
    "early": gettext_lazy("It is to start later."),
    "late": gettext_lazy("The time at which it was to end has passed."),
    "steps": gettext_lazy("What was written so far does not allow it."),
}
_NOT_ALLOWED: dict[str, str | Promise] = {
    "role": gettext_lazy("Your role does not allow this."),
    "own": gettext_lazy("Somebody else has to decide on what you asked for yourself."),
}


def request_fault_text(fault: Fault) -> str:
    """What is wrong with one field of what was asked for."""
    if fault.code in _FAULTS:
        return str(_FAULTS[fault.code]) % {"part": fault.part}
    return fault_text(ChangeFault(fault.field, fault.code, fault.part))  # type: ignore[arg-type]


def refusal_text(error: ChangeRefused) -> str:
    """One sentence for the whole refusal."""
    if isinstance(error, Conflict):
        text = _("%(who)s was faster: the request is now “%(state)s”, version %(version)s. Look at it again.")
        return text % {"who": error.who, "state": error.state.label, "version": error.version}
    if isinstance(error, NotPossible):
        words = _IN_THE_WAY["state" if error.code not in _IN_THE_WAY else error.code]
        if error.transition == "supersede":
            words = gettext_lazy(
                "The request that this one replaces is “%(state)s” and cannot be replaced now."
            )
        return str(words) % {"state": error.state.label}
    if isinstance(error, NotAllowed):
        return str(_NOT_ALLOWED[error.code])
    if isinstance(error, VersionRequired):
        return _("Say which version you saw, so that you decide on nothing that you have not seen.")
    if isinstance(error, BadRequest):
        return _("What is asked for has faults.")
    return _("There is no such request.")
