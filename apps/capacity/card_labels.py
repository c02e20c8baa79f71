"""Words about a card: why it is out of use, who holds it, and why utilisation is or is not a pod's own.

Input: cards and their rows; output: sentences in the active language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.capacity.carding import SHARED, Card, Holder
from apps.capacity.labels import evidence_text
from apps.core.formats import labelled

STATE_LABELS: dict[str, Promise] = {
    "held": gettext_lazy("held"),
    "free": gettext_lazy("free"),
    "stranded": gettext_lazy("stranded"),
    "out": gettext_lazy("out of use"),
    "unknown": gettext_lazy("not known"),
}
ORIGIN_LABELS: dict[str, Promise] = {
    "telemetry": gettext_lazy("named by its exporter"),
    "dra": gettext_lazy("named by its DRA driver"),
    "register": gettext_lazy("named by the node's register"),
    "count": gettext_lazy("counted; nobody names it"),
}


def state_label(state: str) -> str:
    return str(STATE_LABELS.get(state, state))


def bucket_text(card: Card) -> str:
    """Why the card is out of use; "" while it is usable."""
    if card.bucket is None:
        return ""
    why = evidence_text(card.why)
    if card.identified:
        return why
    said = _("the count says so of one of these cards, nobody says of which")
    return labelled(why, said) if why else said


class _Held(Protocol):
    @property
    def state(self) -> str: ...
    @property
    def holders(self) -> Sequence[Holder]: ...


def holder_sentence(row: _Held) -> str:
    """How the holders are known, where they are not simply the pods on the card; "" otherwise."""
    hows = {holder.how for holder in row.holders}
    count = len(row.holders)
    if row.state == "held" and not count:
        return _("held, and no pod is known: a claim that no pod uses, or a pod that was not read yet")
    if "perhaps" in hows:
        return ngettext(
            "held by this pod or free: which card it has is not said",
            "held by one of %(n)d pods: which card is not said",
            count,
        ) % {"n": count}
    if "one_of" in hows:
        return _("held by one of %(n)d pods: which card is not said") % {"n": count}
    return ""


class _Attributed(Protocol):
    @property
    def sharing_mode(self) -> str: ...
    @property
    def attribution(self) -> str: ...
    @property
    def utilisation_source(self) -> str: ...


def attribution_sentence(row: _Attributed) -> str:
    """What utilisation says of the pods on a card; "" where one pod has it and there is nothing to explain."""
    if row.attribution == "per_process":
        return _(
            "Measured for each pod by its processes; the parts need not add up to the card's utilisation."
        )
    if row.attribution == "copies":
        return _("The exporter repeats the card's value for every pod on it: no pod's own part is known.")
    if row.attribution == "flips":
        return _("The exporter names the pods of this card in turn: no pod's own part is known.")
    if row.sharing_mode in SHARED and row.attribution == "whole":
        return _("The exporter names one pod of a card that several may share: the value is the card's.")
    if row.sharing_mode in SHARED and row.utilisation_source:
        return _("The exporter names no pod on this shared card: the value is the card's.")
    return ""
