"""What the simulation remembers of a piece of work, a node and a device. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

from simcluster.scenario import Model, Pool, Stream, Team
from simcluster.telemetry import Card, Instance, Profile

Obj = dict[str, Any]
Held = dict[tuple[str, str], Decimal]
"""Quota by (flavor, resource)."""


class Phase(StrEnum):
    PENDING = "pending"
    CHECKING = "checking"
    STARTING = "starting"
    RUNNING = "running"
    EVICTED = "evicted"
    FINISHED = "finished"


@dataclass(slots=True)
class Unit:
    """One thing that a pod can be given: a card, a MIG instance, a slice of a shared card."""

    index: int
    device: int
    instance: Instance | None
    healthy: bool = True


@dataclass(slots=True)
class NodeState:
    """A node: its object, and which units of each resource are free."""

    name: str
    pool: Pool
    model: Model
    obj: Obj
    units: dict[str, list[Unit]]
    free: dict[str, list[int]]
    cards: list[Card]
    ready: bool = True
    cordoned: bool = False
    plugin: bool = True
    """Whether the device plugin is there: without it nothing more is given away."""
    labels: dict[str, str] = field(default_factory=dict)
    taints: set[str] = field(default_factory=set)
    """Keys of the taints that keep pods away, besides those of cordoning and of a lost node."""

    def takes(self, stream: Stream) -> bool:
        """Whether the node is there, and for pods of this kind."""
        open_to_all = self.ready and not self.cordoned and self.plugin
        return open_to_all and (not self.taints or self.taints <= stream.tolerated)


@dataclass(slots=True)
class PodState:
    """A pod and what it was given."""

    key: str
    obj: Obj
    job: Job
    selector: dict[str, str]
    node: NodeState | None = None
    units: list[Unit] = field(default_factory=list)
    running: bool = False
    bad_image: bool = False
    said: str = ""


@dataclass(slots=True)
class Job:
    """A piece of work: one Workload or PodGroup, with its pods."""

    number: int
    team: Team
    stream: Stream
    name: str
    uid: str
    workload: str
    created: int
    pods: int
    gpus: int
    duration: int
    fails: bool
    profile: Profile
    patience: int
    priority: int
    totals: dict[str, int]
    obj: Obj
    queued: int
    phase: Phase = Phase.PENDING
    attempt: int = 0
    queue: str = ""
    flavors: dict[str, str] = field(default_factory=dict)
    held: Held = field(default_factory=dict)
    pod_states: list[PodState] = field(default_factory=list)
    started: int = 0
    said: str = ""
    said_at: int = 0
    unsaid: str = ""
    """Why it waits, when it is not written yet: only its numbers moved."""
    reserved: int = 0

    @property
    def namespace(self) -> str:
        return self.team.namespace

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.workload}"
