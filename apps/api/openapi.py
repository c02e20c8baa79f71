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
        found: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return found


def document_yaml() -> str:
    text: bytes = OpenApiYamlRenderer().render(document(), renderer_context={})
    return text.decode()
