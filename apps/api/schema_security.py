"""How one signs in, and what every route may answer for it, in the words of OpenAPI.

drf-spectacular finds the schemes by the classes that they name, as soon as this module is imported."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiParameter
from rest_framework.permissions import SAFE_METHODS

PROBLEMS = {
    400: "A parameter is unknown, repeated or cannot be used.",
    401: "Not authenticated, or the token does not hold.",
    403: "The token is not for this: its scope does not include it, or it would write.",
    404: "There is no such thing, or the reader may not see it.",
    429: "Too many requests, or too many failed attempts to sign in.",
}
HEADERS = [
    OpenApiParameter(
        name="WWW-Authenticate",
        location=OpenApiParameter.HEADER,
        response=[401],
        description="How to sign in (RFC 9110).",
    ),
    OpenApiParameter(
        name="Retry-After",
        type={"type": "integer", "minimum": 1},
        location=OpenApiParameter.HEADER,
        response=[429],
        description="Seconds after which the next request is answered.",
    ),
]
"""Of the answers that every route may give."""


class _Token(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "apps.api.authentication.TokenAuthentication"
    name = "tokenAuth"

    def get_security_requirement(self, auto_schema: Any) -> Any:
        """A token only reads."""
        reads = auto_schema.method in SAFE_METHODS
        return super().get_security_requirement(auto_schema) if reads else None

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        text = "A token from /account/tokens/; finance:read reads rates, billing-periods, charges, statements, budgets, usage, supply, idle, focus and the schema, read everything that its owner may read."
        return {"type": "http", "scheme": "bearer", "description": text}


class _Password(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "apps.api.authentication.PasswordAuthentication"
    name = "basicAuth"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "basic", "description": "Name and password of a user."}


class _Session(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "rest_framework.authentication.SessionAuthentication"
    name = "cookieAuth"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        text = "The session of the pages; writes need X-CSRFToken as well."
        return {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME, "description": text}
