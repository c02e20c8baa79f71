"""Every code that a rule or warning can give has words; the words by hand."""

from __future__ import annotations

import re
from pathlib import Path

from apps.changes import words
from apps.changes.checks_model import Finding, Param
from apps.changes.patching import FieldChange

HERE = Path(__file__).parents[1]
GPU = "nvidia.com/gpu"
_NOT_CODES = {"Cohort", "ClusterQueue", "stays", "guarantee", "resource", "flavor"}


def team_name(team: int | None) -> str:
    return f"Team {team}" if team else "nobody"


def _codes(*files: str) -> set[str]:
    text = "".join((HERE / file).read_text() for file in files)
    found = set(re.findall(r'(?:Broken|Finding)\(\s*"(\w+)"', text)) | set(
        re.findall(r'_at\(\s*[^,]+, "(\w+)"', text)
    )
    found |= {code for pair in re.findall(r'"(\w+)" if [^\n]* else "(\w+)"', text) for code in pair}
    found |= {"too_many_" + name.replace(" ", "_") for name in re.findall(r'_too_many\("([\w ]+)"', text)}
    return found - _NOT_CODES


def test_every_rule_has_words() -> None:
    assert _codes("rules.py", "rules_volcano.py") <= words.REFUSAL_CODES
    assert _codes("cautions.py", "cautions_volcano.py") <= words.WARNING_CODES
    assert _codes("checks.py") <= words.REFUSAL_CODES | words.WARNING_CODES | {"nothing"}
    assert len(_codes("rules.py", "rules_volcano.py")) >= 30
    assert len(_codes("cautions.py", "cautions_volcano.py")) >= 12


def test_below_use() -> None:
    params: dict[str, Param] = {
        "queue": "red", "flavor": "h100", "resource": GPU, "held": "6", "nominal": "4", "beyond": "2",
        "ceiling": "12", "over": "0", "then": "stays",
        "teams": [{"team": "7", "held": "4"}, {"team": "", "held": "2"}],
    }  # fmt: skip
    assert words.finding_text(Finding("below_use", "f", params), team_name=team_name) == (
        f"red holds 6 h100 {GPU} and would have 4: 2 beyond it. Held by: Team 7 4, nobody 2. "
        "Nothing is evicted for it: what runs runs on, and nothing new starts until enough is free."
    )
    volcano: dict[str, Param] = {
        **params,
        "flavor": "",
        "part": "deserved",
        "then": "reclaimable",
        "teams": [],
    }
    assert words.finding_text(Finding("below_use", "f", volcano), team_name=team_name) == (
        f"red holds 6 {GPU}, 2 more than the new deserved 4. "
        "Other queues may take it back by preemption; until then it runs on."
    )


def test_refusals_and_faults() -> None:
    refusal = Finding("above_nominal", "f", {"flavor": "h100", "resource": GPU, "limit": "9", "nominal": "8"})
    assert words.finding_text(refusal, team_name=team_name) == (
        f"The lending limit 9 of h100 {GPU} is larger than the nominal quota 8."
    )
    fault = Finding("unknown", "edits.0.name", {"part": "x"})
    assert words.finding_text(fault, team_name=team_name) == "There is nothing of this name."


def test_what_somebody_else_changed() -> None:
    quota = {"name": "red", "path": "/spec/resourceGroups/h100/nvidia.com~1gpu/nominalQuota", "was": "12"}
    assert words.finding_text(Finding("changed_since", "f", {**quota, "now": ""}), team_name=team_name) == (
        f"red: h100 {GPU}: nominal quota was made 12 by the change and is none now. "
        "Somebody else changed it, so it is not taken back."
    )
    state = Finding(
        "changed_since", "f", {"name": "q", "path": "/status/state", "was": "Closed", "now": "Unknown"}
    )
    assert "state was made Closed by the change and is Unknown now" in words.finding_text(
        state, team_name=team_name
    )


def test_fields() -> None:
    changes = [
        FieldChange("/spec/resourceGroups/h100/nvidia.com~1gpu/nominalQuota", "8", "12"),
        FieldChange("/spec/cohortName", "org", None),
        FieldChange("/spec/guarantee/resource/nvidia.com~1gpu", None, "4"),
        FieldChange("/spec/resourceGroups", [{"coveredResources": ["cpu"], "flavors": ["a"]}], None),
        FieldChange("/spec/somethingElse", 1, 2),
    ]
    assert words.field_words(changes) == (
        "h100 nvidia.com/gpu: nominal quota 8 → 12",
        "cohort org → none",
        "nvidia.com/gpu: guarantee none → 4",
        "flavors and resources [a: cpu] → none",
        "/spec/somethingElse 1 → 2",
    )
