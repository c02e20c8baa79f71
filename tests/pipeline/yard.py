"""Where changes of quotas are carried out in tests: the database of the tests, a simulated cluster that goes on in real
time, and workers that are real processes.

Input: a running simulated cluster; output: `Yard`, with which tests ask for changes, start and end workers, and see what
the cluster was made to write."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import redis
from django.utils import timezone

from apps.accounts.models import User
from apps.changes.models import ChangeRequest, ChangeStep, State
from apps.changes.requests import Wanted
from apps.changes.services import create_request
from apps.changes.transitions import perform
from apps.fleet.models import Cluster
from gpuportal.celery import app
from gpuportal.launcher.children import Child, Spec
from simcluster.kinds import KINDS
from simcluster.testing import Running
from tests.database import database_url_of_tests
from worker.appliers.work import carry_on
from worker.collectors.run import collect_source

ROOT = Path(__file__).resolve().parents[2]
GPU = "nvidia.com/gpu"
Edit = dict[str, Any]


def queue_edit(name: str, nominal: str, flavor: str = "h100") -> Edit:
    quota = {"flavor": flavor, "resource": GPU, "nominal": nominal}
    return {"kind": "ClusterQueue", "name": name, "set": {"quotas": [quota]}}


def cohort_edit(name: str, nominal: str, flavor: str = "h100") -> Edit:
    return {**queue_edit(name, nominal, flavor), "kind": "Cohort"}


def happens(question: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not question():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _put(before: dict[str, Any], spec: dict[str, Any]) -> None:
    spec.clear()
    spec.update(before)


@dataclass
class Writes:
    """What the cluster was made to write, by anybody: (kind, name, spec before, spec after); a Command counts with its
    action as the spec."""

    sim: Running
    found: list[tuple[str, str, Any, Any]] = field(default_factory=list)
    began: list[tuple[str, str, Any, Any]] = field(default_factory=list)
    """All of them; `found` is emptied by tests."""

    @contextmanager
    def watched(self) -> Iterator[Writes]:
        cluster = self.sim.cluster
        inner = cluster.on_write

        def note(kind: Any, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any] | None:
            part = "action" if kind.name == "Command" else "spec"
            if before.get(part) != after.get(part):
                one = (
                    kind.name,
                    after["metadata"]["name"],
                    deepcopy(before.get(part)),
                    deepcopy(after.get(part)),
                )
                self.found.append(one)
                self.began.append(one)
            return inner(kind, before, after) if inner else None

        cluster.on_write = note
        try:
            yield self
        finally:
            cluster.on_write = inner

    def of(self, kind: str, name: str | None = None) -> int:
        return sum(one[0] == kind and name in (None, one[1]) for one in self.found)


@dataclass
class Yard:
    sim: Running
    folder: Path
    cluster: Cluster
    lead: User
    admin: User
    other: User
    writes: Writes
    workers: list[Child] = field(default_factory=list)

    # ---- asking -----------------------------------------------------------------------------------------------
    def ask(self, *edits: Edit, **more: Any) -> ChangeRequest:
        wanted = Wanted(self.cluster, None, edits, "for the test", **more)
        return create_request(wanted, actor=self.lead, now=timezone.now())

    def do(self, name: str, request: ChangeRequest, actor: User | None, **more: Any) -> ChangeRequest:
        version = ChangeRequest.objects.get(pk=request.pk).version
        given = {"actor": actor, "seen_version": version, "now": timezone.now(), **more}
        return perform(name, request.pk, **given)

    def approved(self, *edits: Edit, **more: Any) -> ChangeRequest:
        """Asked for, checked here and now, put forward and approved; not begun."""
        request = self.ask(*edits, **more)
        assert carry_on(request.pk) == State.CHECKED, self.now(request).report
        return self.approve(request)

    def approve(self, request: ChangeRequest) -> ChangeRequest:
        self.do("submit", request, self.lead)
        return self.do("approve", request, self.admin)

    def now(self, request: ChangeRequest) -> ChangeRequest:
        return ChangeRequest.objects.get(pk=request.pk)

    def steps(self, request: ChangeRequest) -> list[ChangeStep]:
        return list(request.steps.order_by("position"))

    # ---- the cluster ------------------------------------------------------------------------------------------
    def spec(self, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
        found = self.sim.store.get(kind, name, namespace)
        assert found is not None
        return dict(found["spec"])

    def nominal(self, name: str, kind: str = "ClusterQueue", flavor: str = "h100") -> str:
        return next(
            str(cell["nominalQuota"])
            for group in self.spec(kind, name)["resourceGroups"]
            for one in group["flavors"]
            if one["name"] == flavor
            for cell in one["resources"]
            if cell["name"] == GPU
        )

    def outside(self, kind: str, name: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Somebody else edits an object, as kubectl does."""
        store = self.sim.cluster.store
        with store.lock:
            found = self.sim.store.get(kind, name)
            assert found is not None
            change(found["spec"])
            cluster = self.sim.cluster
            assert cluster.on_write is not None
            cluster.on_write(KINDS[kind], self.sim.store.get(kind, name) or {}, found)

    def put_back(self) -> None:
        """Every spec as it was before the first write, so that other tests find the cluster as they know it."""
        first: dict[tuple[str, str], Any] = {}
        for kind, name, before, _after in self.writes.began:
            first.setdefault((kind, name), before)
        for (kind, name), before in first.items():
            if kind != "Command":
                self.outside(kind, name, partial(_put, before))

    def collect(self) -> None:
        for source in ("nodes", "kueue", "volcano"):
            run = collect_source(cluster=self.cluster, source=source, now=timezone.now(), seconds=60)
            assert run.outcome == "ok", run.error

    # ---- workers ----------------------------------------------------------------------------------------------
    @property
    def order(self) -> Path:
        """The file that says where a worker is to end."""
        return self.folder / "end-where"

    def start_worker(self) -> Child:
        child = Child(worker_spec(self.folder, self.order))
        self.workers.append(child)
        return child

    def stop_workers(self) -> None:
        for child in self.workers:
            child.kill_group()
        self.workers.clear()

    def tick(self) -> None:
        """What beat sends every few seconds."""
        app.send_task("worker.tasks.dispatch_changes", queue="edits")


def worker_spec(folder: Path, order: Path, environment: Mapping[str, str] | None = None) -> Spec:
    """A worker for the queue `edits` alone, in one process, on the database of the tests."""
    return Spec(
        name="edits",
        command=[
            *(sys.executable, "-m", "celery", "-A", "gpuportal", "worker", "-Q", "edits", "--pool", "solo"),
            *("--loglevel", "INFO", "--without-gossip", "--without-mingle", "--without-heartbeat"),
        ],
        log=folder / "edits.log",
        cwd=ROOT,
        environment={
            "DATABASE_URL": database_url_of_tests(),
            "REDIS_URL": os.environ["REDIS_URL"],
            "PORTAL_PROCESS": "test",
            "PORTAL_VAR": str(folder),
            "PORTAL_CONNECT_TIMEOUT": "1",
            "PORTAL_READ_TIMEOUT": "2",
            "PYTHONUNBUFFERED": "1",
            "CHANGE_ENDS_WHERE": str(order),
            **(environment or {}),
        },
    )


@contextmanager
def going_on(sim: Running) -> Iterator[None]:
    """The simulated cluster moves in real time while the block lasts."""
    over = threading.Event()

    def steps() -> None:
        while not over.wait(0.25):
            if sim.driver is not None:
                sim.driver.step()

    thread = threading.Thread(target=steps, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=10)


@contextmanager
def opened(sim: Running, folder: Path) -> Iterator[Yard]:
    # What is sent here has to arrive at the workers that are started here.
    assert app.conf.broker_url == os.environ["REDIS_URL"]
    redis.Redis.from_url(os.environ["REDIS_URL"]).delete("edits")
    cluster = Cluster.objects.create(slug="yard", name="Yard", kubeconfig_path=str(sim.kubeconfig))
    people = [User(username=name, role="platform_admin") for name in ("lead", "admin", "other")]
    for person in people:
        person.set_unusable_password()
        person.save()
    with going_on(sim), Writes(sim).watched() as writes:
        lead, admin, other = people
        yard = Yard(sim, folder, cluster, lead, admin, other, writes)
        yard.collect()
        try:
            yield yard
        finally:
            yard.stop_workers()
            yard.put_back()
