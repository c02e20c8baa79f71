"""What the quota selectors return: plain frozen rows, ready to be shown, exported or serialised.

Invariants: a number that the cluster does not say is None, never zero; `available` may be negative (over-used);
a row speaks of one resource in one flavor, so its numbers are all in the same unit (`unit`, `unit_label`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from apps.fleet.models import Cluster

if TYPE_CHECKING:
    from apps.quotas.volcano_plugin import QueuePlugin

System = Literal["kueue", "volcano"]
QueueKind = Literal["ClusterQueue", "Cohort", "VolcanoQueue"]
ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """Quota and use of one (queue, flavor, resource).

    nominal        Kueue: nominal quota; Volcano: deserved (None: not set). None where the spec does not list
                   the flavor any more, but work still holds it (`listed` False)
    ceiling        the most it may ever hold (Kueue: potential available, of a cohort that of the whole subtree;
                   Volcano: capability, None = unlimited)
    reserved       quota held by live work; `admitted` the part that is admitted (Volcano: running)
    borrowed, lent by the rules of `tree.py`; None for Volcano, which has no such book
    available      what could be reserved now without preemption; negative when over-used
    over           held beyond the ceiling
    pending        asked by waiting work, and `waiting` how many pieces ask. Waiting work has no flavor yet: it is
                   counted once per (queue, resource), on the first flavor; the queue's other rows of the
                   resource say 0 and name that flavor in `pending_on`
    status_reserved what the queue's own status says, None when it says nothing; see `mismatch`
    guaranteed     the part of the nominal quota that is never lent (Kueue: nominal less the lending limit, 0 without
                   one); None for Volcano, whose guarantee is `guarantee`
    real_capability Volcano: the most the queue can get beside what others are guaranteed; `plugin` decides what
                   "deserved" means: "proportion" (moves with demand), "capacity" (as configured), "" not known
    plugin_from    where that is known from: the scheduler's ConfigMap and its key, else "admin" or "hierarchy", else ""
    team_ids       owners of the queue, of the LocalQueues that lead to it, and of the work in it
    own_nominal    of a cohort's row the part of its nominal sum that is the cohort's own, None where it has none
    is_parent      a Volcano queue with children: its numbers include theirs, never add them up
    """

    cluster: Cluster
    system: System
    kind: QueueKind
    queue: str
    cohort: str
    flavor: str
    resource: str
    accelerator: bool
    unit: str
    model_label: str
    listed: bool
    nominal: Decimal | None
    borrowing_limit: Decimal | None
    lending_limit: Decimal | None
    reserved: Decimal
    admitted: Decimal
    borrowed: Decimal | None
    lent: Decimal | None
    available: Decimal | None
    ceiling: Decimal | None
    over: Decimal
    pending: Decimal
    waiting: int
    pending_on: str
    team_ids: tuple[int, ...]
    active: bool
    stopped: bool
    reason: str
    message: str
    status_reserved: Decimal | None = None
    stopped_share: Decimal = ZERO
    capability: Decimal | None = None
    deserved: Decimal | None = None
    guarantee: Decimal | None = None
    notes: tuple[str, ...] = ()
    is_parent: bool = False
    guaranteed: Decimal | None = None
    real_capability: Decimal | None = None
    plugin: str = ""
    plugin_from: str = ""
    own_nominal: Decimal | None = None

    @property
    def mismatch(self) -> bool:
        """Our own count differs from the queue's status; ours is shown. Volcano's status says what pods hold."""
        counted = self.reserved if self.system == "kueue" else self.admitted
        return self.status_reserved is not None and self.status_reserved != counted

    @property
    def matters(self) -> bool:
        """Something is promised, reachable, held or asked for: otherwise the row only says that a flavor of the
        queue does not have this kind of device."""
        return bool(self.nominal or self.ceiling is None or self.ceiling or self.reserved or self.pending)

    @property
    def inqueue(self) -> Decimal:
        """Reserved, not admitted yet: waits for checks (Kueue) or for pods (Volcano)."""
        return self.reserved - self.admitted


@dataclass(frozen=True, slots=True)
class QueueNode:
    """A cohort or queue of the forest, with what lies below it. `rows`: accelerators first; a cohort's
    nominal, reserved, admitted and pending are plain sums over its subtree (also of queues that the reader does
    not see), its ceiling what the subtree may hold, the rest is by Kueue's rule; a Volcano parent's are its own spec and
    its descendants' work. `plugin`: of a Volcano queue, which one decides and where that is known from."""

    cluster: Cluster
    system: System
    kind: QueueKind
    name: str
    parent: str
    rows: tuple[QuotaRow, ...]
    children: tuple[QueueNode, ...]
    team_ids: tuple[int, ...]
    active: bool
    stopped: bool
    reason: str
    message: str
    waiting: int
    implicit: bool = False
    in_cycle: bool = False
    weighted_share: Decimal | None = None
    notes: tuple[str, ...] = ()
    plugin: QueuePlugin | None = None


@dataclass(frozen=True, slots=True)
class TeamLine:
    """A team's use in one unit kind. `unit`: "card", "mig_instance", "card_partition", "time_slice", "mps_client",
    "vgpu_share" or "device" where the flavor reaches no node. `used` and `waiting_units` are the team's own work;
    `nominal`, `borrowed`, `ceiling` those of the queues it owns alone or shares (`shared` True). None: no such
    quota."""

    unit: str
    unit_label: str
    used: Decimal
    admitted: Decimal
    nominal: Decimal | None
    borrowed: Decimal | None
    ceiling: Decimal | None
    waiting_units: Decimal
    waiting: int
    shared: bool


@dataclass(frozen=True, slots=True)
class TeamSummary:
    """One team of the overview: a line per unit kind (never added up), the largest first."""

    team_id: int
    lines: tuple[TeamLine, ...]
    queues: tuple[tuple[int, str], ...] = ()
    by_resource: Mapping[str, Decimal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LoanRow:
    """`amount` of a lender's quota of one (flavor, resource) that a ClusterQueue holds. `lender_kind`: "ClusterQueue", or
    "Cohort" where it is a cohort's own quota. `since`: not before that moment, None where it was not noted.
    `reclaim`: the lender's reclaimWithinCohort, "" of a cohort."""

    cluster: Cluster
    lender_kind: QueueKind
    lender: str
    borrower: str
    flavor: str
    resource: str
    accelerator: bool
    unit: str
    model_label: str
    amount: Decimal
    since: datetime | None
    reclaim: str
    lender_teams: tuple[int, ...]
    borrower_teams: tuple[int, ...]

    def lends(self, team_ids: Collection[int]) -> bool:
        """The lender is a queue that one of these teams owns or uses."""
        return not set(team_ids).isdisjoint(self.lender_teams)

    def borrows(self, team_ids: Collection[int]) -> bool:
        return not set(team_ids).isdisjoint(self.borrower_teams)
