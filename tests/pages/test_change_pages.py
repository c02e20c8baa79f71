"""The pages of change requests: who reads what, what can be done to a request where, and what is said when it cannot."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.changes.models import ChangeEffect, ChangeRequest, State
from tests.changes.conftest import CLEAN, NOMINAL, Desk, a_step
from tests.pages.test_pages import download, text


def page(client: Client, request: ChangeRequest, status: int = 200) -> str:
    return text(client, f"/changes/{request.pk}/", status)


def post(client: Client, request: ChangeRequest, do: str, **data: Any) -> Any:
    """As the form on the page would send it, unless told otherwise."""
    present = ChangeRequest.objects.get(pk=request.pk).version
    return client.post(f"/changes/{request.pk}/", {"do": do, "version": present, **data})


def offered(body: str) -> list[str]:
    return re.findall(r'name="do" value="(\w+)"', body)


class TestList:
    def test_each_reads_the_requests_of_the_own_teams(self, desk: Desk) -> None:
        red = desk.ask()
        for role, seen in (("admin", 1), ("red_lead", 1), ("viewer", 1), ("blue_lead", 0), ("finance", 0)):
            body = text(desk.world.client(role), "/changes/")
            assert body.count(f'href="/changes/{red.pk}/"') == 2 * seen, role

    def test_who_decides_is_led_to_what_waits_and_told_how_much(self, desk: Desk) -> None:
        admin, lead = desk.world.client("admin"), desk.world.client("red_lead")
        assert admin.get("/changes/").status_code == 200
        request = desk.do("submit", desk.checked(desk.ask()), "red_lead")
        answer = admin.get("/changes/?cluster=east")
        assert (answer.status_code, answer.headers["Location"]) == (302, "/changes/?cluster=east&inbox=on")
        body = text(admin, "/changes/?inbox=on")
        assert f"#{request.pk}" in body
        assert '<span class="count">1<' in text(admin, "/teams/")
        assert "count" not in text(lead, "/teams/").split("</nav>")[0]
        assert lead.get("/changes/").status_code == 200

    def test_a_line_tells_what_is_there_and_what_is_asked_for(self, desk: Desk) -> None:
        desk.ask()
        assert "h100 nvidia.com/gpu nominal quota 12" in text(desk.world.client("admin"), "/changes/")
        desk.checked(ChangeRequest.objects.get())
        assert "8 → 12" in text(desk.world.client("admin"), "/changes/")

    def test_of_many_fields_the_first_are_told(self, desk: Desk) -> None:
        request = desk.ask()
        for count in (3, 5):
            step = a_step()
            step.before, step.after = {}, {f"field{number}": "x" for number in range(count)}
            step.request = request
            request.steps.all().delete()
            step.save()
            body = text(desk.world.client("admin"), "/changes/?state=")
            assert (body.count("none → x"), "and 2 more" in body) == (3, count == 5)

    def test_the_download_holds_what_is_shown(self, desk: Desk) -> None:
        request = desk.applied()
        request.steps.update(drift_since=desk.world.now)
        head, row = download(desk.world.client("red_lead"), "/changes/?format=csv&table=changes&state=open")
        found = dict(zip(head, row, strict=True))
        assert (found["No."], found["State"], found["Team"]) == (str(request.pk), "applied", "red")
        assert found["Changed back by somebody else"] == "yes"
        assert (
            len(download(desk.world.client("red_lead"), "/changes/?format=csv&table=changes&state=closed"))
            == 1
        )

    def test_what_somebody_changed_back_is_marked(self, desk: Desk) -> None:
        request = desk.do("observe", desk.applied())
        assert "changed back since" not in text(desk.world.client("admin"), "/changes/?state=closed")
        request.steps.update(drift_since=desk.world.now)
        assert "changed back since" in text(desk.world.client("admin"), "/changes/?state=closed")


class TestCalendar:
    def test_what_ends_and_what_starts_stands_on_its_day(self, desk: Desk) -> None:
        ends = desk.world.now + timedelta(days=2)
        held = desk.applied(ends_at=ends)
        coming = desk.approved(starts_at=ends + timedelta(days=1), ends_at=ends + timedelta(days=4))
        desk.approved()
        body = text(desk.world.client("red_lead"), "/changes/calendar/")
        assert re.findall(r'href="/changes/(\d+)/">#', body) == [
            str(pk) for pk in (held.pk, coming.pk, coming.pk)
        ]
        assert (
            len(download(desk.world.client("red_lead"), "/changes/calendar/?format=csv&table=calendar")) == 3
        )
        assert (
            "#"
            not in text(desk.world.client("blue_lead"), "/changes/calendar/")
            .split("<main")[1]
            .split('id="h-days"')[1]
            .split("</section>")[0]
        )


class TestRequest:
    def test_what_each_may_do_is_offered_and_nothing_else(self, desk: Desk) -> None:
        request = desk.checked(desk.ask())
        buttons = {
            role: offered(page(desk.world.client(role), request)) for role in ("red_lead", "admin", "viewer")
        }
        assert buttons == {"red_lead": ["submit", "ask_check", "cancel"], "admin": ["cancel"], "viewer": []}
        request = desk.do("submit", request, "red_lead")
        assert offered(page(desk.world.client("admin"), request)) == ["approve", "reject", "cancel"]
        assert offered(page(desk.world.client("red_lead"), request)) == ["cancel"]

    def test_from_asked_for_to_undone_by_its_buttons(self, desk: Desk) -> None:
        lead, admin = desk.world.client("red_lead"), desk.world.client("admin")
        request = desk.checked(desk.ask())
        assert post(lead, request, "submit").headers["Location"] == f"/changes/{request.pk}/"
        assert post(admin, request, "approve", reason="agreed").status_code == 303
        body = page(lead, request)
        assert "agreed" in body
        assert 'data-refresh="5"' in body
        desk.do("begin", request)
        request.steps.update(done_at=desk.world.now)
        desk.do("observe", desk.do("finish", request))
        assert offered(page(lead, request)) == ["undo"]
        answer = post(lead, request, "undo", reason="not needed any more")
        undo = ChangeRequest.objects.get(origin="undo")
        assert answer.headers["Location"] == f"/changes/{undo.pk}/"
        assert f'href="/changes/{undo.pk}/"' in page(lead, request)
        assert f"Undo of change {request.pk}" in page(lead, undo)

    def test_a_decision_that_comes_too_late_says_whose_was_first(self, desk: Desk) -> None:
        request = desk.do("submit", desk.checked(desk.ask()), "red_lead")
        seen = request.version
        desk.do("approve", request, "admin")
        answer = post(desk.world.client("approver"), request, "reject", version=seen, reason="too much")
        body = answer.content.decode()
        assert answer.status_code == 409
        said = body[body.index('id="refused"') :].split("</section>")[0]
        assert re.findall(r": (\w+): (\w+)", said) == [("admin", "Approved")]
        assert ">too much</textarea>" in body
        assert 'data-refresh="0"' in body
        assert ChangeRequest.objects.get(pk=request.pk).state == State.APPROVED

    def test_what_is_refused_is_said_with_its_own_status(self, desk: Desk) -> None:
        request = desk.do("submit", desk.checked(desk.ask("admin")), "admin")
        admin, lead, other = (desk.world.client(name) for name in ("admin", "red_lead", "approver"))
        assert post(admin, request, "approve").status_code == 403
        assert post(lead, request, "approve").status_code == 403
        assert post(other, request, "approve", version="").status_code == 428
        assert post(other, request, "reject").status_code == 400
        assert post(other, request, "submit").status_code == 403
        assert post(other, request, "finish").status_code == 400
        assert post(other, request, "undo", reason="x").status_code == 409
        assert post(desk.world.client("blue_lead"), request, "cancel").status_code == 404
        assert post(other, request, "approve").status_code == 303
        assert post(other, request, "approve").status_code == 409

    def test_who_asked_is_told_that_somebody_else_decides(self, desk: Desk, settings: Any) -> None:
        request = desk.do("submit", desk.checked(desk.ask("admin")), "admin")
        assert "another platform admin has to decide" in page(desk.world.client("admin"), request)
        settings.SELF_APPROVAL = True
        assert offered(page(desk.world.client("admin"), request)) == ["approve", "reject", "cancel"]

    def test_what_the_check_found_stands_there(self, desk: Desk) -> None:
        report = {
            **CLEAN,
            "refusals": [
                {"code": "negative", "field": "edits.0.set.quotas.0.nominal", "params": {"value": "-1"}}
            ],
            "dry_run": [
                {"position": 0, "verdict": "refused", "status": 422, "text": "admission <webhook> denied"}
            ],
        }
        request = desk.checked(desk.ask(), report)
        body = page(desk.world.client("red_lead"), request)
        assert "-1 is negative; amounts are at least 0." in body
        assert "admission &lt;webhook&gt; denied" in body
        assert "2 things stand in its way" in body
        assert offered(body) == ["ask_check", "cancel"]

    def test_other_teams_are_told_of_in_sums(self, desk: Desk) -> None:
        lines = [
            {"team": team.pk, "admitted": 1, "loses": 2, "waits": 0, "moves": 0,
             "holds": [{"flavor": "h100", "resource": "nvidia.com/gpu", "before": "8", "after": "4"}]}
            for team in (desk.world.red, desk.world.blue)
        ]  # fmt: skip
        what_if = {
            "teams": lines,
            "work": [],
            "volcano": [],
            "anyway": 0,
            "whole": True,
            "gaps": [],
            "workloads": 0,
            "queues": 0,
        }
        request = desk.checked(desk.ask(), {**CLEAN, "what_if": what_if})
        shown = page(desk.world.client("admin"), request).split('id="h-effect"')[1].split("</section>")[0]
        hidden = page(desk.world.client("red_lead"), request).split('id="h-effect"')[1].split("</section>")[0]
        assert ("Red" in shown, "Blue" in shown) == (True, True)
        assert ("Red" in hidden, "Blue" in hidden, "All other teams" in hidden) == (True, False, True)
        assert "h100 8 → 4" in hidden

    def test_each_table_can_be_downloaded(self, desk: Desk) -> None:
        request = desk.applied()
        rows = download(desk.world.client("red_lead"), f"/changes/{request.pk}/?format=csv&table=timeline")
        assert [row[2] for row in rows[1:]] == [
            f"change.{name}" for name in ("create", "note_check", "submit", "approve", "begin", "finish")
        ]
        plan = download(desk.world.client("viewer"), f"/changes/{request.pk}/?format=csv&table=plan")
        assert dict(zip(plan[0], plan[1], strict=True))["Version"] == "43"

    def test_an_end_to_come_may_be_called_off_with_a_reason(self, desk: Desk) -> None:
        request = desk.applied(ends_at=desk.world.now + timedelta(days=2))
        end = ChangeRequest.objects.get(reverts=request)
        admin, lead = desk.world.client("admin"), desk.world.client("red_lead")
        body = page(admin, end)
        assert (offered(body), offered(page(lead, end))) == (["cancel"], ["ask_check"])
        assert f"It takes change {request.pk} back at" in body
        assert "Leave the change in force" in body
        assert "To come" in text(admin, "/changes/?state=open")
        assert post(admin, end, "cancel").status_code == 400
        assert post(lead, end, "cancel", reason="we need it").status_code == 403
        assert post(admin, end, "cancel", reason="they need it longer").status_code == 303
        assert f"change {request.pk} stays in force" in page(admin, end)

    def test_what_came_of_it_is_told_number_by_number(self, desk: Desk) -> None:
        """Not measured yet, not known and 0 are three things; what stays 0 is left to the download."""
        request = desk.applied()
        at, gpu, memory = desk.world.now, "h100 nvidia.com/gpu", "h100 memory"
        for moment, resource, numbers in (
            ("before", gpu, {"nominal": 8, "held": 0, "borrowed": 0, "waiting_units": 4}),
            ("15m", gpu, {"nominal": 12, "held": 4, "borrowed": 0}),
            ("before", memory, {"nominal": 2**40}),
        ):
            ChangeEffect.objects.create(
                request=request, moment=moment, queue="red-cq", resource=resource, at=at, **numbers
            )
        client = desk.world.client("viewer")
        assert download(client, f"/changes/{request.pk}/?format=csv&table=measured")[1:] == [
            ["red-cq", "h100 memory", "nominal", "1 TiB", "", ""],
            ["red-cq", "h100 GPU", "nominal", "8", "12", ""],
            ["red-cq", "h100 GPU", "held", "0", "4", ""],
            ["red-cq", "h100 GPU", "of that borrowed", "0", "0", ""],
            ["red-cq", "h100 GPU", "wanted by waiting work", "4", "not known", ""],
        ]
        body = page(client, request)
        shown = body[body.index('id="measured"') :].split("</section>")[0]
        assert shown.index("wanted by waiting work") < shown.index("<details") < shown.index("1 TiB")
        assert "of that borrowed" not in shown

    def test_the_page_takes_as_many_queries_for_many_rows_as_for_few(self, desk: Desk) -> None:
        request = desk.applied()
        client = desk.world.client("admin")
        page(client, request)
        with CaptureQueriesContext(connection) as few:
            page(client, request)
        for number in range(1, 8):
            step = a_step(number)
            step.request, step.name = request, f"cq-{number}"
            step.save()
            ChangeEffect.objects.create(
                request=request, moment="15m", queue=step.name, resource="cpu", at=desk.world.now, held=number
            )
            other = desk.ask(edits=[{**NOMINAL, "set": {"fair_weight": str(number)}}])
            ChangeRequest.objects.filter(pk=other.pk).update(reverts=request, origin="undo")
        with CaptureQueriesContext(connection) as many:
            body = page(client, request)
        assert body.count("Undone by") == 7
        assert len(many) <= len(few) <= 20

    def test_a_drift_says_what_was_made_and_what_is_there(self, desk: Desk) -> None:
        request = desk.do("observe", desk.applied())
        path = "/spec/resourceGroups/h100/nvidia.com~1gpu/nominalQuota"
        drift = [{"path": path, "was": "12", "now": "6"}]
        request.steps.update(drift_since=desk.world.now, drift=drift)
        body = page(desk.world.client("red_lead"), request)
        assert "red-cq: h100 nvidia.com/gpu: nominal quota was made 12 by this change and is 6 since" in body
        assert "somebody has since changed 1 object in another way" in body
