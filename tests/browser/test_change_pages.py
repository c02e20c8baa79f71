"""The pages of change requests in a browser: moved on by keyboard with and without a script, and every state in every look."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from tests.browser.conftest import RESULTS
from tests.browser.visits import Visitor

pytestmark = [pytest.mark.browser, pytest.mark.django_db]

GPU = "nvidia.com/gpu"
LOOKS = [("light", "en", 1440), ("dark", "en", 390), ("light", "zh-hans", 390), ("dark", "zh-hans", 1440)]


class Desk:
    """Requests about the demo's queues, checked on what was collected and moved on as the worker would."""

    def __init__(self, fleet: SimpleNamespace) -> None:
        from apps.accounts.models import Team, User

        self.cluster = fleet.cluster
        self.team = Team.objects.get(slug="foundation-models")
        self.people = {user.username: user for user in User.objects.all()}

    def ask(self, nominal: str, **more: Any) -> int:
        """As the worker would check it, but for the dry run: there is no API server that would know the objects."""
        from apps.changes.checking import check, keys_to_read
        from apps.changes.checks_model import report_json
        from apps.changes.models import ChangeStep
        from apps.changes.requests import Wanted
        from apps.changes.services import create_request
        from apps.changes.specs import object_seen
        from apps.observations.models import ClusterObject

        quota = {"flavor": "h100", "resource": GPU, "nominal": nominal, **more.pop("limits", {})}
        edit = {"kind": "ClusterQueue", "name": "foundation-cq", "set": {"quotas": [quota]}}
        stop = {
            "kind": "LocalQueue",
            "namespace": "foundation-models",
            "name": "train",
            "set": {"stop_policy": "Hold"},
        }
        wanted = Wanted(
            self.cluster,
            self.team,
            [edit, stop],
            "The long run needs them until the end of the month.",
            **more,
        )
        request = create_request(wanted, actor=self.people["lead"], now=timezone.now())
        seen = [
            object_seen(kind, "/apis/x", ClusterObject.objects.get(
                cluster=self.cluster, kind=kind, namespace=namespace, name=name, gone_at=None
            ).raw)
            for kind, namespace, name in keys_to_read(request)
        ]  # fmt: skip
        found = check(request, seen, now=timezone.now())
        steps = [
            ChangeStep(
                position=position,
                kind=step.kind,
                namespace=step.namespace,
                name=step.name,
                method=step.method,
                path=step.path,
                resource_version=step.resource_version,
                body=step.body,
                before=step.before,
                after=step.after,
            )
            for position, step in enumerate(found.steps)
        ]
        self.do("note_check", request.pk, fields={"report": report_json(found.report)}, steps=steps)
        return request.pk

    def do(self, name: str, pk: int, who: str | None = None, **more: Any) -> None:
        from apps.changes.models import ChangeRequest
        from apps.changes.transitions import perform

        version = ChangeRequest.objects.get(pk=pk).version
        actor = None if who is None else self.people[who]
        perform(name, pk, actor=actor, seen_version=version, now=timezone.now(), **more)

    def awaiting(self, nominal: str = "56", **more: Any) -> int:
        pk = self.ask(nominal, **more)
        self.do("submit", pk, "lead")
        return pk

    def drifted(self) -> int:
        """Written, seen, measured, and changed by somebody else since."""
        from apps.changes.models import ChangeEffect, ChangeStep

        pk, now = self.awaiting(ends_at=timezone.now() + timedelta(days=2)), timezone.now()
        self.do("approve", pk, "admin", reason="Agreed until then.")
        self.do("begin", pk)
        steps = ChangeStep.objects.filter(request=pk)
        steps.update(sent_at=now, done_at=now, observed_at=now, written_version="4711")
        self.do("finish", pk)
        self.do("observe", pk)
        path = "/spec/resourceGroups/h100/nvidia.com~1gpu/nominalQuota"
        steps.filter(kind="ClusterQueue").update(
            drift_since=now, drift=[{"path": path, "was": "56", "now": "48"}]
        )
        for moment, held in (("before", 28), ("15m", 56)):
            for resource, scale in ((f"h100 {GPU}", 1), ("h100 memory", 2**36)):
                ChangeEffect.objects.create(
                    request_id=pk,
                    moment=moment,
                    queue="foundation-cq",
                    resource=resource,
                    at=now,
                    nominal=56 * scale,
                    held=held * scale,
                    admitted_workloads=3,
                )
        return pk


class Committed:
    """A desk whose deeds the server sees: done outside of the test's transaction, each in a thread with a connection of
    its own. The fleet is emptied away as a whole."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def __getattr__(self, name: str) -> Any:
        def run(*args: Any, **more: Any) -> Any:
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(self._run, name, args, more).result()

        return run

    def _run(self, name: str, args: Any, more: Any) -> Any:
        try:
            return getattr(self._desk, name)(*args, **more)
        finally:
            connection.close()


@pytest.fixture
def desk(fleet: SimpleNamespace) -> Any:
    return Committed(Desk(fleet))


@pytest.fixture
def visit(chromium: Any, server: str, session_cookie: dict[str, str]) -> Iterator[Any]:
    made: list[Visitor] = []

    def visitor(who: str, theme: str = "light", language: str = "en", **options: Any) -> Visitor:
        cookies = {"sessionid": session_cookie[who], "portal_theme": theme, "django_language": language}
        made.append(Visitor(chromium, server, cookies=cookies, **options))
        return made[-1]

    yield visitor
    for one in made:
        one.close()


@pytest.mark.parametrize("script", [True, False])
def test_a_request_is_moved_on_by_keyboard(desk: Any, visit: Any, script: bool) -> None:
    pk = desk.ask("40")
    lead, admin = (visit(who, java_script_enabled=script) for who in ("lead", "admin"))
    lead.open(f"/changes/{pk}/")
    lead.page.focus('button[value="submit"]')
    lead.page.keyboard.press("Enter")
    lead.page.wait_for_selector("text=It waits for a platform admin")
    admin.open("/changes/")
    assert admin.page.url.endswith("/changes/?inbox=on")
    admin.page.click(f'a[href="/changes/{pk}/"]')
    admin.page.wait_for_selector("#f-reason")
    admin.page.focus('button[value="reject"]')
    admin.page.keyboard.press("Enter")
    admin.page.wait_for_selector("#refused")
    assert "Reason: This is needed." in admin.page.inner_text("#refused")
    if script:
        assert admin.page.locator("#refused").evaluate("one => one === document.activeElement")
    desk.do("approve", pk, "admin", reason="Agreed.")
    admin.page.fill("#f-reason", "Not now")
    admin.page.click('button[value="reject"]')
    admin.page.wait_for_selector("text=Agreed.")
    assert "Approved" in admin.page.inner_text("#refused")
    assert admin.page.locator("#f-reason").input_value() == "Not now"
    refusals = ["status of 400", "status of 409"]
    assert [text for text in admin.complaints if not any(part in text for part in refusals)] == []
    assert lead.complaints == []


def test_what_is_typed_outlives_the_refresh(desk: Any, visit: Any) -> None:
    """Also when the focus is elsewhere by then; without it the page is read anew."""
    pk = desk.awaiting("44")
    page = visit("admin").page
    page.clock.install()
    page.goto(f"/changes/{pk}/")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/changes/" in request.url else None)
    page.fill("#f-reason", "half a sentence")
    page.locator("#f-reason").blur()
    page.clock.run_for(95_000)
    assert asked == []
    page.fill("#f-reason", "")
    page.locator("#f-reason").blur()
    with page.expect_response(lambda response: response.url.endswith(f"/changes/{pk}/")):
        page.clock.run_for(35_000)


def test_a_new_state_comes_by_itself_and_is_told(desk: Any, visit: Any) -> None:
    """Who cannot see the page hears where the request stands now; a refresh that changes nothing says nothing."""
    pk = desk.awaiting("52")
    page = visit("lead").page
    page.clock.install()
    page.goto(f"/changes/{pk}/")
    told = page.locator("#announce")
    with page.expect_response(lambda response: response.url.endswith(f"/changes/{pk}/")):
        page.clock.run_for(31_000)
    page.wait_for_timeout(200)
    assert told.inner_text() == ""
    desk.do("approve", pk, "admin")
    with page.expect_response(lambda response: response.url.endswith(f"/changes/{pk}/")):
        page.clock.run_for(31_000)
    page.wait_for_selector("text=Approved by admin")
    assert "Approved by admin" in told.inner_text()


@pytest.mark.parametrize(("theme", "language", "width"), LOOKS)
@pytest.mark.parametrize("name", ["awaiting", "refused", "drifted", "list", "calendar"])
def test_every_state_is_good_in_every_look(
    desk: Any, visit: Any, name: str, theme: str, language: str, width: int
) -> None:
    if name == "refused":
        path = f"/changes/{desk.ask('4', limits={'lending_limit': '9'})}/"
    elif name in ("list", "calendar"):
        desk.drifted()
        path = "/changes/?state=" if name == "list" else "/changes/calendar/"
    else:
        path = f"/changes/{getattr(desk, name)()}/"
    visitor = visit("lead" if name == "refused" else "admin", theme, language)
    page = visitor.page
    page.set_viewport_size({"width": width, "height": 900})
    visitor.open(path)
    for each in page.locator("main details").all():
        each.evaluate("one => { one.open = true; }")
    RESULTS.mkdir(parents=True, exist_ok=True)
    shot = RESULTS / f"change-{name}-{theme}-{language}-{width}.png"
    page.screenshot(path=str(shot), full_page=True)
    assert visitor.axe() == []
    assert visitor.violations() == []
    if language == "zh-hans":
        assert visitor.upright() == []
    assert {size: over for size in (width, 320) if (over := visitor.overflow(size)) > 0} == {}
    assert visitor.complaints == []
