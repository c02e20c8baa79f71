"""What became of work, from the rollups. Input: a window, criteria and the reader's teams; output: `OutcomeRow`s.

Rates are shares of what they say below; None of nothing, never 0. A rate counts what happened in the window, whenever the
work was submitted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from django.db.models import Sum

from apps.core.windows import Window
from apps.fleet.selectors import UNBOUND
from apps.usage.admission_reading import AdmissionCriteria, condition, reading, share
from apps.usage.blocked import block_labels, query_of
from apps.usage.models import OutcomeHour, Step

OutcomeBy = Literal["", "queue", "team", "cluster"]
What = OutcomeHour.What


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """`counts` by OutcomeHour.What; `reasons` of each, most first; `query` leads to the work."""

    key: str
    label: str
    counts: Mapping[str, int]
    reasons: Mapping[str, Sequence[tuple[str, int]]]
    query: Mapping[str, str]

    def count(self, what: str) -> int:
        return self.counts.get(what, 0)

    @property
    def over(self) -> int:
        """What came to an end: succeeded, failed, or deactivated."""
        return sum(self.count(what) for what in (What.SUCCEEDED, What.FAILED, What.DEACTIVATED))

    @property
    def completion(self) -> Decimal | None:
        """Succeeded of what came to an end."""
        return share(self.count(What.SUCCEEDED), self.over)

    @property
    def failure(self) -> Decimal | None:
        """Failed or deactivated of what came to an end."""
        return share(self.over - self.count(What.SUCCEEDED), self.over)

    @property
    def eviction(self) -> Decimal | None:
        """Evictions per reservation of quota, those that nobody saw included in both."""
        return share(self.count(What.EVICTED), self._reserved)

    @property
    def preemption(self) -> Decimal | None:
        """Preemptions per reservation of quota."""
        return share(self.count(What.PREEMPTED), self._reserved)

    @property
    def retry(self) -> Decimal | None:
        """Further attempts per submitted piece of work."""
        return share(self.count(What.RETRIED), self.count(What.SUBMITTED))

    @property
    def not_seen(self) -> int:
        """Evictions that only a counter knows."""
        return dict(self.reasons.get(What.EVICTED, ())).get("not_seen", 0)

    @property
    def _reserved(self) -> int:
        # Whatever was evicted unseen had been given quota unseen.
        return self.count(What.RESERVED) + self.not_seen


def outcome_table(
    *,
    window: Window,
    by: OutcomeBy = "",
    team_ids: Collection[int] | None,
    criteria: AdmissionCriteria | None = None,
    step: Step | None = None,
) -> list[OutcomeRow]:
    """One row per key, in the order of keys; `by` "" gives one row, or none when nothing happened."""
    wanted, read = criteria or AdmissionCriteria(), reading(window, step)
    rows = OutcomeHour.objects.filter(condition(read, team_ids=team_ids, criteria=wanted))
    fields = [{"team": "team__slug", "cluster": "cluster__slug"}.get(by, by)] if by else []
    counts: dict[str, dict[str, int]] = {}
    reasons: dict[str, dict[str, list[tuple[str, int]]]] = {}
    for *keys, what, reason, count in rows.values_list(*fields, "what", "reason").annotate(Sum("count")):
        key = (keys[0] or (UNBOUND if by == "team" else "")) if keys else ""
        of_key = counts.setdefault(key, {})
        of_key[what] = of_key.get(what, 0) + count
        reasons.setdefault(key, {}).setdefault(what, []).append((reason, count))
    labels = block_labels(by, counts) if by else {"": ""}
    return [
        OutcomeRow(
            key,
            labels[key],
            counts[key],
            {what: sorted(said, key=lambda pair: (-pair[1], pair[0])) for what, said in reasons[key].items()},
            query_of(wanted, read.covered, **({by: key} if by else {})),
        )
        for key in sorted(counts)
    ]
