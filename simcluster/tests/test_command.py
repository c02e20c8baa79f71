"""The command line: one line for each failure, a kubeconfig, a history by HTTP, and a clean end."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from simcluster.tests.libraries import client, config

ROOT = Path(__file__).parents[2]
LIBC = ctypes.CDLL(None, use_errno=True)
RECORDED = ROOT / "tests" / "data" / "kueue"


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "simcluster", "serve", *map(str, arguments)]


def to_any_thread(process: subprocess.Popen[str], number: int) -> None:
    """A signal as the kernel may deliver it: to a thread that is not the first."""
    other = next(int(tid) for tid in os.listdir(f"/proc/{process.pid}/task") if int(tid) != process.pid)
    assert LIBC.tgkill(process.pid, other, number) == 0


@contextmanager
def served(
    *arguments: str | Path, stop: Callable[[subprocess.Popen[str], int], None] = subprocess.Popen.send_signal
) -> Iterator[str]:
    process = subprocess.Popen(
        command(*arguments), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("ready http://127.0.0.1:"), process.stderr.read() if process.stderr else ""
        yield ready.split()[1]
        stop(process, signal.SIGTERM)
        assert process.wait(timeout=10) == 0
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def failure(*arguments: str | Path) -> tuple[int, str]:
    done = subprocess.run(
        command(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stderr


def test_a_served_scenario(tmp_path: Path) -> None:
    with served("--port", "0", "--state", tmp_path, "--days", "0.5", "--without", "volcano") as url:
        api = config.new_client_from_config(str(tmp_path / "kubeconfig.yaml"))
        assert len(client.CoreV1Api(api).list_node().items) == 59
        assert oct(os.stat(tmp_path / "kubeconfig.yaml").st_mode & 0o777) == "0o600"
        with urllib.request.urlopen(f"{url}/_sim/ready", timeout=5) as answer:
            assert json.loads(answer.read())["ready"] is True
        with urllib.request.urlopen(f"{url}/_sim/history", timeout=5) as answer:
            lines = [json.loads(line) for line in answer]
        assert {"PodGroup", "VolcanoQueue"}.isdisjoint(line["kind"] for line in lines)
        assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
        middle = lines[len(lines) // 2]["at"]
        with urllib.request.urlopen(f"{url}/_sim/history?since={middle}", timeout=5) as answer:
            later = [json.loads(line) for line in answer]
        assert later == [line for line in lines if line["at"] >= middle]


def test_it_ends_whichever_thread_the_signal_reaches(tmp_path: Path) -> None:
    with served("--port", "0", "--state", tmp_path, "--days", "0.1", stop=to_any_thread) as url:
        assert url


def test_a_second_start_keeps_seed_epoch_and_tokens(tmp_path: Path) -> None:
    for _ in range(2):
        with served("--port", "0", "--state", tmp_path, "--days", "0.1"):
            state = (tmp_path / "state.json").read_text()
    assert (tmp_path / "state.json").read_text() == state
    with served("--port", "0", "--state", tmp_path, "--days", "0.1", "--seed", "9"):
        changed = json.loads((tmp_path / "state.json").read_text())
    assert changed["seed"] == 9
    assert changed["admin_token"] == json.loads(state)["admin_token"]


def test_an_old_epoch_is_replaced(tmp_path: Path) -> None:
    with served("--port", "0", "--state", tmp_path, "--days", "0.1"):
        state = json.loads((tmp_path / "state.json").read_text())
    state["epoch"] -= 61 * 86400
    (tmp_path / "state.json").write_text(json.dumps(state))
    with served("--port", "0", "--state", tmp_path, "--days", "0.1"):
        renewed = json.loads((tmp_path / "state.json").read_text())
    assert renewed["epoch"] > state["epoch"] + 60 * 86400


@pytest.mark.skipif(not RECORDED.is_dir(), reason="tests/data/kueue is not in this checkout")
def test_recorded_lists_are_served_as_they_are(tmp_path: Path) -> None:
    with served("--port", "0", "--state", tmp_path, "--recordings", RECORDED):
        api = config.new_client_from_config(str(tmp_path / "kubeconfig.yaml"))
        custom = client.CustomObjectsApi(api)
        listed = custom.list_cluster_custom_object("kueue.x-k8s.io", "v1beta2", "clusterqueues")["items"]
    recorded = json.loads((RECORDED / "clusterqueues.json").read_text())["items"]
    for items in (listed, recorded):
        for item in items:
            del item["metadata"]["resourceVersion"]
    assert listed == recorded


def test_bulk_objects_that_can_be_changed(tmp_path: Path) -> None:
    with served("--port", "0", "--state", tmp_path, "--bulk", "20,300,10") as url:
        api = config.new_client_from_config(str(tmp_path / "kubeconfig.yaml"))
        assert len(client.CoreV1Api(api).list_pod_for_all_namespaces().items) == 20
        request = urllib.request.Request(f"{url}/_sim/mutate?kind=Workload&percent=1", method="POST")
        with urllib.request.urlopen(request, timeout=5) as answer:
            assert json.loads(answer.read()) == {"changed": 3}


def test_who_may_be_named_in_a_request(tmp_path: Path) -> None:
    options = ("--bulk", "1,1,1", "--editor", "zhang", "--editor", "li")
    with served("--port", "0", "--state", tmp_path, *options) as url:
        api = config.new_client_from_config(str(tmp_path / "kubeconfig.yaml"))
        for name, status in (("zhang", None), ("li", None), ("wang", 403)):
            api.set_default_header("Impersonate-User", name)
            try:
                client.CoreV1Api(api).list_node()
                answered = None
            except client.ApiException as error:
                answered = error.status
            assert (name, answered) == (name, status)
        with urllib.request.urlopen(f"{url}/_sim/audit", timeout=5) as answer:
            assert json.loads(answer.read())["items"] == []


def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, said = failure("--port", str(port), "--state", tmp_path)
    assert (code, said) == (1, f"simcluster: port {port} on 127.0.0.1 is taken\n")


def test_a_broken_state_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{")
    code, said = failure("--port", "0", "--state", tmp_path)
    assert code == 1
    assert said.count("\n") == 1
    assert "remove it to start over" in said


def test_a_folder_without_recordings_is_one_line(tmp_path: Path) -> None:
    code, said = failure("--port", "0", "--state", tmp_path, "--recordings", tmp_path)
    assert (code, said.count("\n")) == (1, 1)
    assert "no recorded list" in said


def test_a_scenario_with_an_unknown_field_is_one_line(tmp_path: Path) -> None:
    for name in ("fleet", "queues", "teams"):
        (tmp_path / f"{name}.yaml").write_bytes(
            (ROOT / "simcluster" / "scenario" / f"{name}.yaml").read_bytes()
        )
    with (tmp_path / "fleet.yaml").open("a") as file:
        file.write("colour: blue\n")
    code, said = failure("--port", "0", "--state", tmp_path / "state", "--scenario", tmp_path)
    assert (code, said.count("\n")) == (1, 1)
    assert "fleet.yaml" in said
    assert "colour" in said
