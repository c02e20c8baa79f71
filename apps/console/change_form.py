"""`/changes/new/` and `/changes/<id>/edit/`: ask for a change of quota, or change what is asked for.

GET shows what may be changed, or the form of one object; POST reads the form. "preview" tells what the check will find,
"save" makes the request, everything else (another object, take one away) only keeps what was typed: a request may edit
several objects, those that are not on the form travel as JSON. Faults are said in one list at the top, which takes the
focus, and beside the inputs; nothing that was typed is lost. Works without a script.

Who asks for nothing gets 404; so does whoever names what is not theirs to change."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from apps.accounts.models import User
from apps.accounts.selectors import led_teams
from apps.changes.editable import place_of
from apps.changes.edits import AMOUNTS, ChangeError, Edit, parse_edits
from apps.changes.errors import (
    BadRequest,
    Conflict,
    Fault,
    NotAllowed,
    NotPossible,
    NotVisible,
    VersionRequired,
)
from apps.changes.form import Place, merged, with_fields
from apps.changes.idempotency import Answer, KeyReused, digest_of, once
from apps.changes.models import ChangeRequest
from apps.changes.permissions import standings
from apps.changes.preview import preview
from apps.changes.refusal_words import refusal_text
from apps.changes.requests import Origin, Wanted
from apps.changes.selectors import request_for
from apps.changes.services import create_request, edit_request
from apps.changes.transitions import OPEN
from apps.console.access import reader
from apps.console.change_form_request import asked_of, posted_request
from apps.console.change_form_show import choose, request_url, show
from apps.console.change_form_state import EDITABLE, Form, first_edited, opened
from apps.console.frame import QUOTA, Page
from apps.quotas.what_if_form import load_changes, without

LONGEST_EDITS = 200_000
"""Characters of edits that travel with the form: 50 edits of large queues."""


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponseBase:
    page, user = Page.open(request, sources=QUOTA), _asker(request)
    replaced = _replaced(request, user)
    cluster = replaced.cluster if replaced is not None else page.cluster
    if cluster is None and len(page.clusters) == 1:
        cluster = page.clusters[0]
    if cluster is None:
        context = {"clusters": page.all_clusters, "query": page.request.GET.urlencode()}
        return page.render("console/changes/form_choose.html", context, section="changes")
    form = opened(page, user, cluster)
    form.replaces = replaced
    if request.method == "POST":
        return _posted(form)
    if replaced is not None:
        form.edits, form.asked = merged(replaced.edits), asked_of(replaced)
        form.target = form.target or first_edited(form)
    else:
        _carry_over(form)
    if form.target is None and not form.edits:
        return choose(form)
    return show(form)


@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, pk: int) -> HttpResponseBase:
    page, user = Page.open(request, sources=QUOTA), reader(request)
    present = request_for(user, pk)
    if present is None:
        raise Http404
    if "requester" not in standings(user, present):
        raise PermissionDenied
    if present.origin != Origin.ASKED or (request.method != "POST" and present.state not in EDITABLE):
        return HttpResponseRedirect(request_url(present.pk), status=303)
    form = opened(page, user, present.cluster)
    form.present, form.version, form.replaces = present, present.version, present.replaces
    if request.method == "POST":
        return _posted(form)
    form.edits, form.asked = merged(present.edits), asked_of(present)
    form.target = form.target or first_edited(form)
    return show(form)


# ---- opening --------------------------------------------------------------------------------------------------------


def _asker(request: HttpRequest) -> User:
    """404 for whoever asks for nothing at all."""
    user = reader(request)
    if not user.is_platform_admin and not led_teams(user).exists():
        raise Http404
    return user


def _replaced(request: HttpRequest, user: User) -> ChangeRequest | None:
    """The open request whose place the new one takes."""
    named = request.GET.get("replaces", "")
    if not named:
        return None
    found = request_for(user, int(named)) if named.isdecimal() and len(named) < 10 else None
    if found is None or found.origin != Origin.ASKED or found.state not in OPEN:
        raise Http404
    return found


def _carry_over(form: Form) -> None:
    """What was tried on the what-if page; work cannot be asked for and is left out."""
    tried = load_changes(form.page.request.GET.get("change", ""))
    if tried is None or not all(isinstance(one, dict) for one in tried):
        form.complaints.append(_("The change in the address cannot be read."))
        return
    form.edits = merged([one for one in tried if one.get("kind") != "Workload"])
    if any(one.get("kind") == "Workload" for one in tried):
        form.complaints.append(
            _("Jobs and priorities that were tried are left out: a request changes queues only.")
        )
    form.target = form.target or first_edited(form)


# ---- reading the form -----------------------------------------------------------------------------------------------


def _posted(form: Form) -> HttpResponseBase:
    data = form.page.request.POST
    form.asked = posted_request(data)
    if form.present is not None:
        form.asked.team = form.present.team.slug if form.present.team is not None else ""
        version = data.get("version", "")
        form.version = int(version) if version.isdecimal() and len(version) < 10 else None
    given = load_changes(data.get("edits", ""), longest=LONGEST_EDITS)
    if given is None or not all(isinstance(one, dict) for one in given):
        form.complaints.append(_("What was asked for so far cannot be read."))
        given = []
    if re.fullmatch(r"[0-9a-f]{32}", data.get("key", "")):
        form.key = data["key"]
    form.edits = given if form.target is None else with_fields(given, form.target, data.dict())
    form.next_typed = data.get("next", "").strip()
    if (number := data.get("drop", "")).isdecimal():
        form.edits = without(form.edits, int(number))
        return show(form)
    if (number := data.get("open", "")).isdecimal():
        return _turned(form, int(number))
    if data.get("do") == "next":
        return _another(form)
    form.faults += [*form.asked.faults, *_half_filled(form)]
    if data.get("do") == "save":
        return _saved(form)
    if edits := _looked_at(form):
        form.preview = preview(now=form.page.now, cluster=form.cluster, edits=edits)
    return show(form)


def _saved(form: Form) -> HttpResponseBase:
    """The way to the request; or the form, with everything that is in the way."""
    if not form.faults and not form.complaints:
        saved = _save(form)
        if saved is not None:
            return HttpResponseRedirect(request_url(saved.pk), status=303)
        return show(form)
    _looked_at(form)
    if not form.asked.reason.strip():
        form.faults.append(Fault("reason", "required"))
    return show(form)


def _half_filled(form: Form) -> list[Fault]:
    """Amounts of another resource of a Volcano queue without its name; a ClusterQueue's are an edit of their own."""
    posted = form.page.request.POST
    amounts = [name for name in AMOUNTS if posted.get(f"new_{name}", "").strip()]
    return (
        [Fault("new_resource", "required")] if amounts and not posted.get("new_resource", "").strip() else []
    )


def _turned(form: Form, number: int) -> HttpResponseBase:
    """Another edit of the request comes on the form."""
    found = form.editable.find(Place.of(form.edits[number])) if number < len(form.edits) else None
    if found is not None:
        form.target = found
    return show(form)


def _another(form: Form) -> HttpResponseBase:
    place = place_of(form.next_typed)
    found = form.editable.find(place) if place is not None else None
    if found is None:
        form.faults.append(Fault("next", "unknown" if form.next_typed else "required"))
    else:
        form.target, form.next_typed = found, ""
    return show(form)


def _looked_at(form: Form) -> Sequence[Edit]:
    """The edits when they can be read and all name what the reader may change; nothing else may be previewed."""
    try:
        edits = parse_edits(form.edits)
    except ChangeError as error:
        form.faults += [Fault(one.field, one.code, one.part) for one in error.faults]
        return ()
    unknown = form.editable.unknown(edits)
    form.faults += unknown
    return () if unknown else edits


def _save(form: Form) -> ChangeRequest | None:
    team = next((one for one in form.teams if one.slug == form.asked.team), None)
    if form.present is None and team is None and (form.asked.team or not form.user.is_platform_admin):
        form.faults.append(Fault("team", "required"))
        return None
    wanted = Wanted(
        cluster=form.cluster,
        team=team,
        edits=form.edits,
        reason=form.asked.reason,
        starts_at=form.asked.times["starts_at"],
        ends_at=form.asked.times["ends_at"],
        replaces=form.replaces,
    )
    now = form.page.now
    try:
        if form.present is None:
            return _made_once(form, wanted)
        return edit_request(form.present.pk, wanted, actor=form.user, seen_version=form.version, now=now)
    except BadRequest as error:
        form.faults += [_of_team(form, fault) for fault in error.faults]
    except NotVisible:
        raise Http404 from None
    except NotAllowed:
        raise PermissionDenied from None
    except Conflict as error:
        form.conflict = error
    except (NotPossible, VersionRequired) as error:
        form.complaints.append(refusal_text(error))
    return None


def _made_once(form: Form, wanted: Wanted) -> ChangeRequest:
    """The request; pressed twice, the button makes one."""

    def make() -> Answer:
        made = create_request(wanted, actor=form.user, now=form.page.now)
        return Answer(303, {"id": made.pk})

    data = form.page.request.POST
    said = sorted((name, data.getlist(name)) for name in data if name not in ("csrfmiddlewaretoken", "key"))
    digest = digest_of(form.cluster.slug.encode(), json.dumps(said).encode())
    try:
        answer = once(user=form.user, key=f"form-{form.key}", digest=digest, now=form.page.now, deed=make)
    except KeyReused:  # somebody went back and asks for something else
        return create_request(wanted, actor=form.user, now=form.page.now)
    return ChangeRequest.objects.get(pk=answer.body["id"])


def _of_team(form: Form, fault: Fault) -> Fault:
    """What there is, but not of this team, is a fault of the team."""
    parts = fault.field.split(".")
    if fault.code == "unknown" and parts[0] == "edits" and form.present is None:
        place = Place.of(form.edits[int(parts[1])])
        if form.editable.find(place) is not None:
            return Fault("team", "foreign", place.label)
    return fault
