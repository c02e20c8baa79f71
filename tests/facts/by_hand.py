"""Thirty pieces of work with known lives (tests/data/history), laid into the database. What must be said of them stands
beside them, worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from apps.accounts.models import Team
from apps.core.partitions import keep_partitions
from apps.core.windows import Window
from apps.fleet.models import Cluster, TeamBinding
from apps.observations.models import Event, Pod, StateSpan, Workload
from apps.observations.retention import partitioned_tables
from apps.usage.admission_rollup import rollup_admissions

DATA = Path(__file__).parents[1] / "data" / "history"
PIECES: dict[str, Any] = yaml.safe_load((DATA / "pieces.yaml").read_text())
EXPECTED: dict[str, Any] = yaml.safe_load((DATA / "expected.yaml").read_text())
START: datetime = PIECES["start"]
GPU = "nvidia.com/gpu"


def at(hours: float) -> datetime:
    return START + timedelta(hours=hours)


NOW = at(PIECES["now"])
WINDOW = Window(START, NOW)


def _teams(clusters: Mapping[str, Cluster]) -> None:
    for slug, things in PIECES["teams"].items():
        team = Team.objects.create(slug=slug, name=slug.title())
        for cluster, kind, name, since, until in things:
            TeamBinding.objects.create(
                team=team,
                cluster=clusters[cluster],
                kind=kind,
                name=name,
                valid_from=at(-9999) if since is None else at(since),
                valid_to=None if until is None else at(until),
            )


def _usage(asked: Mapping[str, Any], flavor: Any) -> list[dict[str, str]]:
    of = flavor if isinstance(flavor, dict) else dict.fromkeys(asked, flavor)
    return [{"flavor": of[name], "resource": name, "quantity": str(n)} for name, n in asked.items()]


def _piece(cluster: Cluster, name: str, queue: str, asked: Any, spans: list[Any]) -> None:
    more = dict(PIECES["more"].get(name, {}))
    requests = {k: str(v) for k, v in (asked if isinstance(asked, dict) else {GPU: asked}).items()}
    kind = "PodGroup" if queue == "research" else "Workload"
    same = {
        "cluster": cluster,
        "kind": kind,
        "uid": name,
        "namespace": "ml",
        "name": more.pop("name", name),
        "queue_name": queue,
    }
    requeues = more.pop("requeues", {})
    end = at(more["gone_at"]) if "gone_at" in more else None
    for state, since, until, text, *flavor in spans:
        reason, message = PIECES["texts"][text]
        ended = end if until is None else at(until)
        usage = _usage(requests, flavor[0]) if flavor else []
        StateSpan.objects.create(
            **same, queue=queue, state=state, reason=reason, message=message, requests=requests, usage=usage,
            started_at=at(since), ended_at=ended, requeue_at=at(requeues[since]) if since in requeues else None,
        )  # fmt: skip
    times = {key: at(more.pop(key)) for key in ("gone_at", "requeue_at") if key in more}
    Workload.objects.create(
        **same, state=spans[-1][0], requests=requests, created_at=at(spans[0][1]), queued_at=at(spans[0][1]),
        first_seen_at=at(spans[0][1]), observed_at=at(spans[-1][1]), pod_sets=[{"name": "main", "count": 1}],
        **times, **more,
    )  # fmt: skip


def _pod(cluster: Cluster, name: str, created: float, bound: float | None, ready: float | None) -> None:
    said = {"reason": "Unschedulable", "message": "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."}
    since = {} if ready is None else {"Ready": {"status": "True", "since": at(ready).isoformat()}}
    scheduled = {"status": "True"} if bound is not None else {"status": "False", **said}
    pod = Pod.objects.create(
        cluster=cluster, uid=name, namespace="plain", name=name, phase="Pending" if bound is None else "Running",
        requests={GPU: "1"}, devices=1, created_at=at(created), first_seen_at=at(created), observed_at=at(created),
        bound_at=None if bound is None else at(bound), conditions={"PodScheduled": scheduled, **since},
    )  # fmt: skip
    _event(cluster, pod.uid, "Pod", created, "FailedScheduling", said["message"])


def _event(cluster: Cluster, uid: str, kind: str, when: float, reason: str, message: str) -> None:
    Event.objects.create(
        cluster=cluster, uid=f"event-{uid}-{when}", object_kind=kind, object_uid=uid, object_name=uid, type="Normal",
        created_at=at(when), first_at=at(when), last_at=at(when), observed_at=at(when), reason=reason, message=message,
    )  # fmt: skip


def lay() -> dict[str, Cluster]:
    """The whole history in the database, not rolled up."""
    keep_partitions(tables=partitioned_tables(), now=NOW)
    made = {
        slug: Cluster.objects.create(slug=slug, name=slug.title(), kubeconfig_path="/nowhere")
        for slug in ("east", "west")
    }
    _teams(made)
    for name, cluster, queue, asked, spans in PIECES["pieces"]:
        _piece(made[cluster], name, queue, asked, spans)
    for piece, when, reason, message in PIECES["events"]:
        _event(made["east"], piece, "Workload", when, reason, message)
    for pod in PIECES["pods"]:
        _pod(made["east"], *pod)
    return made


def lay_rolled_up() -> dict[str, Cluster]:
    """The same, with its hours added up."""
    clusters = lay()
    for cluster in clusters.values():
        rollup_admissions(cluster=cluster, now=NOW)
    return clusters
