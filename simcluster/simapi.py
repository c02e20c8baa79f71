"""The simulation's own side: /_sim/ready, /_sim/history, /_sim/faults, /_sim/about, /_sim/mutate, /_sim/audit.

`history` is what a watcher of every kind would have seen since the epoch, one line per change in time order:
{"at": RFC 3339, "kind": …, "version": …, "event": {"type": …, "object": …}}. Events that expired are not deleted in
it: a reader keeps them longer than the cluster does.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from simcluster import statuses
from simcluster.bulk import mutate
from simcluster.kinds import ABSENT_GROUPS, KINDS
from simcluster.store import Change
from simcluster.timestamps import stamp

if TYPE_CHECKING:
    from simcluster.server import Request

_BATCH = 2000


def handle(request: Request) -> None:
    route = {
        "/_sim/ready": _ready,
        "/_sim/history": _history,
        "/_sim/faults": _faults,
        "/_sim/about": _about,
        "/_sim/mutate": _mutate,
        "/_sim/audit": _audit,
    }.get(request.path)
    if route is None:
        raise statuses.no_such_path()
    route(request)


def _ready(request: Request) -> None:
    ready = request.cluster.ready.is_set()
    request.answer_json({"ready": ready, **request.cluster.about}, code=200 if ready else 503)


def _about(request: Request) -> None:
    cluster = request.cluster
    body = {
        "epoch": stamp(cluster.epoch),
        "now": stamp(cluster.now()),
        "absent": sorted(cluster.absent),
        "changes": len(cluster.store.history),
        **cluster.about,
    }
    request.answer_json(body)


def _audit(request: Request) -> None:
    """Who asked for which change, oldest first: an EventList as an API server's audit log holds it."""
    items = request.cluster.audit.events()
    request.answer_json({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": items})


def _mutate(request: Request) -> None:
    """Change a share of bulk objects: POST /_sim/mutate?kind=Workload&percent=1."""
    kind = KINDS.get(request.query.get("kind", ""))
    try:
        percent = float(request.query.get("percent", ""))
    except ValueError:
        percent = -1.0
    if kind is None or not 0 < percent <= 100 or request.method != "POST":
        raise statuses.bad_request("mutate: POST with kind=<a kind> and percent=<0 to 100>")
    request.answer_json({"changed": mutate(request.cluster.store, kind, percent)})


def _faults(request: Request) -> None:
    faults = request.cluster.faults
    if request.method in ("PUT", "POST"):
        try:
            faults.replace(request.body)
        except msgspec.MsgspecError as error:
            raise statuses.bad_request(f"faults: {error}") from error
    elif request.method == "DELETE":
        faults.clear()
    request.answer(faults.document())


def line(change: Change) -> bytes:
    """A change as a line of the history."""
    kind = change.kind
    return b'{"at":"%b","kind":"%b","version":"%b","event":{"type":"%b","object":%b}}\n' % (
        stamp(change.at).encode(),
        kind.name.encode(),
        kind.versions[0].encode(),
        change.type.encode(),
        change.raw,
    )


def _since(text: str) -> float:
    if not text:
        return 0.0
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00").replace(" ", "+"))
    except ValueError as error:
        raise statuses.bad_request(f"since: {text!r} is no RFC 3339 time") from error
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _history(request: Request) -> None:
    cluster = request.cluster
    since = _since(request.query.get("since", ""))
    left_out = {group for name in cluster.absent for group in ABSENT_GROUPS.get(name, ())}
    stream = request.stream("application/x-ndjson")
    batch: list[bytes] = []
    for change in cluster.store.history_since(since):
        if change.kind.group in left_out:
            continue
        batch.append(line(change))
        if len(batch) >= _BATCH:
            stream.send(b"".join(batch))
            batch = []
    if batch:
        stream.send(b"".join(batch))
    stream.end()
