"""The what-if page with faults: where the focus goes, what leads where, and how it looks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import RESULTS
from tests.browser.visits import Visitor

pytestmark = [pytest.mark.browser, pytest.mark.django_db]

PATH = "/queues/what-if/?cluster=demo&queue=ClusterQueue/foundation-cq"
NOMINAL = '[id="i-nominal:h100:nvidia.com/gpu"]'
LOOKS = [(theme, width) for theme in ("light", "dark") for width in (1440, 390)]


def filled_in_wrongly(page: Any) -> None:
    """Faults in the table, in the policy that is folded away, in the new row, and in the job."""
    page.fill(NOMINAL, "-1")
    page.locator("details.twin summary").first.click()
    page.fill('[name="max_priority_threshold"]', "high")
    page.fill('[name="new_resource"]', "nvidia.com/gpu")
    page.fill('[name="job_amount"]', "many")
    page.fill('[name="work"]', "nobody/nothing")
    page.fill('[name="work_priority"]', "high")
    page.click("button.primary")
    page.wait_for_selector("#faults")


@pytest.mark.parametrize("script", [True, False])
@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_faults_are_found_by_keyboard_and_seen_in_every_look(
    theme: str, width: int, script: bool, chromium: Any, server: str, session_cookie: dict[str, str]
) -> None:
    cookies = {"sessionid": session_cookie["admin"], "portal_theme": theme}
    visitor = Visitor(chromium, server, cookies=cookies, java_script_enabled=script)
    page = visitor.page
    try:
        page.set_viewport_size({"width": width, "height": 900})
        visitor.open(PATH)
        filled_in_wrongly(page)
        assert page.locator("#faults").evaluate("one => one === document.activeElement")
        assert page.locator("#faults li a").count() == page.locator("#faults li").count() == 5
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.locator(NOMINAL).evaluate("one => one === document.activeElement")
        assert page.locator('[name="max_priority_threshold"]').is_visible()
        ties = page.locator("[aria-invalid]").evaluate_all(
            "all => all.map(one => document.getElementById(one.getAttribute('aria-describedby')).textContent)"
        )
        assert len(ties) == 5
        assert all(ties)
        RESULTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(RESULTS / f"what-if-faults-{theme}-{width}.png"), full_page=True)
        if script:
            assert visitor.axe() == []
            assert visitor.violations() == []
        assert visitor.overflow(width) <= 0
        assert visitor.complaints == []
    finally:
        visitor.close()
