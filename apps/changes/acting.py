"""Who acts, and from where, for code that is too deep to be told. Input: a request or a person; output: `Acting`.

Invariants: the person is asked for when something is recorded, since REST authenticates inside the view; outside of a
request it is the portal itself, and of a command that was run by hand its name."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest

from apps.accounts.models import User

PORTAL = "portal"


@dataclass(frozen=True, slots=True)
class Acting:
    """`user_id` None: the portal itself, of which `address` names the command ("" for its worker)."""

    user_id: int | None = None
    name: str = PORTAL
    address: str = ""


_REQUEST: ContextVar[HttpRequest | None] = ContextVar("request", default=None)


@contextmanager
def during(request: HttpRequest) -> Iterator[None]:
    """What is recorded inside is by whoever makes `request`."""
    token = _REQUEST.set(request)
    try:
        yield
    finally:
        _REQUEST.reset(token)


def acting() -> Acting:
    """Who acts now."""
    request = _REQUEST.get()
    if request is None:
        return Acting(address=_command(sys.argv))
    address = address_of(request)
    user = getattr(request, "user", None)
    if isinstance(user, User):
        return Acting(user.pk, user.username, address)
    return Acting(None, "anonymous", address)


def acting_as(user: User | None, address: str = "") -> Acting:
    """`user` None: the portal. The address is the present request's where none is given."""
    if user is None:
        return Acting()
    return Acting(user.pk, user.username, (address or acting().address)[:64])


def _command(arguments: Sequence[str]) -> str:
    """ "manage.py set_cluster"; "" in processes that nobody started for one deed. What follows the name may be secret."""
    if len(arguments) < 2 or Path(arguments[0]).name != "manage.py":
        return ""
    return f"manage.py {arguments[1]}"[:64]


def address_of(request: HttpRequest) -> str:
    """The client's address: behind the proxy that PORTAL_BEHIND_TLS trusts, the last one that it wrote down."""
    if settings.BEHIND_TLS:
        forwarded = str(request.META.get("HTTP_X_FORWARDED_FOR", "")).rsplit(",", 1)[-1].strip()
        if forwarded:
            return forwarded[:64]
    return str(request.META.get("REMOTE_ADDR", ""))[:64]
