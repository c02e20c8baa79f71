"""Times as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=1 << 14)
def stamp(at: float) -> str:
    """RFC 3339 in UTC with whole seconds: 2026-12-02T03:00:00Z."""
    return datetime.fromtimestamp(int(at), tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(at: float) -> str:
    """RFC 3339 with microseconds, as in `eventTime`."""
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
