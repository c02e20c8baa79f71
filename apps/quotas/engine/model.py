"""What the admission engine is given and what it answers. Plain frozen data; amounts are Decimal in base units.

Times are numbers: seconds since any fixed moment, only compared with each other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, Protocol

from apps.quotas.tree import FlavorResource, QuotaNode

Amounts = Mapping[str, Decimal]
"""By resource."""
ZERO = Decimal(0)

Preempt = Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any"]
WhyPreempted = Literal[
    "InClusterQueue", "InCohortReclamation", "InCohortReclaimWhileBorrowing", "InCohortFairSharing"
]
Refused = Literal[
    "ExceedsMaxQuota",  # can never fit: larger than the ceiling of every flavor
    "WaitingForQuota",  # not enough unused quota now
    "WaitingForPreemption",  # victims are chosen and have not gone yet
    "NoMatchingFlavor",  # affinity, taints, or no flavor at all
    "NoPlacement",  # the quota is there, but no place for all pods: said by whoever places them
    "ResourceNotCovered",  # the queue does not list a resource that is asked for
    "BehindHead",  # behind the blocked head of a StrictFIFO queue: not looked at
    "QueueInactive",  # stopped, a flavor or check is missing, below a cohort cycle
    "QueueMissing",  # no such ClusterQueue, or the LocalQueue is missing or stopped
    "NamespaceMismatch",
    "Deactivated",
    "NotEvaluated",  # the run ended before its turn
]


@dataclass(frozen=True, slots=True)
class Flavor:
    """A ResourceFlavor. `taints`: (key, value, effect); `tolerations` as Kubernetes writes them."""

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[tuple[str, str, str], ...] = ()
    tolerations: tuple[Mapping[str, Any], ...] = ()
    topology: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """A resource group: the resources it covers and the flavors in the order in which they are tried."""

    covered: tuple[str, ...]
    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """How a ClusterQueue admits; defaults are Kueue's."""

    strategy: Literal["BestEffortFIFO", "StrictFIFO"] = "BestEffortFIFO"
    within_cluster_queue: Preempt = "Never"
    reclaim_within_cohort: Preempt = "Never"
    borrow_within_cohort: Preempt = "Never"
    max_priority_threshold: int | None = None
    when_can_borrow: Literal["MayStopSearch", "TryNextFlavor"] = "MayStopSearch"
    when_can_preempt: Literal["MayStopSearch", "TryNextFlavor"] = "TryNextFlavor"
    preference: Literal["", "BorrowingOverPreemption", "PreemptionOverBorrowing"] = ""


@dataclass(frozen=True, slots=True)
class Queue:
    """A ClusterQueue. `node`: its place and quota in the tree; `inactive`: why it admits nothing ("" when it does);
    `checks`: names of its admission checks (not modelled: work counts as let through); `drains`: HoldAndDrain;
    `elsewhere`: a check hands its work to another cluster; `by_past_use`: its LocalQueues take turns by past use."""

    node: QuotaNode
    groups: tuple[Group, ...]
    policy: Policy = Policy()
    inactive: str = ""
    drains: bool = False
    checks: tuple[str, ...] = ()
    """A stopped queue (`node.stopped`) takes back what is reserved and not admitted yet; one that drains, everything."""
    elsewhere: bool = False
    by_past_use: bool = False

    @property
    def name(self) -> str:
        return self.node.name


@dataclass(frozen=True, slots=True)
class PodSet:
    """`requests` of one pod; `min_count`: partial admission may go down to it. Of node affinity only what Kueue reads
    of it: `node_selector` and the required node selector terms as served. `claims`: it asks for devices by claims;
    `elastic`: of work that may change its size while it runs."""

    name: str
    count: int
    requests: Amounts
    min_count: int | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[Mapping[str, Any], ...] = ()
    tolerations: tuple[Mapping[str, Any], ...] = ()
    topology: bool = False
    claims: bool = False
    elastic: bool = False


@dataclass(frozen=True, slots=True)
class Assigned:
    """What a pod set got: pods, and a flavor and a total amount for each resource."""

    count: int
    flavors: Mapping[str, str]
    amounts: Amounts


@dataclass(frozen=True, slots=True)
class Work:
    """One workload. `queued`: by which it is ordered (Kueue keeps the creation also after a preemption); `holds`: what it
    has reserved (None: it waits); `reserved_at` orders victims; `admitted` False: it holds quota and waits for checks.
    `blocked`: why it cannot be looked at at all, also once it no longer holds anything."""

    uid: str
    name: str
    namespace: str
    queue: str
    priority: int
    created: float
    queued: float
    pod_sets: tuple[PodSet, ...]
    holds: Mapping[str, Assigned] | None = None
    reserved_at: float = 0.0
    blocked: Refused | None = None
    local_queue: str = ""
    admitted: bool = True


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that admission decides by. `cohorts`: those that have an object. `divided`: the resources that stand
    for devices of DRA which share counters or capacity."""

    queues: tuple[Queue, ...]
    cohorts: tuple[QuotaNode, ...]
    flavors: Mapping[str, Flavor]
    work: tuple[Work, ...]
    fair_sharing: bool = False
    fair_strategies: tuple[Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"], ...] = (
        "LessThanOrEqualToFinalShare",
        "LessThanInitialShare",
    )
    divided: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Admitted:
    """`borrows`: whether it needed more than the queue's nominal quota in any flavor."""

    uid: str
    assigned: Mapping[str, Assigned]
    borrows: bool


@dataclass(frozen=True, slots=True)
class Preempted:
    uid: str
    by: str
    why: WhyPreempted


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason of a refusal, in numbers. `code`: as Refused; `flavor`, `resource` "" where they do not apply;
    `more`: how much more would be needed; `most`: the ceiling that is exceeded, of NoPlacement the pods that find a
    place; `taint`: (key, value, effect) that is not tolerated."""

    code: Refused
    pod_set: str = ""
    flavor: str = ""
    resource: str = ""
    more: Decimal | None = None
    most: Decimal | None = None
    taint: tuple[str, str, str] | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """Why work does not start: the verdict and all reasons, per pod set and flavor. `victims`: how many have to go for
    it; `skipped`: in its cycle others before it took the same victims, or the room."""

    uid: str
    refused: Refused
    reasons: tuple[Reason, ...] = ()
    victims: int = 0
    skipped: Literal["", "overlapping_victims", "no_longer_fits"] = ""


class Placement(Protocol):
    """Asked once quota is there: None when `count` pods find a place in these flavors, else a Reason of code NoPlacement.
    It must not change anything, and answer the same while nothing it looks at changes."""

    def __call__(
        self, work: Work, pod_set: PodSet, count: int, flavors: Collection[str]
    ) -> Reason | None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where it comes to rest. `admitted`: work that had nothing and holds quota now; `kept`: work that held quota and
    still does; `preempted`: in order, some of it may be admitted again; `usage`: by queue; `settled` False: the limit
    of cycles was reached, or preemption goes round in circles; `gaps`: codes of what was there and is not modelled."""

    admitted: Mapping[str, Admitted]
    kept: frozenset[str]
    preempted: tuple[Preempted, ...]
    pending: Mapping[str, Pending]
    usage: Mapping[str, Mapping[FlavorResource, Decimal]]
    cycles: int
    settled: bool
    gaps: frozenset[str] = frozenset()
