"""Which static files are collected: what the pages use, not all that the packages bring along."""

from __future__ import annotations

from django.contrib.staticfiles.apps import StaticFilesConfig


class PortalStaticFiles(StaticFilesConfig):
    """Leaves out Django REST framework's browsable pages, which are off, and the second API viewer."""

    ignore_patterns = [
        *StaticFilesConfig.ignore_patterns,
        "rest_framework",
        "redoc",
        "swagger-ui-es-*",
        "oauth2-*",
    ]
