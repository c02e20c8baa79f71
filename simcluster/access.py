"""Who asks, in whose name, and what they may do; and the audit log, which names both.

Input: a Request; output: its Actor, or the refusal of a real API server. `Tokens.editors` are the people who may do
everything when the portal's account asks in their name (`Impersonate-User`); anybody else whom it names may do nothing.
Invariants: only the administrator's token may name another user; what is decided is decided about the person named, never
about the account that names them; every request that would change something leaves one event in the audit log before
its answer leaves, also when it is refused or a dry run.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simcluster import statuses
from simcluster.kinds import Kind
from simcluster.timestamps import stamp

if TYPE_CHECKING:
    from simcluster.kubeapi import Target
    from simcluster.server import Request

ADMIN, VIEWER = "portal-admin", "portal-viewer"
READING = ("get", "list", "watch")
_USERS = Kind("User", "", ("v1",), "users", False)
_KEPT = 10_000


@dataclass(slots=True)
class Tokens:
    """Who may ask: bearer tokens. The viewer may read, but not the kinds in `viewer_denied`."""

    admin: str
    viewer: str
    viewer_denied: frozenset[str] = frozenset(("Event", "AdmissionCheck"))
    editors: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Actor:
    """`account`: whose token it is; `acting_as`: the user it names, "" for none."""

    account: str
    acting_as: str = ""

    @property
    def name(self) -> str:
        """Whose rights count."""
        return self.acting_as or self.account


@dataclass(slots=True)
class AuditLog:
    """The last requests that would change something, oldest first, as events of audit.k8s.io. Thread-safe."""

    _events: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, event: dict[str, Any]) -> None:
        with self._lock:
            self._events.append(event)

    def events(self) -> list[dict[str, Any]]:
        with self._lock:
            return list(self._events)


def actor_of(request: Request) -> Actor:
    """Raises Refused for an unknown token, and for a user who may not be named with it."""
    tokens = request.cluster.tokens
    given = request.headers.get("Authorization", "").removeprefix("Bearer ")
    account = {tokens.viewer: VIEWER, tokens.admin: ADMIN}.get(given)
    if account is None:
        raise statuses.unauthorized()
    named = request.headers.get("Impersonate-User", "")
    if named and account != ADMIN:
        raise statuses.forbidden(account, "impersonate", _USERS, named, "")
    return Actor(account, named)


def authorise(request: Request, actor: Actor, verb: str, target: Target) -> None:
    """Raises Refused unless the one whose rights count may do this."""
    tokens, kind = request.cluster.tokens, target.kind
    if actor.name == ADMIN or actor.name in tokens.editors:
        return
    if actor.name == VIEWER and verb in READING and kind.name not in tokens.viewer_denied:
        return
    raise statuses.forbidden(actor.name, verb, kind, target.name, target.namespace)


def note_answer(request: Request, actor: Actor, verb: str, target: Target) -> None:
    """Have the answer to this request noted in the audit log, unless it only reads."""
    if verb in READING:
        return
    cluster, kind = request.cluster, target.kind
    subject = {"resource": kind.plural, "namespace": target.namespace, "name": target.name}
    subject |= {"apiGroup": kind.group, "apiVersion": target.version}
    event: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "stage": "ResponseComplete",
        "requestURI": request.uri,
        "verb": verb,
        "user": {"username": actor.account},
        "objectRef": {name: value for name, value in subject.items() if value},
    }
    if actor.acting_as:
        event["impersonatedUser"] = {"username": actor.acting_as}

    def heard(code: int) -> None:
        cluster.audit.add({**event, "responseStatus": {"code": code}, "stageTimestamp": stamp(cluster.now())})

    request.on_answer = heard
