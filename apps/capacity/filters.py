"""The filter of the node list. Input: query parameters; output: the rows that match."""

from __future__ import annotations

from collections.abc import Iterable

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.capacity.rows import NodeRow
from apps.fleet.filters import ClusterForm

STATES = [("", _("any")), ("out", _("with cards out of use")), ("free", _("with free units"))]


class NodeForm(ClusterForm):
    """`model` and `sharing_mode` are the pool's; `bucket` names why cards are out of use; `q` searches names."""

    model = forms.CharField(label=_("Model"), required=False, max_length=120)
    sharing_mode = forms.CharField(label=_("Sharing mode"), required=False, max_length=20)
    bucket = forms.CharField(label=_("Out of use because"), required=False, max_length=40)
    state = forms.ChoiceField(label=_("Show"), required=False, choices=STATES)
    flavor = forms.CharField(label=_("Flavor"), required=False, max_length=253)
    q = forms.CharField(label=_("Search"), required=False, max_length=200)

    def narrowed(self, rows: Iterable[NodeRow]) -> list[NodeRow]:
        """Only after `is_valid()`."""
        return [row for row in rows if self._matches(row)]

    def _matches(self, row: NodeRow) -> bool:
        wanted = self.cleaned_data
        return (
            wanted["model"] in ("", row.model)
            and wanted["sharing_mode"] in ("", row.sharing_mode)
            and (not wanted["bucket"] or bool(row.buckets.get(wanted["bucket"])))
            and (not wanted["flavor"] or wanted["flavor"] in row.flavors)
            and (wanted["state"] != "out" or any(row.buckets.values()))
            and (wanted["state"] != "free" or (row.free is not None and row.free > 0))
            and wanted["q"].strip().lower() in row.node.lower()
        )
