"""A statement on paper: what Chromium prints of it has every line and no part of the screen's frame, on white, within A4."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone
from pypdf import PdfReader

from tests.browser.visits import Visitor

pytestmark = [pytest.mark.browser, pytest.mark.django_db]
A4 = {"width": 794, "height": 1123}  # in CSS pixels, without margins
WIDE = "999,999.9"
FILL = """figure => document.querySelectorAll("table.data tbody td.num").forEach(cell => {
  cell.dataset.was ??= cell.innerHTML;
  if (figure) cell.textContent = figure; else cell.innerHTML = cell.dataset.was;
})"""


@pytest.fixture(params=[("light", "en"), ("dark", "zh-hans")], ids="-".join)
def visitor(request: Any, chromium: Any, server: str, session_cookie: dict[str, str]) -> Iterator[Visitor]:
    theme, language = request.param
    cookies = {"sessionid": session_cookie["admin"], "portal_theme": theme, "django_language": language}
    made = Visitor(chromium, server, cookies=cookies)
    yield made
    made.close()


def plain(text: str) -> str:
    """Without spaces; fonts print some characters as their radicals, which are the same characters."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def test_a_statement_on_paper(visitor: Visitor, fleet: SimpleNamespace) -> None:
    month, page = timezone.now().strftime("%Y-%m"), visitor.page
    assert visitor.open(f"/chargeback/{month}/foundation-models/").status == 200
    page.set_viewport_size(A4)
    page.emulate_media(media="print")
    shown = page.locator("table.data tbody tr")
    rows = [row for row in shown.all_inner_texts() if row.strip()]
    assert len(rows) >= 3
    for hidden in (".topbar", ".subnav", ".actions", ".filters", ".foot"):
        assert not any(one.is_visible() for one in page.locator(hidden).all()), hidden
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('table.data td')).color") == "rgb(0, 0, 0)"
    for figure in ("", WIDE):  # as they are, whatever the hour, and as a large team has them
        page.evaluate(FILL, figure)
        assert page.evaluate("document.documentElement.scrollWidth") <= A4["width"], figure
    page.evaluate(FILL, "")
    printed = PdfReader(io.BytesIO(page.pdf(format="A4", print_background=True)))
    text = plain("".join(sheet.extract_text() for sheet in printed.pages))
    for row in rows:
        for cell in row.split("\t"):
            assert plain(cell) in text, cell
    assert month in text
