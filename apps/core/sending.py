"""Sending what has to leave the portal, whoever wrote it. Input: rows of `Outgoing` that are due, the clock; output: the same
rows, sent, put off or given up.

Invariants
- At least once: a row is marked when somebody has taken it; `event_id` tells the copies of one message.
- One sender per row: rows are locked while they are sent, and skipped by others.
- What nobody takes is tried again after 1, 2, 4 … minutes, within a day; what is refused for good (4xx but 408 and 429)
  is not. The last failure stays with the row.
- Kinds of messages do not wait for each other: each has its share of the time that a run may take.
- Redirects are not followed: a signed message goes where it was meant to go.
- `X-Portal-Signature: t=SECONDS,v1=HEX` is HMAC-SHA256 of "SECONDS.BODY" with PORTAL_WEBHOOK_SECRET."""

from __future__ import annotations

import hashlib
import hmac
import json
import smtplib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import urllib3
from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import QuerySet
from django.utils import translation

from apps.core.outgoing import Outgoing

AT_ONCE = 50
ENOUGH_SECONDS = 60.0
"""No message is begun after that: a server that hangs would have the task ended in the middle of one."""
FIRST_GAP = timedelta(minutes=1)
GIVE_UP_AFTER = timedelta(days=1)
_FOR_GOOD = frozenset(range(400, 500)) - {408, 429}
_POOL = urllib3.PoolManager(retries=False)


@dataclass(frozen=True, slots=True)
class Kind:
    """What is sent of one table: `subject` and `body` of its e-mails by the payload, in the language in force."""

    model: type[Outgoing]
    subject: Callable[[Mapping[str, Any]], str]
    body: Callable[[Mapping[str, Any]], str]


class Failed(Exception):
    """`for_good`: trying again would not help."""

    def __init__(self, text: str, *, for_good: bool = False) -> None:
        super().__init__(text)
        self.for_good = for_good


def send_due(now: datetime, *kinds: Kind) -> int:
    """Send what is due, of each kind the oldest first; returns how many were taken."""
    return sum(_send_some(kind, now, ENOUGH_SECONDS / len(kinds)) for kind in kinds)


def _send_some(kind: Kind, now: datetime, seconds: float) -> int:
    sent, begun = 0, time.monotonic()
    for pk in list(_due(kind, now).values_list("pk", flat=True)[:AT_ONCE]):
        if time.monotonic() - begun > seconds:
            break
        with transaction.atomic():
            row = _due(kind, now).select_for_update(skip_locked=True).filter(pk=pk).first()
            if row is not None:
                sent += _send(kind, row, now)
    return sent


def _due(kind: Kind, now: datetime) -> QuerySet[Outgoing]:
    return kind.model._default_manager.filter(next_try_at__lte=now).order_by("next_try_at", "pk")


def _send(kind: Kind, notice: Outgoing, now: datetime) -> bool:
    notice.attempts += 1
    try:
        if notice.channel == "email":
            _send_mail(kind, notice)
        else:
            _post(notice, now)
    except Failed as error:
        notice.failure = str(error)[:2000]
        notice.next_try_at = None if error.for_good else next_try(notice, now)
    else:
        notice.sent_at, notice.next_try_at, notice.failure = now, None, ""
    notice.save(update_fields=["attempts", "failure", "next_try_at", "sent_at"])
    return notice.sent_at is not None


def next_try(notice: Outgoing, now: datetime) -> datetime | None:
    """After a failed attempt; None: it is given up."""
    at = now + FIRST_GAP * 2 ** min(notice.attempts - 1, 11)
    return at if at <= notice.created_at + GIVE_UP_AFTER else None


# ---- channels -------------------------------------------------------------------------------------------------------


def _send_mail(kind: Kind, notice: Outgoing) -> None:
    with translation.override(settings.LANGUAGE_CODE):
        message = EmailMessage(
            subject=kind.subject(notice.payload),
            body=kind.body(notice.payload),
            to=[notice.target],
            headers={
                "Message-ID": f"<{notice.event_id}.{notice.pk}@gpu-portal>",
                "Auto-Submitted": "auto-generated",
            },
        )
    try:
        message.send()
    except smtplib.SMTPRecipientsRefused as error:
        codes = {code for code, _text in error.recipients.values()}
        raise Failed(f"refused: {error}", for_good=all(code >= 500 for code in codes)) from error
    except (smtplib.SMTPException, OSError) as error:
        raise Failed(f"{type(error).__name__}: {error}") from error


def _post(notice: Outgoing, now: datetime) -> None:
    if not settings.WEBHOOK_URL:
        raise Failed("PORTAL_WEBHOOK_URL is not set any more", for_good=True)
    body = webhook_body(notice)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "gpu-portal",
        "X-Portal-Event": str(notice.payload["event"]),
        "X-Portal-Delivery": notice.event_id,
        "X-Portal-Signature": signature(settings.WEBHOOK_SECRET, int(now.timestamp()), body),
    }
    timeout = urllib3.Timeout(connect=settings.CONNECT_TIMEOUT_SECONDS, read=settings.CONNECT_TIMEOUT_SECONDS)
    try:
        answer = _POOL.request(
            "POST", settings.WEBHOOK_URL, body=body, headers=headers, timeout=timeout, redirect=False
        )
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise Failed(f"{type(error).__name__}: no answer") from error
    if not 200 <= answer.status < 300:
        raise Failed(f"answered {answer.status}", for_good=answer.status in _FOR_GOOD)


def webhook_body(notice: Outgoing) -> bytes:
    link = f"{settings.PUBLIC_URL}{notice.payload['path']}" if settings.PUBLIC_URL else None
    return json.dumps({**notice.payload, "url": link}, sort_keys=True, ensure_ascii=False).encode()


def signature(secret: str, at: int, body: bytes) -> str:
    """`at`: seconds since 1970."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256)
    return f"t={at},v1={digest.hexdigest()}"
