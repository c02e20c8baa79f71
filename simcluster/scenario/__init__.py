"""A scenario: data files that say what the simulated cluster has and what happens in it.

Input: a folder with fleet.yaml, queues.yaml, teams.yaml and devices.yaml (default: this one); output: `Scenario`. A file with an
unknown or a missing field stops the start with one line that names it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from simcluster.telemetry import Profile, Sharing

FOLDER = Path(__file__).parent


class ScenarioError(ValueError):
    """A scenario file is unusable; the message names the file and the place in it."""


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Stack(_Strict, frozen=True):
    """Software of a node; "" is what most nodes have."""

    driver: str = ""
    cuda: str = ""
    kernel: str = ""
    os: str = ""
    runtime: str = ""
    kubelet: str = ""


class Model(_Strict, frozen=True):
    """A device model. `vendor` decides labels and resource; watts are the board's; `beside`: further resources that
    its plugin reports for a node, none of them a device more."""

    vendor: Literal["nvidia", "amd", "ascend", "gaudi", "intel", "tpu", "neuron", "xpu", "none"]
    cpu: int
    host_memory: str
    instance: str
    resource: str = ""
    product: str = ""
    model_name: str = ""
    memory_mib: int = 0
    family: str = ""
    compute: tuple[int, int] = (0, 0)
    idle_watts: float = 0.0
    max_watts: float = 0.0
    labels: dict[str, str] = {}
    beside: dict[str, str] = {}


class MigProfile(_Strict, frozen=True):
    """Instances of one MIG profile on each card that carries it."""

    name: str
    per_card: int
    cards: int
    memory_mib: int
    slices: int
    multiprocessors: int


Mode = Literal[
    "exclusive",
    "mig-mixed",
    "mig-single",
    "mig-invalid",
    "time-slicing",
    "renamed",
    "mps",
    "hami",
    "partitions",
    "dra",
    "dra-partitions",
    "dual",
    "unoffered",
    "none",
]


class Scrape(_Strict, frozen=True):
    """How the nodes' exporter is installed: metrics left out; metrics that are blank, by card; the label that names
    the node (a newer exporter writes it small); whether the driver's version is a label; how pods are named."""

    lacks: tuple[str, ...] = ()
    blank: dict[str, tuple[str, ...]] = {}
    node_key: Literal["Hostname", "hostname"] = "Hostname"
    driver: bool = True
    sharing: Sharing = "one"


class Pool(_Strict, frozen=True):
    """Nodes alike. `racks` and `cliques` (NVLink domains) deal the nodes out in turn; `rdma`: handles of the RDMA
    plugin per node; mode "partitions": `replicas` of `resource` on each card; "dra" and "dra-partitions": a DRA
    driver offers the cards instead of the plugin; "dual": both do; "unoffered": nobody does, the exporter sees them."""

    prefix: str
    count: int
    model: str
    devices: int = 0
    mode: Mode = "exclusive"
    resource: str = ""
    rdma: int = 0
    cliques: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    replicas: int = 1
    mig: tuple[MigProfile, ...] = ()
    block: str = "b1"
    racks: tuple[str, ...] = ("r1",)
    zone: str = "eu-west-1a"
    pool: str = "gpu"
    capacity_type: str = "on-demand"
    taints: tuple[dict[str, str], ...] = ()
    sm_active: bool = False
    scrape: Scrape = Scrape()
    first: int = 1


class Incident(_Strict, frozen=True):
    """Something that happens to a node, days after the epoch; without `hours` it stays.

    device: the plugin takes the node's last card out (`xid`); dropped: the plugin, started anew, does not list it any
    more; plugin: the device plugin is gone; upgrade: the operator's driver upgrade is at `step`, afterwards the driver
    is `driver`; removing: the autoscaler wants the node away; exporter: its exporter does not answer."""

    node: str
    kind: Literal["cordon", "not_ready", "device", "dropped", "plugin", "upgrade", "removing", "exporter"]
    day: float
    hours: float | None = None
    xid: int = 0
    step: str = "wait-for-jobs-required"
    driver: str = ""


class Churn(_Strict, frozen=True):
    """Random incidents: nodes with these prefixes, one every so many hours on average, for minutes."""

    prefixes: tuple[str, ...] = ()
    every_hours: float = 60.0
    minutes: tuple[int, int] = (15, 90)


class FleetFile(_Strict, frozen=True):
    models: dict[str, Model]
    pools: tuple[Pool, ...]
    incidents: tuple[Incident, ...] = ()
    churn: Churn = Churn()
    stacks: dict[str, Stack] = {}
    """By node, where it differs from the others."""


class QueuesFile(_Strict, frozen=True):
    """Kubernetes objects by kind, as they are written with kubectl, without apiVersion and kind."""

    objects: dict[str, list[dict[str, Any]]]
    check_minutes: tuple[int, int] = (20, 240)
    """How long the admission check's controller takes."""


class Stream(_Strict, frozen=True):
    """Work that keeps coming (per_day 0: only what is standing). `pods` and `gpus`: drawn from; `minutes`: shortest and longest run;
    `mistake`: what is wrong with it, so that it never starts and is taken back after `patience_hours`."""

    name: str
    queue: str
    per_day: float
    pods: tuple[int, ...] = (1,)
    gpus: tuple[int, ...] = (1,)
    minutes: tuple[int, int] = (10, 120)
    resource: str = "nvidia.com/gpu"
    cpu_per_gpu: int = 8
    memory_gib_per_gpu: int = 64
    priority: str = "normal"
    rhythm: Literal["day", "night", "steady"] = "day"
    failing: float = 0.06
    profile: Profile = Profile()
    idle: float = 0.04
    selector: dict[str, str] = {}
    spot: bool = False
    tolerates: tuple[str, ...] = ()
    """Keys of further taints that its pods tolerate."""
    owner: Literal["Job", "StatefulSet", "RayJob", "PyTorchJob"] = "Job"
    topology: str = ""
    spread: bool = False
    """Its pods go where most room is, not where least is."""
    patience_hours: tuple[float, float] = (3.0, 30.0)
    image_pull_failing: float = 0.0
    standing: int = 0
    """So many are there from the start on, beside those that arrive."""

    @property
    def tolerated(self) -> frozenset[str]:
        """Keys of the taints that its pods tolerate."""
        return frozenset((*self.tolerates, "spot") if self.spot else self.tolerates)


class Team(_Strict, frozen=True):
    slug: str
    name: str
    cost_centre: str
    namespace: str
    streams: tuple[Stream, ...]
    local_queues: dict[str, str] = {}
    volcano_queues: tuple[str, ...] = ()
    cluster_queues: tuple[str, ...] = ()


class TeamsFile(_Strict, frozen=True):
    teams: tuple[Team, ...]


class Holding(_Strict, frozen=True):
    """A ResourceClaim and the pods that use it, from `at` (days after the epoch) on. shared: one claim that all pods
    name; template: a claim of one pod; extended: the pod asks for an extended resource; admin: a look at devices that
    takes none; none: pods of a node that hold no device, only its processors and memory."""

    name: str
    namespace: str
    node: str
    devices: tuple[str, ...]
    claim: Literal["shared", "template", "extended", "admin", "none"]
    at: float
    pods: int = 1
    cpu: int = 4
    memory_gib: int = 32
    profile: Profile = Profile()


class DevicesFile(_Strict, frozen=True):
    holdings: tuple[Holding, ...]


class Scenario(_Strict, frozen=True):
    fleet: FleetFile
    queues: QueuesFile
    teams: tuple[Team, ...]
    holdings: tuple[Holding, ...]


def load(folder: Path = FOLDER) -> Scenario:
    """Read and check a scenario folder. Raises ScenarioError."""
    fleet = _read(folder / "fleet.yaml", FleetFile)
    queues = _read(folder / "queues.yaml", QueuesFile)
    teams = _read(folder / "teams.yaml", TeamsFile).teams
    return Scenario(fleet, queues, teams, _read(folder / "devices.yaml", DevicesFile).holdings)


def _read(path: Path, shape: Any) -> Any:
    try:
        return msgspec.convert(yaml.safe_load(path.read_bytes()), shape)
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise ScenarioError(f"{path}: {' '.join(str(error).split())}") from error
