"""What every page's frame needs, pages of errors and of signing in included. No query here: what waits for the reader is
counted where it is shown."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.timezone import get_current_timezone_name
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _

from apps.changes.selectors import inbox_count

THEME_COOKIE = "portal_theme"
THEMES = {"auto": _("Auto"), "light": _("Light"), "dark": _("Dark")}
SECTIONS = (
    ("console:overview", _("Overview")),
    ("console:teams", _("Teams")),
    ("console:capacity", _("Capacity")),
    ("console:queues", _("Queues")),
    ("console:admissions", _("Admissions")),
    ("console:changes", _("Changes")),
    ("console:chargeback", _("Chargeback")),
    ("console:sources", _("Sources")),
)


def page_frame(request: HttpRequest) -> dict[str, Any]:
    theme = request.COOKIES.get(THEME_COOKIE, "auto")
    match = request.resolver_match
    language = get_language() or settings.LANGUAGE_CODE
    return {
        "theme": theme if theme in THEMES else "auto",
        "themes": THEMES,
        "sections": SECTIONS,
        "changes_waiting": partial(inbox_count, request.user) if hasattr(request, "user") else 0,
        "here": f"console:{match.url_name}" if match is not None else "",
        "other_languages": [pair for pair in settings.LANGUAGES if pair[0] != language],
        "time_zone_name": get_current_timezone_name(),
        "refresh_seconds": 30,
    }
