"""What a collector is given, and the common way to read kinds from a cluster's API."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from apps.fleet.models import Cluster
from apps.observations.models import Quarantine
from worker.clients.kube import KubeClient, client_for
from worker.parsers.kinds import Kind

from .engine import Puller, PullReport


@dataclass(frozen=True, slots=True)
class PullContext:
    """`cursors`: resume points of the last pull; `seconds`: how long this pull may take."""

    cluster: Cluster
    source: str
    cursors: dict[str, Any]
    now: datetime
    seconds: float


def _quarantined(context: PullContext) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    rows = Quarantine.objects.filter(cluster=context.cluster, source=context.source)
    for kind, key in rows.values_list("kind", "key"):
        found.setdefault(kind, set()).add(key)
    return {kind: frozenset(keys) for kind, keys in found.items()}


def client_of(context: PullContext) -> KubeClient:
    """The client of the cluster; one per process and kubeconfig."""
    return client_for(
        context.cluster.kubeconfig_path,
        context.cluster.kube_context,
        connect_timeout=settings.CONNECT_TIMEOUT_SECONDS,
        read_timeout=settings.READ_TIMEOUT_SECONDS,
    )


def puller_of(context: PullContext) -> Puller:
    """What reads this source of this cluster."""
    return Puller(
        cluster_id=context.cluster.pk,
        source=context.source,
        client=client_of(context),
        cursors=context.cursors,
        quarantined=_quarantined(context),
        now=context.now,
        watch_seconds=max(1, min(5, int(context.seconds / 4))),
        deadline=time.monotonic() + context.seconds * 0.8,
    )


def pull_kinds(context: PullContext, kinds: Sequence[Kind]) -> PullReport:
    """Read these kinds from the cluster's API. Raises ClientError when it does not answer at all."""
    return puller_of(context).pull(kinds)
