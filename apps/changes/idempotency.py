"""A call made twice does one thing. Input: who calls, the key that the caller chose, what the call was, and the deed; output:
the deed's answer, or the one that it gave before.

Invariants
- Claim, deed and stored answer are one transaction: either all of it happened or nothing did. The deed answers for its
  refusals itself, so that they are stored like any other answer, and so are their entries in the trail; what it raises
  takes the claim back.
- The same call at the same time waits for the first one and gets its answer; the same key with another call is refused.
- Keys are remembered for KEPT and belong to one user."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction

from apps.accounts.models import User
from apps.changes.models import IdempotencyKey

KEPT = timedelta(hours=48)
MOST_KEY = 200


class KeyReused(Exception):
    """The key was used for another call."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`again`: it was given before, nothing was done now."""

    status: int
    body: Any
    again: bool = False


def digest_of(*parts: bytes) -> str:
    """Of what makes a call the same call; no two lists of parts share one."""
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "big"))
        found.update(part)
    return found.hexdigest()


def once(*, user: User, key: str, digest: str, now: datetime, deed: Callable[[], Answer]) -> Answer:
    """Raises KeyReused, and what `deed` raises."""
    while True:
        with transaction.atomic():
            claim = _claimed(user, key, digest, now)
            if claim is not None:
                answer = deed()
                claim.status, claim.body = answer.status, answer.body
                claim.save(update_fields=["status", "body"])
                return answer
        found = IdempotencyKey.objects.filter(user=user, key=key).first()
        if found is None:  # it was forgotten in this moment
            continue
        if found.digest != digest:
            raise KeyReused
        return Answer(found.status or 0, found.body, again=True)


def _claimed(user: User, key: str, digest: str, now: datetime) -> IdempotencyKey | None:
    """The new claim; None when there is one. Waits for whoever is about to make it."""
    try:
        with transaction.atomic():
            return IdempotencyKey.objects.create(user=user, key=key, digest=digest, created_at=now)
    except IntegrityError:
        return None


def forget_old_keys(*, now: datetime) -> int:
    """How many were forgotten."""
    return IdempotencyKey.objects.filter(created_at__lt=now - KEPT).delete()[0]
