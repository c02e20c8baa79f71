"""Why work does not start, from the cluster's own words. Input: reason token and message; output: `Verdict`.

Pure: no Django, no I/O but the rules file read once. Rules are data (data/rules.yaml). The reason token decides
first, where it is specific; otherwise the message is cut into its parts, each part is matched, and the primary
part is chosen: notes about preemption never, the mildest of alternative flavors, the most severe across groups.
A text that no rule matches keeps its raw form under the cause "unknown".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Part:
    """One reason named in a message. `needed`: units of `resource` that are missing; `nodes`: how many nodes say
    so; `is_note`: true for text that explains but never is a cause."""

    rule: str
    layer: str
    cause: str
    severity: int
    next_step: str
    text: str
    pod_set: str = ""
    flavor: str = ""
    resource: str = ""
    needed: Decimal | None = None
    ceiling: Decimal | None = None
    nodes: int | None = None
    is_note: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The primary part's classification, and every part. `rule` is "unknown" when none matched."""

    layer: str
    cause: str
    rule: str
    severity: int
    next_step: str
    primary: Part | None
    parts: Sequence[Part]


def classify(*, kind: str = "", state: str = "", reason: str = "", message: str = "") -> Verdict:
    raise NotImplementedError
