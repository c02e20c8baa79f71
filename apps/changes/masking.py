"""What a check found, for readers of some teams only. Input: the stored report and the reader's teams; output: the same
report, in which other teams are told of in sums. Pure.

Shared by pages and REST. Invariants: for readers of every team nothing changes; a masked report names no other team,
none of its work and none of its queues; amounts are summed per flavor and resource, never across; what the reader's own
teams gain and lose stays as it was found. The API server's own answers stay verbatim: they are about the patch that was
asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from apps.core.quantity import plain

OTHERS = "others"
"""In `params["teams"]`: what all other teams and nobody's work hold together."""
HIDDEN = "…"
COUNTS = ("admitted", "loses", "waits", "moves")
# Params that may name a queue of somebody else, or say an amount of it.
_FOREIGN: Mapping[str, tuple[str, ...]] = {
    "unit_mismatch": ("queue", "other"),
    "below_descendant": ("queue", "least"),
}
_LISTS: Mapping[str, tuple[str, ...]] = {"closes": ("below",), "cycle": ("queues",)}
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Reader:
    teams: frozenset[int]
    names: frozenset[str]

    def owns(self, team: int | str | None) -> bool:
        return team not in (None, "", OTHERS) and int(str(team)) in self.teams


def masked_report(
    report: Mapping[str, Any], team_ids: Collection[int] | None, *, names: Collection[str] = ()
) -> Json:
    """`team_ids` None: all. `names`: of the objects that are edited, which whoever reads the request reads anyway."""
    if team_ids is None:
        return dict(report)
    reader = _Reader(frozenset(team_ids), frozenset(names))
    found = report.get("what_if")
    return {
        **report,
        "refusals": _findings(report.get("refusals") or (), reader),
        "warnings": _findings(report.get("warnings") or (), reader),
        "what_if": None if found is None else _what_if(found, reader),
    }


# ---- findings -------------------------------------------------------------------------------------------------------


def _findings(findings: Iterable[Mapping[str, Any]], reader: _Reader) -> list[Json]:
    """Queues of others that would hold too much become one line per field, flavor and resource, at their first place."""
    found: list[Json] = []
    sums: dict[tuple[str, ...], Json] = {}
    for one in findings:
        params = one.get("params") or {}
        if one["code"] == "below_use" and not _is_own(params, reader):
            key = (one["field"], params["flavor"], params["resource"])
            if key not in sums:
                said = {"flavor": key[1], "resource": key[2], "over": "0"}
                sums[key] = {"code": "below_use_others", "field": key[0], "params": said}
                found.append(sums[key])
            total = sums[key]["params"]
            total["over"] = plain(Decimal(total["over"]) + Decimal(params.get("over") or params["beyond"]))
        else:
            found.append({**one, "params": _params(one["code"], params, reader)})
    return found


def _is_own(params: Mapping[str, Any], reader: _Reader) -> bool:
    return params["queue"] in reader.names or any(reader.owns(line["team"]) for line in params["teams"])


def _params(code: str, params: Mapping[str, Any], reader: _Reader) -> Json:
    found = dict(params)
    if isinstance(found.get("teams"), list):
        found["teams"] = _teams(found["teams"], reader)
    if code in _FOREIGN and found.get("queue") not in reader.names:
        found |= dict.fromkeys(_FOREIGN[code], HIDDEN)
    for name in _LISTS.get(code, ()):
        found[name] = _named(str(found.get(name) or ""), reader)
    return found


def _teams(lines: Iterable[Mapping[str, str]], reader: _Reader) -> list[Json]:
    own = [dict(line) for line in lines if reader.owns(line["team"])]
    others = [Decimal(line["held"]) for line in lines if not reader.owns(line["team"])]
    return [*own, {"team": OTHERS, "held": plain(sum(others, Decimal(0)))}] if others else own


def _named(text: str, reader: _Reader) -> str:
    names = [name for name in text.split(", ") if name]
    own = [name for name in names if name in reader.names]
    return ", ".join([*own, HIDDEN] if len(own) < len(names) else own)


# ---- what it would do to work ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Sum:
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    holds: dict[tuple[str, str], tuple[Decimal, Decimal]] = field(default_factory=dict)

    def add(self, line: Mapping[str, Any]) -> None:
        for name in COUNTS:
            self.counts[name] += line[name]
        for held in line["holds"]:
            key = (held["flavor"], held["resource"])
            before, after = self.holds.get(key, (Decimal(0), Decimal(0)))
            self.holds[key] = (before + Decimal(held["before"]), after + Decimal(held["after"]))

    def json(self) -> Json:
        holds = [
            {"flavor": flavor, "resource": resource, "before": plain(before), "after": plain(after)}
            for (flavor, resource), (before, after) in sorted(self.holds.items())
        ]
        return {**self.counts, "holds": holds}


def _what_if(found: Mapping[str, Any], reader: _Reader) -> Json:
    """With `others`: a line like those of teams for all others together, None where nothing happens to them. What
    would start anyway and how much was looked at is the whole fleet's and left out (None)."""
    if "teams" not in found:  # it could not be tried
        return dict(found)
    rest = [line for line in found["teams"] if not reader.owns(line["team"])]
    total = _Sum()
    for line in rest:
        total.add(line)
    return {
        **found,
        "teams": [line for line in found["teams"] if reader.owns(line["team"])],
        "work": [one for one in found["work"] if reader.owns(one["team"])],
        "volcano": [_volcano(line, reader) for line in found["volcano"] if _sees(line, reader)],
        "others": total.json() if rest else None,
        **dict.fromkeys(("anyway", "workloads", "queues")),
    }


def _sees(line: Mapping[str, Any], reader: _Reader) -> bool:
    return line["queue"] in reader.names or any(reader.owns(team) for team in line["teams"])


def _volcano(line: Mapping[str, Any], reader: _Reader) -> Json:
    return {**line, "teams": [team for team in line["teams"] if reader.owns(team)]}
