"""Rows for the tests of this app."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from apps.accounts.models import Team
from apps.fleet.models import Cluster, TeamBinding

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def cluster(slug: str = "east") -> Cluster:
    return Cluster.objects.get_or_create(
        slug=slug, defaults={"name": slug.title(), "kubeconfig_path": "/etc/portal/kubeconfig"}
    )[0]


def team(slug: str) -> Team:
    return Team.objects.get_or_create(slug=slug, defaults={"name": slug.title()})[0]


def binding(owner: str, name: str, start: datetime, end: datetime | None = None, **extra: Any) -> TeamBinding:
    """An unsaved ClusterQueue binding."""
    values = {"kind": "cluster_queue", "cluster": cluster(), **extra}
    return TeamBinding(team=team(owner), name=name, valid_from=start, valid_to=end, **values)


def bound(
    owner: str, name: str, start: datetime = NOON, end: datetime | None = None, **extra: Any
) -> TeamBinding:
    made = binding(owner, name, start, end, **extra)
    made.save()
    return made
