"""What we say of an edit before anybody is asked, and what the real API server says of the very same patch: the same,
for every rule and every field that can be edited.

The expectations were written by hand before the first run (tests/data/changes). The table of both verdicts is printed
at the end of a run.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.changes.checks import CheckInput, run
from apps.changes.edits import ChangeError, parse_edits
from apps.changes.models import ChangeRequest, ChangeStep
from apps.changes.planning import COMMANDS_PATH, PlannedStep, goals_of, plan
from apps.changes.words import REFUSAL_CODES, WARNING_CODES
from worker.appliers.commands import command_of

from .access import require_cluster
from .verdicts import Bed, Row, Theirs, edit_of, line_of, rows
from .wild import wild_sets

require_cluster()
pytestmark = pytest.mark.cluster
ALONE = True
ROWS, OF_VOLCANO = rows("verdicts.yaml"), rows("volcano.yaml")
LANGUAGE = frozenset({"other_group"})
"""What only the edit language refuses: the rules have another name for what would come of it."""
NOT_HERE = frozenset({"variants_one_group", "variants_flavors", "variants_strict"})
"""Rules about a field that later versions of Kueue have: no object here can hold it."""
NO_RULE = frozenset({"changed_since"})
"""What an undo alone is refused for."""
ROOT = frozenset({"root_amounts", "root_closed"})
"""About the one queue that is not ours to make: held against recordings."""
TABLE = "table: edit | our verdict | the API server's | its words"
RECORDED = Path(__file__).parents[1] / "data" / "volcano-capacity"
Record = Callable[[str, object], None]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.on}: {row.words}" for row in ROWS])
def test_both_verdicts_are_the_same(beds: list[Bed], row: Row, record_property: Record) -> None:
    for place, bed in enumerate(bed for bed in beds if bed.version in row.versions):
        ours, theirs = bed.verdicts(row)
        if not place:
            record_property(TABLE, line_of(row, ours, theirs))
        assert (dict(ours.refusals), ours.rules) == (row.ours, row.rules), bed.version
        assert {code: ours.warnings.get(code) for code in row.warns} == row.warns
        assert theirs.status == row.server, (bed.version, theirs.said)
        assert row.says in theirs.said, bed.version
        assert ours.refuses == theirs.refuses or row.stricter, bed.version


@pytest.mark.parametrize("row", OF_VOLCANO, ids=[f"{row.on}: {row.words}" for row in OF_VOLCANO])
def test_volcano_takes_the_same(volcano_bed: Bed, row: Row, record_property: Record) -> None:
    """Its schema has a verdict wherever its CRDs are served, its webhook only where it runs."""
    ours, theirs = volcano_bed.verdicts(row)
    if row.command:
        assert ours.step is not None
        theirs = _command(volcano_bed, ours.step, row.command)
    record_property(TABLE, line_of(row, ours, theirs))
    assert (dict(ours.refusals), ours.rules) == (row.ours, row.rules)
    assert {code: ours.warnings.get(code) for code in row.warns} == row.warns
    assert theirs.status in ({row.server, 400} if row.webhook else {row.server}), theirs.said
    assert row.says in theirs.said
    assert ours.refuses == (theirs.refuses or bool(row.webhook))


def _command(bed: Bed, step: PlannedStep, action: str) -> Theirs:
    """The Command that the worker would make for this step."""
    assert (step.method, step.body) == ("command", {"action": action})
    asked = ChangeRequest(pk=1, created_at=datetime(2026, 1, 1, tzinfo=UTC))
    stored = ChangeStep(pk=1, request=asked, position=1, name=step.name, path=step.path, body=step.body)
    made = bed.writer.create(COMMANDS_PATH, command_of(stored, step.object_uid), dry_run=True)
    assert made.obj["action"] == action
    assert made.obj["target"]["uid"] == step.object_uid
    return Theirs(200, "")


def test_what_a_webhook_is_said_to_say_was_recorded() -> None:
    said = [
        json.loads(file.read_text())["message"] for file in RECORDED.glob("refusal-queue-*") if _failed(file)
    ]
    quoted = [row for row in OF_VOLCANO if row.webhook.startswith("recorded: ")]
    assert len(quoted) >= 6
    for row in quoted:
        assert any(row.webhook.removeprefix("recorded: ") in words for words in said), row.words


def _failed(file: Path) -> bool:
    return bool(json.loads(file.read_text()).get("status") == "Failure")


def test_every_rule_was_provoked() -> None:
    provoked = {code for row in (*ROWS, *OF_VOLCANO) for code in row.codes}
    assert provoked - LANGUAGE <= REFUSAL_CODES
    assert provoked - LANGUAGE == REFUSAL_CODES - NOT_HERE - NO_RULE - ROOT
    assert {code for row in (*ROWS, *OF_VOLCANO) for code in row.warns} <= WARNING_CODES


@pytest.mark.parametrize("short", ["team", "alone", "tuned", "checked", "empty", "org", "top", "bare"])
def test_chance_finds_no_other_verdict(beds: list[Bed], short: str, record_property: Record) -> None:
    """Edits by chance, names and amounts that are wrong among them: what the language lets through is refused by both
    or by neither."""
    counts = {"goes": 0, "refused": 0}
    bed = beds[0]

    @settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(wild_sets(bed.kinds[short], bed.stage.prefix), st.sampled_from(beds))
    def same(wanted: dict[str, object], spoken: Bed) -> None:
        for _turn in range(5):
            objects = spoken.around(short)
            seen = objects[spoken.key(short)]
            try:
                edits = parse_edits([edit_of(seen, wanted)])
                goals = goals_of(objects, edits)
            except ChangeError:
                return
            steps = plan(objects, goals)
            if not steps:
                return
            (step,) = steps
            assert isinstance(step.body, list)
            theirs = spoken.try_out(seen, step.body)
            if theirs.status == 409:
                continue
            report = run(CheckInput(edits, objects))
            assert bool(report.refusals) == theirs.refuses, (report.refusals, theirs.said)
            counts["refused" if theirs.refuses else "goes"] += 1
            return

    same()
    assert min(counts.values()) > 5
    record_property(
        TABLE,
        (f"{short}: by chance", f"{counts['refused']} refused", f"{counts['refused']} refused", str(counts)),
    )
