"""The content security policy in a real browser: the API's reading page and the admin site work under it.

Chromium reports each violation as an event; none may happen, and the page must show what it is for."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from playwright.sync_api import Page

from apps.api.tests.world import World

pytestmark = pytest.mark.browser

COLLECT = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (e) => {
  window.violations.push([e.violatedDirective, e.blockedURI, e.sourceFile, e.lineNumber].join(" "));
});
"""


@pytest.fixture
def browser_page(live_server: Any, world: World) -> Iterator[Page]:
    """A page of a browser in which the platform admin is signed in."""
    from playwright.sync_api import sync_playwright

    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    client = Client()
    client.force_login(world.users["admin"])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        context = browser.new_context(base_url=live_server.url)
        context.add_cookies(
            [{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": live_server.url}]
        )
        context.add_init_script(COLLECT)
        yield context.new_page()
        browser.close()


def visit(page: Any, path: str) -> str:
    page.goto(path)
    page.wait_for_load_state("networkidle")
    assert page.evaluate("window.violations") == []
    text: str = page.inner_text("body")
    return text


def test_the_reading_page_of_the_api_shows_every_route(browser_page: Page) -> None:
    from apps.api.tests.test_reads import LISTS

    requested: list[str] = []
    browser_page.on("request", lambda request: requested.append(request.url))
    visit(browser_page, "/api/docs/")
    browser_page.wait_for_selector(".opblock-summary-path")
    text = browser_page.inner_text("#api-docs").replace("\u200b", "")
    for route in LISTS:
        assert f"/api/v1/{route}/" in text
    host = browser_page.url.partition("/api/")[0]
    assert all(url.startswith((host, "data:")) for url in requested)
    browser_page.click("text=Quota and its use per queue")
    browser_page.wait_for_selector(".parameters")
    assert browser_page.evaluate("window.violations") == []


def test_the_admin_site_works_and_refuses_a_taken_period_in_words(browser_page: Page, world: World) -> None:
    assert "Team bindings" in visit(browser_page, "/admin/")
    visit(browser_page, "/admin/accounts/user/add/")
    visit(browser_page, "/admin/fleet/teambinding/add/")
    browser_page.select_option("#id_cluster", label="East")
    browser_page.select_option("#id_kind", "cluster_queue")
    browser_page.select_option("#id_team", label="Blue")
    browser_page.fill("#id_name", "red-cq")
    browser_page.click("#id_valid_from_0 ~ .datetimeshortcuts a >> nth=0")
    browser_page.click("[name=_save]")
    assert "Team Red owns this from" in browser_page.inner_text(".errorlist")
    assert browser_page.evaluate("window.violations") == []
    browser_page.check("#id_take_over")
    browser_page.click("[name=_save]")
    assert "was added successfully" in browser_page.inner_text(".messagelist")
    assert browser_page.evaluate("window.violations") == []
