"""Messages about changes: signed, tried again, given up; against a real HTTP server and a real SMTP conversation."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
from datetime import datetime, timedelta
from typing import Any

import pytest

from apps.changes.models import ChangeRequest, Notice
from apps.changes.notices import KIND
from apps.core import sending
from tests.changes.conftest import Desk
from tests.receiving import SECRET, Heard, Mailbox


def send_due(now: datetime) -> int:
    return sending.send_due(now, KIND)


def asked(desk: Desk) -> ChangeRequest:
    return desk.do("submit", desk.checked(desk.ask()), "red_lead")


def test_each_change_of_state_is_sent_once_and_signed(desk: Desk, hook: Heard) -> None:
    request = asked(desk)
    assert send_due(desk.world.now) == 2
    assert send_due(desk.world.now) == 0
    headers, body = hook.calls[1]
    said = json.loads(body)
    assert (said["event"], said["state"], said["by"]) == ("change.submit", "awaiting_approval", "red_lead")
    assert said["url"] == f"https://portal.example.com/changes/{request.pk}/"
    assert headers["X-Portal-Delivery"] == said["id"]
    at, digest = (part.split("=", 1)[1] for part in headers["X-Portal-Signature"].split(","))
    assert hmac.new(SECRET.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest() == digest


@pytest.mark.parametrize("status", [500, 503, 429, 408, 302])
def test_what_nobody_takes_is_tried_again_with_growing_gaps_for_a_day(
    desk: Desk, hook: Heard, status: int
) -> None:
    asked(desk)
    hook.status = status
    Notice.objects.exclude(payload__event="change.submit").delete()
    gaps, now = [], desk.world.now
    notice = Notice.objects.get()
    while notice.next_try_at is not None:
        gaps.append(round((notice.next_try_at - now).total_seconds() / 60))
        now = notice.next_try_at
        send_due(now)
        notice = Notice.objects.get()
    assert gaps == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    assert (notice.attempts, len(hook.calls), notice.sent_at) == (11, 11, None)
    assert notice.failure == f"answered {status}"
    assert {headers["X-Portal-Delivery"] for headers, _body in hook.calls} == {notice.event_id}


@pytest.mark.parametrize("status", [400, 401, 404, 410])
def test_what_is_refused_for_good_is_not_tried_again(desk: Desk, hook: Heard, status: int) -> None:
    asked(desk)
    hook.status = status
    send_due(desk.world.now)
    assert set(Notice.objects.values_list("attempts", "next_try_at", "failure")) == {
        (1, None, f"answered {status}")
    }


def test_a_server_that_is_not_there_is_tried_again(desk: Desk, settings: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        settings.WEBHOOK_URL = f"http://127.0.0.1:{free.getsockname()[1]}/"
    settings.WEBHOOK_SECRET = SECRET
    asked(desk)
    assert send_due(desk.world.now) == 0
    notice = Notice.objects.first()
    assert notice is not None
    assert notice.next_try_at == desk.world.now + timedelta(minutes=1)
    assert "no answer" in notice.failure
    assert SECRET not in notice.failure


# ---- e-mail ---------------------------------------------------------------------------------------------------------


def test_approvers_hear_what_waits_for_them(desk: Desk, mailbox: Mailbox) -> None:
    request = asked(desk)
    assert send_due(desk.world.now) == 1
    ((to, text),) = mailbox.mails
    assert to == "approver@example.com"
    assert f"Subject: Change {request.pk} waits for approval: red-cq" in text
    assert "a new model" in text
    assert f"/changes/{request.pk}/" in text


def test_an_address_that_does_not_exist_is_given_up(desk: Desk, mailbox: Mailbox) -> None:
    mailbox.refuses = True
    asked(desk)
    send_due(desk.world.now)
    notice = Notice.objects.get()
    assert (notice.attempts, notice.next_try_at, notice.sent_at) == (1, None, None)
    assert "no such person" in notice.failure
