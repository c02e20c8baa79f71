"""Every page in both themes, both languages and two widths: strict policy, WCAG 2.1 AA, no sideways scrolling.

Screenshots go to var/screenshots/<page>-<theme>-<language>-<width>.png.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from tests.browser.conftest import RESULTS
from tests.browser.visits import Visitor

pytestmark = [pytest.mark.browser, pytest.mark.django_db]

PAGES = {
    "overview": "/",
    "teams": "/teams/",
    "team": "/teams/foundation-models/",
    "capacity": "/capacity/",
    "node": "/capacity/nodes/{node}/",
    "topology": "/capacity/topology/",
    "stack": "/capacity/stack/",
    "queues": "/queues/",
    "queue": "/queues/demo/ClusterQueue/foundation-cq/",
    "cohort": "/queues/demo/Cohort/research/",
    "volcano-queue": "/queues/demo/VolcanoQueue/climate/",
    "local-queue": "/queues/demo/LocalQueue/train/?namespace=foundation-models",
    "queue-inactive": "/queues/demo/ClusterQueue/next-generation-cq/",
    "queue-list": "/queues/?state=waiting&lines=flavors",
    "findings": "/findings/?area=quota",
    "what-if": "/queues/what-if/?cluster=demo&queue=ClusterQueue/foundation-cq&change=["
    '{{"kind":"ClusterQueue","name":"foundation-cq","set":{{"quotas":'
    '[{{"flavor":"h100","resource":"nvidia.com/gpu","nominal":"56"}}]}}}}]',
    "changes": "/changes/?state=",
    "changes-calendar": "/changes/calendar/",
    "change-new": "/changes/new/?cluster=demo",
    "change-form": "/changes/new/?cluster=demo&object=ClusterQueue/foundation-cq",
    "change-form-cohort": "/changes/new/?cluster=demo&object=Cohort/research",
    "change-form-local": "/changes/new/?cluster=demo&object=LocalQueue/foundation-models/train",
    "admissions": "/admissions/?by=cause&window=24h",
    "over-time": "/admissions/over-time/?window=14d",
    "wait-times": "/admissions/wait-times/",
    "blocked-work": "/admissions/work/?window=24h",
    "unknown-texts": "/admissions/unknown/",
    "audit": "/audit/",
    "audit-none": "/audit/?who=nobody&from=2026-01-01",
    "chargeback": "/chargeback/",
    "statement": "/chargeback/{month}/foundation-models/",
    "charges": "/chargeback/{month}/foundation-models/charges/",
    "held-work": "/chargeback/work/?cluster=demo",
    "idle": "/chargeback/idle/?window=24h",
    "workload": "/workloads/{workload}/",
    "sources": "/sources/",
    "glossary": "/glossary/",
    "tokens": "/account/tokens/",
    "chart": "/charts/capacity/?window=24h",
    "login": "/login/",
    "missing": "/nothing/",
}
LOOKS = [(theme, language) for theme in ("light", "dark") for language in ("en", "zh-hans")]


@pytest.fixture(scope="module")
def visitors(
    chromium: Any, server: str, session_cookie: dict[str, str]
) -> Iterator[dict[tuple[str, str, bool], Visitor]]:
    """One context per look and per being signed in, kept over all pages."""
    made = {}
    for theme, language in LOOKS:
        for signed_in in (True, False):
            cookies = {"portal_theme": theme, "django_language": language}
            if signed_in:
                cookies["sessionid"] = session_cookie["admin"]
            made[theme, language, signed_in] = Visitor(chromium, server, cookies=cookies)
    yield made
    for visitor in made.values():
        visitor.close()


def address(name: str, fleet: SimpleNamespace) -> str:
    from apps.observations.models import Node

    node = Node.objects.filter(gone_at=None).order_by("name")[0].name
    month = timezone.now().strftime("%Y-%m")
    return PAGES[name].format(node=node, workload=fleet.waiting.uid, month=month)


@pytest.mark.parametrize(("theme", "language"), LOOKS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_good_in_every_look(
    name: str,
    theme: str,
    language: str,
    visitors: dict[tuple[str, str, bool], Visitor],
    fleet: SimpleNamespace,
) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    visitor = visitors[theme, language, name != "login"]
    page = visitor.page
    page.set_viewport_size({"width": 1440, "height": 900})
    answer = visitor.open(address(name, fleet))
    assert answer.status == (404 if name == "missing" else 200)
    if page.locator(".chart").count():
        page.wait_for_selector(".chart .main-svg, .chart .chart-note")
        assert (
            page.locator(".modebar-btn[data-title*='Share'], .modebar-btn[data-title*='cloud' i]").count()
            == 0
        )
    page.screenshot(path=str(RESULTS / f"{name}-{theme}-{language}-1440.png"), full_page=True)
    assert visitor.axe() == []
    sideways = {width: visitor.overflow(width) for width in (1440, 1024, 390, 320)}
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(120)
    page.screenshot(path=str(RESULTS / f"{name}-{theme}-{language}-390.png"), full_page=True)
    if language == "zh-hans":
        assert visitor.upright() == []
    if theme == "light" and language == "zh-hans":
        assert visitor.axe() == []
    assert {width: over for width, over in sideways.items() if over > 0} == {}
    assert visitor.violations() == []
    expected = ["status of 404"] if name == "missing" else []
    assert [text for text in visitor.complaints if not any(part in text for part in expected)] == []
