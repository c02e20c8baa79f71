"""The compose file: what it promises, and that each service's command really starts in this repository."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
SECRETS = ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "PORTAL_SECRET_KEY")
READY = {"worker": "ready.", "beat": "beat: Starting..."}


# ------------------------------------------------------------------ what the file says
def test_every_process_of_the_portal_is_there() -> None:
    queues = {
        name: command[command.index("-Q") + 1] for name, command in _commands().items() if "-Q" in command
    }
    assert queues == {"worker-collect": "collect", "worker-rollup": "rollup", "worker-edits": "edits"}
    assert set(OURS) - set(queues) == {"migrate", "web", "beat"}
    assert set(SERVICES) - set(OURS) == {"postgres", "redis"}


def _commands() -> dict[str, list[str]]:
    return {name: service["command"] for name, service in OURS.items()}


@pytest.mark.parametrize("name", sorted(SERVICES.keys() - {"migrate"}))
def test_every_long_running_service_has_a_health_check_and_comes_back(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"]
    assert SERVICES[name]["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", sorted(OURS))
def test_no_process_of_ours_has_more_rights_than_it_needs(name: str) -> None:
    service = OURS[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"] is True
    assert "privileged" not in service


def test_no_secret_has_a_default() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    for name in SECRETS:
        uses = re.findall(r"\$\{" + name + r"([^}]*)\}", text)
        assert uses, name
        assert all(use.startswith(":?") for use in uses), name
    example = dict(
        line.split("=", 1)
        for line in (ROOT / ".env.example").read_text().splitlines()
        if re.match(r"\w+=", line)
    )
    assert {name: example[name] for name in SECRETS} == dict.fromkeys(SECRETS, "")


def test_the_image_runs_without_root_and_keeps_no_secret() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    last_stage = lines[max(n for n, line in enumerate(lines) if line.startswith("FROM ")) :]
    assert "USER portal" in last_stage
    assert last_stage.index("USER portal") < next(
        n for n, line in enumerate(last_stage) if line.startswith("CMD")
    )
    assert not [line for line in lines if re.match(r"(ENV|ARG)\b.*(SECRET|PASSWORD|DATABASE_URL)", line)]
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".env", ".git", "var", ".venv"} <= set(ignored)


def test_every_variable_is_documented() -> None:
    documented = (ROOT / "docs" / "operating.md").read_text()
    asked = set(re.findall(r"\$\{(\w+)", (ROOT / "docker-compose.yml").read_text()))
    settings = (ROOT / "gpuportal" / "settings.py").read_text()
    asked |= set(re.findall(r"\"(PORTAL_\w+|DATABASE_URL|REDIS_URL)\"", settings))
    assert {name for name in asked if f"`{name}`" not in documented} == set()


def test_docker_compose_accepts_the_file(tmp_path: Path) -> None:
    client = shutil.which("docker")
    if (
        client is None
        or subprocess.run([client, "compose", "version"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no docker client with the compose plugin here")
    env_file = tmp_path / "env"
    env_file.write_text("".join(f"{name}={uuid.uuid4().hex}\n" for name in SECRETS))
    done = subprocess.run(
        [
            client,
            "compose",
            "--env-file",
            str(env_file),
            "-f",
            str(ROOT / "docker-compose.yml"),
            "config",
            "-q",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


# ------------------------------------------------------------------ what its commands do here
@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A database and a Redis number of its own, so that no worker takes another test's messages."""
    url = urlsplit(os.environ["DATABASE_URL"])
    name = f"compose_{uuid.uuid4().hex[:8]}"
    with closing(psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "DATABASE_URL": urlunsplit(url._replace(path=f"/{name}")),
            "REDIS_URL": urlunsplit(urlsplit(os.environ["REDIS_URL"])._replace(path="/15")),
            "PORTAL_VAR": str(tmp_path_factory.mktemp("state")),
            "PYTHONUNBUFFERED": "1",
        }
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@contextmanager
def running(name: str, command: list[str], environment: dict[str, str], log: Path) -> Iterator[None]:
    own = {"PORTAL_PROCESS": OURS[name]["environment"]["PORTAL_PROCESS"]}
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**environment, **own},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def says(log: Path, text: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while text not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.1)


def test_migrate_fills_an_empty_database(environment: dict[str, str]) -> None:
    done = subprocess.run(
        OURS["migrate"]["command"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with closing(psycopg.connect(environment["DATABASE_URL"])) as connection:
        assert connection.execute("SELECT count(*) FROM fleet_cluster").fetchone() == (0,)


def test_web_answers(environment: dict[str, str], tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [word.replace("0.0.0.0:8000", f"127.0.0.1:{port}") for word in OURS["web"]["command"]]
    with running("web", command, environment, tmp_path / "web.log"):
        says(tmp_path / "web.log", "Listening at")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz/live", timeout=30) as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    "name", sorted(name for name in OURS if name.startswith("worker-") or name == "beat")
)
def test_celery_process_gets_ready(name: str, environment: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / f"{name}.log"
    with running(name, OURS[name]["command"], environment, log):
        says(log, READY["beat" if name == "beat" else "worker"])
        time.sleep(2)  # it goes on after it said so
        assert "Traceback" not in log.read_text()
