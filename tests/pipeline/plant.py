"""A whole pipeline of real parts: own PostgreSQL and Redis, beat, a Celery worker, and a cluster over HTTP.

Input: a folder and a simulated cluster; output: handles to hurt each part and to ask the database what is known.
The tests look at the tables from outside, as an operator would: no part runs inside the test's process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from gpuportal.launcher import postgres, processes, redis_server
from gpuportal.launcher.children import Child, Spec, stop_all
from gpuportal.launcher.folders import Folders, folders_for
from simcluster.testing import Running

ROOT = Path(__file__).resolve().parents[2]
INTERVAL = 5
SLUG = "plant"


def happens(question: Callable[[], bool], seconds: float) -> bool:
    """Whether the answer becomes yes in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if question():
            return True
        time.sleep(0.1)
    return False


@dataclass
class Plant:
    """The running parts by name: postgres, redis, worker, beat."""

    folders: Folders
    database: postgres.Postgres
    broker: redis_server.Redis
    environment: Mapping[str, str]
    children: dict[str, Child]

    def start(self, spec: Spec) -> None:
        self.children[spec.name] = Child(spec)

    def start_postgres(self) -> None:
        postgres.prepare(self.database)
        self.start(self.database.spec())
        postgres.wait_ready(self.database, self.children["postgres"])

    def start_redis(self) -> None:
        self.start(self.broker.spec())
        redis_server.wait_ready(self.broker, self.children["redis"])

    def start_worker(self) -> None:
        self.start(processes.worker(self.folders, self.environment))

    def start_beat(self) -> None:
        self.start(processes.beat(self.folders, self.environment))

    def kill(self, name: str) -> None:
        self.children[name].kill_group()

    def supervise(self) -> None:
        """Start a worker or beat that ended, as the launcher and a compose file's restart policy do.

        Celery's worker ends itself when the broker goes away in the moment of an acknowledgement."""
        if not self.children["worker"].alive:
            self.kill("worker")
            self.start_worker()
        if not self.children["beat"].alive:
            self.kill("beat")
            self.start_beat()

    def manage(self, *arguments: str) -> None:
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env={**os.environ, **self.environment, "PORTAL_PROCESS": "manage"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def ask(self, query: str, *values: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self.database.url("plant"), row_factory=dict_row) as connection:
            return connection.execute(query, values).fetchall()

    def number(self, query: str, *values: Any) -> int:
        return int(next(iter(self.ask(query, *values)[0].values())))

    def log(self, name: str) -> str:
        return self.folders.log(name).read_text(errors="replace")

    def good_pulls(self, source: str) -> int:
        """How many pulls of this source ended well so far."""
        return self.number(
            "SELECT count(*) FROM observations_collectionrun WHERE source = %s AND outcome = 'ok'", source
        )

    def pulls_well_again(self, sources: list[str], seconds: float = 4 * INTERVAL) -> bool:
        """Whether each source has a good pull that began after this was called."""
        before = {source: self.good_pulls(source) for source in sources}

        def again() -> bool:
            self.supervise()
            return all(self.good_pulls(source) > before[source] for source in sources)

        return happens(again, seconds)


def servers(folder: Path) -> Plant:
    """PostgreSQL with the portal's tables, and Redis; the caller stops it with `stop`."""
    folders = folders_for(ROOT, folder)
    database, broker = postgres.plan(folders), redis_server.plan(folders)
    environment = {
        "DATABASE_URL": database.url("plant"),
        "REDIS_URL": broker.url(),
        "PORTAL_VAR": str(folders.var),
        "PORTAL_SECRET_KEY": "only-for-tests-" + "p" * 40,
        "PORTAL_COLLECT_INTERVAL": str(INTERVAL),
        "PORTAL_CONNECT_TIMEOUT": "1",
        "PORTAL_READ_TIMEOUT": "2",
        "DJANGO_SETTINGS_MODULE": "gpuportal.settings",
        "PYTHONUNBUFFERED": "1",
    }
    plant = Plant(folders, database, broker, environment, {})
    try:
        plant.start_redis()
        plant.start_postgres()
        postgres.ensure_database(database, "plant")
        plant.manage("migrate", "--verbosity", "0")
    except BaseException:
        stop(plant)
        raise
    return plant


def build(folder: Path, sim: Running) -> Plant:
    """Start everything and name the cluster; the caller stops it with `stop`."""
    plant = servers(folder)
    try:
        plant.manage(
            *("set_cluster", "--slug", SLUG, "--kubeconfig", str(sim.kubeconfig)),
            *("--prometheus", sim.prometheus_url),
        )
        plant.start_worker()
        plant.start_beat()
    except BaseException:
        stop(plant)
        raise
    return plant


def stop(plant: Plant) -> None:
    stop_all(list(plant.children.values()))
