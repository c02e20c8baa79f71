"""A checked change laid on a Situation. Input: the present Situation, parsed changes, which names may be named;
output: the changed Situation with notes on what is allowed but odd, or `ChangeError`. Pure, nothing is written.

Rules are Kueue's own for edits (webhook and CEL of v0.17): limits need a cohort above, a queue's lending limit is at
most its nominal quota, borrowing within the cohort needs reclaim, a preference needs both searches to go on. What
Kueue accepts is accepted and noted: unknown flavors, circles of cohorts, quota below what is held.
Changes are laid on in their order, so that a later one sees what an earlier one made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal

from apps.quotas.engine.model import Group, PodSet, Queue, Situation, Work
from apps.quotas.tree import ZERO, Cell, FlavorResource, Key, QuotaNode
from apps.quotas.what_if_model import (
    Change,
    ChangeError,
    ChangeFault,
    FaultCode,
    NewWork,
    NodeEdit,
    QuotaEdit,
    WorkEdit,
)
from apps.quotas.what_if_trees import focused, with_activity

__all__ = ["Applied", "ChangeNote", "Names", "NoteCode", "apply_changes", "focused", "with_activity"]

LEAST_WEIGHT = Decimal("1e-9")
POLICY_FIELDS = (
    "strategy",
    "within_cluster_queue",
    "reclaim_within_cohort",
    "borrow_within_cohort",
    "max_priority_threshold",
    "when_can_borrow",
    "when_can_preempt",
    "preference",
)
NoteCode = Literal[
    "unknown_flavor", "cycle", "new_cohort", "filled", "stops", "inactive", "local_queue_stopped", "emptied"
]


@dataclass(frozen=True, slots=True)
class ChangeNote:
    field: str
    code: NoteCode
    part: str = ""


@dataclass(frozen=True, slots=True)
class Names:
    """What may be named; None: whatever exists. `local_queues`: (namespace, name) → (ClusterQueue, stopped)."""

    local_queues: Mapping[tuple[str, str], tuple[str, bool]]
    queues: Collection[str] | None = None
    cohorts: Collection[str] | None = None
    work: Collection[str] | None = None

    def queue(self, name: str) -> bool:
        return self.queues is None or name in self.queues

    def cohort(self, name: str) -> bool:
        return self.cohorts is None or name in self.cohorts

    @property
    def restricted(self) -> bool:
        return self.queues is not None


@dataclass(frozen=True, slots=True)
class Applied:
    """`touched`: the queues and cohorts that something was changed of, or that changed work is in."""

    situation: Situation
    notes: tuple[ChangeNote, ...]
    touched: frozenset[Key]
    added: frozenset[str]
    removed: frozenset[str]


def apply_changes(
    situation: Situation, changes: Iterable[Change], *, names: Names, beyond: Mapping[str, str], now: float
) -> Applied:
    """`beyond`: see Scene; `now`: when added work is queued."""
    draft = _Draft(situation, names, now)
    for change in changes:
        if isinstance(change, NodeEdit):
            draft.edit_node(change)
        elif isinstance(change, NewWork):
            draft.add_work(change)
        else:
            draft.edit_work(change)
    if draft.faults:
        raise ChangeError(draft.faults)
    return draft.done(beyond)


@dataclass(slots=True)
class _Draft:
    situation: Situation
    names: Names
    now: float
    queues: dict[str, Queue] = field(init=False)
    cohorts: dict[str, QuotaNode] = field(init=False)
    work: dict[str, Work] = field(init=False)
    faults: list[ChangeFault] = field(default_factory=list)
    notes: list[ChangeNote] = field(default_factory=list)
    touched: set[Key] = field(default_factory=set)
    added: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.queues = {queue.name: queue for queue in self.situation.queues}
        self.cohorts = {node.name: node for node in self.situation.cohorts}
        self.work = {work.uid: work for work in self.situation.work}

    def fault(self, where: str, code: FaultCode, part: str = "") -> None:
        self.faults.append(ChangeFault(where, code, part))

    def note(self, where: str, code: NoteCode, part: str = "") -> None:
        self.notes.append(ChangeNote(where, code, part))

    # ---- queues and cohorts -----------------------------------------------------------------------------------

    def cohort_names(self) -> set[str]:
        nodes = [queue.node for queue in self.queues.values()] + list(self.cohorts.values())
        return set(self.cohorts) | {node.parent for node in nodes if node.parent}

    def edit_node(self, edit: NodeEdit) -> None:
        if edit.kind == "ClusterQueue":
            if edit.name not in self.queues or not self.names.queue(edit.name):
                self.fault(f"{edit.field}.name", "unknown")
                return
            queue = self.queues[edit.name]
            groups, cells = self._groups(edit, queue)
            node = self._node(edit, queue.node, cells, "cohort")
            policy = replace(
                queue.policy, **{name: value for name, value in edit.values.items() if name in POLICY_FIELDS}
            )
            stop = edit.values.get("stop_policy")
            if stop is not None:
                node = replace(node, stopped=stop != "None")
                if node.stopped and not queue.node.stopped:
                    self.note(f"{edit.field}.set.stop_policy", "stops")
            self.queues[edit.name] = replace(
                queue,
                node=node,
                groups=groups,
                policy=policy,
                drains=queue.drains if stop is None else stop == "HoldAndDrain",
            )
            self._check_policy(edit, self.queues[edit.name])
        else:
            # The cohorts above a restricted reader's queues are not the reader's to change.
            if self.names.restricted or edit.name not in self.cohort_names():
                self.fault(f"{edit.field}.name", "unknown")
                return
            if edit.name not in self.cohorts:
                self.note(f"{edit.field}.name", "new_cohort", edit.name)
            old = self.cohorts.get(edit.name) or QuotaNode(edit.name, "Cohort", None, {})
            self.cohorts[edit.name] = self._node(edit, old, self._cohort_cells(edit, old), "parent")
        self.touched.add((edit.kind, edit.name))

    def _node(
        self, edit: NodeEdit, old: QuotaNode, cells: Mapping[FlavorResource, Cell], parent_field: str
    ) -> QuotaNode:
        parent = edit.values.get("parent", old.parent)
        if parent and parent != old.parent:
            if not self.names.cohort(parent):
                self.fault(f"{edit.field}.set.{parent_field}", "unknown")
            elif parent not in self.cohort_names():
                self.note(f"{edit.field}.set.{parent_field}", "new_cohort", parent)
            self.touched.add(("Cohort", parent))
        if old.parent and parent != old.parent:
            self.touched.add(("Cohort", old.parent))
        weight = edit.values.get("fair_weight", old.fair_weight)
        if ZERO < weight <= LEAST_WEIGHT:
            self.fault(f"{edit.field}.set.fair_weight", "number", "> 1e-9")
        node = replace(old, parent=parent, fair_weight=weight, cells=cells)
        self._check_limits(edit, node)
        return node

    def _groups(self, edit: NodeEdit, queue: Queue) -> tuple[tuple[Group, ...], dict[FlavorResource, Cell]]:
        """The resource groups after the edit, and the cells in the order in which flavors are tried."""
        groups = [(list(group.covered), list(group.flavors)) for group in queue.groups]
        for removal in edit.removals:
            inside = 1 if removal.flavor else 0
            name = removal.flavor or removal.resource
            group = next((group for group in groups if name in group[inside]), None)
            if group is None:
                self.fault(removal.field, "not_listed", name)
                continue
            group[inside].remove(name)
        groups = [group for group in groups if group[0] and group[1]]
        cells = dict(queue.node.cells)
        for quota in edit.quotas:
            if (quota.flavor, quota.resource) not in self._listed(groups):
                self._list(quota, groups)
            cells[quota.flavor, quota.resource] = edited(
                cells.get((quota.flavor, quota.resource), Cell(ZERO)), quota
            )
        listed = self._listed(groups)
        given = {(quota.flavor, quota.resource) for quota in edit.quotas}
        if missing := [fr for fr in listed if fr not in cells and fr not in given]:
            self.note(f"{edit.field}.set.quotas", "filled", ", ".join("/".join(fr) for fr in missing[:5]))
        if not groups and queue.groups:
            self.note(f"{edit.field}.set.remove", "emptied")
        return (
            tuple(Group(tuple(covered), tuple(flavors)) for covered, flavors in groups),
            {fr: cells.get(fr, Cell(ZERO)) for fr in listed},
        )

    @staticmethod
    def _listed(groups: list[tuple[list[str], list[str]]]) -> list[FlavorResource]:
        return [
            (flavor, resource) for covered, flavors in groups for flavor in flavors for resource in covered
        ]

    def _list(self, quota: QuotaEdit, groups: list[tuple[list[str], list[str]]]) -> None:
        """Make room for a flavor or resource that the queue does not list yet."""
        if quota.flavor not in self.situation.flavors:
            self.note(f"{quota.field}.flavor", "unknown_flavor", quota.flavor)
        covering = next((group for group in groups if quota.resource in group[0]), None)
        holding = next((group for group in groups if quota.flavor in group[1]), None)
        if covering and holding:
            self.fault(f"{quota.field}.flavor", "other_group")
        elif covering:
            covering[1].append(quota.flavor)
        elif holding:
            holding[0].append(quota.resource)
        else:
            groups.append(([quota.resource], [quota.flavor]))

    def _cohort_cells(self, edit: NodeEdit, old: QuotaNode) -> dict[FlavorResource, Cell]:
        cells = dict(old.cells)
        for removal in edit.removals:
            gone = [
                fr
                for fr in cells
                if removal.flavor == fr[0] or (not removal.flavor and removal.resource == fr[1])
            ]
            if not gone:
                self.fault(removal.field, "not_listed", removal.flavor or removal.resource)
            for fr in gone:
                del cells[fr]
        for quota in edit.quotas:
            fr = (quota.flavor, quota.resource)
            if fr not in cells and quota.flavor not in self.situation.flavors:
                self.note(f"{quota.field}.flavor", "unknown_flavor", quota.flavor)
            cells[fr] = edited(cells.get(fr, Cell(ZERO)), quota)
        return cells

    def _check_limits(self, edit: NodeEdit, node: QuotaNode) -> None:
        fields = {(quota.flavor, quota.resource): quota for quota in edit.quotas}
        for fr, cell in node.cells.items():
            quota = fields.get(fr)
            where = quota.field if quota else f"{edit.field}.set"
            if node.parent is None:
                for name, limit in (
                    ("borrowing_limit", cell.borrowing_limit),
                    ("lending_limit", cell.lending_limit),
                ):
                    if limit is not None:
                        self.fault(f"{where}.{name}" if quota else where, "no_cohort", "/".join(fr))
            if (
                edit.kind == "ClusterQueue"
                and cell.lending_limit is not None
                and cell.lending_limit > cell.nominal
            ):
                name = "lending_limit" if quota and "lending_limit" in quota.cells else "nominal"
                self.fault(f"{where}.{name}" if quota else where, "above_nominal", "/".join(fr))

    def _check_policy(self, edit: NodeEdit, queue: Queue) -> None:
        policy = queue.policy
        if policy.reclaim_within_cohort == "Never" and policy.borrow_within_cohort != "Never":
            self.fault(
                f"{edit.field}.set.preemption.borrow_within_cohort",
                "not_allowed_together",
                "reclaim_within_cohort: Never",
            )
        if policy.preference and (policy.when_can_borrow, policy.when_can_preempt) != (
            "TryNextFlavor",
            "TryNextFlavor",
        ):
            self.fault(f"{edit.field}.set.fungibility.preference", "not_allowed_together", "MayStopSearch")

    # ---- work -------------------------------------------------------------------------------------------------

    def edit_work(self, edit: WorkEdit) -> None:
        if edit.uid not in self.work or (self.names.work is not None and edit.uid not in self.names.work):
            self.fault(f"{edit.field}.uid", "unknown")
            return
        work = self.work[edit.uid]
        if work.queue in self.queues:
            self.touched.add(("ClusterQueue", work.queue))
        if edit.priority is None:
            del self.work[edit.uid]
            self.removed.add(edit.uid)
        else:
            self.work[edit.uid] = replace(work, priority=edit.priority)

    def add_work(self, new: NewWork) -> None:
        queue, stopped = new.queue, False
        if new.local_queue is not None:
            queue, stopped = self.names.local_queues.get(new.local_queue, ("", False))
        if queue not in self.queues or not self.names.queue(queue):
            self.fault(f"{new.field}.{'local_queue' if new.local_queue else 'queue'}", "unknown")
            return
        if stopped:
            self.note(f"{new.field}.local_queue", "local_queue_stopped")
        uid = f"what-if-{len(self.added) + 1}"
        namespace, local_queue = new.local_queue or ("", "")
        self.work[uid] = Work(
            uid=uid,
            name=new.name or uid,
            namespace=namespace,
            queue=queue,
            priority=new.priority,
            created=self.now,
            queued=self.now,
            pod_sets=tuple(
                PodSet(name=found.name, count=found.count, requests=found.requests, min_count=found.min_count)
                for found in new.pod_sets
            ),
            blocked="QueueMissing" if stopped else None,
            local_queue=local_queue,
        )
        self.added.add(uid)
        self.touched.add(("ClusterQueue", queue))

    # ---- result -----------------------------------------------------------------------------------------------

    def done(self, beyond: Mapping[str, str]) -> Applied:
        after = with_activity(
            replace(
                self.situation,
                queues=tuple(self.queues.values()),
                cohorts=tuple(self.cohorts.values()),
                work=tuple(self.work.values()),
            ),
            beyond,
        )
        before = {queue.name: queue for queue in with_activity(self.situation, beyond).queues}
        for queue in after.queues:
            if queue.inactive and queue.inactive != before[queue.name].inactive:
                if queue.inactive == "HasCycle" and self.names.queue(queue.name):
                    self.note("changes", "cycle", queue.name)
                elif queue.inactive != "Stopped" and self.names.queue(queue.name):
                    self.note("changes", "inactive", queue.name)
        return Applied(
            after, tuple(self.notes), frozenset(self.touched), frozenset(self.added), frozenset(self.removed)
        )


def edited(cell: Cell, quota: QuotaEdit) -> Cell:
    wanted: dict[str, Any] = dict(quota.cells)
    return replace(cell, **wanted)
