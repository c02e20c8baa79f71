"""The pieces of work behind a number of the rollups. Input: a window, criteria, the reader's teams; output: `BlockedWork`.

Computed from the life of work by the statements of the rollups, and so equal to them: within whole hours the sum over the
list is the number that led to it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import connection, transaction

from apps.accounts.models import Team
from apps.admissions.labels import NO_REASON
from apps.core.windows import Window
from apps.fleet.models import Cluster
from apps.fleet.selectors import UNBOUND
from apps.usage import admission_sql as sql
from apps.usage.admission_reading import AdmissionCriteria, rolled_up
from apps.usage.admission_rollup import life_of


@dataclass(frozen=True, slots=True)
class BlockedWork:
    """`hours`: blocked within the window, of the piece of work (criteria without a resource), else unit-hours of the device.
    `causes`: in order of time spent."""

    cluster: str
    cluster_name: str
    kind: str
    uid: str
    namespace: str
    name: str
    queue: str
    team_slug: str
    team_name: str
    hours: Decimal
    causes: Sequence[str]


def blocked_work(
    *,
    now: datetime,
    window: Window,
    team_ids: Collection[int] | None,
    criteria: AdmissionCriteria | None = None,
) -> list[BlockedWork]:
    """What was blocked within the window (as far as it is rolled up), the longest first."""
    wanted = criteria or AdmissionCriteria()
    until = rolled_up(wanted).until
    end = window.end if until is None else min(window.end, until)
    teams = {team.pk: team for team in Team.objects.all()}
    chosen = _chosen(team_ids, wanted.team, teams)
    if end <= window.start or chosen == [] or (wanted.team == UNBOUND and team_ids is not None):
        return []
    clusters = Cluster.objects.filter(enabled=True)
    if wanted.cluster:
        clusters = clusters.filter(slug=wanted.cluster)
    own: dict[str, Any] = {
        "teams": chosen,
        "only_unbound": wanted.team == UNBOUND,
        "no_reason": NO_REASON,
        **{
            name: getattr(wanted, name)
            for name in ("resource", "cause", "layer", "reason", "queue", "flavor")
        },
    }
    found: list[BlockedWork] = []
    for cluster in clusters:
        found += _of_cluster(cluster, Window(window.start, end), now, teams, own)
    return sorted(found, key=lambda row: (-row.hours, row.cluster, row.namespace, row.name, row.uid))


def _chosen(team_ids: Collection[int] | None, slug: str, teams: Mapping[int, Team]) -> list[int] | None:
    """Whose work is listed; None: everybody's."""
    readable = None if team_ids is None else sorted(team_ids)
    if slug in ("", UNBOUND):
        return readable
    return [pk for pk, team in teams.items() if team.slug == slug and (readable is None or pk in readable)]


def _of_cluster(
    cluster: Cluster, window: Window, now: datetime, teams: Mapping[int, Team], own: Mapping[str, Any]
) -> list[BlockedWork]:
    with (
        transaction.atomic(),
        life_of(cluster=cluster, start=window.start, end=window.end, now=now) as params,
        connection.cursor() as cursor,
    ):
        cursor.execute(sql.BLOCKED_WORK, {**params, **own})
        rows = cursor.fetchall()
    spent: dict[tuple[Any, ...], dict[str, Decimal]] = {}
    for *key, _layer, cause, _reason, seconds in rows:
        causes = spent.setdefault(tuple(key), {})
        causes[cause] = causes.get(cause, Decimal(0)) + seconds
    return [_row(cluster, teams.get(key[-1]), key, causes) for key, causes in spent.items()]


def _row(
    cluster: Cluster, team: Team | None, key: Sequence[Any], causes: Mapping[str, Decimal]
) -> BlockedWork:
    kind, uid, namespace, name, queue, _team_id = key
    return BlockedWork(
        cluster=cluster.slug,
        cluster_name=cluster.name,
        kind=kind,
        uid=uid,
        namespace=namespace,
        name=name,
        queue=queue,
        team_slug=team.slug if team else "",
        team_name=team.name if team else "",
        hours=sum(causes.values(), Decimal(0)) / Decimal(3600),
        causes=tuple(sorted(causes, key=lambda cause: (-causes[cause], cause))),
    )
