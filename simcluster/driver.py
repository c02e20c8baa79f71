"""A simulation that runs: caught up with the present, then kept at it by a thread; edits are journalled.

Input: a scenario, a folder (or none) and a clock; output: a `Cluster` to serve. Invariants: the store is written
only under its lock; after a restart with the same folder the same edits are made at the same times.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simcluster.access import Tokens
from simcluster.engine.simulation import Simulation
from simcluster.faults import Faults
from simcluster.kinds import KINDS, Kind
from simcluster.scenario import Scenario
from simcluster.server import Cluster
from simcluster.state import Entry, append_journal, read_journal
from simcluster.store import Store, version_at
from simcluster.telemetry import Telemetry

TICK_SECONDS = 0.5
WATCH_WINDOW_SECONDS = 1800
_COMPACT_EVERY = 60.0


class Driver:
    """Owns the simulation and the thread that moves it."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        seed: int,
        epoch: int,
        tokens: Tokens,
        folder: Path | None = None,
        clock: Callable[[], float] = time.time,
        faults: Faults | None = None,
        absent: frozenset[str] = frozenset(),
        kueue_versions: tuple[str, ...] = ("v1beta2", "v1beta1"),
    ) -> None:
        self.folder, self._clock = folder, clock
        store, telemetry = Store(now=epoch), Telemetry(epoch)
        self.cluster = Cluster(
            store=store,
            telemetry=telemetry,
            tokens=tokens,
            faults=faults or Faults(),
            absent=absent,
            kueue_versions=kueue_versions,
            epoch=epoch,
            clock=clock,
            on_write=self._on_write,
        )
        self.simulation = Simulation(scenario, store, telemetry, seed=seed, epoch=epoch)
        self.cluster.waiting = self._waiting
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def catch_up(self) -> float:
        """Simulate from the epoch to now, with the journal's edits; gives the seconds that it took."""
        started = time.monotonic()
        store = self.cluster.store
        with store.lock:
            for entry in read_journal(self.folder) if self.folder else ():
                self.simulation.run_until(entry.at)
                self.simulation.edited(KINDS[entry.kind], entry.object)
            self.simulation.run_until(self.cluster.now())
            # A client that resumes from an earlier run must not be ahead of this one.
            store.advance(self.simulation.now)
            self.simulation.go_live()
            self._compact()
        self.cluster.ready.set()
        return time.monotonic() - started

    def start(self) -> None:
        """Keep the simulation at the present, in a thread."""
        self._thread = threading.Thread(target=self._run, name="simulation", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def step(self) -> None:
        """Bring the simulation to the present once."""
        with self.cluster.store.lock:
            self.simulation.run_until(self.cluster.now())

    def _run(self) -> None:
        compacted = time.monotonic()
        while not self._stop.wait(TICK_SECONDS):
            self.step()
            if time.monotonic() - compacted > _COMPACT_EVERY:
                compacted = time.monotonic()
                self._compact()

    def _compact(self) -> None:
        self.cluster.store.compact(before=version_at(self.simulation.now - WATCH_WINDOW_SECONDS))

    def _waiting(self, queue: str) -> list[dict[str, Any]] | None:
        """The Workloads that wait in a ClusterQueue, heads first; the caller holds the store's lock."""
        quota = self.simulation.quota
        return [job.obj for job in quota.waiting_order(queue)] if queue in quota.queues else None

    def _on_write(self, kind: Kind, _before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
        """An edit through the API; the caller holds the store's lock."""
        self.simulation.run_until(self.cluster.now())
        entry = Entry(at=self.simulation.now, kind=kind.name, object=copy.deepcopy(after))
        written = self.simulation.edited(kind, after)
        if self.folder is not None:
            append_journal(self.folder, entry)
        return written
