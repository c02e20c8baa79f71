"""The OpenAPI document as text. Input: the routes; output: YAML, the same every time.

`docs/openapi.yaml` is this text; a test compares the two, so that a change of the interface shows in review.
"""

from __future__ import annotations

from typing import Any

from django.utils import translation
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiYamlRenderer


def document() -> dict[str, Any]:
    """In English, whatever language is active."""
    with translation.override("en"):
        generator = SchemaGenerator()  # type: ignore[no-untyped-call]
        found: dict[str, Any] = generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return found


def document_yaml() -> str:
    text: bytes = OpenApiYamlRenderer().render(document(), renderer_context={})  # type: ignore[no-untyped-call]
    return text.decode()
