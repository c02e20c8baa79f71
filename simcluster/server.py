"""The HTTP server: one port for the Kubernetes API, the Prometheus API, `/metrics` and `/_sim/`.

Input: a `Cluster` (what is served); output: answers over HTTP/1.1 with keep-alive. Invariants: it listens on
127.0.0.1 only; every answer carries a Date, ahead by the clock skew that is switched on; a handler that fails answers 500
and the server goes on.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from simcluster import kubeapi, promapi, simapi, statuses
from simcluster.access import AuditLog, Tokens
from simcluster.faults import Effect, Faults
from simcluster.kinds import versions_of
from simcluster.store import Store
from simcluster.telemetry import Telemetry

_PHRASES = {200: "OK", 201: "Created", 307: "Temporary Redirect", 429: "Too Many Requests"}


@dataclass(slots=True)
class Cluster:
    """What one server serves. `absent`: what of "kueue", "volcano", "devices" and "prometheus" it is without.
    `kueue_versions`, `device_versions`: the served versions of Kueue and of DRA, in order of preference. `waiting`: the
    Workloads that wait in a ClusterQueue, heads first, None when there is no such queue; asked under the store's lock."""

    store: Store
    telemetry: Telemetry
    tokens: Tokens
    faults: Faults = field(default_factory=Faults)
    audit: AuditLog = field(default_factory=AuditLog)
    absent: frozenset[str] = frozenset()
    kueue_versions: tuple[str, ...] = ("v1beta2", "v1beta1")
    device_versions: tuple[str, ...] = versions_of("resource.k8s.io")
    epoch: float = 0.0
    clock: Callable[[], float] = time.time
    on_write: Callable[[Any, dict[str, Any], dict[str, Any]], dict[str, Any] | None] | None = None
    waiting: Callable[[str], list[dict[str, Any]] | None] | None = None
    ready: threading.Event = field(default_factory=threading.Event)
    about: dict[str, Any] = field(default_factory=dict)

    def now(self) -> float:
        """The cluster's clock, as its Date header and its timestamps show it."""
        return self.clock() + self.faults.clock_skew


class Request:
    """One request with what a route needs to answer it."""

    def __init__(self, handler: _Handler, cluster: Cluster) -> None:
        parts = urlsplit(handler.path)
        self.method = handler.command
        self.uri = handler.path
        self.path = parts.path
        self.query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.pairs = parse_qsl(parts.query, keep_blank_values=True)
        self.headers = handler.headers
        self.cluster = cluster
        self._handler = handler
        self._body: bytes | None = None
        self.on_answer: Callable[[int], None] | None = None
        """Told the HTTP status before the answer leaves."""

    @property
    def body(self) -> bytes:
        if self._body is None:
            self._body = self._handler.rfile.read(int(self.headers.get("Content-Length") or 0))
        return self._body

    def form(self) -> list[tuple[str, str]]:
        """Query and, for a POSTed form, body parameters together."""
        if self.method == "POST":
            return self.pairs + parse_qsl(self.body.decode(), keep_blank_values=True)
        return self.pairs

    def answer(
        self,
        body: bytes,
        *,
        code: int = 200,
        content_type: str = "application/json",
        effect: Effect | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        if self.on_answer is not None:
            self.on_answer(code)
        self._handler.answer(code, body, content_type, effect, headers or {})

    def answer_json(self, body: Any, *, code: int = 200, effect: Effect | None = None) -> None:
        self.answer(msgspec.json.encode(body), code=code, effect=effect)

    def stream(self, content_type: str = "application/json") -> Stream:
        """Start a chunked answer; the headers leave at once."""
        return self._handler.stream(content_type)


class Stream:
    """A chunked body. `send` raises OSError when the client has gone."""

    def __init__(self, handler: _Handler) -> None:
        self._handler = handler

    def send(self, data: bytes) -> None:
        self._handler.connection.sendall(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> None:
        self._handler.connection.sendall(b"0\r\n\r\n")

    def cut(self) -> None:
        """Close without the last chunk: what a broken connection looks like."""
        self._handler.drop()

    def client_gone(self) -> bool:
        """Whether the client has closed its side."""
        sock = self._handler.connection
        try:
            sock.setblocking(False)
            return not sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            sock.setblocking(True)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server
    timeout = 120

    def do_GET(self) -> None:
        self._handle()

    do_POST = do_PATCH = do_PUT = do_DELETE = do_GET

    def _handle(self) -> None:
        request = Request(self, self.server.cluster)
        try:
            self._route(request)
        except statuses.Refused as refused:
            self._refuse(request, refused)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        except Exception as error:  # noqa: BLE001 - a simulated server stays up and says what went wrong
            self.close_connection = True
            sys.stderr.write(f"simcluster: {request.method} {self.path}: {error!r}\n")
            request.answer_json(statuses.status(500, repr(error)), code=500)
        if self.command in ("POST", "PATCH", "PUT", "DELETE") and not self.close_connection:
            _ = request.body  # what is left of the body must not be read as the next request

    def _route(self, request: Request) -> None:
        path = request.path
        if path.startswith("/_sim/"):
            simapi.handle(request)
        elif path == "/metrics":
            promapi.exporter(request)
        elif path.startswith("/api/v1/") and path.split("/")[3] in promapi.ENDPOINTS:
            promapi.handle(request)
        elif path.startswith("/-/"):
            promapi.health(request)
        else:
            kubeapi.handle(request)

    def _refuse(self, request: Request, refused: statuses.Refused) -> None:
        headers = {} if refused.retry_after is None else {"Retry-After": str(refused.retry_after)}
        if isinstance(refused.body, str):
            self.answer(refused.status, refused.body.encode(), "text/plain; charset=utf-8", None, headers)
        else:
            request.answer(msgspec.json.encode(refused.body), code=refused.status, headers=headers)

    # ---- writing ------------------------------------------------------------------------------------------
    def _head(self, code: int, headers: dict[str, str]) -> bytes:
        date = formatdate(self.server.cluster.now(), usegmt=True)
        lines = [
            f"HTTP/1.1 {code} {_PHRASES.get(code) or self.responses.get(code, ('',))[0]}",
            f"Date: {date}",
        ]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def answer(
        self, code: int, body: bytes, content_type: str, effect: Effect | None, headers: dict[str, str]
    ) -> None:
        if effect is not None and effect.truncate is not None:
            body = body[: int(len(body) * effect.truncate)]
        head = self._head(code, {"Content-Type": content_type, "Content-Length": str(len(body)), **headers})
        if effect is not None and effect.cut is not None:
            self.connection.sendall(head + body[: int(len(body) * effect.cut)])
            self.drop()
            return
        self.connection.sendall(head)
        if self.command != "HEAD":
            self.connection.sendall(body)

    def stream(self, content_type: str) -> Stream:
        head = self._head(200, {"Content-Type": content_type, "Transfer-Encoding": "chunked"})
        self.connection.sendall(head)
        return Stream(self)

    def drop(self) -> None:
        self.close_connection = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: there are several a second."""


class Server(ThreadingHTTPServer):
    """A thread per connection on a loopback port (0: any free one)."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, cluster: Cluster, port: int = 0) -> None:
        self.cluster = cluster
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle is no error of the server."""

    def server_close(self) -> None:
        self.cluster.faults.over.set()
        super().server_close()
