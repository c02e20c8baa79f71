"""Filters of the node list and of the software stack. Input: query parameters; output: the rows that match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.capacity.rows import NodeRow
from apps.capacity.stack import NodeVersion, StackRow, version_key
from apps.fleet.filters import ClusterForm

STATES = [
    ("", _("any")),
    ("out", _("with cards out of use")),
    ("free", _("with free units")),
    ("held", _("with held units")),
    ("stranded", _("with stranded units")),
]


class NodeForm(ClusterForm):
    """`model` and `sharing_mode` are the pool's; `bucket` names why cards are out of use; `q` searches names."""

    model = forms.CharField(label=_("Model"), required=False, max_length=120)
    sharing_mode = forms.CharField(label=_("Sharing mode"), required=False, max_length=20)
    bucket = forms.CharField(label=_("Out of use because"), required=False, max_length=40)
    state = forms.ChoiceField(label=_("Show"), required=False, choices=STATES)
    flavor = forms.CharField(label=_("Flavor"), required=False, max_length=253)
    q = forms.CharField(label=_("Search"), required=False, max_length=200)

    def narrowed(self, rows: Sequence[NodeRow]) -> Sequence[NodeRow]:
        """Only after `is_valid()`. Without a filter the rows as they are: those that nobody shows are never made."""
        asked = any(self.cleaned_data[name] for name in self.fields if name != "cluster")
        return [row for row in rows if self._matches(row)] if asked else rows

    def _matches(self, row: NodeRow) -> bool:
        wanted = self.cleaned_data
        return (
            wanted["model"] in ("", row.model)
            and wanted["sharing_mode"] in ("", row.sharing_mode)
            and (not wanted["bucket"] or bool(row.buckets.get(wanted["bucket"])))
            and (not wanted["flavor"] or wanted["flavor"] in row.flavors)
            and (wanted["state"] != "out" or any(row.buckets.values()))
            and (wanted["state"] != "free" or bool(row.free))
            and (wanted["state"] != "held" or bool(row.held_bound))
            and (wanted["state"] != "stranded" or bool(row.stranded))
            and wanted["q"].strip().lower() in row.node.lower()
        )


class StackForm(ClusterForm):
    """`component` as in REST ("driver", "operator/toolkit"), `version` exactly as shown, `outliers` only what
    differs from most nodes of its model; `q` searches names of nodes."""

    component = forms.CharField(label=_("Component"), required=False, max_length=80)
    version = forms.CharField(label=_("Version"), required=False, max_length=120)
    outliers = forms.BooleanField(label=_("Only what differs"), required=False)
    q = forms.CharField(label=_("Node"), required=False, max_length=200)

    def narrowed_rows(self, rows: Iterable[StackRow]) -> list[StackRow]:
        """Versions that match. Only after `is_valid()`, as all of these."""
        wanted, q = self.cleaned_data, self.cleaned_data["q"].strip().lower()
        return [
            row
            for row in rows
            if wanted["component"] in ("", row.component)
            and wanted["version"] in ("", row.version)
            and (not wanted["outliers"] or row.outliers)
            and (not q or any(q in name.lower() for name in row.nodes))
        ]

    def narrowed_versions(self, rows: Iterable[NodeVersion]) -> list[NodeVersion]:
        """Nodes that match, each once per component. A version is found by how any source writes it."""
        wanted, q = self.cleaned_data, self.cleaned_data["q"].strip().lower()
        return [
            row
            for row in rows
            if wanted["component"] in ("", row.component)
            and (not wanted["version"] or _is_version(row, wanted["version"]))
            and (not wanted["outliers"] or row.is_outlier)
            and q in row.node.lower()
        ]


def _is_version(row: NodeVersion, text: str) -> bool:
    if row.version is None:
        return False
    return version_key(row.component, row.version) == version_key(row.component, text)
