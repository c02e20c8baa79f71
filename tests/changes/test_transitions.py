"""Every transition from every state, by every kind of request: expected by hand (tests/data/changes/transitions.yaml)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from apps.changes.errors import Conflict, NotAllowed, NotPossible, VersionRequired
from apps.changes.models import ChangeRequest, State
from apps.changes.transitions import OPEN, TABLE
from tests.changes.conftest import Desk

ROOT = Path(__file__).resolve().parents[2]
EXPECTED: dict[str, Any] = yaml.safe_load((ROOT / "tests/data/changes/transitions.yaml").read_text())


def test_the_states_are_those_by_hand() -> None:
    assert sorted(State.values) == sorted(EXPECTED["states"])
    assert {str(row.target) for row in TABLE.values() if row.final} <= set(EXPECTED["final"])


def test_the_transitions_are_those_by_hand() -> None:
    assert TABLE.keys() == EXPECTED["transitions"].keys()


@pytest.mark.parametrize("name", sorted(EXPECTED["transitions"]))
def test_each_row_is_as_by_hand(name: str) -> None:
    row, by_hand = TABLE[name], EXPECTED["transitions"][name]
    assert {str(state) for state in row.sources} == set(by_hand["from"])
    assert ("same" if row.target is None else str(row.target)) == by_hand["to"]
    assert row.who == set(by_hand["who"])
    assert row.origins == set(by_hand["of"])
    assert row.sees == by_hand.get("version", False)


_PERSON = {"requester": "red_lead", "approver": "admin", "portal": None}


@pytest.mark.parametrize("name", sorted(EXPECTED["transitions"]))
def test_from_every_other_state_it_is_not_possible(desk: Desk, name: str) -> None:
    by_hand = EXPECTED["transitions"][name]
    request = desk.ask()
    for state in sorted(set(EXPECTED["states"]) - set(by_hand["from"])):
        ChangeRequest.objects.filter(pk=request.pk).update(state=state)
        with pytest.raises(NotPossible):
            desk.do(name, request, _PERSON[by_hand["who"][0]], reason="a reason")
        present = ChangeRequest.objects.get(pk=request.pk)
        assert (present.state, present.version) == (state, request.version)


def test_a_stale_version_conflicts_and_none_is_refused(desk: Desk) -> None:
    request = desk.do("submit", desk.checked(desk.ask()), "red_lead")
    with pytest.raises(Conflict):
        desk.do("approve", request, "admin", seen_version=request.version - 1)
    with pytest.raises(VersionRequired):
        desk.do("approve", request, "admin", seen_version=None)
    assert ChangeRequest.objects.get(pk=request.pk).state == State.AWAITING


def test_going_back_to_check_voids_the_approval(desk: Desk) -> None:
    approved = desk.approved()
    assert approved.decided_by_id is not None
    back = desk.do("back_to_check", approved, fields={"failure": "changed meanwhile"})
    assert back.state == State.CHECKED
    assert (back.decided_by_id, back.decided_at, back.asked_at) == (None, None, None)


def test_what_oneself_asked_for_another_decides_unless_set(desk: Desk, settings: Any) -> None:
    settings.SELF_APPROVAL = False
    request = desk.do("submit", desk.checked(desk.ask("admin")), "admin")
    with pytest.raises(NotAllowed):
        desk.do("approve", request, "admin")
    settings.SELF_APPROVAL = True
    assert desk.do("approve", request, "admin").self_approved is True


def test_only_the_table_leaves_open_states() -> None:
    assert {str(state) for state in OPEN} == set(EXPECTED["transitions"]["cancel"]["from"])


def test_nothing_else_writes_the_state_of_a_request() -> None:
    """By reading: `….update(state=…)` on change requests, and `request.state = …`, anywhere in apps and worker."""
    files = [path for top in ("apps", "worker") for path in (ROOT / top).rglob("*.py")]
    code = [path for path in files if not {"tests", "migrations"} & set(path.parts)]
    found = {str(path.relative_to(ROOT)) for path in code if any(_writes(ast.parse(path.read_text())))}
    assert found == {"apps/changes/transitions.py", "apps/changes/requests.py"}


def _writes(tree: ast.AST) -> Iterator[ast.AST]:
    about = "ChangeRequest" in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if not about:
            return
        updates = (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "update"
        )
        if isinstance(node, ast.Call) and updates and any(word.arg == "state" for word in node.keywords):
            yield node
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Attribute) and target.attr == "state" for target in targets):
            yield node
