"""API tokens: made, recognised, noted as used.

Input: a user and what the token is for, or the text that a program sent; output: the token. Invariants
- A token reads `gpup_<key>_<secret>`. Only SHA-256 of the whole text is kept: 256 random bits need no salt and no slow
  hash, which is for what people make up.
- The row is found by its key, which is no secret; the digests are compared in constant time, also where there is no row.
- Wrong, expired, revoked, or of somebody who may not sign in: all are no token, and answered alike.
- That a token was used is written at most once a minute, and nobody waits for it.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import datetime, timedelta

from django.db import transaction

from apps.accounts.models import ApiToken, User

MOST_DAYS = 365
NOTED_EACH = timedelta(minutes=1)
_TEXT = re.compile(r"(gpup_[0-9a-f]{10})_[A-Za-z0-9_-]{43}")
_NO_DIGEST = "0" * 64


def make_token(user: User, *, name: str, scope: str, days: int, now: datetime) -> tuple[ApiToken, str]:
    """The token, and its text, which nobody can tell again. IntegrityError: the user has one of this name."""
    key = f"gpup_{secrets.token_hex(5)}"
    text = f"{key}_{secrets.token_urlsafe(32)}"
    with transaction.atomic():
        token = ApiToken.objects.create(
            user=user,
            name=name,
            scope=scope,
            key=key,
            secret_digest=digest_of(text),
            created_at=now,
            expires_at=now + timedelta(days=days),
        )
    return token, text


def token_of(text: str, *, now: datetime) -> ApiToken | None:
    """The token that `text` is, with its owner; None when it is none that holds now."""
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    found = ApiToken.objects.select_related("user").filter(key=match[1]).first()
    same = secrets.compare_digest(digest_of(text), found.secret_digest if found is not None else _NO_DIGEST)
    if found is None or not same:
        return None
    return found if found.user.is_active and now < found.expires_at else None


def note_use(token: ApiToken, *, now: datetime) -> None:
    if not _is_due(token, now):
        return
    with transaction.atomic():
        # None: another request notes it just now, or it was revoked meanwhile.
        row = ApiToken.objects.select_for_update(skip_locked=True).filter(pk=token.pk).first()
        if row is not None and _is_due(row, now):
            row.last_used_at = now
            row.save(update_fields=["last_used_at"])


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _is_due(token: ApiToken, now: datetime) -> bool:
    return token.last_used_at is None or now - token.last_used_at >= NOTED_EACH
