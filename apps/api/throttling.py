"""How often REST may be asked. Input: who asks, and PORTAL_API_RATE or PORTAL_API_FAILED_RATE; output: how long to wait.

Counted in the cache in windows that begin at whole multiples of their length: an atomic counter, so that exactly as many
pass as may, whichever process answers, and whoever waits as long as `Retry-After` says is served. Invariants
- A token, a user, and strangers of one address count each for themselves.
- What is refused counts too: whoever goes on asking without rights is stopped as well.
- Without the cache nothing is counted and everybody is served: a limit is no reason to be away."""

from __future__ import annotations

import logging
import time
from math import ceil
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.cache import cache
from redis.exceptions import RedisError
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from apps.accounts.models import ApiToken, User
from apps.changes.acting import address_of

if TYPE_CHECKING:  # views read the settings that name this module
    from rest_framework.views import APIView

Rate = tuple[int, int]
"""(how many, in so many seconds)"""

log = logging.getLogger(__name__)


def spend(who: str, rate: Rate, *, now: float) -> int:
    """Count one request of `who`: 0 when it is within `rate`, else how many seconds to wait."""
    most, seconds = rate
    key = _key(who, rate, now)
    try:
        # Kept longer than its window, so that it is still there when it is counted up.
        cache.add(key, 0, timeout=2 * seconds)
        used = cache.incr(key)
    except RedisError:
        log.warning("requests are not counted: the cache does not answer", exc_info=True)
        return 0
    return 0 if used <= most else _left(rate, now)


def spent(who: str, rate: Rate, *, now: float) -> int:
    """How many seconds to wait when the next one of `who` is beyond `rate`, else 0. Counts nothing."""
    try:
        used = cache.get(_key(who, rate, now), 0)
    except RedisError:
        log.warning("requests are not counted: the cache does not answer", exc_info=True)
        return 0
    return 0 if used < rate[0] else _left(rate, now)


def _key(who: str, rate: Rate, now: float) -> str:
    return f"api-rate:{who}:{rate[1]}:{int(now // rate[1])}"


def _left(rate: Rate, now: float) -> int:
    """Whole seconds until the window is over, never too few."""
    return max(1, ceil(rate[1] - now % rate[1]))


def whose(request: Request) -> str:
    if isinstance(request.auth, ApiToken):
        return f"token:{request.auth.pk}"
    if isinstance(request.user, User):
        return f"user:{request.user.pk}"
    return f"address:{address_of(request._request)}"


class RateThrottle(BaseThrottle):
    """Django REST framework's throttle by PORTAL_API_RATE."""

    seconds = 0

    def allow_request(self, request: Request, view: APIView) -> bool:
        rate: Rate | None = settings.API_RATE
        if rate is None:
            return True
        self.seconds = spend(whose(request), rate, now=time.time())
        return self.seconds == 0

    def wait(self) -> float:
        return self.seconds
