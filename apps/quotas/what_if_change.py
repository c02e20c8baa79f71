"""A proposed change as plain data, read and checked. Input: decoded JSON (or what a form made); output: a tuple of
changes, or `ChangeError` with every fault and the field that it is in ("changes.0.set.quotas.1.nominal").

    {"changes": [
      {"kind": "ClusterQueue", "name": …, "set": {"cohort", "fair_weight", "stop_policy", "strategy",
         "preemption": {"within_cluster_queue", "reclaim_within_cohort",
                        "borrow_within_cohort": {"policy", "max_priority_threshold"}},
         "fungibility": {"when_can_borrow", "when_can_preempt", "preference"},
         "quotas": [{"flavor", "resource", "nominal", "borrowing_limit", "lending_limit"}],
         "remove": [{"flavor"} | {"resource"}]}},
      {"kind": "Cohort", "name": …, "set": {"parent", "fair_weight", "quotas", "remove"}},
      {"kind": "Workload", "action": "add", "name", "queue" | "local_queue": "NAMESPACE/NAME", "priority",
         "pod_sets": [{"name", "count", "min_count", "requests": {resource: quantity}}]},
      {"kind": "Workload", "action": "remove" | "priority", "uid", "priority"}]}

Only shapes and single values are checked here; whether names exist and limits fit is `what_if_apply`'s to say. Pure.
Invariants: what is not named stays as it is; null takes a limit away; quantities are Kubernetes quantities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

from apps.core.quantity import QuantityError, parse_quantity
from apps.quotas.what_if_model import (
    Change,
    ChangeError,
    ChangeFault,
    FaultCode,
    NewPodSet,
    NewWork,
    NodeEdit,
    QuotaEdit,
    Removal,
    WorkEdit,
)

MOST_CHANGES = 50
MOST_CELLS = 512
MOST_POD_SETS = 18
MOST_PODS = 100_000
PRIORITIES = (-(2**31), 2**31 - 1)

CHOICES: Mapping[str, tuple[str, ...]] = {
    "stop_policy": ("None", "Hold", "HoldAndDrain"),
    "strategy": ("BestEffortFIFO", "StrictFIFO"),
    "within_cluster_queue": ("Never", "LowerPriority", "LowerOrNewerEqualPriority"),
    "reclaim_within_cohort": ("Never", "LowerPriority", "Any"),
    "policy": ("Never", "LowerPriority"),
    "when_can_borrow": ("MayStopSearch", "TryNextFlavor"),
    "when_can_preempt": ("MayStopSearch", "TryNextFlavor"),
    "preference": ("", "BorrowingOverPreemption", "PreemptionOverBorrowing"),
}
POLICY_PLACES: Mapping[str, tuple[str, ...]] = {
    "stop_policy": (),
    "strategy": (),
    "within_cluster_queue": ("preemption",),
    "reclaim_within_cohort": ("preemption",),
    "borrow_within_cohort": ("preemption",),
    "when_can_borrow": ("fungibility",),
    "when_can_preempt": ("fungibility",),
    "preference": ("fungibility",),
}
"""Where in "set" a field of the policy stands."""

__all__ = [
    "CHOICES",
    "POLICY_PLACES",
    "Change",
    "ChangeError",
    "ChangeFault",
    "ChangeReader",
    "FaultCode",
    "NewPodSet",
    "NewWork",
    "NodeEdit",
    "QuotaEdit",
    "Removal",
    "WorkEdit",
    "parse_changes",
]


def parse_changes(data: Any) -> tuple[Change, ...]:
    """`data`: the value of "changes". Raises ChangeError with all faults."""
    return ChangeReader().read(data, "changes")


class ChangeReader:
    """Reads changes and gathers what is wrong with them; `readers` says which kinds there are."""

    def __init__(self) -> None:
        self.faults: list[ChangeFault] = []

    def read(self, data: Any, name: str) -> tuple[Any, ...]:
        """All changes of the list that is called `name`. Raises ChangeError with all faults."""
        items = self.sequence(data, name, most=MOST_CHANGES)
        if not items and not self.faults:
            self.fault(name, "nothing")
        found = [self.change(item, f"{name}.{place}") for place, item in enumerate(items)]
        if self.faults:
            raise ChangeError(self.faults)
        return tuple(found)

    def fault(self, where: str, code: FaultCode, part: str = "") -> None:
        self.faults.append(ChangeFault(where, code, part))

    # ---- shapes -----------------------------------------------------------------------------------------------

    def sequence(self, data: Any, where: str, *, most: int) -> Sequence[Any]:
        if not isinstance(data, list):
            self.fault(where, "shape", "list")
            return ()
        if len(data) > most:
            self.fault(where, "too_many", str(most))
            return ()
        return data

    def mapping(self, data: Any, where: str, known: Iterable[str] | None) -> Mapping[str, Any]:
        if not isinstance(data, dict):
            self.fault(where, "shape", "object")
            return {}
        if known is not None:
            names = set(known)
            for name in data:
                if name not in names:
                    self.fault(f"{where}.{name}"[:200], "unknown_field", ", ".join(sorted(names)))
        return data

    def text(self, data: Mapping[str, Any], name: str, where: str, *, required: bool = True) -> str:
        value = data.get(name)
        if value in (None, ""):
            if required:
                self.fault(f"{where}.{name}", "required")
            return ""
        if not isinstance(value, str) or len(value) > 253:
            self.fault(f"{where}.{name}", "shape", "text")
            return ""
        return value.strip()

    def whole(
        self, data: Mapping[str, Any], name: str, where: str, *, least: int, most: int, default: int | None
    ) -> int | None:
        value = data.get(name)
        if value is None:
            if default is None and name not in ("min_count", "max_priority_threshold"):
                self.fault(f"{where}.{name}", "required")
            return default
        if isinstance(value, str) and value.strip().lstrip("-").isdecimal():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.fault(f"{where}.{name}", "number", f"{least}…{most}")
            return default
        return value

    def amount(self, value: Any, where: str) -> Decimal:
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            self.fault(where, "quantity")
            return Decimal(0)
        try:
            found = parse_quantity(value)
        except QuantityError:
            self.fault(where, "quantity")
            return Decimal(0)
        if found < 0:
            self.fault(where, "negative")
        return found

    def choice(self, data: Mapping[str, Any], name: str, where: str) -> str | None:
        value = data.get(name)
        allowed = CHOICES[name]
        if value is None or value not in allowed:
            self.fault(f"{where}.{name}", "choice", ", ".join(option or '""' for option in allowed))
            return None
        return str(value)

    # ---- changes ----------------------------------------------------------------------------------------------

    def readers(self) -> Mapping[str, Callable[[Mapping[str, Any], str], Any]]:
        return {"ClusterQueue": self.queue, "Cohort": self.cohort, "Workload": self._work}

    def change(self, item: Any, where: str) -> Any:
        data, readers = self.mapping(item, where, None), self.readers()
        kind = data.get("kind")
        if not isinstance(kind, str) or kind not in readers:
            self.fault(f"{where}.kind", "choice", ", ".join(readers))
            return None
        return readers[kind](data, where)

    def queue(self, data: Mapping[str, Any], where: str) -> NodeEdit:
        self.mapping(data, where, ("kind", "name", "set"))
        inner = f"{where}.set"
        wanted = self.mapping(
            data.get("set"),
            inner,
            (
                "cohort",
                "fair_weight",
                "stop_policy",
                "strategy",
                "preemption",
                "fungibility",
                "quotas",
                "remove",
            ),
        )
        values = self._place(wanted, inner, "cohort")
        for name in ("stop_policy", "strategy"):
            if name in wanted and (chosen := self.choice(wanted, name, inner)) is not None:
                values[name] = chosen
        values |= self._preemption(wanted, inner) | self._fungibility(wanted, inner)
        return self._node("ClusterQueue", data, where, wanted, values)

    def cohort(self, data: Mapping[str, Any], where: str) -> NodeEdit:
        self.mapping(data, where, ("kind", "name", "set"))
        inner = f"{where}.set"
        wanted = self.mapping(data.get("set"), inner, ("parent", "fair_weight", "quotas", "remove"))
        return self._node("Cohort", data, where, wanted, self._place(wanted, inner, "parent"))

    def _node(
        self,
        kind: Literal["ClusterQueue", "Cohort"],
        data: Mapping[str, Any],
        where: str,
        wanted: Mapping[str, Any],
        values: Mapping[str, Any],
    ) -> NodeEdit:
        quotas, removals = self._quotas(wanted, f"{where}.set"), self._removals(wanted, f"{where}.set")
        if not values and not quotas and not removals and not self.faults:
            self.fault(f"{where}.set", "nothing")
        return NodeEdit(where, kind, self.text(data, "name", where), values, quotas, removals)

    def _place(self, wanted: Mapping[str, Any], where: str, parent: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        if parent in wanted:
            values["parent"] = self.text(wanted, parent, where, required=False) or None
        if "fair_weight" in wanted:
            values["fair_weight"] = self.amount(wanted["fair_weight"], f"{where}.fair_weight")
        return values

    def _preemption(self, wanted: Mapping[str, Any], where: str) -> dict[str, Any]:
        if "preemption" not in wanted:
            return {}
        inner = f"{where}.preemption"
        values: dict[str, Any] = {}
        data = self.mapping(
            wanted["preemption"],
            inner,
            ("within_cluster_queue", "reclaim_within_cohort", "borrow_within_cohort"),
        )
        for name in ("within_cluster_queue", "reclaim_within_cohort"):
            if name in data:
                values[name] = self.choice(data, name, inner)
        if "borrow_within_cohort" in data:
            deeper = f"{inner}.borrow_within_cohort"
            borrow = self.mapping(
                data["borrow_within_cohort"] or {}, deeper, ("policy", "max_priority_threshold")
            )
            values["borrow_within_cohort"] = self.choice(borrow, "policy", deeper) if borrow else "Never"
            low, high = PRIORITIES
            values["max_priority_threshold"] = self.whole(
                borrow, "max_priority_threshold", deeper, least=low, most=high, default=None
            )
        return values

    def _fungibility(self, wanted: Mapping[str, Any], where: str) -> dict[str, Any]:
        if "fungibility" not in wanted:
            return {}
        names, inner = ("when_can_borrow", "when_can_preempt", "preference"), f"{where}.fungibility"
        data = self.mapping(wanted["fungibility"], inner, names)
        return {name: self.choice(data, name, inner) for name in names if name in data}

    def _quotas(self, wanted: Mapping[str, Any], where: str) -> tuple[QuotaEdit, ...]:
        found, seen = [], set()
        for place, item in enumerate(
            self.sequence(wanted.get("quotas", []), f"{where}.quotas", most=MOST_CELLS)
        ):
            inner = f"{where}.quotas.{place}"
            data = self.mapping(
                item, inner, ("flavor", "resource", "nominal", "borrowing_limit", "lending_limit")
            )
            cells: dict[str, Decimal | None] = {}
            if "nominal" in data:
                cells["nominal"] = self.amount(data["nominal"], f"{inner}.nominal")
            for name in ("borrowing_limit", "lending_limit"):
                if name in data:
                    value = data[name]
                    cells[name] = None if value is None else self.amount(value, f"{inner}.{name}")
            edit = QuotaEdit(
                inner,
                self.text(data, "flavor", inner),
                self.text(data, "resource", inner),
                cells,
                {name: str(data[name]).strip() for name in cells if data[name] is not None},
            )
            if (edit.flavor, edit.resource) in seen:
                self.fault(inner, "repeated")
            seen.add((edit.flavor, edit.resource))
            found.append(edit)
        return tuple(found)

    def _removals(self, wanted: Mapping[str, Any], where: str) -> tuple[Removal, ...]:
        found = []
        for place, item in enumerate(
            self.sequence(wanted.get("remove", []), f"{where}.remove", most=MOST_CELLS)
        ):
            inner = f"{where}.remove.{place}"
            data = self.mapping(item, inner, ("flavor", "resource"))
            removal = Removal(
                inner,
                self.text(data, "flavor", inner, required=False),
                self.text(data, "resource", inner, required=False),
            )
            if bool(removal.flavor) == bool(removal.resource):
                self.fault(inner, "shape", '{"flavor"} / {"resource"}')
            found.append(removal)
        return tuple(found)

    # ---- work -------------------------------------------------------------------------------------------------

    def _work(self, data: Mapping[str, Any], where: str) -> Change | None:
        action = data.get("action")
        low, high = PRIORITIES
        if action == "remove":
            self.mapping(data, where, ("kind", "action", "uid"))
            return WorkEdit(where, self.text(data, "uid", where), None)
        if action == "priority":
            self.mapping(data, where, ("kind", "action", "uid", "priority"))
            wanted = self.whole(data, "priority", where, least=low, most=high, default=None)
            return WorkEdit(where, self.text(data, "uid", where), wanted)
        if action != "add":
            self.fault(f"{where}.action", "choice", "add, remove, priority")
            return None
        self.mapping(data, where, ("kind", "action", "name", "queue", "local_queue", "priority", "pod_sets"))
        return NewWork(
            field=where,
            name=self.text(data, "name", where, required=False),
            queue=self.text(data, "queue", where, required="local_queue" not in data),
            local_queue=self._local_queue(data, where),
            priority=self.whole(data, "priority", where, least=low, most=high, default=0) or 0,
            pod_sets=self._pod_sets(data, where),
        )

    def _local_queue(self, data: Mapping[str, Any], where: str) -> tuple[str, str] | None:
        if data.get("local_queue") in (None, ""):
            return None
        if data.get("queue"):
            self.fault(f"{where}.local_queue", "not_allowed_together", "queue")
        namespace, slash, name = self.text(data, "local_queue", where).partition("/")
        if not slash or not namespace or not name:
            self.fault(f"{where}.local_queue", "shape", "NAMESPACE/NAME")
        return namespace, name

    def _pod_sets(self, data: Mapping[str, Any], where: str) -> tuple[NewPodSet, ...]:
        if "pod_sets" not in data:
            self.fault(f"{where}.pod_sets", "required")
            return ()
        items = self.sequence(data["pod_sets"], f"{where}.pod_sets", most=MOST_POD_SETS)
        if not items:
            self.fault(f"{where}.pod_sets", "required")
        found = [self._pod_set(item, f"{where}.pod_sets.{place}", place) for place, item in enumerate(items)]
        if len({pod_set.name for pod_set in found}) != len(found):
            self.fault(f"{where}.pod_sets", "repeated")
        return tuple(found)

    def _pod_set(self, item: Any, where: str, place: int) -> NewPodSet:
        data = self.mapping(item, where, ("name", "count", "min_count", "requests"))
        requests = self.mapping(data.get("requests"), f"{where}.requests", None)
        if not requests and isinstance(data.get("requests"), dict):
            self.fault(f"{where}.requests", "required")
        count = self.whole(data, "count", where, least=1, most=MOST_PODS, default=1) or 1
        return NewPodSet(
            name=self.text(data, "name", where, required=False)
            or ("main" if not place else f"set-{place + 1}"),
            count=count,
            requests={
                str(name): self.amount(value, f"{where}.requests.{name}"[:200])
                for name, value in requests.items()
            },
            min_count=self.whole(data, "min_count", where, least=1, most=count, default=None),
        )
