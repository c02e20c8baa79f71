"""What pages do: reading without a script, the keyboard, themes, refreshing, filters, the charts' privacy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from tests.browser.visits import Visitor

pytestmark = [pytest.mark.browser, pytest.mark.django_db]


@pytest.fixture
def visitor(chromium: Any, server: str, session_cookie: dict[str, str]) -> Iterator[Visitor]:
    made = Visitor(chromium, server, cookies={"sessionid": session_cookie["admin"], "portal_theme": "light"})
    yield made
    made.close()


def background(page: Any) -> str:
    found: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return found


def in_another_thread(work: Callable[[], None]) -> None:
    """With a connection of its own: a test's own transaction is never committed."""

    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def read_again() -> None:
    from apps.observations.models import SourceState

    SourceState.objects.update(last_ok_at=timezone.now(), last_run_at=timezone.now())


LIGHT, DARK = "rgb(247, 247, 248)", "rgb(16, 18, 23)"


class TestWithoutScript:
    @pytest.fixture
    def plain(self, chromium: Any, server: str, session_cookie: dict[str, str]) -> Iterator[Visitor]:
        made = Visitor(
            chromium, server, cookies={"sessionid": session_cookie["admin"]}, java_script_enabled=False
        )
        yield made
        made.close()

    @pytest.mark.parametrize(
        ("path", "words"),
        [
            ("/", ["Physical", "Needs attention", "Foundation models"]),
            (
                "/teams/foundation-models/",
                ["What the team may use", "Waiting, in queue order", "Borrowed from others"],
            ),
            ("/capacity/", ["Pools", "Nodes"]),
            ("/queues/", ["foundation-cq"]),
            ("/admissions/", ["wait now", "Why it waits"]),
            ("/sources/", ["Kueue", "Quarantine"]),
            ("/charts/reasons/?window=24h", ["The same as numbers"]),
        ],
    )
    def test_a_page_can_be_read(self, plain: Visitor, path: str, words: list[str]) -> None:
        assert plain.page.goto(path).status == 200
        text = plain.page.inner_text("main")
        assert [word for word in words if word not in text] == []

    def test_filters_theme_and_language_work(self, plain: Visitor) -> None:
        page = plain.page
        page.goto("/admissions/")
        page.select_option("#f-cause", "quota")
        page.click("main form button")
        assert "cause=quota" in page.url
        page.click("summary:has-text('Theme')")
        page.click("button[value=dark]")
        assert page.get_attribute("html", "data-bs-theme") == "dark"
        assert "cause=quota" in page.url
        page.click("button[value=zh-hans]")
        assert page.get_attribute("html", "lang") == "zh-Hans"


class TestThemes:
    @pytest.mark.parametrize(("scheme", "expected"), [("light", LIGHT), ("dark", DARK)])
    def test_auto_follows_the_system(
        self, chromium: Any, server: str, session_cookie: dict[str, str], scheme: str, expected: str
    ) -> None:
        visitor = Visitor(
            chromium,
            server,
            cookies={"sessionid": session_cookie["admin"], "portal_theme": "auto"},
            color_scheme=scheme,
        )
        visitor.open("/sources/")
        assert background(visitor.page) == expected
        visitor.close()

    def test_a_chart_is_drawn_again_when_the_system_turns_dark(
        self, chromium: Any, server: str, session_cookie: dict[str, str]
    ) -> None:
        visitor = Visitor(
            chromium,
            server,
            cookies={"sessionid": session_cookie["admin"], "portal_theme": "auto"},
            color_scheme="light",
        )
        visitor.open("/charts/capacity/?window=24h")
        page = visitor.page
        page.wait_for_selector(".chart .main-svg")
        before = page.evaluate("document.querySelector('.chart').layout.font.color")
        page.emulate_media(color_scheme="dark")
        page.wait_for_selector(".chart:not([data-drawn='1'])")
        assert page.evaluate("document.querySelector('.chart').layout.font.color") != before
        assert visitor.violations() == []
        visitor.close()


class TestKeyboard:
    def test_the_first_tab_offers_to_skip_to_the_content(self, visitor: Visitor) -> None:
        visitor.open("/teams/")
        page = visitor.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        assert page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"

    def test_focus_is_always_visible(self, visitor: Visitor) -> None:
        visitor.open("/teams/")
        page = visitor.page
        for _ in range(14):
            page.keyboard.press("Tab")
            outline = page.evaluate(
                "(() => { const s = getComputedStyle(document.activeElement);"
                " return [s.outlineStyle, parseFloat(s.outlineWidth)]; })()"
            )
            assert outline[0] != "none"
            assert outline[1] >= 2

    def test_escape_closes_a_menu_and_gives_the_focus_back(self, visitor: Visitor) -> None:
        visitor.open("/teams/")
        page = visitor.page
        page.focus("summary:has-text('Theme')")
        page.keyboard.press("Enter")
        assert page.locator(".menu[open]").count() == 1
        page.keyboard.press("Escape")
        assert page.locator(".menu[open]").count() == 0
        assert page.evaluate("document.activeElement.tagName") == "SUMMARY"

    def test_targets_are_large_enough(self, visitor: Visitor) -> None:
        visitor.open("/admissions/")
        small = visitor.page.evaluate(
            "[...document.querySelectorAll('button, select, input:not([type=hidden]), summary.btn-q')]"
            ".filter(e => e.offsetParent && !e.closest('.foot')).map(e => [e.outerHTML.slice(0, 60),"
            " e.getBoundingClientRect()]).filter(([, r]) => r.height < 24 || r.width < 24).map(([h]) => h)"
        )
        assert small == []


class TestRefresh:
    def test_the_page_takes_new_numbers_by_itself_and_keeps_its_chart(
        self, visitor: Visitor, fleet: SimpleNamespace
    ) -> None:
        visitor.open("/")
        page = visitor.page
        page.wait_for_selector(".chart .main-svg")
        page.evaluate("document.querySelector('.chart').mark = 'kept'")
        first = page.get_attribute("main", "data-as-of")
        in_another_thread(read_again)
        page.evaluate("htmx.trigger(document.getElementById('main'), 'portal:refresh')")
        page.wait_for_selector(f"main:not([data-as-of='{first}'])")
        assert page.evaluate("document.querySelector('.chart').mark") == "kept"
        assert page.inner_text("#announce") == ""
        assert visitor.violations() == []

    def test_it_can_be_paused(self, visitor: Visitor) -> None:
        visitor.open("/teams/")
        page = visitor.page
        page.click("#pause")
        assert page.get_attribute("#pause", "aria-pressed") == "true"
        assert page.inner_text("#pause") == "Resume"
        visitor.open("/queues/")
        assert page.get_attribute("#pause", "aria-pressed") == "true"

    def test_a_filter_changes_the_address_and_says_how_many_rows_there_are(self, visitor: Visitor) -> None:
        visitor.open("/capacity/")
        page = visitor.page
        page.select_option("#f-state", "out")
        page.wait_for_url("**state=out**")
        page.wait_for_selector("#announce:has-text('row')", state="attached")
        page.go_back()
        page.wait_for_url("**/capacity/")

    def test_sorting_keeps_the_place_and_marks_the_column(self, visitor: Visitor) -> None:
        visitor.open("/teams/")
        page = visitor.page
        page.click("thead a:has-text('Waiting')")
        page.wait_for_url("**sort=waiting_units**")
        assert page.get_attribute("th:has-text('Waiting')", "aria-sort") == "ascending"


class TestQueueTree:
    def test_a_node_opens_and_closes_in_place_and_the_address_says_so(self, visitor: Visitor) -> None:
        visitor.open("/queues/?open=-")
        page = visitor.page
        rows = page.locator(".qt tbody tr")
        closed = rows.count()
        opener = page.locator("[data-key='demo/Cohort/company']")
        opener.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("a:text-is('research')")
        assert opener.get_attribute("aria-expanded") == "true"
        assert opener.get_attribute("aria-label") == "Close company"
        assert page.url.endswith("/queues/?open=demo/Cohort/company")
        page.click("[data-key='demo/Cohort/research']")
        page.wait_for_selector("a:text-is('foundation-cq')")
        opened = [row.inner_text() for row in rows.all()]
        page.reload()
        assert [row.inner_text() for row in rows.all()] == opened
        page.click("[data-key='demo/Cohort/company']")
        assert rows.count() == closed
        assert page.locator("a:text-is('foundation-cq')").count() == 0
        assert visitor.violations() == []
        assert visitor.complaints == []

    def test_a_silent_refresh_keeps_what_is_open(self, visitor: Visitor) -> None:
        visitor.open("/queues/?open=-")
        page = visitor.page
        page.click("[data-key='demo/Cohort/company']")
        page.wait_for_selector("a:text-is('research')")
        page.evaluate("document.activeElement.blur()")
        first = page.get_attribute("main", "data-as-of")
        in_another_thread(read_again)
        page.evaluate("htmx.trigger(document.getElementById('main'), 'portal:refresh')")
        page.wait_for_selector(f"main:not([data-as-of='{first}'])")
        assert page.locator("a:text-is('research')").count() == 1

    def test_what_needs_attention_comes_after_the_page(self, visitor: Visitor) -> None:
        visitor.open("/queues/")
        page = visitor.page
        page.wait_for_selector("#attention .finding")
        assert "next-generation-cq" in page.inner_text("#attention")
        assert visitor.axe() == []

    def test_it_opens_without_a_script_too(
        self, chromium: Any, server: str, session_cookie: dict[str, str]
    ) -> None:
        cookies = {"sessionid": session_cookie["admin"]}
        plain = Visitor(chromium, server, cookies=cookies, java_script_enabled=False)
        plain.page.goto("/queues/?open=-")
        plain.page.click("[data-key='demo/Cohort/company']")
        assert "product" in plain.page.inner_text(".qt tbody")
        plain.page.click("[data-key='demo/Cohort/company']")
        assert "product" not in plain.page.inner_text(".qt tbody")
        plain.close()

    def test_the_command_is_copied(self, visitor: Visitor) -> None:
        visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
        visitor.open("/queues/demo/ClusterQueue/foundation-cq/")
        page = visitor.page
        page.click("button[data-copy]")
        page.wait_for_selector("#announce:has-text('Copied.')", state="attached")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == "kubectl get clusterqueue foundation-cq -o yaml"


class TestPrivacy:
    def test_a_chart_never_offers_to_send_data_away(self, visitor: Visitor) -> None:
        visitor.open("/charts/capacity/?window=24h")
        page = visitor.page
        page.wait_for_selector(".chart .main-svg")
        page.hover(".chart")
        titles = page.evaluate(
            "[...document.querySelectorAll('.modebar-btn')].map(b => b.dataset.title || '')"
        )
        assert titles
        assert not [t for t in titles if "hare" in t or "loud" in t or "Edit" in t]
        config = page.evaluate(
            "(c => [c.showSendToCloud, c.plotlyServerURL, c.displaylogo])(document.querySelector('.chart')._context)"
        )
        assert config == [False, "", False]
        assert visitor.complaints == []

    def test_the_modebar_speaks_chinese(
        self, chromium: Any, server: str, session_cookie: dict[str, str]
    ) -> None:
        cookies = {"sessionid": session_cookie["admin"], "django_language": "zh-hans"}
        visitor = Visitor(chromium, server, cookies=cookies)
        visitor.open("/charts/capacity/?window=24h")
        visitor.page.wait_for_selector(".chart .main-svg")
        titles = visitor.page.evaluate(
            "[...document.querySelectorAll('.modebar-btn')].map(b => b.dataset.title)"
        )
        assert any("下载" in title for title in titles)
        visitor.close()


class TestSigningIn:
    def test_a_lead_signs_in_and_finds_the_own_team(self, chromium: Any, server: str) -> None:
        visitor = Visitor(chromium, server, cookies={})
        page = visitor.page
        page.goto("/teams/foundation-models/")
        assert "/login/" in page.url
        page.fill("#id_username", "lead")
        page.fill("#id_password", "demo")
        page.click("main button")
        assert page.url.endswith("/teams/foundation-models/")
        assert page.goto("/teams/vision/").status == 404
        page.goto("/teams/")
        page.click("summary:has-text('lead')")
        page.click("button:has-text('Sign out')")
        assert "/login/" in page.url
        visitor.close()
