"""The Kubernetes side: discovery, list, get, watch, and the refusals of a real API server. Writes are in writing.py.

Input: a Request; output: its answer. Invariants: every path under a group that is absent is a plain 404; who asks
is checked before whether it exists; a list is served from the encoded objects without decoding them.
"""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from simcluster import access, kinds, statuses, visibility, writing
from simcluster.faults import Effect, spoiled
from simcluster.kinds import (
    ABSENT_GROUPS,
    BY_PATH,
    DEVICE_GROUPS,
    KUEUE_GROUP,
    VISIBILITY_GROUP,
    Kind,
    versions_of,
)
from simcluster.statuses import Refused
from simcluster.store import Change, Gone
from simcluster.versions import in_version

if TYPE_CHECKING:
    from simcluster.server import Cluster, Request, Stream

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3",
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "2026-07-01T00:00:00Z",
    "compiler": "gc",
    "platform": "linux/amd64",
    "goVersion": "go1.26.1",
}
BOOKMARK_BEFORE_END = 2.0
_PATHS = ["/api", "/api/v1", "/apis", "/healthz", "/metrics", "/version"]
_VERBS = {"PATCH": "patch", "PUT": "update", "POST": "create", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names: a kind in a version, maybe a namespace and an object."""

    kind: Kind
    version: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def handle(request: Request) -> None:
    path = request.path.rstrip("/") or "/"
    if path in ("/healthz", "/livez", "/readyz"):
        request.answer(b"ok", content_type="text/plain; charset=utf-8")
        return
    if path in ("/version", "/"):
        request.answer_json(VERSION if path == "/version" else {"paths": _PATHS})
        return
    actor = access.actor_of(request)
    if discovered := _discovery(request.cluster, path):
        effect = request.cluster.faults.effect("discovery", "get")
        _before(request, effect)
        request.answer_json(discovered, effect=effect)
        return
    if question := visibility.question_of(path):
        _positions(request, question)
        return
    target = _target(request.cluster, path)
    watching = request.query.get("watch", "").lower() in ("1", "true")
    verb = _VERBS.get(request.method) or ("watch" if watching else "get" if target.name else "list")
    access.note_answer(request, actor, verb, target)
    access.authorise(request, actor, verb, target)
    effect = request.cluster.faults.effect(target.kind.name, verb)
    _before(request, effect)
    if request.method == "GET":
        answer = _watch if watching else _get if target.name else _list
        answer(request, target, effect)
    else:
        writing.write(request, target, effect)


# ---- what ------------------------------------------------------------------------------------------------------
def _before(request: Request, effect: Effect) -> None:
    """Delays and refusals that a fault asks for."""
    if effect.delay:
        request.cluster.faults.over.wait(effect.delay)
    if effect.hang:
        request.cluster.faults.over.wait(600)
    if effect.status is None:
        return
    if effect.status == 401:
        raise statuses.unauthorized()
    words = effect.message or _WORDS.get(effect.status, "the server has asked to be left alone")
    details = None if effect.retry_after is None else {"retryAfterSeconds": effect.retry_after}
    body = statuses.status(effect.status, words, details=details)
    raise Refused(effect.status, body, effect.retry_after)


_WORDS = {
    403: 'forbidden: User "portal-admin" cannot read this resource',
    404: "the server could not find the requested resource",
    410: "The resourceVersion for the provided list is too old.",
    429: "the server has received too many requests and has asked us to try again later",
    500: "Internal error occurred: etcdserver: request timed out",
    503: "the server is currently unable to handle the request",
}


def _versions(cluster: Cluster, group: str) -> tuple[str, ...]:
    """The served versions of a group, empty when it is not installed."""
    if any(group in groups for name, groups in ABSENT_GROUPS.items() if name in cluster.absent):
        return ()
    chosen = {
        KUEUE_GROUP: cluster.kueue_versions,
        VISIBILITY_GROUP: cluster.kueue_versions if cluster.waiting else (),
        DEVICE_GROUPS[0]: cluster.device_versions,
    }
    return chosen[group] if group in chosen else versions_of(group)


def _serves(cluster: Cluster, kind: Kind, version: str) -> bool:
    """A group's versions differ between its kinds."""
    return version in kind.versions and version in _versions(cluster, kind.group)


def _discovery(cluster: Cluster, path: str) -> dict[str, Any] | None:
    parts = path.strip("/").split("/")
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if path == "/apis":
        groups = [group for groups in ABSENT_GROUPS.values() for group in groups]
        found = [(group, _versions(cluster, group)) for group in groups]
        bodies = [kinds.group_body(group, versions) for group, versions in found if versions]
        for body in bodies:
            del body["kind"], body["apiVersion"]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": bodies}
    if path == "/api/v1":
        return kinds.resources_body("", "v1")
    if parts[0] == "apis" and len(parts) in (2, 3):
        versions = _versions(cluster, parts[1])
        if len(parts) == 2 and versions:
            return kinds.group_body(parts[1], versions)
        if len(parts) == 3 and parts[2] in versions:
            if parts[1] == VISIBILITY_GROUP:
                return visibility.resources_body(parts[2])
            return kinds.resources_body(parts[1], parts[2])
        raise statuses.no_such_path()
    return None


def _target(cluster: Cluster, path: str) -> Target:
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise statuses.no_such_path()
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    kind = BY_PATH.get((group, rest[0]))
    if (
        kind is None
        or not _serves(cluster, kind, version)
        or len(rest) > 3
        or (namespace and not kind.namespaced)
    ):
        raise statuses.no_such_path()
    return Target(kind, version, namespace, rest[1] if len(rest) > 1 else "")


# ---- reading --------------------------------------------------------------------------------------------------
def _positions(request: Request, question: visibility.Question) -> None:
    cluster = request.cluster
    if question.version not in _versions(cluster, VISIBILITY_GROUP):
        raise statuses.no_such_path()
    if request.method != "GET":
        raise visibility.nothing_there()
    effect = cluster.faults.effect("PendingWorkloads", "get")
    _before(request, effect)
    request.answer_json(visibility.answer(cluster, question, request.query), effect=effect)


def _get(request: Request, target: Target, effect: Effect) -> None:
    entry = request.cluster.store.entry(target.kind, target.key)
    if entry is None:
        raise statuses.not_found(target.kind, target.name)
    raw = spoiled([in_version(target.kind, target.version, entry.raw)], effect)[0]
    request.answer(raw, effect=effect)


def _list(request: Request, target: Target, effect: Effect) -> None:
    query, store, kind = request.query, request.cluster.store, target.kind
    after, version = "", None
    if token := query.get("continue"):
        after, version = _read_token(token)
        if effect.expire or version < store.oldest(kind):
            raise statuses.expired_token(token)
    else:
        _check_version(query.get("resourceVersion", ""), store.version)
    limit = _number(query.get("limit", "0"), "limit")
    page = store.page(kind, namespace=target.namespace, after=after, limit=limit)
    version = page.version if version is None else version
    items = spoiled(_selected(page.items, query, kind, target.version), effect)
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if page.next_key:
        metadata |= {"continue": _token(version, page.next_key), "remainingItemCount": page.remaining}
    head = {
        "kind": f"{kind.api_kind}List",
        "apiVersion": kind.api_version(target.version),
        "metadata": metadata,
    }
    if not kind.group:  # items of core lists do not repeat their kind
        cut = len(kind.prefix)
        items = [b"{" + item[cut:] if item.startswith(kind.prefix) else item for item in items]
    body = msgspec.json.encode(head)[:-1] + b',"items":[' + b",".join(items) + b"]}\n"
    request.answer(body, effect=effect)


def _selected(items: list[bytes], query: dict[str, str], kind: Kind, version: str) -> list[bytes]:
    if version != kind.versions[0]:
        items = [in_version(kind, version, item) for item in items]
    wanted = {}
    for selector in ("labelSelector", "fieldSelector"):
        for term in filter(None, query.get(selector, "").split(",")):
            name, _, value = term.replace("==", "=").partition("=")
            wanted[selector, name] = value
    if not wanted:
        return items
    return [item for item in items if _matches(msgspec.json.decode(item), wanted)]


def _matches(obj: dict[str, Any], wanted: dict[tuple[str, str], str]) -> bool:
    for (selector, name), value in wanted.items():
        if selector == "labelSelector":
            found = obj["metadata"].get("labels", {}).get(name)
        else:
            found = obj
            for part in name.split("."):
                found = found.get(part, "") if isinstance(found, dict) else ""
        if found != value:
            return False
    return True


def _number(text: str, what: str) -> int:
    if not text.isdigit():
        raise statuses.bad_request(f'{what}: Invalid value: "{text}": must be a whole number')
    return int(text)


def _check_version(text: str, current: int) -> None:
    if not text:
        return
    if not text.isdigit():
        raise statuses.bad_version(text)
    if int(text) > current:
        raise statuses.from_the_future(int(text), current)


def _token(version: int, key: str) -> str:
    body = {"v": "meta.k8s.io/v1", "rv": version, "start": f"{key}\0"}
    return base64.urlsafe_b64encode(msgspec.json.encode(body)).decode().rstrip("=")


def _read_token(token: str) -> tuple[str, int]:
    try:
        body = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return str(body["start"]).rstrip("\0"), int(body["rv"])
    except (ValueError, LookupError, TypeError, msgspec.MsgspecError) as error:
        raise statuses.bad_request("continue key is not valid: it cannot be decoded") from error


# ---- watching -------------------------------------------------------------------------------------------------
def _watch(request: Request, target: Target, effect: Effect) -> None:
    query, store, kind = request.query, request.cluster.store, target.kind
    asked = query.get("resourceVersion", "")
    _check_version(asked, store.version)
    seconds = float(_number(query.get("timeoutSeconds", "0") or "0", "timeoutSeconds")) or 1800.0
    bookmarks = query.get("allowWatchBookmarks", "").lower() in ("1", "true") and kind.bookmarks
    stream = request.stream()
    try:
        watcher = _Watcher(stream, request.cluster, target, effect)
        if asked in ("", "0"):
            watcher.version = store.version
            watcher.present()
        else:
            watcher.version = int(asked)
        watcher.run(seconds, bookmarks)
    except Gone as gone:
        stream.send(b'{"type":"ERROR","object":' + msgspec.json.encode(statuses.too_old(str(gone))) + b"}\n")
        stream.end()


class _Watcher:
    """One watch: sends what changed until its time is over or the client has gone."""

    def __init__(self, stream: Stream, cluster: Cluster, target: Target, effect: Effect) -> None:
        self.version = 0
        self._stream, self._cluster, self._target, self._effect = stream, cluster, target, effect
        self._inside = f'"namespace":"{target.namespace}"'.encode() if target.namespace else b""
        self._spoil = effect.break_items + effect.bad_quantity
        self._sent = 0

    def present(self) -> None:
        """ADDED for everything there is, for a watch without a version."""
        page = self._cluster.store.page(self._target.kind, namespace=self._target.namespace)
        self.version = page.version
        self._send([self._line("ADDED", raw) for raw in page.items])

    def run(self, seconds: float, bookmarks: bool) -> None:
        store, over = self._cluster.store, self._cluster.faults.over
        end = time.monotonic() + seconds
        bookmark_at = end - min(BOOKMARK_BEFORE_END, seconds / 2)
        if self._effect.expire:
            raise Gone(self.version, store.oldest(self._target.kind))
        while not over.is_set():
            seen = store.version
            changes = store.changes_since(self._target.kind, self.version)
            self._send([self._line(change.type, change.raw) for change in changes if self._wanted(change)])
            self.version = max(self.version, changes[-1].version if changes else self.version)
            now = time.monotonic()
            if self._effect.cut is not None and self._sent:
                self._stream.cut()
                return
            if bookmarks and now >= bookmark_at:
                bookmarks = False
                self._bookmark(max(self.version, seen))
            if now >= end:
                break
            if self._stream.client_gone():
                raise BrokenPipeError
            store.wait(seen, min((bookmark_at if bookmarks else end) - now, 1.0))
        self._stream.end()

    def _wanted(self, change: Change) -> bool:
        return not self._inside or self._inside in change.raw

    def _line(self, change_type: str, raw: bytes) -> bytes:
        raw = in_version(self._target.kind, self._target.version, raw)
        if self._spoil:
            raw = spoiled([raw], self._effect)[0]
            self._spoil -= 1
        return b'{"type":"%b","object":%b}\n' % (change_type.encode(), raw)

    def _send(self, lines: list[bytes]) -> None:
        if not lines:
            return
        self._sent += len(lines)
        body = b"".join(lines)
        if self._effect.cut is not None:
            body = body[: int(len(body) * self._effect.cut)]
        for start in range(0, len(body), 1 << 20):
            self._stream.send(body[start : start + (1 << 20)])

    def _bookmark(self, version: int) -> None:
        kind = self._target.kind
        obj = {
            "kind": kind.api_kind,
            "apiVersion": kind.api_version(self._target.version),
            "metadata": {"resourceVersion": str(version)},
        }
        self._stream.send(b'{"type":"BOOKMARK","object":' + msgspec.json.encode(obj) + b"}\n")
