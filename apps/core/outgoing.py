"""What a message that is to leave the portal has in every table of such. Input: what happened, written in the transaction that
caused it; output: rows that `sending` sends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from django.conf import settings
from django.db import models


class Outgoing(models.Model):
    """`channel`: "email" (`target` an address) or "webhook" (`target` ""). `payload` has at least `event` and `path`, that
    of the page. Sent at least once; `event_id` tells copies. `next_try_at` None: sent, or given up with a `failure`."""

    channel = models.CharField(max_length=10)
    target = models.CharField(max_length=320, default="")
    event_id = models.CharField(max_length=64)
    payload = models.JSONField()
    created_at = models.DateTimeField()
    next_try_at = models.DateTimeField(null=True)
    attempts = models.IntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    failure = models.TextField(default="")

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.event_id} {self.target or self.channel}"


M = TypeVar("M", bound=Outgoing)


def once(name: str) -> models.UniqueConstraint:
    """Of a table of messages: no copy of one to the same place."""
    return models.UniqueConstraint(fields=["event_id", "channel", "target"], name=name)


def to_send(name: str) -> models.Index:
    """Of a table of messages: those that are to be sent yet."""
    return models.Index(fields=["next_try_at"], name=name, condition=models.Q(next_try_at__isnull=False))


def copies(
    table: type[M],
    payload: Mapping[str, Any],
    addresses: Iterable[str],
    *,
    now: datetime,
    **cause: models.Model,
) -> list[M]:
    """Rows, not saved, of one message by each configured way. `cause`: what it is about, by the table's own field."""
    return [
        table(
            channel=channel,
            target=target,
            event_id=payload["id"],
            payload=payload,
            created_at=now,
            next_try_at=now,
            **cause,
        )
        for channel, target in _ways(addresses)
    ]


def _ways(addresses: Iterable[str]) -> list[tuple[str, str]]:
    """(channel, target) of those that are configured."""
    found = [("webhook", "")] if settings.WEBHOOK_URL else []
    if settings.EMAIL_ENABLED:
        found += [("email", address) for address in addresses]
    return found
