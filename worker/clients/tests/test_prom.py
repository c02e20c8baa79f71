"""PromClient against a real HTTP server that answers as Prometheus does, and as it should not."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from worker.clients.errors import ClientError
from worker.clients.prom import PromClient
from worker.clients.tests.servers import Answer, Handler, Server, serving

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SERIES = [{"metric": {"__name__": "x", "UUID": "GPU-1"}, "value": [NOW.timestamp(), "NaN"]}]


@pytest.fixture
def connect() -> Iterator[Callable[..., tuple[PromClient, Server]]]:
    open_now: list[Any] = []

    def start(answer: Answer, *, read_timeout: float = 2.0, path: str = "") -> tuple[PromClient, Server]:
        manager = serving(answer)
        server = manager.__enter__()
        open_now.append(manager)
        return PromClient(server.url + path, 1.0, read_timeout), server

    yield start
    for manager in open_now:
        manager.__exit__(None, None, None)


def _result(found: Any) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": found}}).encode()


def fails(call: Callable[[], Any]) -> ClientError:
    with pytest.raises(ClientError) as caught:
        call()
    assert "\n" not in caught.value.message
    return caught.value


def test_an_instant_query(connect: Any) -> None:
    client, server = connect(lambda h: h.reply(_result(SERIES)))
    assert client.instant("up", NOW) == SERIES
    assert server.seen[0].route == "/api/v1/query"
    assert server.seen[0].query == {"query": "up", "time": f"{NOW.timestamp():.3f}"}
    assert client.bytes_read == len(_result(SERIES))


def test_a_range_query_below_a_path(connect: Any) -> None:
    client, server = connect(lambda h: h.reply(_result([])), path="/prometheus/")
    assert client.range("up", NOW, NOW, 3600) == []
    assert server.seen[0].route == "/prometheus/api/v1/query_range"
    assert server.seen[0].query["step"] == "3600s"


@pytest.mark.parametrize("step", [None, 3600])
def test_a_long_query_does_not_go_into_the_address(connect: Any, step: int | None) -> None:
    client, server = connect(lambda h: h.reply(_result([])))
    query = '{__name__=~"' + "|".join(f"metric_{i}" for i in range(500)) + '"}'
    found = client.instant(query, NOW) if step is None else client.range(query, NOW, NOW, step)
    assert found == []
    asked = server.seen[0]
    assert asked.path == asked.route
    assert asked.query["query"] == query
    assert asked.query.keys() >= ({"time"} if step is None else {"start", "end", "step"})


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (
            400,
            b'{"status":"error","errorType":"bad_data","error":"parse error at char 3"}',
            "bad_body",
            "parse error",
        ),
        (401, b"Unauthorized", "unauthorized", "Unauthorized"),
        (403, b"", "forbidden", "no reason given"),
        (404, b"404 page not found", "not_found", "page not found"),
        (
            422,
            b'{"status":"error","errorType":"execution","error":"too many samples"}',
            "bad_body",
            "too many samples",
        ),
        (429, b"limit", "throttled", "limit"),
        (
            503,
            b'{"status":"error","errorType":"timeout","error":"query timed out"}',
            "server_error",
            "timed out",
        ),
    ],
)
def test_error_statuses(connect: Any, status: int, body: bytes, kind: str, words: str) -> None:
    client, server = connect(lambda h: h.reply(body, status))
    error = fails(lambda: client.instant("up"))
    assert (error.kind, error.status) == (kind, status)
    assert words in error.message
    # nothing is retried behind our back
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>login</html>",
        b'{"status":"success"}',
        b'{"status":"success","data":null}',
        b'{"status":"success","data":{"result":"x"}}',
        b'{"status":"success","data":{"result":[1]}}',
        b'["a"]',
        _result(SERIES)[:-10],
    ],
)
def test_answers_that_are_none(connect: Any, body: bytes) -> None:
    client, _server = connect(lambda h: h.reply(body))
    assert fails(lambda: client.instant("up")).kind == "bad_body"


def test_a_hanging_server(connect: Any) -> None:
    release = threading.Event()
    client, _server = connect(lambda h: release.wait(10), read_timeout=0.3)
    started = time.monotonic()
    error = fails(lambda: client.instant("up"))
    release.set()
    assert error.kind == "timeout"
    assert time.monotonic() - started < 2


def test_a_cut_answer(connect: Any) -> None:
    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"status":')
        handler.cut()

    client, _server = connect(answer)
    assert fails(lambda: client.instant("up")).kind == "unreachable"


def test_nobody_listening() -> None:
    assert fails(lambda: PromClient("http://127.0.0.1:9", 1, 1).instant("up")).kind == "unreachable"


@pytest.mark.parametrize("url", ["", "ftp://x", "prometheus:9090", "http://"])
def test_addresses_that_are_none(url: str) -> None:
    assert fails(lambda: PromClient(url, 1, 1).instant("up")).kind == "bad_config"
