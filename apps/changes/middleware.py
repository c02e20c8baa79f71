"""Tells the audit trail who acts, and from where, while a request is answered. Stands after authentication."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from apps.changes.acting import during


class ActingMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with during(request):
            return self.get_response(request)
