"""Every kind of bad answer ends in a clear state, loses nothing that is stored, and the next pull recovers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from django.db import connection

from apps.fleet.models import Cluster
from apps.observations.models import CollectionRun, Pod, SourceState
from apps.observations.selectors import State
from worker.clients.tests.servers import serving
from worker.collectors.run import collect_source
from worker.parsers.exporters import queries

from .conftest import T0, Pull
from .minicluster import MiniCluster

pytestmark = pytest.mark.django_db


def put_pod(api: MiniCluster, name: str = "p1") -> None:
    api.put("pods", name, spec={"containers": []}, status={"phase": "Pending"})


def live() -> set[str]:
    return set(Pod.objects.filter(gone_at=None).values_list("uid", flat=True))


STATUSES = [
    (401, "unauthorized"),
    (403, "forbidden"),
    (404, "not_found"),
    (429, "throttled"),
    (500, "server_error"),
    (503, "server_error"),
]


@pytest.mark.parametrize(("code", "kind"), STATUSES)
@pytest.mark.parametrize("resumed", [False, True], ids=["list", "watch"])
def test_refusal_is_named_and_the_next_pull_recovers(
    api: MiniCluster, pull: Pull, status: Any, code: int, kind: str, resumed: bool
) -> None:
    put_pod(api)
    if resumed:
        pull("pods")
    before = live()
    api.fault_status("pods", code)
    result = pull("pods", 1)
    assert (result.outcome, result.error_kind) == ("failed", kind)
    found = status("pods", 1)
    assert (found.state, found.error_kind, live()) == (State.FAILED, kind, before)
    assert str(code) in found.error
    api.faults.clear()
    put_pod(api, "p2")
    assert pull("pods", 2).outcome == "ok"
    assert (status("pods", 2).state, live()) == (State.OK, {"p1", "p2"})


def test_throttled_for_a_moment_is_waited_for(api: MiniCluster, pull: Pull) -> None:
    put_pod(api)
    refusals = iter([True])

    def once(handler: Any) -> None:
        if next(refusals, False):
            api.refuse(handler, 429, "too many requests", Retry_After="1")
        else:
            api.list(handler, "pods")

    api.faults["pods"] = once
    assert pull("pods").outcome == "ok"


@pytest.mark.parametrize("resumed", [False, True], ids=["list", "watch"])
def test_answer_that_never_comes_times_out(api: MiniCluster, pull: Pull, status: Any, resumed: bool) -> None:
    put_pod(api)
    if resumed:
        pull("pods")
    api.fault_hang("pods")
    begun = time.monotonic()
    assert pull("pods", 1).error_kind == "timeout"
    assert time.monotonic() - begun < 2.5
    assert status("pods", 1).state is State.FAILED
    api.faults.clear()
    assert (pull("pods", 2).outcome, live()) == ("ok", {"p1"})


@pytest.mark.parametrize(
    "body",
    [b'{"kind":"List","metadata":{"resourceVers', b"", b"<html>gateway</html>", b"[]", b'{"kind":"x"}'],
)
def test_body_that_is_no_list_is_refused_as_a_whole(
    api: MiniCluster, pull: Pull, status: Any, body: bytes
) -> None:
    put_pod(api)
    pull("pods")
    api.compact()
    api.faults["pods"] = lambda h: h.reply(body) if not h.query.get("watch") else api.watch(h, "pods")
    result = pull("pods", 1)
    assert (result.outcome, result.error_kind, live()) == ("failed", "bad_body", {"p1"})
    assert status("pods", 1).state is State.FAILED
    api.faults.clear()
    assert pull("pods", 2).outcome == "ok"


def test_line_that_is_no_watch_event_makes_the_kind_be_listed(api: MiniCluster, pull: Pull) -> None:
    put_pod(api)
    pull("pods")
    put_pod(api, "p2")

    def garbled(handler: Any) -> None:
        if not handler.query.get("watch"):
            api.list(handler, "pods")
            return
        handler.begin_chunks()
        handler.chunk(b"this is not JSON\n")
        handler.chunk(b"")

    api.faults["pods"] = garbled
    result = pull("pods", 1)
    assert (result.outcome, result.mode, live()) == ("ok", "mixed", {"p1", "p2"})


def test_server_that_is_away_is_unreachable(pull: Pull, cluster: Cluster, status: Any, tmp_path: Any) -> None:
    text = (tmp_path / "kubeconfig.yaml").read_text()
    port = text.split("127.0.0.1:")[1].split()[0]
    (tmp_path / "kubeconfig.yaml").write_text(text.replace(port, "1"))
    begun = time.monotonic()
    assert pull("kueue").error_kind == "unreachable"
    assert time.monotonic() - begun < 1
    assert status("kueue").state is State.FAILED


def test_kubeconfig_that_cannot_be_used_is_bad_configuration(
    pull: Pull, cluster: Cluster, status: Any
) -> None:
    cluster.kubeconfig_path = "/nowhere/kubeconfig.yaml"
    assert pull("nodes").error_kind == "bad_config"
    assert "/nowhere/kubeconfig.yaml" in status("nodes").error


def test_clock_that_is_ahead_is_said_and_not_taken_over(api: MiniCluster, pull: Pull, status: Any) -> None:
    api.date = "Fri, 01 Jan 2100 00:00:00 GMT"
    api.put(
        "pods", "p1", created="2100-01-01T00:00:00Z", spec={}, status={"startTime": "2100-01-01T00:00:00Z"}
    )
    result = pull("pods")
    assert (result.outcome, result.error_kind) == ("partial", "clock_ahead")
    assert "ahead of ours" in result.error
    pod = Pod.objects.get()
    assert (pod.started_at and pod.started_at.year, pod.observed_at, pod.first_seen_at) == (2100, T0, T0)
    assert status("pods").state is State.PARTIAL
    api.date = None
    assert pull("pods", 1).outcome == "ok"


def test_unknown_reason_passes_through(api: MiniCluster, pull: Pull) -> None:
    from apps.observations.models import Workload

    unheard = {"type": "QuotaReserved", "status": "False", "reason": "NewInKueue19", "message": "who knows"}
    api.put("workloads", "w1", spec={"queueName": "lq"}, status={"conditions": [unheard]})
    assert pull("kueue").outcome == "ok"
    found = Workload.objects.get()
    assert (found.state, found.reason, found.message) == ("pending", "NewInKueue19", "who knows")


def test_fault_in_the_portal_is_recorded_as_such(
    api: MiniCluster, pull: Pull, status: Any, cluster: Cluster
) -> None:
    put_pod(api)
    pull("pods")
    SourceState.objects.filter(source="pods").update(cursors={"Pod": ["not", "a", "cursor"]})
    assert pull("pods", 1).error_kind == "internal"
    assert (status("pods", 1).state, live()) == (State.FAILED, {"p1"})


# ------------------------------------------------------------------ the database goes away
def _kill(pid: int) -> None:
    options = connection.get_connection_params()
    with psycopg.connect(
        dbname=options["dbname"], host=options.get("host"), user=options.get("user"), autocommit=True
    ) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [pid])


@pytest.mark.django_db(transaction=True)
def test_database_connection_killed_in_the_middle_of_a_pull(
    api: MiniCluster, pull: Pull, status: Any
) -> None:
    api.page_limit = 1
    put_pod(api, "p1")
    pull("pods")
    put_pod(api, "p2")
    api.compact()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]

    def kill(handler: Any) -> None:
        _kill(pid)
        api.list(handler, "pods")

    api.fault_second_page("pods", kill)
    result = pull("pods", 1)
    assert (result.outcome, result.error_kind) == ("failed", "store")
    found = status("pods", 1)
    assert (found.state, found.error_kind, live()) == (State.FAILED, "store", {"p1"})
    api.faults.clear()
    assert (pull("pods", 1.1).outcome, live()) == ("ok", {"p1", "p2"})


@pytest.mark.django_db(transaction=True)
def test_list_may_take_longer_than_a_statement(api: MiniCluster, pull: Pull) -> None:
    """The settings' limit for statements is for questions, not for a COPY that waits for a slow API."""
    api.page_limit = 1
    put_pod(api, "p1")
    put_pod(api, "p2")

    def slow(handler: Any) -> None:
        time.sleep(0.6)
        api.list(handler, "pods")

    api.fault_second_page("pods", slow)
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 400")
    try:
        assert (pull("pods").outcome, live()) == ("ok", {"p1", "p2"})
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_lease_taken_over_by_another_worker_stops_the_slow_one(
    api: MiniCluster, pull: Pull, cluster: Cluster
) -> None:
    put_pod(api, "p1")

    def slow(handler: Any) -> None:
        SourceState.objects.filter(source="pods").update(lease_token="another")
        connection.close()
        api.list(handler, "pods")

    api.faults["pods"] = slow
    result = pull("pods")
    assert (result.outcome, live()) == ("skipped", set())
    assert not CollectionRun.objects.exists()


# ------------------------------------------------------------------ Prometheus
def series(value: str, metric: str = "DCGM_FI_DEV_GPU_UTIL", **labels: str) -> dict[str, Any]:
    named = {"__name__": metric, "UUID": "GPU-1", "Hostname": "n1", "modelName": "H100", **labels}
    return {"metric": named, "value": [T0.timestamp(), value]}


def vector(*found: dict[str, Any]) -> bytes:
    import json

    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": list(found)}}).encode()


@pytest.fixture
def prometheus(cluster: Cluster) -> Any:
    """Sets the answer of the cluster's Prometheus."""
    state: dict[str, Callable[[Any], None]] = {"answer": lambda h: h.reply(vector())}
    with serving(lambda handler: state["answer"](handler)) as server:
        cluster.prometheus_url = server.url
        cluster.save()

        def answer(body: bytes = b"", code: int = 200) -> None:
            state["answer"] = lambda handler: handler.reply(body, status=code)

        answer.custom = lambda act: state.update(answer=act)  # type: ignore[attr-defined]
        yield answer


def samples() -> list[Any]:
    from apps.observations.models import DeviceSample

    return list(DeviceSample.objects.order_by("device", "sampled_at"))


def test_samples_are_stored_once_per_minute(prometheus: Any, pull: Pull, status: Any) -> None:
    prometheus(vector(series("42")))
    assert pull("dcgm").rows_written == 1
    assert pull("dcgm", 0.5).rows_written == 0
    assert pull("dcgm", 1).rows_written == 1
    assert str(samples()[0].utilisation_ratio) == "0.4200"
    assert status("dcgm", 1).state is State.OK


@pytest.mark.parametrize("value", ["+Inf", "-Inf", "101", "-1", "high"])
def test_value_that_is_no_measurement_is_left_out_and_said(
    prometheus: Any, pull: Pull, status: Any, value: str
) -> None:
    prometheus(vector(series(value), series("50", UUID="GPU-2")))
    result = pull("dcgm")
    assert (result.outcome, result.error_kind) == ("partial", "bad_values")
    assert "DCGM_FI_DEV_GPU_UTIL" in result.error
    assert samples()[0].utilisation_ratio is None
    found = status("dcgm")
    assert (found.state, found.quarantined) == (State.PARTIAL, 0)
    assert "quarantine" not in f"{found.sentence} {found.action}"
    assert "exporter" in found.action
    prometheus(vector(series("10"), series("50", UUID="GPU-2")))
    assert (pull("dcgm", 1).outcome, status("dcgm", 1).state) == ("ok", State.OK)


@pytest.mark.parametrize("value", ["NaN", "9223372036854775794", "140737488355328"])
def test_value_that_the_exporter_has_not_is_said_and_no_fault(
    prometheus: Any, pull: Pull, status: Any, value: str, caplog: Any
) -> None:
    prometheus(vector(series(value), series(value, UUID="GPU-2"), series("50", UUID="GPU-3")))
    result = pull("dcgm")
    assert (result.outcome, result.error_kind) == ("ok", "")
    # Each query of this server gets the same answer.
    times = 2 * len(queries())
    assert result.error == f"DCGM_FI_DEV_GPU_UTIL: {times} × blank (GPU-1: {value})"
    assert [sample.utilisation_ratio for sample in samples()] == [None, None, Decimal("0.5")]
    found = status("dcgm")
    assert (found.state, found.error, found.action) == (State.OK, result.error, "")
    assert "blank" in found.sentence
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_blanks_beside_a_fault_are_both_said(prometheus: Any, pull: Pull) -> None:
    prometheus(vector(series("NaN"), series("101", UUID="GPU-2")))
    result = pull("dcgm")
    assert (result.outcome, result.error_kind) == ("partial", "bad_values")
    times = len(queries())
    assert result.error.split("; ") == [
        f"DCGM_FI_DEV_GPU_UTIL: {times} × out of range (GPU-2: 101)",
        f"DCGM_FI_DEV_GPU_UTIL: {times} × blank (GPU-1: NaN)",
    ]


def test_prometheus_that_knows_nothing_is_partial_and_never_zero(
    prometheus: Any, pull: Pull, status: Any
) -> None:
    result = pull("dcgm")
    assert (result.outcome, result.rows_written, samples()) == ("partial", 0, [])
    assert "no series" in status("dcgm").error


@pytest.mark.parametrize(
    ("body", "code", "kind"),
    [
        (b'{"status":"error","errorType":"timeout","error":"query timed out"}', 503, "server_error"),
        (b'{"status":"error","errorType":"bad_data","error":"parse error"}', 400, "bad_body"),
        (b"", 200, "bad_body"),
        (b'{"status":"success"}', 200, "bad_body"),
        (b"<html>", 200, "bad_body"),
        (b"", 401, "unauthorized"),
        (b"", 429, "throttled"),
    ],
)
def test_prometheus_that_fails_is_failed_and_keeps_the_samples(
    prometheus: Any, pull: Pull, status: Any, body: bytes, code: int, kind: str
) -> None:
    prometheus(vector(series("42")))
    pull("dcgm")
    prometheus(body, code)
    result = pull("dcgm", 1)
    assert (result.outcome, result.error_kind) == ("failed", kind)
    assert (status("dcgm", 1).state, len(samples())) == (State.FAILED, 1)
    prometheus(vector(series("42")))
    assert pull("dcgm", 2).outcome == "ok"


def kept_cards() -> list[tuple[str, int, list[str], bool]]:
    from apps.observations.models import NodeCards

    return list(NodeCards.objects.values_list("node_name", "cards", "model_names", "silent"))


@pytest.mark.parametrize("answer", [(vector(),), (b"out of order", 503), None])
def test_cards_stay_known_when_prometheus_says_nothing(
    prometheus: Any, pull: Pull, cluster: Cluster, answer: tuple[Any, ...] | None
) -> None:
    names = {"Hostname": "gpu-1", "modelName": "NVIDIA A100-SXM4-40GB"}
    prometheus(vector(series("42", **names), series("50", UUID="GPU-2", **names)))
    pull("dcgm")
    assert kept_cards() == [("gpu-1", 2, ["NVIDIA A100-SXM4-40GB"], False)]
    if answer is None:
        cluster.prometheus_url = ""
        cluster.save()
    else:
        prometheus(*answer)
    pull("dcgm", 1)
    # A Prometheus that does not answer says nothing about its nodes; the age of the last good pull does.
    failed = answer is not None and len(answer) > 1
    assert kept_cards() == [("gpu-1", 2, ["NVIDIA A100-SXM4-40GB"], not failed)]


def test_prometheus_that_hangs_times_out(prometheus: Any, pull: Pull) -> None:
    prometheus.custom(lambda _handler: time.sleep(2))
    assert pull("dcgm").error_kind == "timeout"


def test_two_workers_pull_one_source_once(
    transactional_db: None, api: MiniCluster, cluster: Cluster, settings: Any
) -> None:
    for number in range(20):
        put_pod(api, f"p{number}")
    outcomes: list[str] = []

    def work() -> None:
        try:
            result = collect_source(cluster=cluster, source="pods", now=T0 + timedelta(minutes=1), seconds=20)
            outcomes.append(result.outcome)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(outcomes) <= {"ok", "skipped"}
    assert "ok" in outcomes
    assert Pod.objects.count() == 20
