"""The filter of queues and quotas, shared by page, CSV and REST. Input: query parameters; output: what matches.

Invariants
- Whoever reads the list, the same parameters leave the same queues and the same quota rows.
- What is narrowed to a state is about rows: a queue matches when one of its rows does, and shows those. Work waits in
  queues without children only, so that what waits is listed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from apps.fleet.filters import OwnerForm
from apps.observations.selectors import live_objects
from apps.quotas.rows import QueueNode, QuotaRow

SYSTEMS = [("", _("any")), ("kueue", "Kueue"), ("volcano", "Volcano")]
STATES = [
    ("", _("any")),
    ("waiting", _("work waits")),
    ("borrowing", _("borrows")),
    ("lending", _("lends")),
    ("over", _("over its ceiling")),
    ("stopped", _("stopped")),
    ("inactive", _("inactive")),
]
PARENT_KEYS = {"ClusterQueue": "cohort", "Cohort": "parent", "VolcanoQueue": "parent"}
Place = tuple[int, str, str]


class QueueFilterForm(OwnerForm):
    """`q` searches names of queues and cohorts; without `everything` (or a named `resource`) only accelerators of
    which there is something to say are listed. `under`: what lies below a node, "<kind>/<name>". The team narrows
    the read itself: give `narrowed_team_ids()` to the selector."""

    q = forms.CharField(label=_("Search"), required=False, max_length=200)
    system = forms.ChoiceField(label=_("System"), required=False, choices=SYSTEMS)
    state = forms.ChoiceField(label=_("State"), required=False, choices=STATES)
    flavor = forms.CharField(label=_("Flavor"), required=False, max_length=253)
    resource = forms.CharField(label=_("Resource"), required=False, max_length=253)
    under = forms.CharField(label=_("Below"), required=False, max_length=280)
    everything = forms.BooleanField(label=_("Also CPU and memory"), required=False)

    def clean_under(self) -> str:
        text: str = self.cleaned_data["under"]
        if text and text.partition("/")[0] not in ("Cohort", "VolcanoQueue"):
            raise ValidationError(_("Name a cohort or a Volcano queue, as Cohort/NAME or VolcanoQueue/NAME."))
        return text

    @property
    def lists(self) -> bool:
        """Something narrows the queues themselves, so that what is left is a list and no whole tree."""
        return any(self.cleaned_data[name] for name in ("q", "state", "flavor", "resource", "under"))

    def narrowed_rows(self, rows: Iterable[QuotaRow]) -> list[QuotaRow]:
        """The quota rows that match. Only after `is_valid()`, as all of these."""
        wanted = self._wanted()
        return [
            row
            for row in rows
            if wanted(row.cluster.pk, row.system, row.kind, row.queue)
            and self._holds(row, row.is_parent)
            and self._shows(row)
        ]

    def narrowed_nodes(self, forest: Iterable[QueueNode]) -> list[tuple[int, QueueNode]]:
        """(depth, node) of the queues and cohorts that match, each with the rows that match. Without a wish about
        rows a node without rows stays."""
        wanted = self._wanted()
        about_rows = any(self.cleaned_data[name] for name in ("flavor", "resource")) or self._state in (
            "waiting",
            "borrowing",
            "lending",
            "over",
        )
        found = []
        for depth, node in flat(forest):
            if not wanted(node.cluster.pk, node.system, node.kind, node.name):
                continue
            if self._state in ("stopped", "inactive") and not self._fits(node.active, node.stopped):
                continue
            rows = self.rows_of(node)
            if rows or not about_rows:
                found.append((depth, replace(node, rows=rows)))
        return found

    def rows_of(self, node: QueueNode) -> tuple[QuotaRow, ...]:
        """Those of a node's rows that match."""
        parent = node.kind == "Cohort" or bool(node.children)
        return tuple(row for row in node.rows if self._holds(row, parent) and self._shows(row))

    @property
    def _state(self) -> str:
        return str(self.cleaned_data["state"])

    def _wanted(self) -> Any:
        """Whether (cluster id, system, kind, name) is asked for."""
        name_part, system = self.cleaned_data["q"].strip().lower(), self.cleaned_data["system"]
        inside = self._inside()

        def wanted(cluster_id: int, of: str, kind: str, name: str) -> bool:
            return (
                name_part in name.lower()
                and system in ("", of)
                and (inside is None or (cluster_id, kind, name) in inside)
            )

        return wanted

    def _inside(self) -> set[Place] | None:
        """Every node below the named one, in each cluster; None when none is named."""
        top_kind, _slash, top = self.cleaned_data["under"].partition("/")
        if not top:
            return None
        clusters = self.clusters()
        if self.cleaned_data.get("cluster"):
            clusters = clusters.filter(slug=self.cleaned_data["cluster"])
        kinds = ("VolcanoQueue",) if top_kind == "VolcanoQueue" else ("ClusterQueue", "Cohort")
        below: dict[Place, list[Place]] = {}
        for kind in kinds:
            rows = live_objects(kind=kind, clusters=clusters)
            for cluster_id, name, parent in rows.values_list(
                "cluster_id", "name", f"spec__{PARENT_KEYS[kind]}"
            ):
                above = "VolcanoQueue" if kind == "VolcanoQueue" else "Cohort"
                below.setdefault((cluster_id, above, parent or ""), []).append((cluster_id, kind, name))
        return _descendants(below, [(cluster.pk, top_kind, top) for cluster in clusters])

    def _fits(self, active: bool, stopped: bool) -> bool:
        return stopped if self._state == "stopped" else not active and not stopped

    def _holds(self, row: QuotaRow, parent: bool) -> bool:
        """The row is in the state that is asked for."""
        state = self._state
        if not state:
            return True
        if state in ("stopped", "inactive"):
            return self._fits(row.active, row.stopped)
        if state == "waiting":
            return bool(row.waiting) and not parent
        return bool({"borrowing": row.borrowed, "lending": row.lent, "over": row.over}[state])

    def _shows(self, row: QuotaRow) -> bool:
        data = self.cleaned_data
        if data["flavor"] and row.flavor != data["flavor"]:
            return False
        if data["resource"]:
            return bool(row.resource == data["resource"])
        return bool(data["everything"] or (row.accelerator and row.matters))


def _descendants(below: Mapping[Place, list[Place]], tops: Iterable[Place]) -> set[Place]:
    """What can be reached downward; a circle ends where it began."""
    found: set[Place] = set()
    stack = list(tops)
    while stack:
        for child in below.get(stack.pop(), ()):
            if child not in found:
                found.add(child)
                stack.append(child)
    return found


def flat(nodes: Iterable[QueueNode], depth: int = 0) -> Iterator[tuple[int, QueueNode]]:
    """Every node of a forest with its depth, parents before their children."""
    for node in nodes:
        yield depth, node
        yield from flat(node.children, depth + 1)
