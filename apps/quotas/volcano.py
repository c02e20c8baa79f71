"""Volcano's queues of one cluster → quota rows. Input: a snapshot's view; output: rows and nodes.

Invariants
- A row's `nominal` is what the plugin in force makes of "deserved" (`volcano_shares`), `ceiling` the most that the queue
  can get beside what others are guaranteed; both None where there is none. Under proportion, deserved moves with
  demand and is no entitlement. Where it is not known which plugin decides, both are as configured: deserved, and the
  lowest capability on the way up.
- Which plugin is `volcano_plugin`'s to say.
- Counts come from pods and PodGroups, not from the queue's status. `available` is what the queue and all its
  ancestors have left, of the queue alone where parents do not count.
- A parent's numbers include its descendants and are never added to theirs: `is_parent` marks it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from typing import Any

from apps.quotas.rows import QueueNode, QuotaRow
from apps.quotas.snapshot import ZERO, ClusterView, Demand, Item, Snapshot
from apps.quotas.volcano_plugin import plugin_of
from apps.quotas.volcano_shares import ROOT, QueueSpec, Share, shares

KIND = "VolcanoQueue"
_OPEN = ("Open", "", "Unknown")


class VolcanoCluster:
    """Rows of one cluster's Volcano queues."""

    def __init__(self, snapshot: Snapshot, view: ClusterView) -> None:
        self.snapshot, self.view = snapshot, view
        self.queues_: Mapping[str, Item] = view.objects[KIND]
        self.children: dict[str, list[str]] = defaultdict(list)
        self.roots: list[str] = []
        self._sums: dict[tuple[str, str], Mapping[str, Decimal]] = {}
        self.plugin = plugin_of(view)
        self._shares: dict[str, Share] | None = None
        for name in sorted(self.queues_):
            parent = self._parent(name)
            if parent and name not in self._ancestors(parent):
                self.children[parent].append(name)
            else:
                self.roots.append(name)

    def share(self, name: str) -> Share | None:
        """What the plugin in force makes of a queue; None where it is not known which one is."""
        if not self.plugin.name:
            return None
        if self._shares is None:
            flat = self.plugin.hierarchy is False
            specs = [
                QueueSpec(
                    name=each,
                    parent=(ROOT if each != ROOT else "") if flat else str(item.spec.get("parent") or ""),
                    weight=int(item.spec.get("weight") or 1),
                    capability=self._amounts(item, "capability"),
                    deserved=self._amounts(item, "deserved"),
                    guarantee=self._amounts(item, "guarantee"),
                )
                for each, item in self.queues_.items()
            ]
            supply = self.view.volcano
            self._shares = shares(self.plugin.name, specs, total=supply.allocatable, asked=supply.asked)
        return self._shares[name]

    @staticmethod
    def _amounts(item: Item, key: str) -> dict[str, Decimal]:
        return {resource: Decimal(amount) for resource, amount in (item.spec.get(key) or {}).items()}

    def _parent(self, name: str) -> str:
        parent = str(self.queues_[name].spec.get("parent") or "")
        return parent if parent != name and parent in self.queues_ else ""

    def _ancestors(self, name: str) -> list[str]:
        """The queue itself and those above it, each once (a circle ends the walk)."""
        path: list[str] = []
        while name and name not in path:
            path.append(name)
            name = self._parent(name)
        return path

    def below(self, name: str) -> list[str]:
        """The queue and all its descendants."""
        found, stack = [], [name]
        while stack:
            found.append(stack.pop())
            stack.extend(self.children.get(found[-1], ()))
        return found

    def queues(self, team_ids: Collection[int] | None) -> Iterator[str]:
        for name in sorted(self.queues_):
            if team_ids is None or not self.view.teams[KIND, name].isdisjoint(team_ids):
                yield name

    def _sum(self, what: str, name: str) -> Mapping[str, Decimal]:
        """ "reserved" or "admitted" of the queue and its descendants, by resource."""
        if (what, name) not in self._sums:
            table = self.view.reserved if what == "reserved" else self.view.admitted
            sums: dict[str, Decimal] = defaultdict(lambda: ZERO)
            for (_flavor, resource), amount in table.get((KIND, name), {}).items():
                sums[resource] += amount
            for resource, amount in self.view.volcano.claimed.get(name, {}).items():
                sums[resource] += amount
            for child in self.children.get(name, ()):
                for resource, amount in self._sum(what, child).items():
                    sums[resource] += amount
            self._sums[what, name] = sums
        return self._sums[what, name]

    def _demand(self, name: str) -> Demand:
        total = Demand()
        for queue in self.below(name):
            if found := self.view.demand.get((KIND, queue)):
                for resource, amount in found.amounts.items():
                    total.amounts[resource] += amount
                    total.counts[resource] += found.counts[resource]
        return total

    def queue_rows(self, name: str) -> list[QuotaRow]:
        """One row per resource that the spec names, that work holds or that work asks for."""
        item = self.queues_[name]
        reserved, admitted = self._sum("reserved", name), self._sum("admitted", name)
        demand = self._demand(name)
        named = {
            resource
            for key in ("capability", "deserved", "guarantee")
            for resource in item.spec.get(key) or {}
        }
        resources = named | reserved.keys() | {resource for resource in demand.amounts if resource}
        rows = [self._row(item, resource, reserved, admitted, demand) for resource in sorted(resources)]
        return sorted(rows, key=lambda row: not row.accelerator)

    def _limits(self, name: str, resource: str) -> tuple[Decimal | None, Decimal | None]:
        """(ceiling, available): the lowest limit and the least left on the way up, where the plugin looks up; None
        where there is none."""
        ceilings, left = [], []
        for queue in [name] if self.plugin.flat else self._ancestors(name):
            limit = self._limit(queue, resource)
            if limit is not None:
                ceilings.append(limit)
                left.append(limit - self._sum("reserved", queue).get(resource, ZERO))
        return min(ceilings, default=None), min(left, default=None)

    def _limit(self, name: str, resource: str) -> Decimal | None:
        share = self.share(name)
        if share is None:
            return self._said(self.queues_[name], "capability", resource)
        return share.real_capability.get(resource)

    @staticmethod
    def _said(item: Item, key: str, resource: str) -> Decimal | None:
        value = (item.spec.get(key) or {}).get(resource)
        return None if value is None else Decimal(value)

    def _row(
        self,
        item: Item,
        resource: str,
        reserved: Mapping[str, Decimal],
        admitted: Mapping[str, Decimal],
        demand: Demand,
    ) -> QuotaRow:
        held = reserved.get(resource, ZERO)
        share = self.share(item.name)
        ceiling, available = self._limits(item.name, resource)
        deserved = self._said(item, "deserved", resource) if share is None else share.deserved.get(resource)
        what = self.snapshot.meaning(self.view.cluster.pk, "", resource)
        said = (item.status.get("allocated") or {}).get(resource)
        state = str(item.status.get("state") or "")
        return QuotaRow(
            cluster=self.view.cluster,
            system="volcano",
            kind="VolcanoQueue",
            queue=item.name,
            cohort=self._parent(item.name),
            flavor="",
            resource=resource,
            accelerator=what.accelerator,
            unit=what.unit,
            model_label=what.model_label,
            listed=True,
            nominal=deserved,
            borrowing_limit=None,
            lending_limit=None,
            reserved=held,
            admitted=admitted.get(resource, ZERO),
            borrowed=None,
            lent=None,
            available=available,
            ceiling=ceiling,
            over=max(ZERO, held - ceiling) if ceiling is not None else ZERO,
            pending=demand.amounts.get(resource, ZERO),
            waiting=demand.counts.get(resource, 0),
            pending_on="",
            team_ids=tuple(sorted(self.view.teams.get((KIND, item.name), ()))),
            active=state in _OPEN,
            stopped=state in ("Closed", "Closing"),
            reason="" if state in _OPEN else state,
            message="",
            status_reserved=None if said is None else Decimal(said),
            capability=self._said(item, "capability", resource),
            deserved=deserved,
            guarantee=self._said(item, "guarantee", resource),
            is_parent=bool(self.children.get(item.name)),
            real_capability=None if share is None else share.real_capability.get(resource),
            plugin=self.plugin.name,
            plugin_from=self.plugin.where or self.plugin.said_by,
        )

    def forest(self, team_ids: Collection[int] | None) -> list[QueueNode]:
        visible = set(self.queues(team_ids))
        return [node for root in self.roots if (node := self._node(root, visible)) is not None]

    def _node(self, name: str, visible: set[str]) -> QueueNode | None:
        children = tuple(
            node for child in self.children.get(name, ()) if (node := self._node(child, visible)) is not None
        )
        if name not in visible and not children:
            return None
        state: Any = self.queues_[name].status.get("state") or ""
        return QueueNode(
            cluster=self.view.cluster,
            system="volcano",
            kind="VolcanoQueue",
            name=name,
            parent=self._parent(name),
            rows=tuple(self.queue_rows(name)),
            children=children,
            team_ids=tuple(sorted(self.view.teams.get((KIND, name), ()))),
            active=state in _OPEN,
            stopped=state in ("Closed", "Closing"),
            reason="" if state in _OPEN else state,
            message="",
            waiting=self._demand(name).waiting,
            plugin=self.plugin,
        )
