"""The OpenAPI document and its reading page. The page loads nothing from elsewhere and holds no inline script or
style, so that the strict content security policy needs no exception."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.permissions import IsAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response

from apps.api.authentication import WithinScope
from apps.api.base import GuardedView


@extend_schema(exclude=True)
class SchemaView(GuardedView, SpectacularAPIView):
    permission_classes = [IsAuthenticated, WithinScope]
    metadata_class = None

    def handle_exception(self, exc: Exception) -> Response:
        """Problems are JSON here as well."""
        answer: Response = super().handle_exception(exc)
        self.request.accepted_renderer = JSONRenderer()
        return answer


@login_required
def docs(request: HttpRequest) -> HttpResponse:
    return render(request, "api/docs.html")
