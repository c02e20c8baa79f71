"""Requests to change quota: asked for, checked, approved, applied, observed, taken back.

Everything that moves a request on is a POST to its address with the name of the deed; whoever decides says which version
they saw, in `version` or in the header If-Match. A write with the header Idempotency-Key happens once: the same call again
gets the same answer. Readers see the requests of their teams, platform admins all.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar, cast

from django import forms
from django.http import Http404
from django.http.request import QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import User
from apps.api.base import DetailView, ListView, Reading, ReadView
from apps.api.pagination import Key, Page, instant_key, page_of_ids, page_of_rows
from apps.api.problems import MEDIA_TYPE, BadRequest, Fault, problem
from apps.api.quota_changes_bodies import (
    CREATED,
    DECIDED,
    EDITED,
    ChangeCreateSerializer,
    ChangeDeedBodySerializer,
    ChangeEditSerializer,
    body_of,
    reason_of,
    version_of,
    wanted_of,
)
from apps.api.quota_changes_items import (
    ChangeCalendarItemSerializer,
    ChangeRequestItemSerializer,
    ChangeRequestSerializer,
    told,
    told_in_calendar,
    told_whole,
)
from apps.api.schema import documented, documented_write
from apps.changes import errors, services
from apps.changes.filters import ChangeFilterForm, team_ids_of_requests
from apps.changes.idempotency import MOST_KEY, Answer, KeyReused, digest_of, once
from apps.changes.models import ChangeRequest
from apps.changes.refusal_words import refusal_text, request_fault_text
from apps.changes.selectors import in_force, request_for, visible_requests

ROUTE = "quota-changes"
_STATUS: dict[type[errors.ChangeRefused], tuple[int, str]] = {
    errors.NotVisible: (404, "not-found"),
    errors.NotAllowed: (403, "not-allowed"),
    errors.VersionRequired: (428, "version-required"),
    errors.Conflict: (409, "conflict"),
    errors.NotPossible: (409, "not-possible"),
    errors.BadRequest: (400, "invalid-fields"),
}


class Writing:
    """What views have in common whose writes answer with the whole request."""

    def whole(self, request: ChangeRequest, reading: Reading) -> dict[str, Any]:
        data = told_whole(request, reading.user, reading.team_ids, now=reading.now)
        result = ChangeRequestSerializer(data, context={"reading": reading}).data
        return {**cast(ReadView, self).envelope(reading), "result": result}

    def write(
        self, request: Request, reading: Reading, deed: Callable[[], ChangeRequest], *, status: int = 200
    ) -> Response:
        """Do `deed`, once where the caller gave a key. Call it after the body was read."""

        def answer() -> Answer:
            try:
                done = deed()
            except errors.ChangeRefused as error:
                refused = refusal(request, error)
                return Answer(refused.status_code, refused.data)
            shown = request_for(reading.user, done.pk) or done
            return Answer(status, self.whole(shown, reading))

        key = request.headers.get("Idempotency-Key")
        if key is None:
            return _response(answer())
        if not 0 < len(key) <= MOST_KEY:
            text = _("A key has 1 to %(most)s characters.") % {"most": MOST_KEY}
            raise BadRequest([Fault("Idempotency-Key", "length", text)])
        seen = request.headers.get("If-Match", "")
        method, path, body = request.method or "", request.get_full_path(), request._request.body
        digest = digest_of(method.encode(), path.encode(), seen.encode(), body)
        try:
            return _response(once(user=reading.user, key=key, digest=digest, now=reading.now, deed=answer))
        except KeyReused:
            return problem(
                request,
                kind="key-reused",
                title=_("Key used before"),
                status_code=422,
                detail=_("This Idempotency-Key was used for another call."),
            )


def refusal(request: Request, error: errors.ChangeRefused) -> Response:
    """The problem document of a refusal."""
    status, kind = _STATUS[type(error)]
    titles = {
        404: _("Not found"),
        403: _("Not allowed"),
        428: _("Version required"),
        409: _("Not possible now"),
        400: _("Invalid fields"),
    }
    faults: list[Fault] = []
    more: dict[str, Any] = dict.fromkeys(("code", "state", "version", "who")) if status in (403, 409) else {}
    if isinstance(error, errors.BadRequest):
        faults = [Fault(one.field, one.code, request_fault_text(one)) for one in error.faults]
    elif isinstance(error, errors.Conflict):
        more |= {"code": "moved", "state": str(error.state), "version": error.version, "who": error.who}
    elif isinstance(error, errors.NotPossible):
        more |= {"code": error.code, "state": str(error.state)}
    elif isinstance(error, errors.NotAllowed):
        more |= {"code": error.code}
    detail = str(NotFound().detail) if status == 404 else refusal_text(error)
    return problem(
        request, kind=kind, title=titles[status], status_code=status, detail=detail, faults=faults, more=more
    )


def _response(answer: Answer) -> Response:
    headers = {}
    if answer.status < 300:
        result = answer.body["result"]
        headers["ETag"] = f'"{result["version"]}"'
        if answer.status == 201:
            headers["Location"] = reverse("api:quota-change", args=[result["id"]])
    media = None if answer.status < 300 else MEDIA_TYPE
    return Response(answer.body, status=answer.status, headers=headers, content_type=media)


class FilteredList(ListView):
    """Teams whose requests the reader sees are fewer than the teams that finance reads."""

    route = ROUTE
    filter_class: ClassVar[type[forms.Form]] = ChangeFilterForm

    def build_filter(self, data: QueryDict, *, now: datetime, team_ids: list[int] | None) -> forms.Form:
        reader = cast(User, self.request.user)
        return ChangeFilterForm(data, now=now, team_ids=team_ids_of_requests(reader))


@documented_write(
    "post",
    operation="quota-change-create",
    summary="Ask for a change of quota",
    body=ChangeCreateSerializer,
    answer=ChangeRequestSerializer,
    status=201,
    problems=(403, 422),
)
@documented(operation="quota-changes", summary="Requests to change quota, the newest first")
class QuotaChangesView(Writing, FilteredList):
    item = ChangeRequestItemSerializer

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[Any]:
        form = cast(ChangeFilterForm, reading.form)
        found = form.narrowed(visible_requests(reading.user), reading.user)
        page = page_of_ids(found, after=after, size=size, newest_first=True)
        return Page([told(row) for row in page.rows], page.last)

    def post(self, request: Request) -> Response:
        reading = self.read(request)
        data = body_of(request, CREATED)
        wanted = wanted_of(data, reading.user)

        def deed() -> ChangeRequest:
            return services.create_request(wanted, actor=reading.user, now=reading.now)

        return self.write(request, reading, deed, status=201)


@documented(
    operation="quota-changes-calendar",
    summary="What holds for a time, and what is approved to start later; the next to change first",
)
class QuotaChangesCalendarView(FilteredList):
    item = ChangeCalendarItemSerializer
    key_shape = (str, int)

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[Any]:
        form = cast(ChangeFilterForm, reading.form)
        rows = form.narrowed(in_force(reading.user, reading.now), reading.user)
        page = page_of_rows(
            rows,
            key=lambda row: (instant_key(row.next_at), row.pk),  # type: ignore[attr-defined]
            after=after,
            size=size,
        )
        return Page([told_in_calendar(row) for row in page.rows], page.last)


def _edited(method: str, summary: str) -> Any:
    return documented_write(
        method,
        operation=f"quota-change-{method}",
        summary=summary,
        body=ChangeEditSerializer,
        answer=ChangeRequestSerializer,
        problems=(403, 409, 422, 428),
        precondition=True,
    )


@_edited("put", "What a draft asks for, anew")
@_edited("patch", "Some of what a draft asks for, anew")
@documented(operation="quota-change", summary="One request with its check, plan, effects and history")
class QuotaChangeView(Writing, DetailView):
    """The ETag is the version."""

    route = ROUTE
    item = ChangeRequestSerializer

    def get(self, request: Request, **kwargs: str) -> Response:
        reading = self.read(request)
        return _response(Answer(200, self.whole(self._present(reading, kwargs["pk"]), reading)))

    def put(self, request: Request, pk: str) -> Response:
        return self._edit(request, int(pk), kept=False)

    def patch(self, request: Request, pk: str) -> Response:
        return self._edit(request, int(pk), kept=True)

    def _present(self, reading: Reading, pk: str | int) -> ChangeRequest:
        found = request_for(reading.user, int(pk))
        if found is None:
            raise Http404
        return found

    def _edit(self, request: Request, pk: int, *, kept: bool) -> Response:
        reading = self.read(request)
        present = self._present(reading, pk)
        data = body_of(request, EDITED)
        version = version_of(request, data)
        wanted = wanted_of(data if kept else _all_of(data), reading.user, present)

        def deed() -> ChangeRequest:
            return services.edit_request(
                pk, wanted, actor=reading.user, seen_version=version, now=reading.now
            )

        return self.write(request, reading, deed)


def _all_of(data: dict[str, Any]) -> dict[str, Any]:
    """What PUT leaves out is nothing, not what was there."""
    return {"edits": [], "reason": "", "starts_at": None, "ends_at": None, "replaces": None} | data


@documented_write(
    "post",
    operation="quota-change-deed",
    summary="Move a request on",
    body=ChangeDeedBodySerializer,
    answer=ChangeRequestSerializer,
    status=(200, 201),
    problems=(403, 409, 422, 428),
    precondition=True,
)
class QuotaChangeDeedView(Writing, DetailView):
    """`deed`: ask_check, submit, approve, reject, cancel (of an end too), or undo, which makes a new request."""

    route = ROUTE
    item = ChangeRequestSerializer
    http_method_names = ["post", "options"]

    def post(self, request: Request, pk: str, deed: str) -> Response:
        reading = self.read(request)
        if deed not in services.DEEDS or request_for(reading.user, int(pk)) is None:
            raise Http404
        data = body_of(request, DECIDED)
        version, reason = version_of(request, data), reason_of(data)

        def act() -> ChangeRequest:
            return services.act(
                deed, int(pk), actor=reading.user, seen_version=version, now=reading.now, reason=reason
            )

        return self.write(request, reading, act, status=201 if deed == "undo" else 200)
