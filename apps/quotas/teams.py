"""Each team's quota and use in one line per unit kind. Input: a snapshot and quota rows; output: summaries.

Invariants: unit kinds are never added up; `used` and `waiting_units` are the team's own work, wherever it runs;
`nominal`, `borrowed` and `ceiling` are those of the queues it owns or uses, marked `shared` where others do too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from decimal import Decimal

from apps.core.gpu import profile_label, unit_label
from apps.quotas.rows import QuotaRow, TeamLine, TeamSummary
from apps.quotas.snapshot import ZERO, Snapshot, TeamWork


@dataclass(slots=True)
class _Line:
    used: Decimal = ZERO
    admitted: Decimal = ZERO
    nominal: Decimal | None = None
    borrowed: Decimal | None = None
    ceiling: Decimal | None = None
    unlimited: bool = False
    asked: Decimal = ZERO
    waiting: int = 0
    shared: bool = False


def _plus(total: Decimal | None, more: Decimal | None) -> Decimal | None:
    return total if more is None else (total or ZERO) + more


def summaries(
    snapshot: Snapshot, rows: Iterable[QuotaRow], team_ids: Collection[int] | None
) -> list[TeamSummary]:
    """Teams by id; a team without queue or work has no summary."""
    by_team: dict[int, list[QuotaRow]] = defaultdict(list)
    for row in rows:
        for team_id in row.team_ids:
            if team_ids is None or team_id in team_ids:
                by_team[team_id].append(row)
    working = {team_id for team_id in snapshot.work if team_id is not None}
    wanted = by_team.keys() | (working if team_ids is None else working & set(team_ids))
    return [_summary(snapshot, team_id, by_team[team_id]) for team_id in sorted(wanted)]


def _summary(snapshot: Snapshot, team_id: int, rows: list[QuotaRow]) -> TeamSummary:
    lines: dict[tuple[str, str], _Line] = defaultdict(_Line)
    kinds: dict[tuple[int, str, str, str], tuple[str, str]] = {}
    for row in rows:
        what = _kind(snapshot, (row.cluster.pk, row.flavor, row.resource))
        kinds.setdefault((row.cluster.pk, row.kind, row.queue, row.resource), what)
        if not row.is_parent:  # its children's numbers are in it
            _add_quota(lines[what], row)
    work = snapshot.work.get(team_id) or TeamWork()
    by_resource: dict[str, Decimal] = defaultdict(lambda: ZERO)
    for cell, amount in work.reserved.items():
        if snapshot.meaning(*cell).accelerator:
            line = lines[_kind(snapshot, cell)]
            line.used += amount
            line.admitted += work.admitted.get(cell, ZERO)
            by_resource[cell[2]] += amount
    for key, amount in work.asked.items():
        anywhere = (key[0], "", key[3])
        if snapshot.meaning(*anywhere).accelerator:
            line = lines[kinds.get(key) or _kind(snapshot, anywhere)]
            line.asked += amount
            line.waiting += work.counts.get(key, 0)
    return TeamSummary(
        team_id=team_id,
        lines=tuple(sorted((_finish(*kind, line) for kind, line in lines.items()), key=_size)),
        queues=tuple(sorted({(row.cluster.pk, row.queue) for row in rows})),
        by_resource=dict(by_resource),
    )


def _kind(snapshot: Snapshot, cell: tuple[int, str, str]) -> tuple[str, str]:
    """(unit, profile): partitions of two profiles are two kinds."""
    what = snapshot.meaning(*cell)
    return what.unit, what.profile if what.unit in ("mig_instance", "card_partition") else ""


def _add_quota(line: _Line, row: QuotaRow) -> None:
    line.nominal = _plus(line.nominal, row.nominal)
    line.borrowed = _plus(line.borrowed, row.borrowed)
    line.ceiling = _plus(line.ceiling, row.ceiling)
    line.unlimited |= row.ceiling is None
    line.shared |= len(row.team_ids) > 1


def _finish(unit: str, profile: str, line: _Line) -> TeamLine:
    return TeamLine(
        unit=unit,
        unit_label=profile_label(profile) if profile else unit_label(unit),
        used=line.used,
        admitted=line.admitted,
        nominal=line.nominal,
        borrowed=line.borrowed,
        ceiling=None if line.unlimited else line.ceiling,
        waiting_units=line.asked,
        waiting=line.waiting,
        shared=line.shared,
    )


def _size(line: TeamLine) -> tuple[Decimal, str]:
    return -max(line.nominal or ZERO, line.used, line.waiting_units), line.unit_label
