"""What the topology selector returns. A pool is (cluster, model, how its nodes were bought); whole cards only.

Invariants: per pool, layout and level Σ domains (the row of nodes in no domain among them) = the pool's numbers; None
is "not known": what is held where pods were never read, a rack or block where no topology says what one is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from apps.capacity.rows import Note
from apps.capacity.topology import Layout
from apps.core.gpu import rounded
from apps.fleet.models import Cluster
from apps.observations.selectors import AsOf

SCOPES = ("node", "nvlink", "rack", "block")


@dataclass(frozen=True, slots=True)
class FitRow:
    """How many jobs of k cards a pool has room for now, each inside one `scope`, by one layout (`kind`, `topology`,
    `level`; "" for "node"). `domains`: how many places of this scope hold cards of the pool, nodes in none of them
    counted one by one; `largest_free`: free cards in the best of them; `broken`: free cards on nodes that are not
    wholly free. `known` False: nothing says what a rack or block is here. held + free + stranded = allocatable."""

    cluster: Cluster
    model: str
    model_label: str
    sharing_mode: str
    capacity_type: str
    scope: str
    kind: str
    topology: str
    level: str
    domains: int | None
    nodes: int
    allocatable: int
    held: int | None
    free: int | None
    stranded: int | None
    broken: int | None
    largest_free: int | None
    fits: Mapping[int, int | None]
    known: bool = True

    @property
    def fragmentation_ratio(self) -> Decimal | None:
        """Share of the free cards that lie on nodes that are not wholly free."""
        if self.broken is None or not self.free:
            return None
        return rounded(Fraction(self.broken, self.free))


@dataclass(frozen=True, slots=True)
class DomainRow:
    """Cards of one pool in one domain. `kind`: "kueue" (a Topology's levels), "volcano" (HyperNodes), "nvlink"
    (cliques) or "hostname" (every node, where nothing else is known); `level_index` 0 is the widest; `domain` is
    the path from the widest level, `parent` that of the next wider one, `name` its last part and `depth` its place in
    the tree. `node`: its only node, "" when there are several. `domain` "": the nodes in no domain, whose `fits`
    counts each by itself."""

    cluster: Cluster
    model: str
    model_label: str
    sharing_mode: str
    capacity_type: str
    kind: str
    topology: str
    level: str
    level_index: int
    domain: str
    parent: str
    name: str
    depth: int
    node: str
    nodes: int
    allocatable: int
    held: int | None
    free: int | None
    stranded: int | None
    broken: int | None
    largest_free_node: int | None
    fits: Mapping[int, int | None]


@dataclass(frozen=True, slots=True)
class PlaceRow:
    """Where a node with accelerators stands and how it is connected. `domain`: its path in the first layout that
    knows a rack, `clique` its NVLink clique, "" where there is none; `rdma`: {resource: allocatable}, `rdma_said` that
    a label says it has RDMA; `numa`: {NUMA node: cards}, as far as cards are known by name, `numa_said` that a label
    says there are several; `pcie`: PCIe roots of the cards."""

    cluster: Cluster
    node: str
    models: tuple[str, ...]
    model_labels: tuple[str, ...]
    capacity_type: str
    domain: str
    clique: str
    rdma: Mapping[str, str]
    rdma_said: bool
    numa: Mapping[str, int]
    numa_said: bool
    pcie: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopologyReport:
    """`layouts`: (cluster, layout) of everything that groups nodes; `without`: clusters with whole cards in which
    neither a Topology nor a HyperNode says what a rack is; `missing`: clusters whose nodes were never read; `notes`:
    jobs that do not lie as they should."""

    fits: tuple[FitRow, ...]
    domains: tuple[DomainRow, ...]
    nodes: tuple[PlaceRow, ...]
    layouts: tuple[tuple[Cluster, Layout], ...]
    without: tuple[Cluster, ...]
    missing: tuple[Cluster, ...]
    as_of: AsOf
    notes: tuple[Note, ...] = ()
