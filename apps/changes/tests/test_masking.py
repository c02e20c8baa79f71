"""What a lead of red is told of a check that found something about blue and nobody; the expected by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from apps.changes import words
from apps.changes.checks_model import report_from_json
from apps.changes.masking import masked_report

GPU = "nvidia.com/gpu"
RED, BLUE, GREEN = 1, 2, 3


def below_use(queue: str, teams: list[tuple[str, str]], over: str, flavor: str = "h100") -> dict[str, Any]:
    held = str(sum(int(amount) for _team, amount in teams))
    return {
        "code": "below_use",
        "field": "edits.0.set.quotas.0.nominal",
        "params": {
            "queue": queue, "flavor": flavor, "resource": GPU, "held": held, "nominal": "4", "beyond": "2",
            "ceiling": "4", "over": over, "then": "stays",
            "teams": [{"team": team, "held": amount} for team, amount in teams],
        },
    }  # fmt: skip


def line(team: int | None, counts: tuple[int, int, int, int], *holds: tuple[str, str]) -> dict[str, Any]:
    names = ("admitted", "loses", "waits", "moves")
    return {
        "team": team,
        **dict(zip(names, counts, strict=True)),
        "holds": [
            {"flavor": "h100", "resource": GPU, "before": before, "after": after} for before, after in holds
        ],
    }


def work(team: int | None, name: str) -> dict[str, Any]:
    return {
        "what": "preempted",
        "uid": f"uid-{name}",
        "namespace": "n",
        "name": name,
        "queue": "q",
        "team": team,
    }


REPORT: dict[str, Any] = {
    "refusals": [
        {"code": "below_descendant", "field": "edits.0.set.capability.cpu",
         "params": {"resource": "cpu", "capability": "4", "queue": "blue-vq", "least": "8"}},
    ],
    "warnings": [
        below_use("red-cq", [("1", "4"), ("2", "1"), ("", "1")], "2"),
        below_use("blue-cq", [("2", "6")], "2"),
        below_use("green-cq", [("3", "5"), ("", "2")], "1"),
        below_use("blue-cq", [("2", "6")], "3", flavor="a100"),
        {"code": "unit_mismatch", "field": "edits.0.set.quotas.0.nominal",
         "params": {"flavor": "h100", "resource": "memory", "amount": "1", "other": "20096Mi", "queue": "blue-cq"}},
        {"code": "closes", "field": "edits.0.set.state", "params": {"queue": "red-vq", "below": "blue-vq, red-sub"}},
        {"code": "unknown_flavor", "field": "edits.0", "params": {"flavor": "x"}},
    ],
    "what_if": {
        "teams": [
            line(RED, (2, 0, 0, 0), ("8", "12")),
            line(BLUE, (0, 1, 2, 0), ("8", "4.5")),
            line(None, (0, 1, 0, 3), ("1", "0.25")),
        ],
        "work": [work(RED, "red-1"), work(BLUE, "blue-1"), work(None, "nobodys")],
        "volcano": [
            {"queue": "red-vq", "resource": "cpu", "teams": [RED, BLUE], "held": "1"},
            {"queue": "blue-vq", "resource": "cpu", "teams": [BLUE], "held": "2"},
        ],
        "anyway": 7, "whole": True, "gaps": ["time"], "workloads": 100, "queues": 9,
    },
    "dry_run": [{"position": 0, "verdict": "accepted", "status": 200, "text": ""}],
}  # fmt: skip
MASKED: dict[str, Any] = {
    "refusals": [
        {"code": "below_descendant", "field": "edits.0.set.capability.cpu",
         "params": {"resource": "cpu", "capability": "4", "queue": "…", "least": "…"}},
    ],
    "warnings": [
        below_use("red-cq", [("1", "4"), ("others", "2")], "2"),
        {"code": "below_use_others", "field": "edits.0.set.quotas.0.nominal",
         "params": {"flavor": "h100", "resource": GPU, "over": "3"}},
        {"code": "below_use_others", "field": "edits.0.set.quotas.0.nominal",
         "params": {"flavor": "a100", "resource": GPU, "over": "3"}},
        {"code": "unit_mismatch", "field": "edits.0.set.quotas.0.nominal",
         "params": {"flavor": "h100", "resource": "memory", "amount": "1", "other": "…", "queue": "…"}},
        {"code": "closes", "field": "edits.0.set.state", "params": {"queue": "red-vq", "below": "red-sub, …"}},
        {"code": "unknown_flavor", "field": "edits.0", "params": {"flavor": "x"}},
    ],
    "what_if": {
        "teams": [line(RED, (2, 0, 0, 0), ("8", "12"))],
        "others": {"admitted": 0, "loses": 2, "waits": 2, "moves": 3,
                   "holds": [{"flavor": "h100", "resource": GPU, "before": "9", "after": "4.75"}]},
        "work": [work(RED, "red-1")],
        "volcano": [{"queue": "red-vq", "resource": "cpu", "teams": [RED], "held": "1"}],
        "anyway": None, "whole": True, "gaps": ["time"], "workloads": None, "queues": None,
    },
    "dry_run": [{"position": 0, "verdict": "accepted", "status": 200, "text": ""}],
}  # fmt: skip


def test_red_is_told_of_others_in_sums() -> None:
    assert masked_report(REPORT, [RED], names=["red-cq", "red-vq", "red-sub"]) == MASKED


def test_whoever_reads_every_team_is_told_everything() -> None:
    assert masked_report(REPORT, None) == REPORT


def test_nothing_of_others_is_left_in_words_either() -> None:
    report = report_from_json(masked_report(REPORT, [RED], names=["red-cq"]))
    said = " ".join(
        words.finding_text(one, team_name=lambda team: f"Team {team}")
        for one in (*report.refusals, *report.warnings)
    )
    assert "Held by: Team 1 4, other teams 2." in said
    assert f"Queues of other teams would hold 3 h100 {GPU} more than they could get." in said
    assert [word for word in ("blue", "green", "20096Mi", "Team 2", "Team 3") if word in said] == []


def test_what_could_not_be_tried_stays() -> None:
    for found in (
        None,
        {"too_much": 30_000},
        {"refused": [{"field": "edits.0", "code": "unknown", "part": ""}]},
    ):
        assert masked_report({"what_if": found}, [RED])["what_if"] == found


teams = st.sampled_from([RED, BLUE, GREEN, None])
counts = st.tuples(*[st.integers(0, 50)] * 4)
holds = st.lists(st.tuples(st.integers(0, 99).map(str), st.integers(0, 99).map(str)), max_size=2)


@given(st.lists(st.tuples(teams, counts, holds), max_size=6))
def test_sums_keep_what_they_sum(
    lines: list[tuple[int | None, tuple[int, ...], list[tuple[str, str]]]],
) -> None:
    found: list[dict[str, Any]] = [line(team, count, *held) for team, count, held in lines]  # type: ignore[arg-type]
    what_if = {
        "teams": found, "work": [], "volcano": [], "anyway": 0, "whole": True, "gaps": [], "workloads": 1, "queues": 1,
    }  # fmt: skip
    masked = masked_report({"what_if": what_if}, [RED, GREEN])["what_if"]
    shown = [*masked["teams"], *([masked["others"]] if masked["others"] else [])]
    for name in ("admitted", "loses", "waits", "moves"):
        assert _total(shown, lambda one: [one[name]]) == _total(found, lambda one: [one[name]])  # noqa: B023
    for at in ("before", "after"):
        sums = [_total(many, lambda one: [held[at] for held in one["holds"]]) for many in (shown, found)]  # noqa: B023
        assert sums[0] == sums[1]
    assert {one["team"] for one in masked["teams"]} <= {RED, GREEN}


def _total(lines: list[dict[str, Any]], values: Callable[[dict[str, Any]], list[Any]]) -> int:
    return sum(int(value) for one in lines for value in values(one))
