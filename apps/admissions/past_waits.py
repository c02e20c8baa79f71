"""Waits of the past with their causes, for the back-test of start estimates. Input: a cluster; output: `Past`s."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from django.db import connection

from apps.admissions.backtest import Past
from apps.admissions.blocks import block_of
from apps.admissions.life_relation import BEFORE_QUOTA, LIFE, life_params, waits_of
from apps.admissions.queued import size_of

_EVER = datetime(1970, 1, 1, tzinfo=UTC)
_WAITS = f"""
SELECT cluster_id, uid, queue, ended, began_at, coalesce(ended_at, until_at), requests FROM {waits_of()} w
WHERE queue <> '' ORDER BY began_at, uid
"""  # noqa: S608 - constants
_CAUSES = f"""
SELECT uid, started_at, phase, state, reason, message FROM {LIFE} l WHERE phase = ANY(%(phases)s)
ORDER BY uid, started_at
"""  # noqa: S608 - constants


def past_waits(*, cluster_id: int, now: datetime) -> list[Past]:
    """All that is stored of one cluster."""
    params = life_params([cluster_id], start=_EVER, end=now, now=now)
    causes: dict[str, list[tuple[datetime, str]]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_CAUSES, {**params, "phases": list(BEFORE_QUOTA)})
        for uid, at, phase, state, reason, message in cursor.fetchall():
            block = block_of(phase=phase, state=state, reason=reason, message=message)
            causes.setdefault(uid, []).append((at, block.cause))
        cursor.execute(_WAITS, params)
        return [
            Past(
                cell=(cluster, queue, size_of(json.loads(requests))),
                began=began,
                until=until,
                started=ended == "reserved",
                causes=tuple(causes.get(uid, ())),
            )
            for cluster, uid, queue, ended, began, until, requests in cursor.fetchall()
        ]
