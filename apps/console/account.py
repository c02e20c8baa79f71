"""Signing in and out, and the two choices that a browser keeps: theme and language (cookies, no row)."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import check_for_language
from django.views.decorators.http import require_POST

from apps.console.context import THEME_COOKIE, THEMES

YEAR = 365 * 24 * 3600

login = LoginView.as_view(template_name="console/login.html", redirect_authenticated_user=True)
logout = LogoutView.as_view()


@require_POST
@login_not_required
def preferences(request: HttpRequest) -> HttpResponse:
    """Sets `theme` or `language`, then goes back to `next`. A value that does not exist changes nothing."""
    response = HttpResponseRedirect(_safe_next(request))
    theme, language = request.POST.get("theme", ""), request.POST.get("language", "")
    if theme in THEMES:
        _keep(response, THEME_COOKIE, theme)
    if language in dict(settings.LANGUAGES) and check_for_language(language):
        _keep(response, settings.LANGUAGE_COOKIE_NAME, language)
    return response


def _keep(response: HttpResponse, name: str, value: str) -> None:
    response.set_cookie(
        name, value, max_age=YEAR, samesite="Lax", httponly=True, secure=settings.SESSION_COOKIE_SECURE
    )


def _safe_next(request: HttpRequest) -> str:
    target = request.POST.get("next", "")
    allowed = url_has_allowed_host_and_scheme(
        target, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return target if allowed else reverse("console:overview")
