"""Filters of findings, shared by the page and REST. Input: query parameters; output: what of a list is kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.findings.rows import Finding
from apps.fleet.filters import OwnerForm

SEVERITIES = (("bad", _("Act now")), ("warn", _("Soon")), ("note", _("Note")))
AREAS = (
    ("sight", _("Sources")),
    ("cards", _("Nodes and cards")),
    ("quota", _("Quota and queues")),
    ("work", _("Work")),
)


class FindingForm(OwnerForm):
    """Narrow by severity, area, code, object and what is said; a named team shows what that team is told."""

    severity = forms.ChoiceField(label=_("Severity"), required=False, choices=[("", _("all")), *SEVERITIES])
    area = forms.ChoiceField(label=_("About"), required=False, choices=[("", _("all")), *AREAS])
    code = forms.CharField(label=_("Code"), required=False, max_length=60)
    kind = forms.CharField(label=_("Kind of object"), required=False, max_length=40)
    name = forms.CharField(label=_("Name of object"), required=False, max_length=253)
    q = forms.CharField(label=_("Search"), required=False, max_length=200)

    def keep(self, found: Iterable[Finding]) -> list[Finding]:
        """Only after `is_valid()`; keeps the order."""
        chosen = self.cleaned_data
        return [item for item in found if _fits(item, chosen)]


def _fits(item: Finding, chosen: dict[str, Any]) -> bool:
    for name in ("severity", "area", "code"):
        if chosen[name] not in ("", getattr(item, name)):
            return False
    if (kind := chosen["kind"]) or chosen["name"]:
        refs = item.objects
        if not any(kind in ("", ref.kind) and chosen["name"] in ("", ref.name) for ref in refs):
            return False
    return chosen["q"].casefold() in item.text.casefold()
