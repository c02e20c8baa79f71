"""`manage.py write_openapi`: write docs/openapi.yaml anew after a change of the REST interface."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from apps.api.openapi import document_yaml


class Command(BaseCommand):
    help = "Write the OpenAPI document of the REST interface (default: docs/openapi.yaml)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", nargs="?", type=Path, default=settings.BASE_DIR / "docs" / "openapi.yaml")

    def handle(self, *args: Any, **options: Any) -> None:
        options["path"].write_text(document_yaml())
        self.stdout.write(f"wrote {options['path']}")
