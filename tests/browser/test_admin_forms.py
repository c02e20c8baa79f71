"""Forms of the admin site: none is wider than a screen."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.urls import reverse

from tests.browser.visits import Visitor

pytestmark = [pytest.mark.browser, pytest.mark.django_db]

WIDTHS = (1440, 1024)


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_no_form_is_wider_than_the_screen(
    language: str, chromium: Any, server: str, session_cookie: dict[str, str]
) -> None:
    cookies = {"sessionid": session_cookie["admin"], "django_language": language}
    visitor = Visitor(chromium, server, cookies=cookies)
    seen: set[str] = set()
    wide: dict[tuple[str, int], int] = {}
    try:
        for model in admin.site._registry:
            name = f"{model._meta.app_label}_{model._meta.model_name}"
            answer = visitor.open(reverse(f"admin:{name}_add"))
            if answer.status != 200:
                continue
            seen.add(name)
            wide |= {(name, width): over for width in WIDTHS if (over := visitor.overflow(width)) > 0}
    finally:
        visitor.close()
    assert "chargeback_rateversion" in seen
    assert wide == {}
