"""A simulated cluster inside a test or a benchmark, on a free port.

with running(scenario=True, days=1) as sim:          # the demo's scenario
with running(recordings=Path("tests/data/kueue")) as sim:
with running(objects={"Pod": [...]}) as sim:         # just these objects
with running(synthetic=Bulk(pods=5000)) as sim:      # realistic bulk
    sim.url, sim.kubeconfig, sim.prometheus_url, sim.store, sim.faults
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simcluster import recorded
from simcluster.access import AuditLog, Tokens
from simcluster.bulk import Bulk, fill_bulk, mutate
from simcluster.driver import Driver
from simcluster.faults import Faults
from simcluster.kinds import KINDS, Kind
from simcluster.scenario import FOLDER, load
from simcluster.server import Cluster, Server
from simcluster.state import kubeconfig, write_file
from simcluster.store import Store
from simcluster.telemetry import Telemetry

ADMIN, VIEWER = "admin-token", "viewer-token"
__all__ = ["ADMIN", "VIEWER", "Bulk", "Running", "running", "synthetic"]


@dataclass(slots=True)
class World:
    """The store as tests change it: objects by kind name, or by the path of their list."""

    store: Store

    def upsert(self, kind: str, obj: Mapping[str, Any]) -> int:
        """Create or replace; gives the resourceVersion."""
        found = kind_of(kind)
        body = dict(obj)
        body["metadata"] = dict(obj["metadata"])
        body["metadata"].setdefault("uid", f"uid-{found.plural}-{body['metadata']['name']}")
        body["metadata"].setdefault("creationTimestamp", "2026-12-01T00:00:00Z")
        return self.store.put(found, body, at=time.time(), record=False)

    def delete(self, kind: str, name: str, namespace: str = "") -> bool:
        return self.store.remove(kind_of(kind), f"{namespace}/{name}", at=time.time(), record=False)

    def compact(self, kind: str | None = None) -> None:
        """Forget the changes so far: watches from before are answered 410."""
        self.store.compact(kind_of(kind) if kind else None)

    def get(self, kind: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        return self.store.get(kind_of(kind), f"{namespace}/{name}")

    def objects(self, kind: str) -> list[dict[str, Any]]:
        return self.store.objects(kind_of(kind))

    def count(self, kind: str) -> int:
        return self.store.count(kind_of(kind))

    def mutate(self, kind: str, percent: float) -> int:
        """Change this share of the objects of a kind, spread evenly; gives how many."""
        return mutate(self.store, kind_of(kind), percent)


def kind_of(name: str) -> Kind:
    """A kind by its name or by the path of its list."""
    if name in KINDS:
        return KINDS[name]
    for kind in KINDS.values():
        if name in {kind.list_path(version) for version in kind.versions} | {kind.plural, kind.qualified}:
            return kind
    raise KeyError(name)


@dataclass(slots=True)
class Running:
    """A running server and the handles on it."""

    url: str
    prometheus_url: str
    kubeconfig: Path
    cluster: Cluster
    store: World
    driver: Driver | None

    @property
    def faults(self) -> Faults:
        return self.cluster.faults

    @property
    def audit(self) -> AuditLog:
        return self.cluster.audit

    @property
    def telemetry(self) -> Telemetry:
        return self.cluster.telemetry


@contextmanager
def running(
    *,
    scenario: bool | Path = False,
    objects: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    recordings: Path | None = None,
    synthetic: Bulk | None = None,
    seed: int = 1,
    days: float = 1.0,
    absent: Sequence[str] = (),
    kueue_versions: Sequence[str] = ("v1beta2", "v1beta1"),
    device_versions: Sequence[str] = (),
    editors: Sequence[str] = (),
    clock: Callable[[], float] = time.time,
    folder: Path | None = None,
    live: bool = False,
) -> Iterator[Running]:
    """Serve one of the four worlds until the block ends. `live`: a scenario goes on in real time; otherwise it
    stands still at the present and moves by `sim.driver.step()`. `device_versions`: of DRA, all where none is named.
    `editors`: in whose names the administrator's token may change things, besides its own."""
    with tempfile.TemporaryDirectory(prefix="simcluster-") as temporary:
        home = folder or Path(temporary)
        tokens, gone = Tokens(ADMIN, VIEWER, editors=frozenset(editors)), frozenset(absent)
        driver: Driver | None = None
        if scenario:
            driver = Driver(
                load(FOLDER if scenario is True else scenario),
                seed=seed,
                epoch=int(clock() - days * 86400),
                tokens=tokens,
                folder=home,
                clock=clock,
                absent=gone,
                kueue_versions=tuple(kueue_versions),
            )
            cluster = driver.cluster
            driver.catch_up()
        else:
            store = Store(now=clock())
            if recordings is not None:
                gone |= recorded.absent_in(recorded.fill(store, recordings))
            if synthetic is not None:
                fill_bulk(store, synthetic)
            for name, items in (objects or {}).items():
                for item in items:
                    World(store).upsert(name, item)
            cluster = Cluster(store, Telemetry(clock()), tokens, absent=gone, epoch=clock(), clock=clock)
            cluster.kueue_versions = tuple(kueue_versions)
            cluster.ready.set()
        cluster.device_versions = tuple(device_versions) or cluster.device_versions
        with _served(cluster, home) as (url, path):
            if driver is not None and live:
                driver.start()
            try:
                yield Running(url, url, path, cluster, World(cluster.store), driver)
            finally:
                if driver is not None:
                    driver.stop()


def synthetic(
    *, pods: int = 5000, workloads: int = 50_000, queues: int = 1000
) -> AbstractContextManager[Running]:
    """A server with many realistic objects; `store.mutate` changes a share of them."""
    return running(synthetic=Bulk(pods=pods, workloads=workloads, queues=queues))


@contextmanager
def _served(cluster: Cluster, home: Path) -> Iterator[tuple[str, Path]]:
    server = Server(cluster)
    cluster.about = {"url": server.url}
    path = home / "kubeconfig.yaml"
    write_file(path, kubeconfig(server.url, ADMIN, VIEWER))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.url, path
    finally:
        cluster.faults.over.set()
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)
