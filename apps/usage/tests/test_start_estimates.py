"""Start estimates from rolled-up waits and from what waits now, by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.admissions.estimate_words import estimate_text
from apps.admissions.estimates import Estimate, Waiting
from apps.admissions.queued import QueuedList
from apps.admissions.selectors import waiting
from apps.admissions.tests.builders import hours, local_queue, make_cluster, make_work
from apps.fleet.models import Cluster
from apps.usage.admission_reading import floor_step
from apps.usage.models import Step, WaitHour
from apps.usage.start_estimates import wait_history

pytestmark = pytest.mark.django_db
GPU = "nvidia.com/gpu"
NOW = hours(10)


def rolled(cluster: Cluster, seconds: int, *, days: int = 2, **fields: Any) -> None:
    at = floor_step(NOW - timedelta(days=days), Step.DAY)
    named: dict[str, Any] = {
        "queue": "q",
        "size": "8",
        "which": "first",
        "ended": "reserved",
        "count": 1,
        "step": Step.DAY,
        **fields,
    }
    WaitHour.objects.create(cluster=cluster, hour=at, ended_in=at, seconds=seconds, **named)


@pytest.fixture
def cluster() -> Cluster:
    """Twenty waits of 8 cards in queue q: 1,000 s, 2,000 s, … 20,000 s; and what does not count beside them."""
    made = make_cluster()
    local_queue(made, "ml", "main", "q")
    for n in range(1, 21):
        rolled(made, 1000 * n, which="again" if n == 7 else "first")
    rolled(made, 1, queue="p", count=100)
    rolled(made, 1, size="1", count=100)
    rolled(made, 1, days=40, count=100)
    rolled(made, 1, step=Step.HOUR, count=100)
    return made


def eight(cluster: Cluster, name: str, since: float) -> None:
    make_work(cluster, name, queued_at=hours(since), requests={GPU: "8"}, pod_sets=[])


def test_rolled_up_waits_of_the_last_weeks_are_one_sample(cluster: Cluster) -> None:
    """n = 20: the 2nd and the 19th."""
    found = wait_history(now=NOW, queues=[(cluster.pk, "q")])
    estimate = found.estimate(Waiting(cluster.pk, "q", "8", 0))
    assert estimate == Estimate(low=2000, high=19_000, sample=20, ended=20, basis="size")
    assert estimate_text(estimate) == "in 33 m – 5 h 16 m (80 %, 20 comparable waits)"


def test_what_gave_up_and_what_waits_now_is_cut_off(cluster: Cluster) -> None:
    """Two gave up after 500 s, two wait since 3 h and 3 h 20 m (10,800 s and 12,000 s). n = 24: shares 2/24 and 23/24.
    After 500 s 22 are at risk: F(1000) = 1/22 < 1/12 ≤ F(2000). At 10,800 one is cut off, at 12,000 one more (after the
    12th ended); of the last eight, each is 1/8 of what is left, S(12,000) = 12/22 · (12 − 1 − 1)/(12 − 1)… At the end all
    ended: F(20,000) = 1 ≥ 23/24 and S(19,000) = 1/8 of S(12,000) > 1/24."""
    rolled(cluster, 500, ended="gave_up", count=2)
    eight(cluster, "a", 7)
    eight(cluster, "b", 10 - 12_000 / 3600)
    found = wait_history(now=NOW, queues=[(cluster.pk, "q")]).estimate(Waiting(cluster.pk, "q", "8", 0))
    assert found == Estimate(low=2000, high=20_000, sample=24, ended=20, basis="size")


def test_the_list_of_waiting_work_says_it_from_now_on(cluster: Cluster) -> None:
    """Waits since 2 h 30 m = 9,000 s: eleven lasted longer, and ended after 10,000 … 20,000 s. It is cut off at 9,000 s
    itself. n = 11: ⌊1.2⌋ = 1st, ⌈10.8⌉ = 11th, from now on 1,000 s and 11,000 s."""
    eight(cluster, "a", 7.5)
    make_work(cluster, "stopped", queued_at=hours(9), requests={GPU: "8"}, pod_sets=[], state="reserved")
    rows = QueuedList(
        waiting(now=NOW, team_ids=None),
        now=NOW,
        offers={},
        history=wait_history(now=NOW, queues=[(cluster.pk, "q")]),
    )
    assert {row.name: row.estimate for row in rows} == {
        "a": Estimate(low=1000, high=11_000, sample=11, ended=11, basis="size"),
        "stopped": None,
    }


def test_two_hundred_waiting_cost_as_many_queries_as_one(cluster: Cluster) -> None:
    eight(cluster, "one", 7)
    with CaptureQueriesContext(connection) as one:
        wait_history(now=NOW, queues=[(cluster.pk, "q")])
    for n in range(200):
        eight(cluster, f"w{n}", 8)
    with CaptureQueriesContext(connection) as many:
        wait_history(now=NOW, queues=[(cluster.pk, "q"), (cluster.pk, "p"), (cluster.pk, "")])
    assert len(many) == len(one) == 2
    with CaptureQueriesContext(connection) as none:
        wait_history(now=NOW, queues=[(cluster.pk, "")])
    assert len(none) == 0


TEXTS = [
    (None, "–"),
    (
        Estimate(low=60, high=None, sample=1200, ended=900, basis="size"),
        "in 1 m or later, no end known (80 %, 1200 comparable waits)",
    ),
    (
        Estimate(low=60, high=7200, sample=21, ended=20, basis="size_or_larger"),
        "in 1 m – 2 h 00 m (80 %, 21 comparable waits of this size or larger)",
    ),
    (
        Estimate(sample=9, ended=7, why_not="too_few"),
        "not enough history: 7 comparable waits ended in the last 28 days, 20 are needed",
    ),
    (
        Estimate(sample=9, ended=3, why_not="too_few_as_long"),
        "not enough history: 3 that waited as long as this ended in the last 28 days, 10 are needed",
    ),
    (Estimate(why_not="no_queue"), "no estimate: its queue is not known"),
    (Estimate(why_not="not_by_waiting"), "no estimate: waiting alone does not end this"),
]


@pytest.mark.parametrize(("estimate", "text"), TEXTS)
def test_in_words(estimate: Estimate | None, text: str) -> None:
    assert estimate_text(estimate) == text
