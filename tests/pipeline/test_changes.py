"""Changes of quotas on a cluster, from asked for to applied, and whatever comes between."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from apps.accounts.models import User
from apps.changes import audit
from apps.changes.errors import Conflict
from apps.changes.models import State
from apps.changes.selectors import pending_work
from apps.changes.services import ask_undo, expire_due
from apps.changes.transitions import perform
from simcluster.testing import Running
from worker.appliers.work import carry_on

from .yard import GPU, Yard, opened, queue_edit

pytestmark = [
    pytest.mark.pipeline,
    pytest.mark.xdist_group("pipeline"),
    pytest.mark.django_db(transaction=True),
]
QUEUE = "foundation-cq"


@pytest.fixture
def yard(sim: Running, tmp_path: Path, transactional_db: None) -> Iterator[Yard]:
    with opened(sim, tmp_path) as made:
        yield made


def test_a_queue_gets_the_quota_that_was_asked_for(yard: Yard) -> None:
    before = yard.nominal("foundation-cq")
    wanted = str(int(before) + 4)
    request = yard.approved(queue_edit("foundation-cq", wanted))
    (step,) = yard.steps(request)
    assert yard.nominal("foundation-cq") == before
    assert carry_on(request.pk) == State.APPLIED
    assert yard.nominal("foundation-cq") == wanted
    (done,) = yard.steps(request)
    assert done.sent_at is not None
    assert done.done_at is not None
    assert done.written_version != step.resource_version
    assert yard.writes.of("ClusterQueue") == 1
    assert audit.verify() is None


def more(yard: Yard, by: int, name: str = QUEUE) -> str:
    return str(int(yard.nominal(name)) + by)


def test_of_two_changes_of_one_queue_the_second_is_looked_at_again(yard: Yard) -> None:
    before, one, two = yard.nominal(QUEUE), more(yard, 4), more(yard, 8)
    first, second = yard.approved(queue_edit(QUEUE, one)), yard.approved(queue_edit(QUEUE, two))
    assert carry_on(first.pk) == State.APPLIED
    assert carry_on(second.pk) == State.CHECKED
    assert yard.nominal(QUEUE) == one
    found = yard.now(second)
    assert (found.decided_by, found.report is not None) == (None, True)
    assert f"{before} → {one}" in found.failure
    assert [step.before["resourceGroups"] for step in yard.steps(second)] == [
        yard.spec("ClusterQueue", QUEUE)["resourceGroups"]
    ]
    yard.approve(second)
    assert carry_on(second.pk) == State.APPLIED
    assert (yard.nominal(QUEUE), yard.writes.of("ClusterQueue", QUEUE)) == (two, 2)


def test_what_somebody_else_changes_before_the_write_is_not_overwritten(yard: Yard) -> None:
    wanted, theirs = more(yard, 4), more(yard, 2)
    request = yard.approved(queue_edit(QUEUE, wanted))

    def other(spec: dict[str, Any]) -> None:
        for group in spec["resourceGroups"]:
            for flavor in group["flavors"]:
                for cell in flavor["resources"]:
                    if (flavor["name"], cell["name"]) == ("h100", GPU):
                        cell["nominalQuota"] = theirs

    yard.outside("ClusterQueue", QUEUE, other)
    assert carry_on(request.pk) == State.CHECKED
    assert yard.nominal(QUEUE) == theirs
    found = yard.now(request)
    assert found.report is not None
    (difference,) = found.report["difference"]
    assert difference["object"] == f"ClusterQueue/{QUEUE}"
    assert [one["after"] for one in difference["fields"]] == [theirs]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_is_away_is_waited_for(yard: Yard, status: int) -> None:
    wanted = more(yard, 4)
    request = yard.approved(queue_edit(QUEUE, wanted))
    yard.sim.faults.add(kind="ClusterQueue", on="patch", status=status)
    try:
        assert carry_on(request.pk) == State.APPLYING
        assert carry_on(request.pk) == State.APPLYING
    finally:
        yard.sim.faults.clear()
    assert yard.writes.of("ClusterQueue") == 0
    assert carry_on(request.pk) == State.APPLIED
    assert (yard.nominal(QUEUE), yard.writes.of("ClusterQueue")) == (wanted, 1)


def test_a_plan_ends_at_its_first_refusal_and_what_was_done_can_be_taken_back(yard: Yard) -> None:
    names = ["foundation-cq", "vision-cq", "recommendation-cq"]
    before = {name: yard.spec("ClusterQueue", name) for name in names}
    request = yard.approved(*(queue_edit(name, more(yard, 1, name)) for name in names))
    cluster = yard.sim.cluster
    inner = cluster.on_write

    def refuse_the_next(*given: Any) -> Any:
        found = inner(*given) if inner else None
        yard.sim.faults.add(kind="ClusterQueue", on="patch", status=403, message="not today", times=1)
        return found

    cluster.on_write = refuse_the_next
    try:
        assert carry_on(request.pk) == State.FAILED
    finally:
        cluster.on_write = inner
        yard.sim.faults.clear()
    steps = yard.steps(request)
    assert [(step.done_at is not None, step.sent_at is not None) for step in steps] == [
        (True, True), (False, True), (False, False),
    ]  # fmt: skip
    assert "not today" in steps[1].answer
    assert "not today" in yard.now(request).failure
    undo = ask_undo(request.pk, actor=yard.lead, reason="half of it is none", now=timezone.now())
    assert carry_on(undo.pk) == State.CHECKED
    assert [step.name for step in yard.steps(undo)] == [steps[0].name]
    yard.approve(undo)
    assert carry_on(undo.pk) == State.APPLIED
    assert {name: yard.spec("ClusterQueue", name) for name in names} == before


def test_a_start_that_is_to_come_is_waited_for(yard: Yard) -> None:
    before, wanted, start = yard.nominal(QUEUE), more(yard, 4), timezone.now() + timedelta(hours=1)
    request = yard.approved(queue_edit(QUEUE, wanted), starts_at=start)
    assert carry_on(request.pk) == State.APPROVED
    assert request.pk not in pending_work(timezone.now())
    assert yard.nominal(QUEUE) == before
    assert request.pk in pending_work(start)
    assert carry_on(request.pk, clock=lambda: start) == State.APPLIED
    assert yard.nominal(QUEUE) == wanted


def test_what_nobody_moves_on_expires_and_is_never_written(yard: Yard, settings: Any) -> None:
    before = yard.nominal(QUEUE)
    request = yard.approved(queue_edit(QUEUE, more(yard, 4)))
    late = timezone.now() + timedelta(days=settings.CHANGE_EXPIRY_DAYS, seconds=1)
    assert expire_due(late) == [request.pk]
    assert carry_on(request.pk, clock=lambda: late) == State.EXPIRED
    assert (yard.nominal(QUEUE), yard.writes.of("ClusterQueue")) == (before, 0)


def test_of_two_admins_at_once_one_decides(yard: Yard) -> None:
    request = yard.ask(queue_edit(QUEUE, more(yard, 4)))
    assert carry_on(request.pk) == State.CHECKED
    request = yard.do("submit", request, yard.lead)
    start, answers = threading.Barrier(2), []

    def decide(name: str, actor: User) -> None:
        try:
            start.wait(timeout=10)
            perform(
                name,
                request.pk,
                actor=actor,
                seen_version=request.version,
                now=timezone.now(),
                reason="so be it",
            )
            answers.append(name)
        except Conflict as error:
            answers.append(f"conflict with {error.who}")
        finally:
            connection.close()

    deciders = [("approve", yard.admin), ("reject", yard.other)]
    threads = [threading.Thread(target=decide, args=one) for one in deciders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    state = yard.now(request).state
    winner = "approve" if state == State.APPROVED else "reject"
    assert sorted(answers) == sorted([winner, f"conflict with {dict(deciders)[winner].username}"])
    assert audit.verify() is None


def test_a_write_in_a_persons_name_is_judged_as_theirs(yard: Yard, settings: Any) -> None:
    """This cluster knows no rights of the approver: it refuses, and its own audit log names them."""
    settings.IMPERSONATE = True
    before = yard.nominal(QUEUE)
    request = yard.approved(queue_edit(QUEUE, more(yard, 4)))
    assert carry_on(request.pk) == State.FAILED
    (step,) = yard.steps(request)
    assert f'User "{yard.admin.username}" cannot patch' in step.answer
    assert yard.nominal(QUEUE) == before
    last = yard.sim.audit.events()[-1]
    assert last["impersonatedUser"]["username"] == yard.admin.username
