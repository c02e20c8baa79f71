"""A change of rules: history is brought under them, what it said before stays comparable."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from django import conf
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.admissions import blocks
from apps.admissions.tests.builders import hours, make_cluster
from apps.core.windows import Window
from apps.fleet.models import Cluster
from apps.usage import admission_rollup, reclassify
from apps.usage.admission_reading import AdmissionCriteria
from apps.usage.admission_rollup import rollup_admissions
from apps.usage.blocked import blocked_series
from apps.usage.models import BlockHour, Reclassification, Step
from apps.usage.reclassify import Moved, moved_seconds
from apps.usage.tests.test_admission_rollup import span_of

pytestmark = pytest.mark.django_db
D = Decimal


class Book:
    """Stands in for what is read of the rule book here: its version."""

    def __init__(self, version: int) -> None:
        self.version = version


def under(monkeypatch: pytest.MonkeyPatch, version: int, cause: str) -> None:
    """From now on rules of this version say this cause of everything that waits for quota."""
    real = blocks.block_of

    def said(**text: Any) -> blocks.Block:
        return blocks.Block("admission", cause, "quota-unused") if text["phase"] == "queued" else real(**text)

    monkeypatch.setattr(blocks, "block_of", said)
    for module in (admission_rollup, reclassify):
        monkeypatch.setattr(module, "rule_book", lambda: Book(version))


def by_cause(cluster: Cluster) -> dict[str, Decimal]:
    window = Window(hours(-48), hours(24 * 20))
    found = blocked_series(window=window, team_ids=None, criteria=AdmissionCriteria(cluster=cluster.slug))
    return found.totals


def test_seconds_move_from_cause_to_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = make_cluster()
    span_of(cluster, "a", "pending", 0, 150)
    span_of(cluster, "b", "deactivated", 0, 60)
    with monkeypatch.context() as patched:
        under(patched, 7, "quota")
        rollup_admissions(cluster=cluster, now=hours(5))
    with monkeypatch.context() as patched:
        under(patched, 8, "topology")
        assert by_cause(cluster) == {"quota": D("2.5"), "held": D(1)}
        done = reclassify.reclassify(cluster=cluster, now=hours(5))
        assert (done.from_hour, done.until, done.kept) == (hours(0), hours(5), None)
        assert by_cause(cluster) == {"topology": D("2.5"), "held": D(1)}
        expected = [Moved("admission", "quota", "admission", "topology", D(9000))]
        assert moved_seconds(cluster=cluster) == expected
        assert moved_seconds(cluster=cluster, resource="nvidia.com/gpu")[0].seconds == 8 * 9000
        again = reclassify.reclassify(cluster=cluster, now=hours(5))
        assert again.from_hour is None
        rollup_admissions(cluster=cluster, now=hours(5))
        assert by_cause(cluster) == {"topology": D("2.5"), "held": D(1)}
        assert moved_seconds(cluster=cluster) == expected
    with monkeypatch.context() as patched:
        under(patched, 7, "quota")
        reclassify.reclassify(cluster=cluster, now=hours(5))
        assert by_cause(cluster) == {"quota": D("2.5"), "held": D(1)}
        assert moved_seconds(cluster=cluster)[0].to_cause == "quota"


def test_what_was_cut_off_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = make_cluster()
    span_of(cluster, "a", "pending", 0, None)
    end = hours(24 * 16)
    under(monkeypatch, 1, "quota")
    rollup_admissions(cluster=cluster, now=end)
    under(monkeypatch, 2, "model")
    real, calls = admission_rollup.sum_tiers, []

    def dies(**given: Any) -> None:
        calls.append(given["start"])
        if len(calls) == 2:
            raise RuntimeError("the server stopped")
        real(**given)

    with monkeypatch.context() as patched:
        patched.setattr(admission_rollup, "sum_tiers", dies)
        with pytest.raises(RuntimeError):
            reclassify.reclassify(cluster=cluster, now=end)
    run = Reclassification.objects.get()
    assert (run.done_until, run.done) == (hours(24 * 7), False)
    assert sum(by_cause(cluster).values()) == 24 * 16
    done = reclassify.reclassify(cluster=cluster, now=end)
    assert done.resumed
    assert by_cause(cluster) == {"model": D(24 * 16)}
    assert [row.seconds for row in moved_seconds(cluster=cluster)] == [D(3600 * 24 * 16)]


def test_hours_without_their_evidence_keep_the_rules_of_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conf.settings, "EVENT_RETENTION_DAYS", 2)
    cluster = make_cluster()
    span_of(cluster, "a", "pending", 0, None)
    under(monkeypatch, 1, "quota")
    rollup_admissions(cluster=cluster, now=hours(72))
    under(monkeypatch, 2, "model")
    done = reclassify.reclassify(cluster=cluster, now=hours(72))
    assert (done.from_hour, done.kept) == (hours(25), hours(0))
    assert by_cause(cluster) == {"quota": D(25), "model": D(47)}
    kept = BlockHour.objects.filter(step=Step.HOUR, resource="", current=True, rules=1)
    assert max(row.hour for row in kept) == hours(24)


def test_the_command_says_what_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = make_cluster()
    span_of(cluster, "a", "pending", 0, 90)
    under(monkeypatch, 1, "quota")
    rollup_admissions(cluster=cluster, now=hours(2))
    out = StringIO()
    call_command("reclassify", stdout=out)
    assert out.getvalue() == "east: nothing to do under rules 1\n"
    under(monkeypatch, 2, "model")
    monkeypatch.setattr("django.utils.timezone.now", lambda: hours(2) + timedelta(minutes=5))
    out = StringIO()
    call_command("reclassify", cluster="east", stdout=out)
    assert "east: 1.50 hours of work from admission/quota to admission/model\n" in out.getvalue()
    with pytest.raises(CommandError, match="there is no cluster nowhere"):
        call_command("reclassify", cluster="nowhere")


CAUSES = ("quota", "topology", "held")
SPLIT = st.lists(st.integers(0, 2), min_size=6, max_size=6)


@given(st.lists(st.tuples(SPLIT, SPLIT), min_size=1, max_size=4))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_moved_explains_every_difference_and_nothing_more(
    cells: list[tuple[list[int], list[int]]],
) -> None:
    with transaction.atomic():
        cluster = make_cluster()
        sums: dict[tuple[bool, str], int] = {}
        lost = 0
        for i, pair in enumerate(cells):
            counts = [Counter(CAUSES[n] for n in split) for split in pair]
            lost += 600 * sum((counts[0] - counts[1]).values())
            for current, count in zip((False, True), counts, strict=True):
                for cause, n in count.items():
                    sums[current, cause] = sums.get((current, cause), 0) + 600 * n
                    BlockHour.objects.create(
                        cluster=cluster, queue=f"q{i % 2}", layer="admission", cause=cause, reason=f"r{i}", step="hour",
                        hour=hours(i), rules=2 if current else 1, current=current, seconds=600 * n,
                    )  # fmt: skip
        moved = moved_seconds(cluster=cluster)
        assert abs(sum((row.seconds for row in moved), D(0)) - lost) < D("0.001")
        for cause in CAUSES:
            came = sum((row.seconds for row in moved if row.to_cause == cause), D(0))
            went = sum((row.seconds for row in moved if row.from_cause == cause), D(0))
            difference = sums.get((True, cause), 0) - sums.get((False, cause), 0)
            assert abs(came - went - difference) < D("0.001"), cause
        transaction.set_rollback(True)


def test_a_cluster_without_a_rollup_has_nothing_to_do() -> None:
    assert reclassify.reclassify(cluster=make_cluster(), now=hours(5)).from_hour is None
