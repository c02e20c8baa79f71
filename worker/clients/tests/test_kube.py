"""KubeClient against a real HTTP server that answers well, badly, late, or not at all."""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from worker.clients.errors import ClientError
from worker.clients.kube import KubeClient, client_for, refusal
from worker.clients.tests.servers import Answer, Config, Handler, Server, serving

DATA = Path(__file__).resolve().parents[3] / "tests" / "data"
LIST = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[]}'


@pytest.fixture
def connect(tmp_path: Path) -> Any:
    """A function that serves an answer and gives (client, server)."""
    open_now: list[Any] = []

    def start(answer: Answer, *, read_timeout: float = 2.0) -> tuple[KubeClient, Server]:
        manager = serving(answer)
        server = manager.__enter__()
        open_now.append(manager)
        return KubeClient(Config(server.url).write(tmp_path), "", 1.0, read_timeout), server

    yield start
    for manager in open_now:
        manager.__exit__(None, None, None)


def fails(call: Callable[[], Any]) -> ClientError:
    with pytest.raises(ClientError) as caught:
        call()
    assert "\n" not in caught.value.message
    return caught.value


# ------------------------------------------------------------------ reading
def test_get_sends_the_token_and_counts_bytes(connect: Any) -> None:
    client, server = connect(lambda h: h.reply(LIST))
    assert client.get("/api/v1/pods", {"limit": 2}) == LIST
    assert client.bytes_read == len(LIST)
    (request,) = server.seen
    assert request.headers["authorization"] == "Bearer secret-token"
    assert request.query == {"limit": "2"}


def test_pages_follow_the_continue_token(connect: Any) -> None:
    def answer(handler: Handler) -> None:
        token = {"": "t1", "t1": "t2", "t2": ""}[handler.query.get("continue", "")]
        handler.reply(
            json.dumps({"items": [], "metadata": {"continue": token, "resourceVersion": "9"}}).encode()
        )

    client, server = connect(answer)
    assert len(list(client.list_pages("/api/v1/pods", limit=7))) == 3
    assert [r.query.get("continue") for r in server.seen] == [None, "t1", "t2"]
    assert {r.query["limit"] for r in server.seen} == {"7"}


def test_an_expired_continue_token_ends_the_list(connect: Any) -> None:
    expired = (DATA / "kueue/list-410-expired-continue.json").read_bytes()

    def answer(handler: Handler) -> None:
        if "continue" in handler.query:
            handler.reply(expired, 410)
        else:
            handler.reply(b'{"items":[],"metadata":{"continue":"t1"}}')

    client, _server = connect(answer)
    pages = client.list_pages("/api/v1/pods")
    next(pages)
    assert (error := fails(lambda: next(pages))).kind == "expired"
    assert error.status == 410


def test_served_versions(connect: Any) -> None:
    group = {"versions": [{"version": "v1beta2"}, {"version": "v1beta1"}]}

    def answer(handler: Handler) -> None:
        if handler.route == "/apis/kueue.x-k8s.io":
            handler.reply(json.dumps(group).encode())
        elif handler.route == "/apis/odd":
            handler.reply(b"<html>")
        else:
            handler.reply(b"404 page not found\n", 404)

    client, _server = connect(answer)
    assert client.served_versions("kueue.x-k8s.io") == ["v1beta2", "v1beta1"]
    assert client.served_versions("scheduling.volcano.sh") == []
    assert fails(lambda: client.served_versions("odd")).kind == "bad_body"


def test_clock_skew_is_seen(connect: Any) -> None:
    def answer(handler: Handler) -> None:
        handler.send_response_only(200)
        handler.send_header("Date", formatdate(time.time() + 300, usegmt=True))
        handler.send_header("Content-Length", str(len(LIST)))
        handler.end_headers()
        handler.wfile.write(LIST)

    client, _server = connect(answer)
    assert client.clock_skew_seconds is None
    client.get("/api/v1/pods")
    skew = client.clock_skew_seconds
    assert skew is not None
    assert 298 < skew < 302


def test_several_threads_may_read(connect: Any) -> None:
    client, _server = connect(lambda h: h.reply(LIST))
    threads = [
        threading.Thread(target=lambda: [client.get("/api/v1/pods") for _ in range(5)]) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.bytes_read == 30 * len(LIST)


# ------------------------------------------------------------------ refusals
RECORDED = [
    ("kueue/401-bad-token.json", 401, "unauthorized"),
    ("kueue/cq-403-viewer.json", 403, "forbidden"),
    ("kueue/404-object.json", 404, "not_found"),
    ("kueue/list-410-expired-continue.json", 410, "expired"),
    ("kueue/list-410-exact-rv.json", 410, "expired"),
    ("kueue/list-400-bad-rv.json", 400, "bad_body"),
    ("kueue/list-504-future-rv.json", 504, "expired"),
    ("kueue/kueue-down-500-patch.json", 500, "server_error"),
    ("kueue/kueue-down-503-visibility.json", 503, "server_error"),
    ("kueue/workloads-fieldselector.json", 400, "bad_body"),
    ("kueue/patch-409-stale-rv.json", 409, "bad_body"),
    ("kueue/cq-422-enum.json", 422, "bad_body"),
    ("volcano-capacity/refusal-queue-negative.json", 400, "bad_body"),
    ("volcano-capacity/conflict-queue.json", 409, "bad_body"),
]


@pytest.mark.parametrize(("path", "status", "kind"), RECORDED)
def test_recorded_refusals(connect: Any, path: str, status: int, kind: str) -> None:
    body = (DATA / path).read_bytes()
    client, _server = connect(lambda h: h.reply(body, status))
    error = fails(lambda: client.get("/x"))
    assert (error.kind, error.status) == (kind, status)
    try:
        words = json.loads(body)["message"]
    except json.JSONDecodeError:
        words = body.decode()
    assert " ".join(words.split())[:200] in error.message


def test_every_recorded_refusal_has_a_kind() -> None:
    for line in (DATA / "kueue/index.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["status"] >= 400:
            error = refusal(entry["status"], (DATA / "kueue" / entry["file"]).read_bytes(), entry["path"])
            assert error.kind in {
                "unauthorized",
                "forbidden",
                "not_found",
                "expired",
                "throttled",
                "server_error",
                "bad_body",
            }
            assert "no reason given" not in error.message


def _throttled(seconds: int) -> bytes:
    return json.dumps(
        {
            "kind": "Status",
            "message": "storage is (re)initializing",
            "details": {"retryAfterSeconds": seconds},
        }
    ).encode()


def test_a_short_429_is_tried_once_more(connect: Any) -> None:
    answers = [(_throttled(0), 429), (LIST, 200)]
    client, server = connect(lambda h: h.reply(*answers[len(h.server.seen) - 1]))
    assert client.get("/api/v1/pods") == LIST
    assert len(server.seen) == 2


def test_a_long_or_repeated_429_is_an_error_with_its_wait(connect: Any) -> None:
    client, server = connect(lambda h: h.reply(_throttled(30), 429))
    error = fails(lambda: client.get("/api/v1/pods"))
    assert (error.kind, error.retry_after, len(server.seen)) == ("throttled", 30, 1)
    client, server = connect(lambda h: h.reply(b"slow down", 429, Retry_After="0"))
    error = fails(lambda: client.get("/api/v1/pods"))
    assert (error.kind, error.retry_after, len(server.seen)) == ("throttled", 0, 2)


# ------------------------------------------------------------------ broken transport
def test_a_hanging_server_times_out(connect: Any) -> None:
    release = threading.Event()
    client, _server = connect(lambda h: release.wait(10), read_timeout=0.3)
    started = time.monotonic()
    error = fails(lambda: client.get("/api/v1/pods"))
    release.set()
    assert error.kind == "timeout"
    assert "read 0.3 s" in error.message
    assert time.monotonic() - started < 2


def test_a_body_that_drips_forever_times_out(connect: Any) -> None:
    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(10**6))
        handler.end_headers()
        while True:
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)

    client, _server = connect(answer, read_timeout=0.2)
    started = time.monotonic()
    assert fails(lambda: client.get("/api/v1/pods")).kind == "timeout"
    assert time.monotonic() - started < 3


def test_a_cut_body_is_no_answer(connect: Any) -> None:
    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"items":[')
        handler.cut()

    client, _server = connect(answer)
    error = fails(lambda: client.get("/api/v1/pods"))
    assert error.kind == "unreachable"
    assert "the connection was cut" in error.message


def test_a_truncated_list_is_a_bad_body(connect: Any) -> None:
    client, _server = connect(lambda h: h.reply(LIST[:-5]))
    assert fails(lambda: list(client.list_pages("/api/v1/pods"))).kind == "bad_body"


def test_nobody_listening(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    client = KubeClient(Config(f"http://127.0.0.1:{port}").write(tmp_path), "", 1, 1)
    error = fails(lambda: client.get("/api/v1/pods"))
    assert error.kind == "unreachable"
    assert f"127.0.0.1:{port}" in error.message


def test_an_unknown_host(tmp_path: Path) -> None:
    client = KubeClient(Config("http://no-such-host.invalid:1").write(tmp_path), "", 1, 1)
    assert fails(lambda: client.get("/api/v1/pods")).kind == "unreachable"


def test_tls_against_a_server_without_it(connect: Any, tmp_path: Path) -> None:
    _client, server = connect(lambda h: h.reply(LIST))
    client = KubeClient(Config(server.url.replace("http://", "https://")).write(tmp_path), "", 1, 1)
    assert fails(lambda: client.get("/api/v1/pods")).kind == "unreachable"


def test_a_redirect_is_no_answer(connect: Any) -> None:
    client, _server = connect(lambda h: h.reply(b"", 302, Location="http://127.0.0.1:1/login"))
    assert fails(lambda: client.get("/api/v1/pods")).kind in ("bad_body", "unreachable")


# ------------------------------------------------------------------ watches
def _event(version: int) -> bytes:
    return json.dumps(
        {"type": "MODIFIED", "object": {"metadata": {"resourceVersion": str(version)}}}
    ).encode()


def test_a_watch_gives_lines_and_ends_with_the_server(connect: Any) -> None:
    def answer(handler: Handler) -> None:
        handler.begin_chunks()
        both = _event(1) + b"\n" + _event(2) + b"\n"
        handler.chunk(both[:40])
        handler.chunk(both[40:])
        handler.chunk(b"")

    client, server = connect(answer)
    assert list(client.watch("/api/v1/pods", "41", 3)) == [_event(1), _event(2)]
    assert server.seen[0].query == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": "41",
        "timeoutSeconds": "3",
    }


def test_a_silent_watch_ends_early_and_drops_half_a_line(connect: Any) -> None:
    release = threading.Event()

    def answer(handler: Handler) -> None:
        handler.begin_chunks()
        handler.chunk(_event(1) + b"\n" + _event(2)[:20])
        release.wait(10)

    client, _server = connect(answer)
    started = time.monotonic()
    assert list(client.watch("/api/v1/pods", "41", 30)) == [_event(1)]
    release.set()
    assert 0.1 <= time.monotonic() - started < 1.5


def test_silence_is_measured_by_how_slow_the_server_is(connect: Any) -> None:
    release = threading.Event()

    def answer(handler: Handler) -> None:
        time.sleep(0.2)
        handler.begin_chunks()
        handler.chunk(_event(1) + b"\n")
        time.sleep(0.4)  # longer than the least, shorter than four times the headers
        handler.chunk(_event(2) + b"\n")
        release.wait(10)

    client, _server = connect(answer)
    assert list(client.watch("/api/v1/pods", "41", 30)) == [_event(1), _event(2)]
    release.set()


def test_a_busy_watch_is_bounded_by_its_time(connect: Any) -> None:
    def answer(handler: Handler) -> None:
        handler.begin_chunks()
        while True:
            handler.chunk(_event(1) + b"\n")
            time.sleep(0.01)

    client, _server = connect(answer)
    started = time.monotonic()
    assert len(list(client.watch("/api/v1/pods", "41", 1))) > 20
    assert time.monotonic() - started < 4


def test_a_cut_watch_keeps_its_lines_and_says_so(connect: Any) -> None:
    def answer(handler: Handler) -> None:
        handler.begin_chunks()
        handler.chunk(_event(1) + b"\n")
        handler.wfile.write(b"ff\r\npartial")
        handler.cut()

    client, _server = connect(answer)
    lines = client.watch("/api/v1/pods", "41", 5)
    assert next(lines) == _event(1)
    assert fails(lambda: next(lines)).kind == "unreachable"


def test_a_watch_that_closes_the_connection_still_notices_silence(connect: Any) -> None:
    release = threading.Event()

    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(_event(1) + b"\n")
        handler.wfile.flush()
        release.wait(10)

    client, _server = connect(answer, read_timeout=5)
    started = time.monotonic()
    assert list(client.watch("/api/v1/pods", "41", 30)) == [_event(1)]
    release.set()
    assert time.monotonic() - started < 2


def test_a_version_from_the_future_is_not_taken_for_silence(connect: Any) -> None:
    too_large = (DATA / "kueue/list-504-future-rv.json").read_bytes()

    def answer(handler: Handler) -> None:
        if "watch" in handler.query:
            handler.begin_chunks()
            handler.chunk(b"")
        else:
            handler.reply(too_large, 504)

    client, server = connect(answer)
    assert fails(lambda: list(client.watch("/api/v1/pods", "99999999", 1))).kind == "expired"
    assert server.seen[1].query["resourceVersionMatch"] == "NotOlderThan"


@pytest.mark.parametrize("status", [200, 403, 500, 504])
def test_a_silent_watch_is_good_when_its_version_cannot_be_questioned(connect: Any, status: int) -> None:
    def answer(handler: Handler) -> None:
        if "watch" in handler.query:
            handler.begin_chunks()
            handler.chunk(b"")
        else:
            handler.reply(b'{"kind":"Status","message":"etcd timed out"}', status)

    client, _server = connect(answer)
    assert list(client.watch("/api/v1/pods", "5", 1)) == []


@pytest.mark.parametrize(("status", "kind"), [(410, "expired"), (403, "forbidden"), (500, "server_error")])
def test_a_refused_watch(connect: Any, status: int, kind: str) -> None:
    client, _server = connect(lambda h: h.reply(b'{"kind":"Status","message":"no"}', status))
    assert fails(lambda: list(client.watch("/api/v1/pods", "41", 1))).kind == kind


# ------------------------------------------------------------------ configuration
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{: not yaml", "not YAML"),
        ("", "Invalid kube-config"),
        ("just a text", "kubeconfig"),
        ("apiVersion: v1\nkind: Config\n", "kube-config"),
        ("[1, 2]", "kubeconfig"),
    ],
)
def test_a_broken_kubeconfig(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text, encoding="utf-8")
    error = fails(lambda: KubeClient(str(path)))
    assert error.kind == "bad_config"
    assert words in error.message
    assert str(path) in error.message


def test_a_missing_kubeconfig(tmp_path: Path) -> None:
    for make in (KubeClient, client_for):
        error = fails(lambda make=make: make(str(tmp_path / "none")))  # type: ignore[misc]
        assert (error.kind, "none" in error.message) == ("bad_config", True)


def test_an_unknown_context(tmp_path: Path) -> None:
    path = Config("http://127.0.0.1:1").write(tmp_path)
    error = fails(lambda: KubeClient(path, "elsewhere"))
    assert error.kind == "bad_config"
    assert "elsewhere" in error.message


def test_certificates_that_are_none(tmp_path: Path) -> None:
    path = Config("https://127.0.0.1:1", cluster={"certificate-authority-data": "not base64!"}).write(
        tmp_path
    )
    assert fails(lambda: KubeClient(path)).kind == "bad_config"
    path = Config("https://127.0.0.1:1", cluster={"certificate-authority": "/none/ca.crt"}).write(tmp_path)
    assert fails(lambda: KubeClient(path)).kind == "bad_config"


def test_an_exec_plugin_gives_the_token_and_refreshes_it(connect: Any, tmp_path: Path) -> None:
    _client, server = connect(lambda h: h.reply(LIST))
    plugin = tmp_path / "plugin"
    plugin.write_text(
        f"#!{sys.executable}\n"
        "import json, pathlib\n"
        f"count = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "n = int(count.read_text()) + 1 if count.exists() else 1\n"
        "count.write_text(str(n))\n"
        "expiry = '2020-01-01T00:00:00Z' if n == 1 else '2099-01-01T00:00:00Z'\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',\n"
        "                  'status': {'token': f'token-{n}', 'expirationTimestamp': expiry}}))\n",
        encoding="utf-8",
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(plugin),
        "interactiveMode": "Never",
    }
    client = KubeClient(Config(server.url, user={"exec": command}).write(tmp_path), "", 1, 1)
    client.get("/a")
    client.get("/b")
    # the first token had expired when it was to be used
    assert [r.headers["authorization"] for r in server.seen] == ["Bearer token-2", "Bearer token-2"]


def test_a_proxy_is_used(connect: Any, tmp_path: Path) -> None:
    _client, proxy = connect(lambda h: h.reply(LIST))
    path = Config("http://cluster.invalid:6443", cluster={"proxy-url": proxy.url}).write(tmp_path)
    assert KubeClient(path, "", 1, 1).get("/api/v1/pods") == LIST
    assert proxy.seen[0].path.startswith("http://cluster.invalid:6443/api/v1/pods")


def test_one_client_per_cluster_until_its_file_changes(tmp_path: Path) -> None:
    path = Config("http://127.0.0.1:1").write(tmp_path)
    first = client_for(path)
    assert client_for(path) is first
    assert client_for(path, "main") is not first
    Config("http://127.0.0.1:2").write(tmp_path)
    changed = Path(path).stat().st_mtime + 5
    os.utime(path, (changed, changed))
    assert client_for(path).host == "http://127.0.0.1:2"
