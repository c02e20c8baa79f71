"""What the capacity selectors return. A pool is (cluster, model, sharing mode).

Invariants: `physical_devices` and `buckets` count whole cards, and Σ buckets + `allocatable_devices` =
`physical_devices`; the other numbers are in the pool's `unit`, which is "gpu_equivalent" where a MIG pool has
several profiles (its `units` then hold each profile on its own); None is "not said", never zero. Held and free are
None in a cluster whose pods were never read, reserved in one whose Kueue or Volcano is there and was never read;
a cluster in which neither is installed reserves nothing, which is zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Literal

from apps.fleet.models import Cluster
from apps.observations.models import Node
from apps.observations.selectors import AsOf

MEASURES = ("units", "equivalents", "memory")
"""How a row can be read: units of its one kind, GPU-equivalents (three decimals), or bytes of framebuffer."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """One row's numbers in one measure. None: not said, or not to be said in this measure (memory of time slices
    is not divided; units of several kinds are not added). held + free + stranded = allocatable where held is known.
    `guarantee`, `deserved`, `capability`: Volcano's, beside Kueue's nominal and ceiling."""

    unit: str
    physical: Decimal | None
    allocatable: Decimal | None
    held_bound: Decimal | None = None
    free: Decimal | None = None
    stranded: Decimal | None = None
    held_reserved: Decimal | None = None
    held_admitted: Decimal | None = None
    nominal: Decimal | None = None
    ceiling: Decimal | None = None
    guarantee: Decimal | None = None
    deserved: Decimal | None = None
    capability: Decimal | None = None


@dataclass(frozen=True, slots=True)
class UnitRow:
    """One schedulable resource of a pool or node. `equivalents`: whole GPUs per unit by the weight table. Queues
    promise and reserve on pools: a node's rows say nothing of nominal, ceiling and reserved."""

    resource: str
    profile: str
    unit: str
    physical: Decimal
    allocatable: Decimal
    held_bound: Decimal | None
    held_reserved: Decimal | None
    free: Decimal | None
    nominal: Decimal | None
    ceiling: Decimal | None
    equivalents: Decimal
    memory_bytes: int | None
    stranded: Decimal | None = None
    over_held: Decimal | None = None
    held_admitted: Decimal | None = None
    guarantee: Decimal | None = None
    deserved: Decimal | None = None
    capability: Decimal | None = None


@dataclass(frozen=True, slots=True)
class PoolRow:
    """`nominal` is the sum of quota promised on the pool, `ceiling` what its queues reach if every one borrows
    all it may; `held_bound` what pods on its nodes hold, `held_reserved` what queues have reserved (None: not
    collected, or with `reserved_known` that it lies in flavors over several pools, of which none can claim it),
    `held_admitted` the part of it whose checks have passed; `guarantee`, `deserved` (counted as nominal, too) and
    `capability` are Volcano's;
    `free` what is allocatable, not held by a bound pod and can be taken; `stranded` what is not held and cannot be
    taken, because its node has no CPU, memory or room for a pod left; held + free + stranded = allocatable.
    `over_held`: what pods hold beyond that, on units that are out of use. `amounts`: the same in each of MEASURES;
    `mode_sentence`: what a unit is and is not; `stranded_slices`: MIG compute and memory slices that no instance
    covers (part of the physical cards, in no unit)."""

    cluster: Cluster
    vendor: str
    model: str
    model_label: str
    sharing_mode: str
    unit: str
    physical_devices: int
    buckets: Mapping[str, int]
    allocatable_devices: int
    physical_units: Decimal
    unit_buckets: Mapping[str, Decimal]
    allocatable: Decimal
    held_bound: Decimal | None
    held_reserved: Decimal | None
    free: Decimal | None
    nominal: Decimal | None
    ceiling: Decimal | None
    nodes: int
    units: tuple[UnitRow, ...]
    estimated: bool
    reserved_known: bool = True
    notes: tuple[str, ...] = ()
    stranded: Decimal | None = None
    held_admitted: Decimal | None = None
    amounts: Mapping[str, Amounts] = field(default_factory=dict)
    mode_sentence: str = ""
    stranded_slices: tuple[int, int] = (0, 0)
    over_held: Decimal | None = None
    guarantee: Decimal | None = None
    deserved: Decimal | None = None
    capability: Decimal | None = None

    @property
    def key(self) -> str:
        """Names the pool in a URL or a row id."""
        return f"{self.cluster.slug}|{self.model}|{self.sharing_mode}"

    @property
    def allocation_ratio(self) -> Decimal | None:
        """Promised over usable; above 1 is over-commitment."""
        if self.nominal is None or not self.allocatable:
            return None
        return (self.nominal / self.allocatable).quantize(Decimal("0.001"))


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over pools: cards as whole cards, everything else in GPU-equivalents (three decimals). `held_bound` and
    `free` are over the clusters whose pods were read, to be compared with `allocatable_of_read`; `without_pods`
    and `without_quota` name the clusters that held and reserved leave out."""

    physical_devices: int
    buckets: Mapping[str, int]
    allocatable_devices: int
    allocatable: Decimal
    allocatable_of_read: Decimal
    held_bound: Decimal | None
    held_reserved: Decimal | None
    free: Decimal | None
    nominal: Decimal | None
    ceiling: Decimal | None
    pools: int
    nodes: int
    without_pods: tuple[Cluster, ...] = ()
    without_quota: tuple[Cluster, ...] = ()
    stranded: Decimal | None = None
    held_admitted: Decimal | None = None
    over_held: Decimal | None = None


RefKind = Literal[
    "node",
    "pool",
    "flavor",
    "resource",
    "ClusterQueue",
    "Cohort",
    "VolcanoQueue",
    "Topology",
    "HyperNode",
    "group",
    "ResourceClaim",
]


_OF_TEAMS = frozenset(("ClusterQueue", "Cohort", "VolcanoQueue", "group", "ResourceClaim"))
_ABOUT_TEAMS = frozenset(
    ("cohort_cycle", "no_rdma", "spans_capacity_types", "claim_orphan", "claim_without_pod")
)


@dataclass(frozen=True, slots=True)
class Ref:
    """An object that a note is about, enough to link to it. `name`: of a pool "model|sharing mode"; `namespace` of
    what lies in one ("group": the pods of one job; a claim)."""

    kind: RefKind
    name: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """Something about capacity that needs a look. `code`: "pods_missing" | "over_committed" | "unused_flavor" |
    "shared_flavor" | "mixed_units" | "cohort_cycle" | "no_flavor" | "two_flavors" | "unregistered" | "no_rdma" |
    "spans_capacity_types" | a code of inventory (labels.CODE_TEXTS) …; `text` a sentence in the active language;
    `objects` the parts of its key, or the names of the nodes it is about; `refs` everything that causes it."""

    code: str
    cluster: Cluster
    text: str
    objects: tuple[str, ...] = ()
    refs: tuple[Ref, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes to list under the sentence."""
        return tuple(ref.name for ref in self.refs if ref.kind == "node")

    def for_everybody(self) -> Note | None:
        """The note without the queues and jobs that cause it, for readers who may not see every team's; None when
        its very sentence names them."""
        if self.code in _ABOUT_TEAMS or (self.code == "mixed_units" and self.objects[0] in _OF_TEAMS):
            return None
        return replace(self, refs=tuple(ref for ref in self.refs if ref.kind not in _OF_TEAMS))


@dataclass(frozen=True, slots=True)
class CapacityReport:
    """`missing`: clusters whose nodes were never read, left out of every number; `as_of` the nodes' freshness."""

    pools: tuple[PoolRow, ...]
    totals: Totals
    missing: tuple[Cluster, ...]
    notes: tuple[Note, ...]
    as_of: AsOf


@dataclass(frozen=True, slots=True)
class BucketReason:
    """Why cards of a node are out of use: the bucket, how many cards, and the evidence in words."""

    bucket: str
    label: str
    devices: int
    text: str


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One (node, model, sharing mode). `flavors`: those that reach the node by its labels; `cards_seen_at`: when
    telemetry saw the cards last that are counted, None where it sees them or they are counted otherwise; `plugin_down`:
    nothing is offered of cards that labels or the past tell of."""

    cluster: Cluster
    node: str
    uid: str
    vendor: str
    model: str
    model_label: str
    sharing_mode: str
    unit: str
    physical_devices: int
    buckets: Mapping[str, int]
    allocatable_devices: int
    physical_units: Decimal
    allocatable: Decimal
    held_bound: Decimal | None
    free: Decimal | None
    units: tuple[UnitRow, ...]
    reasons: tuple[BucketReason, ...]
    flavors: tuple[str, ...]
    estimated: bool
    notes: tuple[str, ...]
    observed_at: datetime
    stranded: Decimal | None = None
    amounts: Mapping[str, Amounts] = field(default_factory=dict)
    mode_sentence: str = ""
    stranded_slices: tuple[int, int] = (0, 0)
    origin: str = "plugin"
    capacity_type: str = ""
    over_held: Decimal | None = None
    cards_seen_at: datetime | None = None
    plugin_down: bool = False


@dataclass(frozen=True, slots=True)
class NodePod:
    """A pod on a node that holds accelerators; `held` False once it is over. `team_id` None: no team's."""

    uid: str
    namespace: str
    name: str
    phase: str
    team_id: int | None
    requests: Mapping[str, Decimal]
    owner_kind: str
    owner_name: str
    queue_name: str
    bound_at: datetime | None
    held: bool


@dataclass(frozen=True, slots=True)
class NodeDetail:
    """A node's page: its rows (one per model and mode), its pods, and the object as last seen. Without `pods_read`
    nobody knows what runs on it."""

    cluster: Cluster
    node: Node
    rows: tuple[NodeRow, ...]
    pods: tuple[NodePod, ...]
    as_of: AsOf
    pods_read: bool = True
