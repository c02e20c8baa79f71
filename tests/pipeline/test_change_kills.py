"""A worker that dies between any two instructions of a change: the next one brings it to the same end, and the cluster
was made to write each step once.

Every case is a change of its own on the same cluster. A worker is a process of its own, ended by SIGKILL where the case
says; the one that takes its place is the one that the next case ends."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from apps.changes import audit
from apps.changes.models import AuditEntry, ChangeRequest, State
from gpuportal.launcher.children import Child
from simcluster.testing import Running
from tests.emptying import empty_database
from worker.appliers.points import Point

from .yard import Edit, Yard, cohort_edit, happens, opened, queue_edit

pytestmark = [
    pytest.mark.pipeline,
    pytest.mark.xdist_group("pipeline"),
    pytest.mark.timeout(240),
    pytest.mark.django_db,
]

OF_CHECKS = (Point.BEFORE_LOCK, Point.AFTER_LOCK, Point.AFTER_READ, Point.AFTER_DRY_RUN, Point.AFTER_NOTE)
OF_STEPS = (
    Point.BEFORE_SENT,
    Point.AFTER_SENT,
    Point.AFTER_WRITE,
    Point.BEFORE_DONE,
    Point.AFTER_DONE,
)
OF_WRITES = (
    Point.BEFORE_LOCK,
    Point.AFTER_LOCK,
    Point.BEFORE_BEGIN,
    Point.AFTER_BEGIN,
    *OF_STEPS,
    Point.AFTER_FINISH,
)
_amounts = itertools.count(30)


class Patch:
    """One queue gets more."""

    def __init__(self, yard: Yard) -> None:
        self.amount = str(next(_amounts))
        self.edits: list[Edit] = [queue_edit("foundation-cq", self.amount)]
        self.objects = [("ClusterQueue", "foundation-cq")]

    def holds(self, yard: Yard) -> bool:
        return yard.nominal("foundation-cq") == self.amount


class TwoObjects(Patch):
    """A cohort and then a queue in it."""

    def __init__(self, yard: Yard) -> None:
        super().__init__(yard)
        self.edits.append(cohort_edit("research", self.amount))
        self.objects.append(("Cohort", "research"))

    def holds(self, yard: Yard) -> bool:
        return super().holds(yard) and yard.nominal("research", "Cohort") == self.amount


class Command:
    """A queue of Volcano is closed, or opened when it is not open."""

    def __init__(self, yard: Yard) -> None:
        self.action, self.wanted = (
            ("CloseQueue", "Closed") if self.state(yard) == "Open" else ("OpenQueue", "Open")
        )
        wanted = {"state": self.wanted}
        self.edits: list[Edit] = [{"kind": "VolcanoQueue", "name": "retired", "set": wanted}]
        self.objects = [("Command", None)]

    def state(self, yard: Yard) -> str:
        found: dict[str, Any] = yard.sim.store.get("VolcanoQueue", "retired") or {}
        return str(found["status"]["state"])

    def holds(self, yard: Yard) -> bool:
        return self.state(yard) == self.wanted


PLANS: dict[str, Callable[[Yard], Any]] = {"patch": Patch, "two-objects": TwoObjects, "command": Command}


@pytest.fixture(autouse=True)
def _django_db_marker() -> None:
    """Instead of pytest-django's, which would undo a test's rows before the next worker has read them: the database is
    open while the yard is."""


@pytest.fixture(scope="module")
def yard(
    sim: Running, tmp_path_factory: pytest.TempPathFactory, django_db_setup: None, django_db_blocker: Any
) -> Iterator[Yard]:
    with django_db_blocker.unblock():
        try:
            with opened(sim, tmp_path_factory.mktemp("yard")) as made:
                made.start_worker()
                yield made
        finally:
            empty_database()


def worker_of(yard: Yard) -> Child:
    return yard.workers[-1]


def dies_and_is_replaced(yard: Yard) -> None:
    """The worker came to the point that it is to end at; another one takes its place."""
    assert happens(lambda: not worker_of(yard).alive, 20), worker_of(yard).spec.log.read_text()[-3000:]
    assert worker_of(yard).process.returncode == -9
    yard.order.unlink()
    yard.start_worker()


def comes_to(yard: Yard, request: ChangeRequest, state: State) -> None:
    """As with beat's ticks."""

    def reached() -> bool:
        if yard.now(request).state == state:
            return True
        yard.tick()
        return happens(lambda: yard.now(request).state == state, 2)

    assert happens(reached, 30), (yard.now(request).state, worker_of(yard).spec.log.read_text()[-3000:])


def verify(yard: Yard, request: ChangeRequest, plan: Any) -> None:
    assert plan.holds(yard)
    assert [yard.writes.of(*one) for one in plan.objects] == [1] * len(plan.objects)
    assert all(step.done_at and step.written_version for step in yard.steps(request))
    entries = AuditEntry.objects.filter(subject_id=str(request.pk), subject_kind="ChangeRequest")
    assert list(entries.order_by("sequence").values_list("action", flat=True)) == [
        "change.create",
        "change.note_check",
        "change.submit",
        "change.approve",
        "change.begin",
        "change.finish",
    ]
    assert audit.verify() is None


@pytest.mark.parametrize("plan_name", PLANS)
@pytest.mark.parametrize("where", OF_CHECKS)
def test_while_it_is_checked(yard: Yard, plan_name: str, where: Point) -> None:
    plan = PLANS[plan_name](yard)
    yard.writes.found.clear()
    yard.order.write_text(where)
    request = yard.ask(*plan.edits)  # which wakes the worker
    dies_and_is_replaced(yard)
    comes_to(yard, request, State.CHECKED)
    assert yard.writes.found == []
    yard.approve(request)
    comes_to(yard, request, State.APPLIED)
    verify(yard, request, plan)


@pytest.mark.parametrize(
    ("plan_name", "where"),
    [*itertools.product(PLANS, OF_WRITES), ("command", Point.AFTER_TAKEN)],
)
def test_while_it_is_written(yard: Yard, plan_name: str, where: Point) -> None:
    plan = PLANS[plan_name](yard)
    yard.writes.found.clear()
    request = yard.ask(*plan.edits)
    comes_to(yard, request, State.CHECKED)
    second = plan_name == "two-objects" and where in OF_STEPS
    yard.order.write_text(f"{where} 2" if second else where)
    yard.approve(request)
    dies_and_is_replaced(yard)
    comes_to(yard, request, State.APPLIED)
    verify(yard, request, plan)


@pytest.mark.parametrize("plan_name", PLANS)
def test_while_the_server_has_written_and_not_answered(yard: Yard, plan_name: str) -> None:
    plan = PLANS[plan_name](yard)
    yard.writes.found.clear()
    request = yard.ask(*plan.edits)
    comes_to(yard, request, State.CHECKED)
    yard.order.write_text("")
    cluster, worker = yard.sim.cluster, worker_of(yard)
    inner = cluster.on_write

    def write_and_end(*given: Any) -> Any:
        found = inner(*given) if inner else None
        worker.kill_group()
        return found

    cluster.on_write = write_and_end
    try:
        yard.approve(request)
        assert happens(lambda: not worker.alive, 20)
    finally:
        cluster.on_write = inner
    yard.order.unlink()
    yard.start_worker()
    comes_to(yard, request, State.APPLIED)
    verify(yard, request, plan)


def test_every_point_is_one_of_a_check_or_of_a_write() -> None:
    assert {*OF_CHECKS, *OF_WRITES, Point.AFTER_TAKEN} == set(Point)
