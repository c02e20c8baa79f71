"""Changes that hold for a time: taken back at their end as they were approved, unless somebody has to be asked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from apps.changes import audit
from apps.changes.errors import NotPossible
from apps.changes.models import AuditEntry, ChangeRequest, Notice, State
from apps.changes.selectors import pending_work
from apps.changes.services import ask_undo
from simcluster.testing import Running
from worker.appliers.work import carry_on

from .yard import GPU, Yard, opened, queue_edit

pytestmark = [
    pytest.mark.pipeline,
    pytest.mark.xdist_group("pipeline"),
    pytest.mark.django_db(transaction=True),
]
QUEUE = "foundation-cq"
HOUR = timedelta(hours=1)


@pytest.fixture
def yard(sim: Running, tmp_path: Path, transactional_db: None, settings: Any) -> Iterator[Yard]:
    settings.WEBHOOK_URL, settings.WEBHOOK_SECRET = "http://127.0.0.1:1/", "x" * 16
    with opened(sim, tmp_path) as made:
        yield made


def for_an_hour(yard: Yard) -> tuple[ChangeRequest, ChangeRequest]:
    """A change that was applied for an hour, and its end."""
    request = yard.approved(queue_edit(QUEUE, "28"), ends_at=timezone.now() + HOUR)
    assert carry_on(request.pk) == State.APPLIED
    assert yard.nominal(QUEUE) == "28"
    return request, ChangeRequest.objects.get(reverts=request, origin="end")


def later() -> datetime:
    return timezone.now() + 2 * HOUR


def test_what_ends_is_taken_back_by_the_approval_that_it_had(yard: Yard) -> None:
    before = yard.spec("ClusterQueue", QUEUE)
    request, end = for_an_hour(yard)
    assert end.pk not in pending_work(timezone.now())
    assert carry_on(end.pk) == State.DRAFT
    assert end.pk in pending_work(later())
    assert carry_on(end.pk, clock=later) == State.APPLIED
    assert yard.spec("ClusterQueue", QUEUE) == before
    ended = yard.now(end)
    assert (ended.decided_by, ended.reverts_id) == (yard.admin, request.pk)
    assert yard.writes.of("ClusterQueue", QUEUE) == 2
    deeds = AuditEntry.objects.filter(subject_kind="ChangeRequest", subject_id=str(end.pk)).order_by(
        "sequence"
    )
    assert [(one.action, one.actor_name) for one in deeds] == [
        (f"change.{name}", "portal")
        for name in ("create", "ask_check", "note_check", "submit_end", "approve_end", "begin", "finish")
    ]
    assert audit.verify() is None


def test_an_end_over_somebody_elses_change_asks_a_human(yard: Yard) -> None:
    _request, end = for_an_hour(yard)

    def other(spec: dict[str, Any]) -> None:
        for group in spec["resourceGroups"]:
            for flavor in group["flavors"]:
                for cell in flavor["resources"]:
                    if (flavor["name"], cell["name"]) == ("h100", GPU):
                        cell["nominalQuota"] = "30"

    yard.outside("ClusterQueue", QUEUE, other)
    assert carry_on(end.pk, clock=later) == State.AWAITING
    waiting = yard.now(end)
    assert waiting.report is not None
    (refusal,) = waiting.report["refusals"]
    assert (refusal["code"], refusal["params"]["was"], refusal["params"]["now"]) == (
        "changed_since", "28", "30",
    )  # fmt: skip
    assert Notice.objects.filter(request=end, payload__event="change.submit_end").count() == 1
    with pytest.raises(NotPossible):
        yard.do("approve", end, yard.admin, now=later())
    assert carry_on(end.pk, clock=later) == State.AWAITING
    assert yard.nominal(QUEUE) == "30"
    yard.do("cancel_end", end, yard.admin, reason="30 is to stay", now=later())
    assert yard.now(end).state == State.CANCELLED


def test_an_early_undo_leaves_nothing_to_end(yard: Yard) -> None:
    before = yard.spec("ClusterQueue", QUEUE)
    request, end = for_an_hour(yard)
    undo = ask_undo(request.pk, actor=yard.lead, reason="not needed", now=timezone.now())
    assert carry_on(undo.pk) == State.CHECKED
    yard.approve(undo)
    assert carry_on(undo.pk) == State.APPLIED
    assert yard.spec("ClusterQueue", QUEUE) == before
    assert yard.now(end).state == State.SUPERSEDED
    assert carry_on(end.pk, clock=later) == State.SUPERSEDED
    assert yard.writes.of("ClusterQueue", QUEUE) == 2
