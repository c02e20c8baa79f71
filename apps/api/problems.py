"""Errors as RFC 9457 problem documents (`application/problem+json`).

Input: an exception raised in an API view; output: type, title, status, detail, instance and `errors`:
[{"parameter", "code", "detail"}], empty unless the input was bad. `type` and `code` are stable and meant for programs; title and detail
are sentences in the language of the request. What a reader may not see answers exactly like what does not exist.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.signals import got_request_exception
from django.forms import BaseForm
from django.http import Http404
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from rest_framework import exceptions, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import set_rollback

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:gpu-portal:problem:"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with the request; `parameter` is "" when it is not about one."""

    parameter: str
    code: str
    detail: str


class BadRequest(exceptions.APIException):
    """The query cannot be understood; names each parameter that is wrong."""

    status_code: int = status.HTTP_400_BAD_REQUEST
    default_detail = gettext_lazy("The request has parameters that cannot be used.")

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__()
        self.faults = faults


class UnknownNames(BadRequest):
    """The request names what is not there, or what the reader may not see; says where."""

    status_code = status.HTTP_404_NOT_FOUND
    default_detail = gettext_lazy("Not found.")


# Exception class → (name in `type`, title). The first match wins.
_KINDS: tuple[tuple[type[Exception], str, Promise], ...] = (
    (UnknownNames, "not-found", gettext_lazy("Not found")),
    (BadRequest, "invalid-parameters", gettext_lazy("Invalid parameters")),
    (exceptions.ParseError, "malformed-body", gettext_lazy("Malformed request body")),
    (exceptions.NotAuthenticated, "not-authenticated", gettext_lazy("Not authenticated")),
    (exceptions.AuthenticationFailed, "not-authenticated", gettext_lazy("Not authenticated")),
    (exceptions.PermissionDenied, "not-allowed", gettext_lazy("Not allowed")),
    (exceptions.NotFound, "not-found", gettext_lazy("Not found")),
    (exceptions.MethodNotAllowed, "method-not-allowed", gettext_lazy("Method not allowed")),
    (exceptions.NotAcceptable, "not-acceptable", gettext_lazy("Not acceptable")),
    (exceptions.UnsupportedMediaType, "unsupported-media-type", gettext_lazy("Unsupported media type")),
    (exceptions.Throttled, "too-many-requests", gettext_lazy("Too many requests")),
)


def problem_handler(error: Exception, context: Mapping[str, Any]) -> Response:
    """Django REST framework's EXCEPTION_HANDLER."""
    request: Request = context["request"]
    known = _known(error)
    set_rollback()
    if known is None:
        log.exception("fault while answering %s", request.path, exc_info=error)
        got_request_exception.send(sender=type(context.get("view")), request=request)
        return problem(
            request,
            kind="internal",
            title=_("Fault in the portal"),
            status_code=status.HTTP_500_INTERNAL_SERVER_ERROR,
            detail=_("The portal failed to answer; the fault has been logged."),
        )
    kind, title = next(
        ((kind, str(title)) for cls, kind, title in _KINDS if isinstance(known, cls)),
        ("error", _("The request failed")),
    )
    return problem(
        request,
        kind=kind,
        title=title,
        status_code=known.status_code,
        detail=str(known.detail),
        faults=known.faults if isinstance(known, BadRequest) else [],
        headers=_headers(known),
    )


def problem(
    request: Request,
    *,
    kind: str,
    title: str,
    status_code: int,
    detail: str,
    faults: list[Fault] | None = None,
    headers: dict[str, str] | None = None,
    more: Mapping[str, Any] | None = None,
) -> Response:
    """`more`: members of this kind of problem alone."""
    body: dict[str, Any] = {
        "type": TYPE_PREFIX + kind,
        "title": title,
        "status": status_code,
        "detail": detail,
        "instance": request.path,
    }
    body["errors"] = [
        {"parameter": fault.parameter, "code": fault.code, "detail": fault.detail} for fault in faults or []
    ]
    body |= more or {}
    return Response(body, status=status_code, headers=headers, content_type=MEDIA_TYPE)


def form_faults(form: BaseForm) -> list[Fault]:
    """A form's errors in the order of its fields."""
    return [
        Fault(parameter="" if name == "__all__" else name, code=error.code or "invalid", detail=message)
        for name, errors in form.errors.as_data().items()
        for error in errors
        for message in error.messages
    ]


def _known(error: Exception) -> exceptions.APIException | None:
    if isinstance(error, exceptions.APIException):
        return error
    if isinstance(error, Http404):
        # Django's own text names models; "not found" must not tell what kind of thing was looked for.
        return exceptions.NotFound()
    if isinstance(error, PermissionDenied):
        return exceptions.PermissionDenied()
    return None


def _headers(error: exceptions.APIException) -> dict[str, str]:
    headers = {}
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if (wait := getattr(error, "wait", None)) is not None:
        headers["Retry-After"] = str(int(wait))
    return headers
