"""Filters of cards, shared by pages and REST. Input: query parameters; output: the cards that match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.capacity.card_labels import STATE_LABELS
from apps.capacity.cards import CardRow
from apps.capacity.labels import BUCKET_LABELS
from apps.fleet.filters import ClusterForm

USABLE = "usable"
IDLE = [
    ("", _("any")),
    ("yes", _("held and idle")),
    ("memory", _("memory held without compute")),
    ("no", _("not known to be idle")),
]


class CardForm(ClusterForm):
    """`node` exactly; `model` and `sharing_mode` as a pool's; `bucket` names why cards are out of use ("usable" for
    those that are not); `idle` "yes", "memory" (idle with memory taken) or "no"; `q` searches devices and nodes."""

    node = forms.CharField(label=_("Node"), required=False, max_length=253)
    model = forms.CharField(label=_("Model"), required=False, max_length=120)
    sharing_mode = forms.CharField(label=_("Sharing mode"), required=False, max_length=20)
    bucket = forms.ChoiceField(
        label=_("Out of use because"),
        required=False,
        choices=[("", _("any")), (USABLE, _("none: usable")), *BUCKET_LABELS.items()],
    )
    state = forms.ChoiceField(
        label=_("Show"), required=False, choices=[("", _("any")), *STATE_LABELS.items()]
    )
    idle = forms.ChoiceField(label=_("Idle"), required=False, choices=IDLE)
    q = forms.CharField(label=_("Search"), required=False, max_length=200)

    def wanted(self) -> dict[str, Any]:
        """Arguments of `iter_cards`: what is decided before a card is looked at. Only after `is_valid()`."""
        return {name: self.cleaned_data[name] for name in ("node", "model", "sharing_mode")}

    def narrowed(self, rows: Iterable[CardRow]) -> Iterator[CardRow]:
        """Only after `is_valid()`."""
        return (row for row in rows if self._matches(row))

    def _matches(self, row: CardRow) -> bool:
        wanted = self.cleaned_data
        text = wanted["q"].strip().lower()
        return (
            wanted["node"] in ("", row.node)
            and wanted["model"] in ("", row.model)
            and wanted["sharing_mode"] in ("", row.sharing_mode)
            and wanted["bucket"] in ("", row.bucket or USABLE)
            and wanted["state"] in ("", row.state)
            and _idle_matches(wanted["idle"], row)
            and (text in row.node.lower() or text in row.device.lower())
        )


def _idle_matches(wanted: str, row: CardRow) -> bool:
    if wanted == "memory":
        return row.holds_memory_idle
    return not wanted or row.is_idle is (wanted == "yes")
