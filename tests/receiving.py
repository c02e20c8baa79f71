"""Servers that messages are sent to in tests: a real HTTP server and enough of SMTP for one client."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

SECRET = "a-secret-of-the-webhook"


@dataclass
class Heard:
    """What a server was told; it answers with `status`."""

    status: int = 204
    port: int = 0
    calls: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@contextmanager
def listening(heard: Heard) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            heard.calls.append((dict(self.headers), body))
            self.send_response(heard.status)
            if 300 <= heard.status < 400:
                self.send_header("Location", f"http://{self.headers['Host']}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_args: Any) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    heard.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{heard.port}/hook"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def hook(settings: Any) -> Iterator[Heard]:
    heard = Heard()
    with listening(heard) as url:
        settings.WEBHOOK_URL, settings.WEBHOOK_SECRET = url, SECRET
        settings.PUBLIC_URL = "https://portal.example.com"
        yield heard


@dataclass
class Mailbox:
    refuses: bool = False
    mails: list[tuple[str, str]] = field(default_factory=list)


def _converse(connection: socket.socket, box: Mailbox) -> None:
    """Enough of SMTP for one client."""
    stream = connection.makefile("rwb")

    def say(text: str) -> None:
        stream.write(text.encode() + b"\r\n")
        stream.flush()

    say("220 here")
    to = ""
    while line := stream.readline().decode().strip():
        verb = line[:4].upper()
        if verb == "RCPT":
            to = line.split("<", 1)[1].split(">", 1)[0]
            say("550 no such person" if box.refuses else "250 fine")
        elif verb == "DATA":
            say("354 go on")
            lines = []
            while (text := stream.readline()) != b".\r\n":
                lines.append(text)
            box.mails.append((to, b"".join(lines).decode()))
            say("250 taken")
        elif verb == "QUIT":
            say("221 bye")
            break
        else:
            say("250 fine")
    connection.close()


@pytest.fixture
def mailbox(settings: Any) -> Iterator[Mailbox]:
    box, server = Mailbox(), socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _address = server.accept()
            except OSError:
                return
            threading.Thread(target=_converse, args=(connection, box), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    settings.EMAIL_ENABLED = True
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = server.getsockname()
    settings.DEFAULT_FROM_EMAIL = "portal@example.com"
    yield box
    server.close()
