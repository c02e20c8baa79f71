"""What a change may be asked of, as a table to choose from. Input: a cluster's editable places and the filters of the
address; output: rows and their table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from django.utils.translation import gettext_lazy as _

from apps.changes.editable import Editable
from apps.changes.form import Place
from apps.console.links import address
from apps.core.tables import LinkColumn, PortalTable, TextColumn


@dataclass(frozen=True, slots=True)
class ChoiceRow:
    place: Place
    kind: str
    name: str
    teams: str
    url: str


class ChoiceTable(PortalTable):
    caption = _("What a change can be asked for")
    file_name = "editable"

    name = LinkColumn(verbose_name=_("Name"), url=lambda row: row.url, classes="name")
    kind = TextColumn(verbose_name=_("Kind"))
    teams = TextColumn(verbose_name=_("Team"), default="–", hide_small=True)

    class Meta(PortalTable.Meta):
        empty_text = _("Nothing here is yours to change, or nothing matches.")


def editable_places(editable: Editable) -> list[Place]:
    """Without cohorts that only queues name: there is no object to be changed."""
    there = editable.view.objects["Cohort"]
    return [place for place in editable.places() if place.kind != "Cohort" or place.name in there]


def choices(
    editable: Editable,
    places: Iterable[Place],
    teams: Mapping[int, str],
    *,
    kind: str = "",
    q: str = "",
    team_ids: Collection[int] | None = None,
) -> list[ChoiceRow]:
    """`teams`: id → name of those that the reader may see. `team_ids`: only what belongs to one of these."""
    slug = editable.scene.cluster.slug
    wanted = q.strip().lower()
    found = []
    for place in places:
        if (kind and place.kind != kind) or wanted not in place.label.lower():
            continue
        owners = editable.owners(place)
        if team_ids is not None and not set(owners) & set(team_ids):
            continue
        names = sorted(teams[pk] for pk in owners if pk in teams)
        url = address("change_new", cluster=slug, object=place.key)
        found.append(ChoiceRow(place, place.kind, place.label, ", ".join(names), url))
    return found
