"""The filter of queues and quotas, shared by page, CSV and REST. Input: query parameters; output: what matches.

Invariant: whoever reads the list, the same parameters leave the same queues and the same quota rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.fleet.filters import OwnerForm
from apps.quotas.rows import QueueNode, QuotaRow


class QueueFilterForm(OwnerForm):
    """`q` searches names of queues and cohorts; without `everything` only accelerators of which there is something
    to say are listed. The team narrows the read itself: give `narrowed_team_ids()` to the selector."""

    q = forms.CharField(label=_("Search"), required=False, max_length=200)
    everything = forms.BooleanField(label=_("Also CPU and memory"), required=False)

    def narrowed_rows(self, rows: Iterable[QuotaRow]) -> list[QuotaRow]:
        """The quota rows that match. Only after `is_valid()`, as all of these."""
        return [row for row in rows if self._names(row.queue) and self._shows(row)]

    def narrowed_nodes(self, forest: Iterable[QueueNode]) -> list[tuple[int, QueueNode]]:
        """(depth, node) of the queues and cohorts that match, each with the rows that match; a node without such
        rows stays."""
        return [
            (depth, replace(node, rows=tuple(row for row in node.rows if self._shows(row))))
            for depth, node in flat(forest)
            if self._names(node.name)
        ]

    def _names(self, name: str) -> bool:
        return self.cleaned_data["q"].strip().lower() in name.lower()

    def _shows(self, row: QuotaRow) -> bool:
        return self.cleaned_data["everything"] or (row.accelerator and row.matters)


def flat(nodes: Iterable[QueueNode], depth: int = 0) -> Iterator[tuple[int, QueueNode]]:
    """Every node of a forest with its depth, parents before their children."""
    for node in nodes:
        yield depth, node
        yield from flat(node.children, depth + 1)
