"""Who asks by REST: a token, a name with its password, or the session of the pages; and what a token may be used for.

Invariants
- `Authorization: Bearer <token>` decides: with a token that does not hold nobody is let in by the session beside it.
- A token only reads, and of what its owner may read only what its scope says. What it may not do is 403 and says why.
- Attempts that fail are counted per address. Beyond the limit a password is not even looked at; a token that holds is let
  in, since nobody finds one by guessing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _
from rest_framework.authentication import BaseAuthentication, BasicAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied, Throttled
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from apps.accounts.models import ApiToken, User
from apps.accounts.tokens import note_use, token_of
from apps.api.throttling import spend, spent
from apps.changes.acting import address_of

if TYPE_CHECKING:  # views read the settings that name this module
    from rest_framework.views import APIView

REALM = "gpu-portal"
FINANCE = frozenset(
    {"billing-periods", "budgets", "charges", "focus", "idle", "rates", "statements", "supply", "usage"}
)
"""First parts of the addresses below /api/v1/ that `finance:read` reads, and all below them."""


class TokenAuthentication(BaseAuthentication):
    """RFC 6750. Its challenge is that of all of REST, since it is asked first."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, text = _authorization(request)
        if scheme != "bearer":
            return None
        now = timezone.now()
        token = token_of(text, now=now)
        if token is None:
            _count_failure(request)
            raise AuthenticationFailed(_("There is no such token, or it has expired or was revoked."))
        note_use(token, now=now)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        if _authorization(request)[0] == "bearer":
            return f'Bearer realm="{REALM}", error="invalid_token"'
        return f'Bearer realm="{REALM}", Basic realm="{REALM}"'


class PasswordAuthentication(BasicAuthentication):
    """RFC 7617."""

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        if _authorization(request)[0] != "basic":
            return None
        _refuse_after_failures(request)
        try:
            found: tuple[User, None] | None = super().authenticate(request)
        except AuthenticationFailed:
            _count_failure(request)
            raise
        return found


class OutOfScope(PermissionDenied):
    """What this token is not for."""

    auth_header = f'Bearer realm="{REALM}", error="insufficient_scope"'


class WithinScope(BasePermission):
    def has_permission(self, request: Request, view: APIView) -> bool:
        token = request.auth
        if not isinstance(token, ApiToken):
            return True
        if request.method not in SAFE_METHODS:
            raise OutOfScope(_("A token only reads; sign in with name and password to write."))
        if token.scope != ApiToken.Scope.READ and not is_finance(request.path_info):
            raise OutOfScope(
                _("The scope of this token is %(scope)s, which does not include this address.")
                % {"scope": token.scope}
            )
        return True


def is_finance(path: str) -> bool:
    """Whether `finance:read` reads what is at `path`: the families of FINANCE and the description of REST."""
    match path.split("/")[1:]:
        case ["api", "schema", ""]:
            return True
        case ["api", "v1", family, _more, *_rest]:
            return family in FINANCE
    return False


def _authorization(request: Request) -> tuple[str, str]:
    """(scheme in small letters, what follows it)"""
    scheme, _space, text = get_authorization_header(request).decode("latin-1").partition(" ")
    return scheme.lower(), text.strip()


def _refuse_after_failures(request: Request) -> None:
    if settings.API_FAILED_RATE is not None:
        wait = spent(_failures_of(request), settings.API_FAILED_RATE, now=time.time())
        if wait:
            raise Throttled(wait)


def _count_failure(request: Request) -> None:
    if settings.API_FAILED_RATE is not None:
        wait = spend(_failures_of(request), settings.API_FAILED_RATE, now=time.time())
        if wait:
            raise Throttled(wait)


def _failures_of(request: Request) -> str:
    return f"failed:{address_of(request._request)}"
