"""What-ifs over real rows with the real engine, each worked out by hand.

Cluster `east` (apps/api/tests/world.py): cohort `all` of red-cq and blue-cq, 8 cards of h100 each. red-runs and
blue-runs hold 4 each, red-waits and blue-waits ask for 4 each: with nothing changed both start (4 + 4 = 8 in each), and
everything is full. What a test changes is worked out from there."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from apps.api.tests.world import GPU, World, make_world, workload
from apps.observations.models import ClusterObject, Workload
from apps.quotas.what_if import Answer, what_if
from apps.quotas.what_if_change import ChangeError, parse_changes
from apps.quotas.what_if_words import summary

pytestmark = pytest.mark.django_db

TAKES_BACK = {"reclaim_within_cohort": "Any"}


@pytest.fixture
def world(db: None) -> World:
    made = make_world()
    for row in Workload.objects.all():
        row.pod_sets = [{"name": "main", "count": 1, "min_count": None, "requests": row.requests}]
        row.save()
    return made


def tried(world: World, *changes: dict[str, Any], team_ids: list[int] | None = None) -> Answer:
    return what_if(now=world.now, cluster=world.east, changes=parse_changes(list(changes)), team_ids=team_ids)


def edit(name: str, **wanted: Any) -> dict[str, Any]:
    return {"kind": "ClusterQueue", "name": name, "set": wanted}


def nominal(amount: int) -> list[dict[str, Any]]:
    return [{"flavor": "h100", "resource": GPU, "nominal": amount}]


def add(queue: str, cards: int, **fields: Any) -> dict[str, Any]:
    pod_sets = [{"requests": {GPU: cards}}]
    return {
        "kind": "Workload",
        "action": "add",
        "queue": queue,
        "name": "mine",
        "pod_sets": pod_sets,
        **fields,
    }


def effects(answer: Answer) -> list[tuple[str, str]]:
    return [(effect.what, effect.work.name) for effect in answer.comparison.effects]


def told(answer: Answer, names: dict[int, str]) -> str:
    return summary(
        answer, accelerator=lambda name: name == GPU, team_name=lambda key: names.get(key or 0, "-")
    )


def test_less_quota_keeps_waiting_work_waiting(world: World) -> None:
    """Red 8 → 4, so that the cohort has 12: red-runs and blue-runs hold 8, one of the two that wait still fits. Within
    its nominal quota is blue-waits (4 + 4 = 8), which goes first; red-waits would have to borrow."""
    answer = tried(world, edit("red-cq", quotas=nominal(4)))
    assert effects(answer) == [("misses", "red-waits")]
    assert answer.comparison.anyway == 2
    assert answer.comparison.whole
    (line,) = answer.comparison.teams
    assert (line.team_id, int(line.before), int(line.after)) == (world.red.pk, 8, 4)
    assert told(answer, {world.red.pk: "Red"}) == "1 would no longer start. Red loses 4 h100."


def test_more_quota_starts_what_waits_in_vain(world: World) -> None:
    """Two more jobs of 4 in red wait behind the first; 8 more cards start both."""
    for name in ("second", "third"):
        made = workload(world, name)
        made.pod_sets = [{"name": "main", "count": 1, "min_count": None, "requests": {GPU: "4"}}]
        made.save()
    answer = tried(world, edit("red-cq", quotas=nominal(16)))
    assert effects(answer) == [("starts", "second"), ("starts", "third")]
    numbers = {
        (line.name, side): getattr(line, side)
        for line in answer.comparison.quotas
        for side in ("before", "after")
    }
    assert (numbers["red-cq", "before"].holds, numbers["red-cq", "after"].holds) == (8, 16)
    assert (numbers["red-cq", "after"].ceiling, numbers["blue-cq", "after"].ceiling) == (24, 24)


def test_a_job_that_takes_quota_back_names_its_victim(world: World) -> None:
    """Blue borrows: it runs 12 (nominal 8), red runs 4 and nobody else waits. Red may take back. A job of 8 in red (4 +
    8 = 12 > 8) cannot take more than its nominal quota by reclaim; one of 4 fits by taking 4 from blue."""
    Workload.objects.filter(state="pending").delete()
    borrowed = workload(world, "blue-more", team="blue", state="admitted", requests={GPU: "8"})
    borrowed.usage = [{"flavor": "h100", "resource": GPU, "quantity": "8"}]
    borrowed.pod_sets = [{"name": "main", "count": 1, "min_count": None, "requests": {GPU: "8"}}]
    borrowed.save()
    answer = tried(world, edit("red-cq", preemption=TAKES_BACK), add("red-cq", 4))
    found = {effect.what: effect for effect in answer.comparison.effects}
    assert found.keys() == {"preempted", "starts"}
    victim = found["preempted"]
    assert victim.by is not None
    assert (victim.work.queue, victim.by.name, victim.why) == ("blue-cq", "mine", "InCohortReclamation")
    assert found["starts"].work.uid in answer.added


def test_without_the_right_to_take_back_it_waits(world: World) -> None:
    answer = tried(world, add("red-cq", 4))
    assert effects(answer) == []
    (line,) = [line for line in answer.comparison.waiting if line.work.name == "mine"]
    assert (line.before, line.after.refused) == (None, "WaitingForQuota")


def test_a_job_larger_than_the_ceiling_can_never_start(world: World) -> None:
    answer = tried(world, add("red-cq", 17))
    (line,) = [line for line in answer.comparison.waiting if line.work.name == "mine"]
    assert line.after.refused == "ExceedsMaxQuota"


def test_a_drained_queue_loses_its_work(world: World) -> None:
    answer = tried(world, edit("red-cq", stop_policy="HoldAndDrain"))
    assert effects(answer) == [("drained", "red-runs"), ("misses", "red-waits")]
    assert told(answer, {world.red.pk: "Red"}) == (
        "1 would lose its quota, 1 would no longer start. Red loses 8 h100."
    )


def test_work_taken_away_makes_room(world: World) -> None:
    """16 cards, 8 held; three jobs of 4 wait. `later` (first by uid) and blue-waits start within their nominal quota,
    red-waits would be the 20th to 24th. Without blue-runs it borrows its 4 cards."""
    made = workload(world, "later")
    made.pod_sets = [{"name": "main", "count": 1, "min_count": None, "requests": {GPU: "4"}}]
    made.save()
    answer = tried(world, {"kind": "Workload", "action": "remove", "uid": "uid-blue-runs"})
    assert effects(answer) == [("removed", "blue-runs"), ("starts", "red-waits")]


def test_a_queue_that_leaves_its_cohort(world: World) -> None:
    """Alone, red has its own 8 and nothing to lend or to borrow; everything that fitted within 8 still fits."""
    answer = tried(world, edit("red-cq", cohort=None))
    assert effects(answer) == []
    lines = {line.name: line for line in answer.comparison.quotas}
    assert [lines["red-cq"].before.ceiling, lines["red-cq"].after.ceiling] == [16, 8]
    assert [lines["blue-cq"].before.ceiling, lines["blue-cq"].after.ceiling] == [16, 8]


def test_nothing_is_written(world: World) -> None:
    before = (
        list(Workload.objects.order_by("pk").values()),
        list(ClusterObject.objects.order_by("pk").values()),
    )
    tried(world, edit("red-cq", quotas=nominal(1)), add("blue-cq", 1))
    after = (
        list(Workload.objects.order_by("pk").values()),
        list(ClusterObject.objects.order_by("pk").values()),
    )
    assert before == after


class TestRestricted:
    def test_others_are_sums(self, world: World) -> None:
        """Red grows so that all of its waiting work starts; blue's work moves nobody: others are told nothing."""
        answer = tried(world, edit("red-cq", quotas=nominal(0)), team_ids=[world.red.pk])
        assert {effect.work.queue for effect in answer.comparison.effects} <= {"red-cq"}
        assert {line.name for line in answer.comparison.quotas} <= {"red-cq", "all"}
        assert {line.team_id for line in answer.comparison.teams} <= {world.red.pk}

    def test_what_others_lose_is_counted_under_the_cohort(self, world: World) -> None:
        """Red takes back the 4 that blue-more borrows."""
        Workload.objects.filter(state="pending").delete()
        for name in ("blue-more", "blue-most"):
            made = workload(world, name, team="blue", state="admitted")
            made.pod_sets = [{"name": "main", "count": 1, "min_count": None, "requests": {GPU: "4"}}]
            made.save()
        answer = tried(
            world, edit("red-cq", preemption=TAKES_BACK), add("red-cq", 4), team_ids=[world.red.pk]
        )
        assert effects(answer) == [("starts", "mine")]
        (others,) = answer.comparison.others
        assert (others.cohort, others.starts, others.loses) == ("all", 0, 1)
        assert others.holds == (("h100", GPU, Decimal(4), Decimal(0)),)

    @pytest.mark.parametrize("name", ["blue-cq", "none"])
    def test_another_queue_is_unknown(self, world: World, name: str) -> None:
        with pytest.raises(ChangeError) as caught:
            tried(world, edit(name, quotas=nominal(1)), team_ids=[world.red.pk])
        assert caught.value.unknown
