"""Health of this installation, for probes and for the launcher.

Output: JSON without names, addresses or error texts, since anybody may ask. `/healthz/live`: this process
answers. `/healthz/ready`: it can serve, that is, PostgreSQL and Redis answer (else 503). How old the collected
numbers are is told as well, but old numbers are no reason to take the pages away: they say so themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import redis
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from apps.observations.selectors import SourceStatus, State, source_statuses

REDIS_SECONDS = 2


@login_not_required
@require_safe
@never_cache
def live(_request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": "ok"})


@login_not_required
@require_safe
@never_cache
def ready(_request: HttpRequest) -> JsonResponse:
    checks: dict[str, Any] = {"database": _checked(_ask_database), "redis": _checked(_ask_redis)}
    fit = all(check["status"] == "ok" for check in checks.values())
    collection: dict[str, Any] | None = None
    if checks["database"]["status"] == "ok":
        collection = _collection(timezone.now())
    body = {"status": "ok" if fit else "failing", **checks, "collection": collection}
    return JsonResponse(body, status=200 if fit else 503)


def _checked(ask: Callable[[], None]) -> dict[str, Any]:
    started = time.monotonic()
    try:
        ask()
    except (DatabaseError, redis.RedisError, OSError):
        return {"status": "failing"}
    return {"status": "ok", "milliseconds": round((time.monotonic() - started) * 1000, 1)}


def _ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _ask_redis() -> None:
    client = redis.Redis.from_url(
        settings.REDIS_URL, socket_connect_timeout=REDIS_SECONDS, socket_timeout=REDIS_SECONDS
    )
    try:
        client.ping()
    finally:
        client.close()


def _collection(now: datetime) -> dict[str, Any] | None:
    """Ages in seconds over every source of every collected cluster; None for what never happened.

    `oldest_attempt_seconds` is None until each source was tried, so that it tells when a first round is over."""
    try:
        statuses = [s for s in source_statuses(now=now) if _is_pulled(s)]
    except DatabaseError:  # before the first migration
        return None
    attempts = [_age(now, status.last_run_at) for status in statuses]
    good = [_age(now, status.observed_at) for status in statuses if status.observed_at is not None]
    tried = [age for age in attempts if age is not None]
    return {
        "sources": len(statuses),
        "failing": sum(status.state is State.FAILED for status in statuses),
        "stale": sum(status.state in (State.STALE, State.NEVER) for status in statuses),
        "newest_good_seconds": min((age for age in good if age is not None), default=None),
        "newest_attempt_seconds": min(tried, default=None),
        "oldest_attempt_seconds": max(tried) if tried and len(tried) == len(attempts) else None,
    }


def _is_pulled(status: SourceStatus) -> bool:
    """A cluster without Prometheus has a source that nobody pulls."""
    return not (status.state is State.ABSENT and status.last_run_at is None)


def _age(now: datetime, at: datetime | None) -> float | None:
    return None if at is None else max(0.0, round((now - at).total_seconds(), 1))
