"""The form of a change request as a page. Input: `Form`; output: the answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpResponseBase
from django.urls import reverse
from django.utils.translation import gettext as _

from apps.accounts.selectors import visible_teams
from apps.changes.filters import KINDS, team_ids_of_requests
from apps.changes.form import Place
from apps.changes.preview import Preview, preview
from apps.changes.selectors import request_for
from apps.console.change_form_choose import ChoiceTable, choices, editable_places
from apps.console.change_form_effect import Effect, Placing, effect_of
from apps.console.change_form_fields import Section, full_names, sections
from apps.console.change_form_state import EDITABLE, Form
from apps.console.edit_words import describe
from apps.console.links import address
from apps.core.tables import table_csv, wants_csv
from apps.quotas.what_if_form import Json, cohort_names, dump_changes
from apps.quotas.what_if_places import PlacedFault, listed_id

SHOWN = 50


def choose(form: Form) -> HttpResponseBase:
    page, query = form.page, form.page.request.GET
    teams = {team.pk: team for team in visible_teams(form.user)}
    slug, kind, q = query.get("team", ""), query.get("kind", ""), query.get("q", "")
    chosen = [team.pk for team in teams.values() if team.slug == slug]
    if slug and not chosen:
        raise Http404
    rows = choices(
        form.editable,
        editable_places(form.editable),
        {pk: team.name for pk, team in teams.items()},
        kind=kind,
        q=q,
        team_ids=chosen if slug else None,
    )
    table = ChoiceTable(rows)
    if wants_csv(page.request):
        return table_csv(table, page.request)
    context = {
        "cluster": form.cluster,
        "table": page.prepare(table, per_page=SHOWN),
        "count": len(rows),
        "kinds": KINDS,
        "kind": kind,
        "q": q,
        "team": slug,
        "teams": form.teams,
        "refresh_seconds": 0,
    }
    return page.render("console/changes/form_choose.html", context, section="changes")


def show(form: Form) -> HttpResponseBase:
    page = form.page
    names = {team.pk: team.name for team in visible_teams(form.user)}

    def team_name(team_id: int | None) -> str:
        return names.get(team_id, "") if team_id is not None else _("Work of nobody")

    found = form.preview or preview(now=page.now, cluster=form.cluster, edits=())
    shown = _sections(form, found, troubled=())
    placing = Placing(form.edits, form.target, full_names(shown) | _new_row_names())
    faults = [placing.fault(fault) for fault in form.faults]
    effect: Effect | None = None
    if found.report is not None:
        refused, effect = effect_of(
            found.report, placing, team_ids=team_ids_of_requests(form.user), team_name=team_name
        )
        faults += refused
    warnings = effect.warnings if effect is not None else ()
    shown = _sections(form, found, troubled={one.name for one in (*faults, *warnings)})
    context: dict[str, Any] = {
        "form": form,
        "cluster": form.cluster,
        "target": form.target,
        "parts": shown,
        "faults": [*_said(form.complaints), *faults],
        "warnings": warnings,
        "effect": effect,
        "previewed": form.preview is not None,
        "edits": dump_changes(form.edits),
        "listed": [_listed(form, at, one) for at, one in enumerate(form.edits)],
        "places": editable_places(form.editable),
        "new_row": _new_row(form),
        "flavors": _flavors(form),
        "cohorts": _cohorts(form),
        "resources": sorted({resource for cells in found.given.allocatable.values() for resource in cells}),
        "teams": form.teams,
        "team": _team_of(form),
        "action": _action(form),
        "now_there": _now_there(form),
        "back_url": _back(form),
        "refresh_seconds": 0,
    }
    return page.render("console/changes/form.html", context, section="changes")


def _sections(form: Form, found: Preview, *, troubled: Collection[str]) -> list[Section]:
    if form.target is None:
        return []
    return sections(form.target, form.edits, found.given, troubled=troubled)


def _said(complaints: Sequence[str]) -> list[PlacedFault]:
    return [PlacedFault("", "", text, text) for text in complaints]


def _listed(form: Form, at: int, edit: Json) -> dict[str, Any]:
    return {
        "id": listed_id(at),
        "at": at,
        "text": describe(edit, {}),
        "here": form.target is not None and Place.of(edit) == form.target.place,
    }


def _cohorts(form: Form) -> list[str]:
    """What may be named as the cohort above: of those who ask for teams, what is above their queues."""
    return [name for name in cohort_names(form.editable.scene.situation) if form.editable.names.cohort(name)]


def _flavors(form: Form) -> list[str]:
    return [] if form.editable.names.restricted else sorted(form.editable.scene.situation.flavors)


NEW_ROW = ("new_flavor", "new_resource", "new_nominal", "new_capability", "new_deserved", "new_guarantee")


def _new_row_names() -> dict[str, str]:
    return {
        "new_flavor": _("Another flavor"),
        "new_resource": _("Resource"),
        "new_nominal": _("Nominal quota of the other flavor"),
        "next": _("Another object"),
    }


def _new_row(form: Form) -> dict[str, str]:
    """What was typed into the last row and is no row of its own yet."""
    posted = form.page.request.POST
    typed = {name: posted.get(name, "").strip() for name in NEW_ROW}
    same = form.target is not None and form.target.place.key == form.page.request.GET.get("object", "")
    whole = typed["new_resource"] and (typed["new_flavor"] or form.target is None or form.target.node is None)
    return {} if whole or not same else typed


def _team_of(form: Form) -> str:
    """The slug of the team that is chosen: what was posted, else who owns the object on the form."""
    if form.asked.team is not None:
        return form.asked.team
    owners = form.editable.owners(form.target.place) if form.target is not None else ()
    own = [team.slug for team in form.teams if team.pk in owners]
    if form.user.is_platform_admin:
        return own[0] if len(own) == 1 and form.target and form.target.place.kind != "Cohort" else ""
    return (own or [team.slug for team in form.teams])[0]


def _action(form: Form) -> str:
    key = form.target.place.key if form.target is not None else ""
    if form.present is not None:
        return f"{reverse('console:change_edit', args=[form.present.pk])}?{urlencode({'object': key})}"
    replaces = str(form.replaces.pk) if form.replaces is not None else ""
    return address("change_new", cluster=form.cluster.slug, object=key, replaces=replaces)


def _back(form: Form) -> str:
    """Where whoever changes their mind goes."""
    if form.present is not None:
        return request_url(form.present.pk)
    if form.target is None:
        return address("queues", cluster=form.cluster.slug)
    place = form.target.place
    return address("queue", form.cluster.slug, place.kind, place.name, namespace=place.namespace)


def _now_there(form: Form) -> dict[str, Any] | None:
    """What somebody saved meanwhile; saved again, it is overwritten knowingly."""
    if form.conflict is None or form.present is None:
        return None
    there = request_for(form.user, form.present.pk)
    if there is None:
        raise Http404
    form.version = there.version
    return {
        "who": form.conflict.who,
        "state": there.get_state_display(),
        "open": there.state in EDITABLE,
        "edits": [describe(edit, {}) for edit in there.edits],
        "reason": there.reason,
        "starts_at": there.starts_at,
        "ends_at": there.ends_at,
    }


def request_url(pk: int) -> str:
    return reverse("console:change", args=[pk])
