"""Kueue's queues and cohorts of one cluster → quota rows. Input: a snapshot's view; output: rows and nodes.

All numbers come from `tree.py`, built from specs and from reservations. A cohort's row is the plain sum of its
queues and its own quota (so that it adds up), its ceiling what the whole subtree may hold (quota that is never lent
included); available, borrowed and lent are by Kueue's rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.utils.translation import gettext as _

from apps.quotas.rows import QueueNode, QuotaRow
from apps.quotas.snapshot import ZERO, ClusterView, Demand, Item, Snapshot
from apps.quotas.tree import Cell, FlavorResource, Key, QuotaNode, QuotaTree


def _decimal(value: Any) -> Decimal | None:
    return None if value is None else Decimal(value)


def _cells(spec: Mapping[str, Any]) -> dict[FlavorResource, Cell]:
    """In the order in which Kueue tries the flavors."""
    return {
        (flavor["name"], quota["name"]): Cell(
            Decimal(quota["nominal"]), _decimal(quota["borrowing_limit"]), _decimal(quota["lending_limit"])
        )
        for group in spec.get("resource_groups") or ()
        for flavor in group["flavors"]
        for quota in flavor["resources"]
    }


def quota_node(kind: str, item: Item) -> QuotaNode:
    """A ClusterQueue or Cohort as its spec says."""
    spec = item.spec
    weight = spec.get("fair_weight")
    return QuotaNode(
        name=item.name,
        kind="ClusterQueue" if kind == "ClusterQueue" else "Cohort",
        parent=spec.get("cohort" if kind == "ClusterQueue" else "parent") or None,
        cells=_cells(spec),
        fair_weight=Decimal(1) if weight is None else Decimal(weight),
        stopped=(spec.get("stop_policy") or "None") != "None",
    )


def cluster_tree(view: ClusterView) -> QuotaTree:
    """The quota tree of a cluster with what its queues hold; shared, not to be changed."""
    return view.once("tree", lambda: _tree(view))


def _tree(view: ClusterView) -> QuotaTree:
    nodes = [
        quota_node(kind, item) for kind in ("ClusterQueue", "Cohort") for item in view.objects[kind].values()
    ]
    usage = {name: cells for (kind, name), cells in view.reserved.items() if kind == "ClusterQueue"}
    return QuotaTree(nodes, usage)


MOST_KEPT = 100
"""Queues whose rows a cluster keeps at once: those of some teams' pages. A reader of all queues pays anew."""


@dataclass(slots=True)
class _Sums:
    """Plain sums of a subtree, per (flavor, resource)."""

    nominal: Decimal = ZERO
    reserved: Decimal = ZERO
    admitted: Decimal = ZERO
    pending: Decimal = ZERO
    waiting: int = 0


class KueueCluster:
    """Rows of one cluster, made on demand: a reader of one team does not pay for a thousand queues."""

    def __init__(self, snapshot: Snapshot, view: ClusterView) -> None:
        self.snapshot, self.view = snapshot, view
        self.tree = cluster_tree(view)
        stopped = any(self.tree.node(*key).stopped and self.tree.parent(*key) for key in self.tree)
        self._without_stopped = self.tree.without_stopped() if stopped else None
        self._rows: dict[str, list[QuotaRow]] = {}

    def queues(self, team_ids: Collection[int] | None) -> Iterator[str]:
        """Names of visible ClusterQueues, in order."""
        for name in sorted(self.view.objects["ClusterQueue"]):
            if team_ids is None or not self.view.teams["ClusterQueue", name].isdisjoint(team_ids):
                yield name

    def queues_below(self, cohort: str) -> list[str]:
        """The ClusterQueues of a cohort and of those below it, in order; none where nobody knows the cohort."""
        if ("Cohort", cohort) not in self.tree:
            return []
        return sorted(name for kind, name in self.tree.below("Cohort", cohort) if kind == "ClusterQueue")

    # ---- rows of queues -----------------------------------------------------------------------------------

    def queue_rows(self, name: str) -> list[QuotaRow]:
        """Every listed (flavor, resource) of a queue, and what it still holds in flavors no longer listed. Those of the
        queues that were asked for last are kept; the list is not to be changed."""
        found = self._rows.get(name)
        if found is None:
            if len(self._rows) >= MOST_KEPT:
                self._rows.clear()
            found = self._rows[name] = self._made_rows(name)
        return found

    def _made_rows(self, name: str) -> list[QuotaRow]:
        key: Key = ("ClusterQueue", name)
        cells = list(self.tree.node(*key).cells)
        held = self.view.reserved.get(key, {})
        cells += sorted(cell for cell, amount in held.items() if cell not in cells and amount)
        # Waiting work is counted on the first flavor that could ever hold any of it, else on the first.
        first: dict[str, str] = {}
        for flavor, resource in reversed([cell for cell in cells if self.tree.lists(*key, cell)]):
            reachable = self.tree.potential_available(*key, (flavor, resource)) > 0
            known = first.get(resource)
            if reachable or known is None or self.tree.potential_available(*key, (known, resource)) <= 0:
                first[resource] = flavor
        said = {
            (row["flavor"], row["resource"]): row for row in self._item(key).status.get("reservation") or ()
        }
        rows = [self._queue_row(key, cell, first.get(cell[1], ""), said) for cell in cells]
        return sorted(rows, key=lambda row: not row.accelerator)

    def _item(self, key: Key) -> Item:
        return self.view.objects[key[0]].get(key[1]) or Item(key[1], "", {}, {})

    def _queue_row(
        self, key: Key, cell: FlavorResource, first: str, said: Mapping[FlavorResource, Mapping[str, Any]]
    ) -> QuotaRow:
        tree, (flavor, resource) = self.tree, cell
        quota, listed = tree.cell(*key, cell), tree.lists(*key, cell)
        demand = self.view.demand.get(key) or Demand()
        counted_here = listed and flavor == first
        return QuotaRow(
            **self._common(key, cell),
            listed=listed,
            nominal=quota.nominal if quota else None,
            borrowing_limit=quota.borrowing_limit if quota else None,
            lending_limit=quota.lending_limit if quota else None,
            reserved=tree.usage(*key, cell),
            admitted=self.view.admitted.get(key, {}).get(cell, ZERO),
            borrowed=tree.borrowed(*key, cell),
            lent=tree.lent(*key, cell),
            available=tree.available(*key, cell) if listed else ZERO,
            ceiling=tree.potential_available(*key, cell) if listed else ZERO,
            over=tree.over(*key, cell) if listed else tree.usage(*key, cell),
            pending=demand.amounts.get(resource, ZERO) if counted_here else ZERO,
            waiting=demand.counts.get(resource, 0) if counted_here else 0,
            pending_on="" if counted_here or not demand.counts.get(resource) else first,
            status_reserved=_decimal(said[cell]["total"]) if cell in said else None,
            stopped_share=self._stopped_share(key, cell),
            notes=self._notes(key, cell, listed=listed),
            guaranteed=tree.local_quota(*key, cell),
        )

    def _common(self, key: Key, cell: FlavorResource) -> dict[str, Any]:
        kind, name = key
        active, stopped, reason, message = self._activity(key)
        what = self.snapshot.meaning(self.view.cluster.pk, *cell)
        return {
            "cluster": self.view.cluster,
            "system": "kueue",
            "kind": kind,
            "queue": name,
            "cohort": self.tree.parent(kind, name) or "",
            "flavor": cell[0],
            "resource": cell[1],
            "accelerator": what.accelerator,
            "unit": what.unit,
            "model_label": what.model_label,
            "team_ids": tuple(sorted(self.view.teams.get(key, ()))),
            "active": active,
            "stopped": stopped,
            "reason": reason,
            "message": message,
        }

    def _activity(self, key: Key) -> tuple[bool, bool, str, str]:
        """(active, stopped, reason, message). Kueue calls a queue below a cohort cycle ready and skips it."""
        kind, name = key
        stopped = self.tree.node(kind, name).stopped
        condition = self._item(key).active
        if condition and condition.get("status") != "True":
            return False, stopped, str(condition.get("reason") or ""), str(condition.get("message") or "")
        if self.tree.leads_to_cycle(kind, name):
            return False, stopped, "HasCycle", _("The cohorts above form a circle: Kueue skips this queue.")
        return not stopped, stopped, "Stopped" if stopped else "", ""

    def _stopped_share(self, key: Key, cell: FlavorResource) -> Decimal:
        if self._without_stopped is None or self.tree.node(*key).stopped:
            return ZERO
        return self.tree.potential_available(*key, cell) - self._without_stopped.potential_available(
            *key, cell
        )

    def _notes(self, key: Key, cell: FlavorResource, *, listed: bool) -> tuple[str, ...]:
        notes = []
        if not listed:
            notes.append(_("The queue no longer lists this flavor; running work still holds it."))
        elif cell[0] not in self.view.objects["ResourceFlavor"]:
            notes.append(_("There is no ResourceFlavor of this name."))
        if share := self._stopped_share(key, cell):
            notes.append(
                _("%(amount)s of the ceiling lie in stopped queues.")
                % {"amount": format(share.normalize(), "f")}
            )
        return tuple(notes)

    # ---- the forest ---------------------------------------------------------------------------------------

    def forest(self, team_ids: Collection[int] | None) -> list[QueueNode]:
        """Root cohorts and lone queues. With `team_ids` only visible queues and the cohorts above them."""
        visible = set(self.queues(team_ids))
        roots = self.tree.roots
        if team_ids is not None:  # the other trees are not even computed
            above = {self.tree.root_of("ClusterQueue", name) for name in visible}
            roots = tuple(root for root in roots if root in above)
        nodes = []
        for root in roots:
            if node := self._build(root, visible, everything=team_ids is None)[0]:
                nodes.append(node)
        return nodes

    def _build(
        self, key: Key, visible: set[str], *, everything: bool
    ) -> tuple[QueueNode | None, dict[FlavorResource, _Sums], set[int], int]:
        """(node or None when not visible, sums, teams, waiting) of a subtree, children first."""
        if key[0] == "ClusterQueue":
            return self._leaf(key, visible)
        children: list[QueueNode] = []
        sums: dict[FlavorResource, _Sums] = {}
        teams: set[int] = set()
        waiting = 0
        for child in self.tree.children(*key):
            node, inner, owners, count = self._build(child, visible, everything=everything)
            if node is not None:
                children.append(node)
                teams |= owners
                waiting += count
            _merge(sums, inner)
        for cell, quota in self.tree.node(*key).cells.items():
            sums.setdefault(cell, _Sums()).nominal += quota.nominal
        if not children and not everything:
            return None, sums, teams, waiting
        rows = [self._cohort_row(key, cell, found) for cell, found in sums.items()]
        rows.sort(key=lambda row: (not row.accelerator, row.flavor, row.resource))
        return self._queue_node(key, rows, tuple(children), teams, waiting), sums, teams, waiting

    def _leaf(
        self, key: Key, visible: set[str]
    ) -> tuple[QueueNode | None, dict[FlavorResource, _Sums], set[int], int]:
        rows = self.queue_rows(key[1])
        teams = set(self.view.teams.get(key, ()))
        waiting = self.view.demand[key].waiting if key in self.view.demand else 0
        sums = {
            (row.flavor, row.resource): _Sums(
                row.nominal or ZERO, row.reserved, row.admitted, row.pending, row.waiting
            )
            for row in rows
        }
        node = self._queue_node(key, rows, (), teams, waiting) if key[1] in visible else None
        return node, sums, teams, waiting

    def _cohort_row(self, key: Key, cell: FlavorResource, sums: _Sums) -> QuotaRow:
        tree = self.tree
        own = tree.cell(*key, cell)
        notes = (
            [_("%(amount)s of it are the cohort's own.") % {"amount": format(own.nominal.normalize(), "f")}]
            if own and own.nominal
            else []
        )
        return QuotaRow(
            **self._common(key, cell),
            listed=True,
            nominal=sums.nominal,
            borrowing_limit=own.borrowing_limit if own else None,
            lending_limit=own.lending_limit if own else None,
            reserved=sums.reserved,
            admitted=sums.admitted,
            borrowed=tree.borrowed(*key, cell),
            lent=tree.lent(*key, cell),
            available=tree.available(*key, cell),
            ceiling=tree.subtree_ceiling(*key, cell),
            over=tree.over(*key, cell),
            pending=sums.pending,
            waiting=sums.waiting,
            pending_on="",
            notes=tuple(notes),
            own_nominal=own.nominal if own else None,
        )

    def _share(self, key: Key) -> Decimal | None:
        share = self.tree.weighted_share(*key)
        return share.quantize(Decimal("0.001")) if share is not None and share.is_finite() else share

    def _queue_node(
        self, key: Key, rows: list[QuotaRow], children: tuple[QueueNode, ...], teams: set[int], waiting: int
    ) -> QueueNode:
        kind, name = key
        active, stopped, reason, message = self._activity(key)
        return QueueNode(
            cluster=self.view.cluster,
            system="kueue",
            kind=kind,
            name=name,
            parent=self.tree.parent(kind, name) or "",
            rows=tuple(rows),
            children=children,
            team_ids=tuple(sorted(teams)),
            active=active,
            stopped=stopped,
            reason=reason,
            message=message,
            waiting=waiting,
            implicit=name not in self.view.objects[kind],
            in_cycle=self.tree.leads_to_cycle(kind, name),
            weighted_share=self._share(key),
        )


def _merge(into: dict[FlavorResource, _Sums], more: Mapping[FlavorResource, _Sums]) -> None:
    for cell, sums in more.items():
        found = into.setdefault(cell, _Sums())
        found.nominal += sums.nominal
        found.reserved += sums.reserved
        found.admitted += sums.admitted
        found.pending += sums.pending
        found.waiting += sums.waiting
