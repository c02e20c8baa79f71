"""Addresses under /api/ that lead nowhere: a problem document instead of an HTML page or a redirect to the login."""

from __future__ import annotations

from django.urls import Resolver404, resolve
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.base import GuardedView


class FallbackView(GuardedView):
    """Whoever is not signed in learns that, and nothing about which addresses exist."""

    metadata_class = None

    @extend_schema(exclude=True)
    def get(self, request: Request, **kwargs: str) -> Response:
        if not request.path.endswith("/") and _leads_somewhere(f"{request.path}/"):
            raise NotFound(_("Addresses end with a slash: %(path)s/") % {"path": request.path})
        raise NotFound

    post = put = patch = delete = get


def _leads_somewhere(path: str) -> bool:
    try:
        return resolve(path).func.view_class is not FallbackView  # type: ignore[attr-defined]
    except (Resolver404, AttributeError):
        return False
