"""The form of a change request in a browser: filled in, previewed, mended, saved; by keyboard, with and without a script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import RESULTS
from tests.browser.visits import Visitor

pytestmark = [pytest.mark.browser, pytest.mark.django_db]

PATH = "/changes/new/?cluster=demo&object=ClusterQueue/foundation-cq"
VOLCANO = "/changes/new/?cluster=demo&object=VolcanoQueue/climate"
NOMINAL = '[id="i-nominal:h100:nvidia.com/gpu"]'
LENDING = '[id="i-lending_limit:h100:nvidia.com/gpu"]'
LOOKS = [("light", "en", 1440), ("dark", "en", 390), ("light", "zh-hans", 390), ("dark", "zh-hans", 1440)]


@pytest.fixture
def visitor(request: Any, chromium: Any, server: str, session_cookie: dict[str, str]) -> Iterator[Visitor]:
    who, theme, language, script = request.param
    cookies = {
        "sessionid": session_cookie[who],
        "portal_theme": theme,
        "django_language": language,
    }
    found = Visitor(chromium, server, cookies=cookies, java_script_enabled=script)
    yield found
    found.close()


def press(page: Any, do: str) -> None:
    page.locator(f'button:not(.visually-hidden)[name="do"][value="{do}"]').click()
    page.wait_for_load_state()


@pytest.mark.parametrize(
    "visitor", [("admin", "light", "en", True), ("lead", "light", "en", False)], indirect=True
)
def test_a_change_is_asked_for_previewed_mended_and_saved(visitor: Visitor) -> None:
    page = visitor.page
    visitor.open(PATH)
    present = page.input_value(NOMINAL)
    page.fill(LENDING, str(int(present) + 1))
    page.keyboard.press("Enter")
    page.wait_for_selector("#faults")
    assert page.locator("#faults").evaluate("one => one === document.activeElement")
    tie = page.get_attribute(LENDING, "aria-describedby")
    assert "larger than the nominal quota" in page.locator(f'[id="{tie}"]').inner_text()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator(LENDING).evaluate("one => one === document.activeElement")
    page.fill(LENDING, "")
    page.fill(NOMINAL, "1")
    press(page, "preview")
    assert page.locator("#faults").count() == 0
    assert page.locator("#effect").evaluate("one => one === document.activeElement")
    row = page.locator("tr", has=page.locator(NOMINAL))
    assert f"{int(present) - 1} less" in row.inner_text()
    assert "beyond it" in row.inner_text()
    press(page, "save")
    assert "This is needed." in page.locator("#i-reason-fault").inner_text()
    assert page.input_value(NOMINAL) == "1"
    page.fill("#i-reason", "The work of this week is done")
    page.fill("#i-ends_at", "2031-01-31T18:00")
    press(page, "save")
    page.wait_for_url(re.compile(r"/changes/\d+/$"))
    assert "The work of this week is done" in page.locator("main").inner_text()
    assert visitor.complaints == []


@pytest.mark.parametrize("visitor", [("admin", "light", "en", True)], indirect=True)
def test_a_second_object_joins_the_request(visitor: Visitor) -> None:
    page = visitor.page
    visitor.open(PATH)
    page.fill(NOMINAL, "2")
    page.fill("#i-reason", "kept")
    page.fill("#i-next", "VolcanoQueue/climate")
    press(page, "next")
    page.wait_for_selector("#i-weight")
    assert page.input_value("#i-reason") == "kept"
    assert "foundation-cq" in page.locator(".tried").inner_text()
    page.fill("#i-weight", "7")
    press(page, "preview")
    assert page.locator(".tried li").count() == 2
    page.locator('button[name="open"]').click()
    page.wait_for_selector(NOMINAL)
    assert page.input_value(NOMINAL) == "2"
    page.locator('button[name="drop"]').first.click()
    page.wait_for_load_state()
    assert page.locator(".tried li").count() == 1


@pytest.mark.parametrize(
    ("visitor", "width"),
    [(("admin", theme, language, True), width) for theme, language, width in LOOKS],
    indirect=["visitor"],
)
@pytest.mark.parametrize(("name", "path", "good"), [("queue", PATH, "20"), ("volcano", VOLCANO, "9")])
def test_the_form_is_good_in_every_look(
    visitor: Visitor, width: int, name: str, path: str, good: str
) -> None:
    """With a preview, warnings and faults on it: that is when there is most to see."""
    page = visitor.page
    page.set_viewport_size({"width": width, "height": 900})
    visitor.open(path)
    first = page.locator('table.asked input:not([type="checkbox"])').first
    for typed in (good, "-1"):
        first.fill(typed)
        press(page, "preview")
        look = f"{name}-{'fault' if typed == '-1' else 'preview'}"
        cookies = {one["name"]: one["value"] for one in visitor.context.cookies()}
        RESULTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(
            path=str(
                RESULTS
                / f"change-form-{look}-{cookies['portal_theme']}-{cookies['django_language']}-{width}.png"
            ),
            full_page=True,
        )
        assert page.locator("#faults").count() == (typed == "-1")
        assert visitor.axe() == []
        assert visitor.violations() == []
        if cookies["django_language"] == "zh-hans":
            assert visitor.upright() == []
        assert {size: over for size in (width, 320) if (over := visitor.overflow(size)) > 0} == {}
        page.set_viewport_size({"width": width, "height": 900})
    assert visitor.complaints == []
