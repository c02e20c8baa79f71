"""A real HTTP server on loopback whose answers a test scripts, and kubeconfigs that point to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

Answer = Callable[["Handler"], None]


@dataclass(frozen=True)
class Request:
    """What was asked (header names in lower case), kept after the connection went on to the next request."""

    path: str
    route: str
    query: dict[str, str]
    headers: dict[str, str]


class Handler(BaseHTTPRequestHandler):
    """Passes every GET, and every form that is POSTed or body that is PATCHed, to the test's function, which may also break the protocol."""

    protocol_version = "HTTP/1.1"
    server: Server
    form: str = ""

    def do_GET(self) -> None:
        self.form = ""
        self._handle()

    def do_POST(self) -> None:
        self.form = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self._handle()

    do_PATCH = do_POST

    def _handle(self) -> None:
        self.server.seen.append(
            Request(
                self.path, self.route, self.query, {name.lower(): text for name, text in self.headers.items()}
            )
        )
        self.server.answer(self)

    @property
    def route(self) -> str:
        return urlsplit(self.path).path

    @property
    def query(self) -> dict[str, str]:
        """Parameters of the address and of the form."""
        asked = parse_qs(urlsplit(self.path).query) | parse_qs(self.form)
        return {name: values[0] for name, values in asked.items()}

    def reply(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def begin_chunks(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def cut(self) -> None:
        """Drop the connection in the middle."""
        self.close_connection = True
        self.wfile.flush()
        self.connection.close()

    def log_message(self, *_args: Any) -> None:
        """Quiet."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.seen: list[Request] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_args: Any) -> None:
        """A client that went away is no event here."""


@contextmanager
def serving(answer: Answer) -> Iterator[Server]:
    server = Server(answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Config:
    """A kubeconfig in the making; `user` is the auth part of its one user."""

    server: str
    user: dict[str, Any] = field(default_factory=lambda: {"token": "secret-token"})
    cluster: dict[str, Any] = field(default_factory=dict)
    current: str = "main"

    def write(self, folder: Path) -> str:
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.server, **self.cluster}}],
            "users": [{"name": "u", "user": self.user}],
            "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
            "current-context": self.current,
        }
        path = folder / "kubeconfig.yaml"
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return str(path)
