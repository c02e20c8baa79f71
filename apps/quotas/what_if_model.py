"""A proposed change as checked values, and what can be wrong with one. Plain data, no Django.

Made by `what_if_change` from JSON, laid on a situation by `what_if_apply`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as made
from decimal import Decimal
from typing import Any, Literal

FaultCode = Literal[
    "shape", "required", "unknown_field", "choice", "quantity", "negative", "number", "unknown", "too_many",
    "no_cohort", "above_nominal", "not_listed", "not_allowed_together", "other_group", "repeated", "nothing",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChangeFault:
    """`unknown`: there is no such thing, or the reader may not see it: both answer the same."""

    field: str
    code: FaultCode
    part: str = ""


class ChangeError(ValueError):
    """The change cannot be tried."""

    def __init__(self, faults: Iterable[ChangeFault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(f"{fault.field}: {fault.code}" for fault in self.faults))

    @property
    def unknown(self) -> bool:
        """Only names that are not known are wrong."""
        return all(fault.code == "unknown" for fault in self.faults)


@dataclass(frozen=True, slots=True)
class QuotaEdit:
    """`cells`: which of nominal, borrowing_limit and lending_limit are given; None takes a limit away. `texts`: the
    same amounts as they were written."""

    field: str
    flavor: str
    resource: str
    cells: Mapping[str, Decimal | None]
    texts: Mapping[str, str] = made(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Removal:
    field: str
    flavor: str = ""
    resource: str = ""


@dataclass(frozen=True, slots=True)
class NodeEdit:
    """`values`: by name of a field of the queue's policy, and "parent", "fair_weight", "stop_policy"."""

    field: str
    kind: Literal["ClusterQueue", "Cohort"]
    name: str
    values: Mapping[str, Any]
    quotas: tuple[QuotaEdit, ...] = ()
    removals: tuple[Removal, ...] = ()


@dataclass(frozen=True, slots=True)
class NewPodSet:
    name: str
    count: int
    requests: Mapping[str, Decimal]
    min_count: int | None = None


@dataclass(frozen=True, slots=True)
class NewWork:
    """Work that nobody has submitted. Either `queue` (a ClusterQueue) or `local_queue` (namespace, name)."""

    field: str
    name: str
    queue: str
    local_queue: tuple[str, str] | None
    priority: int
    pod_sets: tuple[NewPodSet, ...]


@dataclass(frozen=True, slots=True)
class WorkEdit:
    """`priority` None: the work is taken away."""

    field: str
    uid: str
    priority: int | None


Change = NodeEdit | NewWork | WorkEdit
