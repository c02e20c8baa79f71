"""The OpenAPI document and its reading page. The page loads nothing from elsewhere and holds no inline script or
style, so that the strict content security policy needs no exception."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.permissions import IsAuthenticated


@extend_schema(exclude=True)
class SchemaView(SpectacularAPIView):
    permission_classes = [IsAuthenticated]
    metadata_class = None


@login_required
def docs(request: HttpRequest) -> HttpResponse:
    return render(request, "api/docs.html")
