"""Kueue's visibility API: which work waits in a queue, in order. It has no stored objects, no lists and no watches.

Input: a path and its query, and who knows the order (`Cluster.waiting`); output: discovery entries and summaries in the
shape that Kueue serves, the same for both versions. Invariants: positions count from 0; where nobody knows an order,
the group is not served; as in Kueue, LocalQueues of one name that lead to one ClusterQueue are counted as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simcluster import statuses
from simcluster.kinds import KINDS, VISIBILITY_GROUP
from simcluster.statuses import Refused

if TYPE_CHECKING:
    from simcluster.server import Cluster

Obj = dict[str, Any]
SUMMARY = "PendingWorkloadsSummary"
DEFAULT_LIMIT = 1000
_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid")
_RESOURCES: tuple[tuple[str, str, bool, list[str]], ...] = (
    ("clusterqueues", "clusterqueue", False, []),
    ("clusterqueues/pendingworkloads", "", False, ["get"]),
    ("localqueues", "localqueue", True, []),
    ("localqueues/pendingworkloads", "", True, ["get"]),
)


@dataclass(frozen=True, slots=True)
class Question:
    """`queue`: the name of a ClusterQueue, or of a LocalQueue when there is a namespace."""

    version: str
    namespace: str
    queue: str


def resources_body(version: str) -> Obj:
    """The APIResourceList of a version."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{VISIBILITY_GROUP}/{version}",
        "resources": [
            {"name": name, "singularName": single, "namespaced": inside, "kind": SUMMARY, "verbs": verbs}
            for name, single, inside, verbs in _RESOURCES
        ],
    }


def question_of(path: str) -> Question | None:
    """What a path below the group asks for; None for paths of other groups. Anything else there is not found."""
    parts = path.strip("/").split("/")
    if parts[:2] != ["apis", VISIBILITY_GROUP] or len(parts) < 4:
        return None
    match parts[2:]:
        case [version, "clusterqueues", queue, "pendingworkloads"]:
            return Question(version, "", queue)
        case [version, "namespaces", namespace, "localqueues", queue, "pendingworkloads"]:
            return Question(version, namespace, queue)
    raise nothing_there()


def nothing_there() -> Refused:
    words = "the server could not find the requested resource"
    return Refused(404, statuses.status(404, words, details={}))


def _no_queue(question: Question) -> Refused:
    kind = "localqueue" if question.namespace else "clusterqueue"
    details = {"name": question.queue, "group": VISIBILITY_GROUP, "kind": kind}
    words = f'{kind}.{VISIBILITY_GROUP} "{question.queue}" not found'
    return Refused(404, statuses.status(404, words, details=details))


def answer(cluster: Cluster, question: Question, query: Mapping[str, str]) -> Obj:
    """Raises Refused when there is no such queue."""
    with cluster.store.lock:
        queue: str | None = question.queue
        if question.namespace:
            found = cluster.store.get(KINDS["LocalQueue"], f"{question.namespace}/{question.queue}")
            queue = found["spec"]["clusterQueue"] if found else None
        waiting = cluster.waiting(queue) if cluster.waiting and queue else None
        if waiting is None:
            raise _no_queue(question)
        return _summary(question, waiting, query)


def _summary(question: Question, waiting: Iterable[Obj], query: Mapping[str, str]) -> Obj:
    """`waiting`: the Workloads that wait in the ClusterQueue, heads first."""
    limit = _number(query.get("limit", "")) or DEFAULT_LIMIT
    offset = _number(query.get("offset", ""))
    told = [
        one for one in _pending(waiting) if not question.namespace or one["localQueueName"] == question.queue
    ]
    return {
        "kind": SUMMARY,
        "apiVersion": f"{VISIBILITY_GROUP}/{question.version}",
        "metadata": {},
        "items": told[max(0, offset) : max(0, offset + limit)],
    }


def _pending(waiting: Iterable[Obj]) -> Iterable[Obj]:
    before: dict[str, int] = {}
    for position, workload in enumerate(waiting):
        meta, spec = workload["metadata"], workload["spec"]
        queue = spec["queueName"]
        local = before.get(queue, 0)
        before[queue] = local + 1
        owners = [{name: one[name] for name in _OWNER_FIELDS} for one in meta.get("ownerReferences", ())]
        yield {
            "metadata": {
                "name": meta["name"],
                "namespace": meta["namespace"],
                "creationTimestamp": meta["creationTimestamp"],
                **({"ownerReferences": owners} if owners else {}),
            },
            "priority": spec.get("priority", 0),
            "localQueueName": queue,
            "positionInClusterQueue": position,
            "positionInLocalQueue": local,
        }


def _number(text: str) -> int:
    try:
        return int(text or "0")
    except ValueError as error:
        words = f'strconv.ParseInt: parsing "{text}": invalid syntax'
        raise statuses.bad_request(words) from error
