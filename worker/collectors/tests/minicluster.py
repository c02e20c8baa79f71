"""A handful of API semantics behind a real HTTP server: enough to drive the engine through every path.

Lists with limit and continue, watches from a version on, 410 after `compact`, discovery, and faults per
collection, each a function that answers in place of the server.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from worker.clients.tests.servers import Config, Handler, serving

CORE = ("nodes", "pods", "events")
KUEUE = (
    "clusterqueues",
    "cohorts",
    "localqueues",
    "resourceflavors",
    "admissionchecks",
    "topologies",
    "workloadpriorityclasses",
    "workloads",
)


class MiniCluster:
    def __init__(self) -> None:
        self.version = 100
        self.oldest = 0
        self.items: dict[str, dict[str, dict[str, Any]]] = {}
        self.log: list[tuple[int, str, str, dict[str, Any]]] = []
        self.groups: dict[str, dict[str, tuple[str, ...]]] = {
            "kueue.x-k8s.io": {"v1beta2": KUEUE, "v1beta1": KUEUE}
        }
        self.faults: dict[str, Callable[[Handler], None]] = {}
        self.requests: list[str] = []
        self.date: str | None = None
        self.page_limit = 500
        self.url = ""
        self.kubeconfig = ""

    # ------------------------------------------------------------------ state
    def put(self, plural: str, name: str, namespace: str = "ns", **content: Any) -> dict[str, Any]:
        """Create or change an object; `uid` defaults to the name."""
        self.version += 1
        meta = {
            "name": name,
            "namespace": namespace,
            "uid": content.pop("uid", name),
            "resourceVersion": str(self.version),
            "creationTimestamp": content.pop("created", "2026-11-01T00:00:00Z"),
            **content.pop("meta", {}),
        }
        item = {"metadata": meta, **content}
        held = self.items.setdefault(plural, {})
        event = "MODIFIED" if meta["uid"] in held else "ADDED"
        held[meta["uid"]] = item
        self.log.append((self.version, plural, event, copy.deepcopy(item)))
        return item

    def delete(self, plural: str, uid: str) -> None:
        self.version += 1
        item = self.items[plural].pop(uid)
        item["metadata"]["resourceVersion"] = str(self.version)
        self.log.append((self.version, plural, "DELETED", copy.deepcopy(item)))

    def compact(self) -> None:
        """Forget the past: a watch from before now is answered 410."""
        self.version += 1
        self.oldest = self.version

    # ------------------------------------------------------------------ answers
    def answer(self, handler: Handler) -> None:
        route = handler.route.removesuffix("/")
        self.requests.append(handler.path)
        # A connection, and with it its handler, serves several requests.
        handler.__dict__.pop("date_time_string", None)
        if said := self.date:
            handler.date_time_string = lambda timestamp=None: said  # type: ignore[method-assign]
        plural = route.rsplit("/", 1)[-1]
        if plural in self.faults:
            self.faults[plural](handler)
            return
        if "/configmaps/" in route:
            self.one(handler, "configmaps", plural)
        elif route.startswith("/apis/"):
            group, *rest = route.removeprefix("/apis/").split("/")
            versions = self.groups.get(group)
            if versions is None:
                self.refuse(handler, 404, "the server could not find the requested resource")
            elif not rest:
                body = {"versions": [{"version": v, "groupVersion": f"{group}/{v}"} for v in versions]}
                self.reply(handler, {"kind": "APIGroup", **body})
            elif rest[0] not in versions or (len(rest) > 1 and rest[1] not in versions[rest[0]]):
                self.refuse(handler, 404, "the server could not find the requested resource")
            elif len(rest) == 1:
                self.reply(handler, {"resources": [{"name": name} for name in versions[rest[0]]]})
            else:
                self._collection(handler, rest[1])
        else:
            self._collection(handler, plural)

    def _collection(self, handler: Handler, plural: str) -> None:
        if handler.query.get("watch"):
            self.watch(handler, plural)
        else:
            self.list(handler, plural)

    def one(self, handler: Handler, plural: str, name: str) -> None:
        """One object by its name."""
        for item in self.items.get(plural, {}).values():
            if item["metadata"]["name"] == name:
                self.reply(handler, item)
                return
        self.refuse(handler, 404, f'{plural} "{name}" not found')

    def list(self, handler: Handler, plural: str) -> None:
        items = list(self.items.get(plural, {}).values())
        start = int(handler.query.get("continue") or 0)
        limit = min(int(handler.query.get("limit") or len(items) + 1), self.page_limit)
        token = str(start + limit) if start + limit < len(items) else ""
        meta = {"resourceVersion": str(self.version), "continue": token}
        self.reply(handler, {"kind": "List", "metadata": meta, "items": items[start : start + limit]})

    def watch(self, handler: Handler, plural: str) -> None:
        since = int(handler.query["resourceVersion"])
        handler.begin_chunks()
        if since < self.oldest:
            status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
            handler.chunk(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
        else:
            for version, kind, event, item in list(self.log):
                if version > since and kind == plural:
                    handler.chunk(json.dumps({"type": event, "object": item}).encode() + b"\n")
            mark = {"kind": "X", "metadata": {"resourceVersion": str(self.version)}}
            handler.chunk(json.dumps({"type": "BOOKMARK", "object": mark}).encode() + b"\n")
        handler.chunk(b"")

    def reply(self, handler: Handler, content: Any) -> None:
        handler.reply(json.dumps(content).encode())

    def refuse(self, handler: Handler, code: int, message: str = "", **headers: str) -> None:
        body = {"kind": "Status", "status": "Failure", "code": code, "message": message}
        handler.reply(json.dumps(body).encode(), status=code, **headers)

    # ------------------------------------------------------------------ faults
    def fault_status(self, plural: str, code: int) -> None:
        self.faults[plural] = lambda handler: self.refuse(handler, code, f"scripted {code}")

    def fault_truncated(self, plural: str) -> None:
        self.faults[plural] = lambda handler: handler.reply(b'{"kind":"List","metadata":{"resourceVers')

    def fault_hang(self, plural: str, seconds: float = 3) -> None:
        self.faults[plural] = lambda _handler: time.sleep(seconds)

    def fault_second_page(self, plural: str, answer: Callable[[Handler], None]) -> None:
        def act(handler: Handler) -> None:
            if handler.query.get("continue"):
                answer(handler)
            else:
                self._collection(handler, plural)

        self.faults[plural] = act


@contextmanager
def mini_cluster(folder: Path) -> Iterator[MiniCluster]:
    made = MiniCluster()
    with serving(made.answer) as server:
        made.url = server.url
        made.kubeconfig = Config(server.url).write(folder)
        yield made
