"""What every page's frame needs."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest


def page_frame(request: HttpRequest) -> dict[str, Any]:
    return {}
