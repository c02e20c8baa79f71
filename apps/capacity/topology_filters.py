"""The filter of room by topology, shared by page, CSV and REST. Input: query parameters; output: rows that match."""

from __future__ import annotations

from collections.abc import Iterable

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.capacity.labels import CAPACITY_TYPES
from apps.capacity.topology_rows import DomainRow, FitRow, PlaceRow
from apps.fleet.filters import ClusterForm

KINDS = [
    ("", _("any")),
    ("kueue", _("Kueue topology")),
    ("volcano", _("Volcano HyperNodes")),
    ("nvlink", _("NVLink cliques")),
    ("hostname", _("single nodes")),
]
BOUGHT = [("", _("any")), *CAPACITY_TYPES.items(), ("-", _("not said"))]
PODS = [
    ("", _("1 card")),
    ("2", _("2 cards")),
    ("4", _("4 cards")),
    ("8", _("8 cards")),
    ("16", _("16 cards")),
]


class TopologyForm(ClusterForm):
    """`model` and `capacity_type` ("-": no label says) are the pool's, `kind` and `level` the domains'; `pod`: cards
    that each pod of a job takes from one node; `q` searches names of domains and nodes."""

    model = forms.CharField(label=_("Model"), required=False, max_length=120)
    capacity_type = forms.ChoiceField(label=_("Bought as"), required=False, choices=BOUGHT)
    kind = forms.ChoiceField(label=_("Domains by"), required=False, choices=KINDS)
    level = forms.CharField(label=_("Level"), required=False, max_length=317)
    pod = forms.ChoiceField(label=_("Cards per pod"), required=False, choices=PODS)
    q = forms.CharField(label=_("Search"), required=False, max_length=200)

    @property
    def pod_size(self) -> int:
        """Only after `is_valid()`, as all of these."""
        return int(self.cleaned_data["pod"] or 1)

    def narrowed_fits(self, rows: Iterable[FitRow]) -> list[FitRow]:
        return [row for row in rows if self._of_pool(row)]

    def narrowed_domains(self, rows: Iterable[DomainRow]) -> list[DomainRow]:
        wanted, q = self.cleaned_data, self.cleaned_data["q"].strip().lower()
        return [
            row
            for row in rows
            if self._of_pool(row)
            and wanted["kind"] in ("", row.kind)
            and wanted["level"] in ("", row.level)
            and q in row.domain.lower()
        ]

    def narrowed_nodes(self, rows: Iterable[PlaceRow]) -> list[PlaceRow]:
        wanted, q = self.cleaned_data, self.cleaned_data["q"].strip().lower()
        return [
            row
            for row in rows
            if (not wanted["model"] or wanted["model"] in row.models)
            and self._bought(row.capacity_type)
            and (q in row.node.lower() or q in row.domain.lower())
        ]

    def _of_pool(self, row: FitRow | DomainRow) -> bool:
        return self.cleaned_data["model"] in ("", row.model) and self._bought(row.capacity_type)

    def _bought(self, capacity_type: str) -> bool:
        wanted: str = self.cleaned_data["capacity_type"]
        return not wanted or (capacity_type or "-") == wanted
