"""What a change request wants, read and checked. Input: decoded JSON (`ChangeRequest.edits`); output: a tuple of edits,
or `ChangeError` with every fault and its field ("edits.0.set.quotas.1.nominal").

The language is that of `apps.quotas.what_if_change` for ClusterQueue and Cohort (work cannot be edited), and

    {"kind": "LocalQueue", "namespace": …, "name": …, "set": {"stop_policy"}}
    {"kind": "VolcanoQueue", "name": …, "set": {"weight", "priority", "state": "Open" | "Closed",
       "capability" | "deserved" | "guarantee": {resource: quantity, or null to take it away}}}

Invariants: shapes and single values only; whether the object exists and its rules allow the edit is `checks`' to say.
What is not named stays as it is. Amounts keep the text in which they were asked for. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from apps.quotas.what_if_change import (
    ChangeError,
    ChangeFault,
    ChangeReader,
    NodeEdit,
    QuotaEdit,
    Removal,
)

__all__ = [
    "AMOUNTS",
    "ChangeError",
    "ChangeFault",
    "Edit",
    "LocalQueueEdit",
    "NodeEdit",
    "ObjectKey",
    "QuotaEdit",
    "Removal",
    "VolcanoEdit",
    "key_of",
    "parse_edits",
]

AMOUNTS = ("capability", "deserved", "guarantee")
STATES = ("Open", "Closed")
WEIGHTS = (1, 65_535)
PRIORITIES = (0, 2**31 - 1)
ObjectKey = tuple[str, str, str]
"""(kind, namespace, name); the namespace is "" for what belongs to the whole cluster."""


@dataclass(frozen=True, slots=True)
class LocalQueueEdit:
    field: str
    namespace: str
    name: str
    stop_policy: str
    kind: str = "LocalQueue"


@dataclass(frozen=True, slots=True)
class VolcanoEdit:
    """`amounts`: by "capability", "deserved", "guarantee" → resource → quantity as written, None to take it away.
    `weight`, `priority`, `state` None: not edited."""

    field: str
    name: str
    weight: int | None
    priority: int | None
    state: str | None
    amounts: Mapping[str, Mapping[str, str | None]]
    kind: str = "VolcanoQueue"


Edit = NodeEdit | LocalQueueEdit | VolcanoEdit


def key_of(edit: Edit) -> ObjectKey:
    return edit.kind, edit.namespace if isinstance(edit, LocalQueueEdit) else "", edit.name


def parse_edits(data: Any) -> tuple[Edit, ...]:
    """Raises ChangeError with all faults."""
    return _EditReader().read(data, "edits")


class _EditReader(ChangeReader):
    def readers(self) -> Mapping[str, Callable[[Mapping[str, Any], str], Any]]:
        return {
            "ClusterQueue": self.queue,
            "Cohort": self.cohort,
            "LocalQueue": self._local,
            "VolcanoQueue": self._volcano,
        }

    def _local(self, data: Mapping[str, Any], where: str) -> LocalQueueEdit:
        self.mapping(data, where, ("kind", "namespace", "name", "set"))
        wanted = self.mapping(data.get("set"), f"{where}.set", ("stop_policy",))
        policy = self.choice(wanted, "stop_policy", f"{where}.set")
        namespace, name = self.text(data, "namespace", where), self.text(data, "name", where)
        return LocalQueueEdit(where, namespace, name, policy or "None")

    def _volcano(self, data: Mapping[str, Any], where: str) -> VolcanoEdit:
        self.mapping(data, where, ("kind", "name", "set"))
        inner = f"{where}.set"
        wanted = self.mapping(data.get("set"), inner, ("weight", "priority", "state", *AMOUNTS))
        if not wanted and isinstance(data.get("set"), dict):
            self.fault(inner, "nothing")
        state = wanted.get("state")
        if "state" in wanted and state not in STATES:
            self.fault(f"{inner}.state", "choice", ", ".join(STATES))
        return VolcanoEdit(
            field=where,
            name=self.text(data, "name", where),
            weight=self._number(wanted, "weight", inner, WEIGHTS),
            priority=self._number(wanted, "priority", inner, PRIORITIES),
            state=state if state in STATES else None,
            amounts={part: self._amounts(wanted, part, inner) for part in AMOUNTS if part in wanted},
        )

    def _number(
        self, wanted: Mapping[str, Any], name: str, where: str, bounds: tuple[int, int]
    ) -> int | None:
        if name not in wanted:
            return None
        return self.whole(wanted, name, where, least=bounds[0], most=bounds[1], default=None)

    def _amounts(self, wanted: Mapping[str, Any], part: str, where: str) -> dict[str, str | None]:
        inner = f"{where}.{part}"
        found: dict[str, str | None] = {}
        for resource, value in self.mapping(wanted[part], inner, None).items():
            if value is not None:
                self.amount(value, f"{inner}.{resource}"[:200])
            found[str(resource)] = None if value is None else str(value).strip()
        return found
