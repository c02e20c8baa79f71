"""Where a request stands, in a sentence: every state has one, and it names who has to act next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.accounts.models import User
from apps.changes.models import ChangeRequest, ChangeStep, State
from apps.console.change_words import action_text, since, standing, state_text, tone

NOW = datetime(2026, 12, 2, 12, tzinfo=UTC)
LEAD, ADMIN = User(username="lena"), User(username="ada")
EARLIER, LATER = NOW - timedelta(hours=1), NOW + timedelta(days=3)


def request(state: str, **fields: Any) -> ChangeRequest:
    times = {"asked_at": EARLIER, "decided_at": EARLIER, "applied_at": EARLIER, "observed_at": EARLIER}
    values = {
        "created_by": LEAD,
        "decided_by": ADMIN,
        "created_at": EARLIER,
        "closed_at": EARLIER,
        **times,
        **fields,
    }
    return ChangeRequest(state=state, **values)


def said(state: str, steps: list[ChangeStep] | None = None, **fields: Any) -> str:
    return standing(request(state, **fields), steps or [], now=NOW)


@pytest.mark.parametrize("state", State.values)
def test_every_state_has_its_sentence(state: str) -> None:
    text = said(state)
    assert text.endswith(".")
    assert "%" not in text
    assert tone(state) in {"ok", "warn", "bad", "note"}


def test_no_two_states_are_said_alike() -> None:
    assert len({said(state) for state in State.values}) == len(State.values)


@pytest.mark.parametrize(
    ("text", "state", "fields"),
    [
        ("A draft that only lena has worked on: it waits to be checked.", "draft", {}),
        ("A draft of lena that is being checked against the cluster.", "draft", {"check_wanted_at": NOW}),
        (
            "Checked without a refusal: it waits for lena to put it before the approvers.",
            "checked",
            {"report": {}},
        ),
        (
            "Checked, and 2 things stand in its way: lena has to change it.",
            "checked",
            {"report": {"refusals": [{}], "dry_run": [{"verdict": "refused"}, {"verdict": "accepted"}]}},
        ),
        ("Approved by ada: the portal is about to write it.", "approved", {}),
        ("Approved by ada: the portal is about to write it.", "approved", {"starts_at": EARLIER}),
        ("It failed, and nothing was written.", "failed", {}),
    ],
)
def test_a_sentence_says_what_comes_next(text: str, state: str, fields: dict[str, Any]) -> None:
    assert said(state, **fields) == text


def test_what_is_to_start_later_says_when() -> None:
    assert said("approved", starts_at=LATER).startswith("Approved by ada: the portal will write it at ")


def test_what_ends_says_until_when() -> None:
    assert said("observed", ends_at=LATER).startswith("In force until ")
    assert said("observed", ends_at=EARLIER).startswith("It was in force from ")


def test_steps_are_counted_and_drift_is_told() -> None:
    done, open_ = ChangeStep(done_at=NOW), ChangeStep()
    assert said("applying", [done, open_]) == "It is being written: 1 of 2 steps are done."
    assert "after 1 of 2 steps" in said("failed", [done, open_])
    drifted = ChangeStep(name="a", done_at=NOW, drift_since=NOW)
    assert said("observed", [drifted, done]) == (
        "It was in force, and somebody has since changed 1 object in another way."
    )


def test_a_deed_without_words_reads_as_it_is_written() -> None:
    assert (action_text("change.approve"), action_text("approve")) == ("Approved", "Approved")
    assert action_text("rate.change") == "rate.change"


@pytest.mark.parametrize(
    ("state", "fields", "text"),
    [
        ("draft", {"starts_at": LATER}, "It takes change 7 back at "),
        ("checked", {"starts_at": EARLIER}, "Its time has come: it is being checked against the cluster."),
        ("awaiting_approval", {"report": {}}, "Its time has come: it waits for a platform admin to approve"),
        (
            "awaiting_approval",
            {"report": {"refusals": [{}]}},
            "Its time has come, and what the change had set",
        ),
        ("cancelled", {}, "It was cancelled at "),
        ("observed", {}, "Taken back: seen in the cluster at "),
    ],
)
def test_the_end_of_a_change_says_what_it_will_do(state: str, fields: dict[str, Any], text: str) -> None:
    assert said(state, origin="end", reverts_id=7, **fields).startswith(text)


def test_an_end_to_come_is_no_draft() -> None:
    assert state_text(request("draft", origin="end")) == "To come"
    assert state_text(request("draft")) == "Draft"
    assert state_text(request("failed", origin="end")) == "Failed"


@pytest.mark.parametrize("state", State.values)
def test_every_state_has_its_time(state: str) -> None:
    """An applied request stands there since it was written, whatever came before."""
    times = {
        name: NOW + timedelta(minutes=at) for at, name in enumerate(["checked_at", "asked_at", "decided_at"])
    }
    fields = {**times, "applied_at": LATER, "closed_at": LATER + timedelta(days=1)}
    expected = {
        "draft": EARLIER,
        "checked": times["checked_at"],
        "awaiting_approval": times["asked_at"],
        "approved": times["decided_at"],
        "applying": times["decided_at"],
        "applied": LATER,
    }
    assert since(request(state, **fields)) == expected.get(state, LATER + timedelta(days=1))
