"""The cards that telemetry saw last: what a pull keeps, what silence leaves, and when it is forgotten."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from apps.fleet.models import Cluster
from apps.observations.cards import SeenCards, seen_cards
from apps.observations.models import NodeCards, SourceState
from apps.observations.retention import drop_gone
from apps.observations.services import write_samples
from apps.observations.tests.builders import T0, make_cluster, minutes, see

pytestmark = pytest.mark.django_db
WEEK = timedelta(days=7)
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def each_minute(settings: Any) -> None:
    """Stale after two minutes, a sample fresh for four."""
    settings.COLLECT_INTERVAL_SECONDS = 60


def cards(count: int, model: str = "A30", begin: int = 0) -> dict[str, str]:
    return {f"GPU-{number}": model for number in range(begin, begin + count)}


def seen(cluster: Cluster, now: datetime, node: str = "n1") -> SeenCards | None:
    return seen_cards(now=now, clusters=[cluster], remember=WEEK).get((cluster.pk, node))


def said(cluster: Cluster, now: datetime, node: str = "n1") -> tuple[int, set[str], datetime | None] | None:
    found = seen(cluster, now, node)
    return None if found is None else (found.cards, set(found.models), found.last_at)


def versions() -> list[tuple[Any, ...]]:
    """Another one whenever a row is written, be it with the same content."""
    return list(NodeCards.objects.extra(select={"x": "xmin::text"}).values_list("node_name", "x"))


def test_cards_are_counted_once_whatever_their_instances() -> None:
    cluster = make_cluster()
    see(
        cluster,
        T0,
        {
            "n1": {"GPU-1/1": "A30", "GPU-1/2": "A30", "GPU-1/3": "A30", "GPU-2": ""},
            "n2": {"GPU-3": ""},
            "": {"GPU-nowhere": "A30"},
        },
    )
    assert said(cluster, T0) == (2, {"A30"}, None)
    assert said(cluster, T0, "n2") == (1, set(), None)
    found = seen_cards(now=T0, clusters=[cluster], nodes=["n2"], remember=WEEK)
    assert list(found) == [(cluster.pk, "n2")]
    assert NodeCards.objects.count() == 2


def test_what_a_stale_prometheus_said_last_stays_for_seven_days() -> None:
    cluster = make_cluster()
    see(cluster, T0, {"n1": cards(8)})
    assert said(cluster, minutes(2)) == (8, {"A30"}, None)
    assert said(cluster, minutes(2.1)) == (8, {"A30"}, T0)
    assert said(cluster, T0 + WEEK - MINUTE) == (8, {"A30"}, T0)
    assert said(cluster, T0 + WEEK) is None


def test_that_a_failing_pull_comes_again_and_again_changes_nothing() -> None:
    cluster = make_cluster()
    see(cluster, T0, {"n1": cards(8)})
    SourceState.objects.update(last_run_at=minutes(60), last_outcome="failed")
    assert said(cluster, minutes(60)) == (8, {"A30"}, T0)


def test_one_exporter_falls_silent_while_the_others_go_on() -> None:
    cluster = make_cluster()
    for minute in range(31):
        see(cluster, minutes(minute), {"n1": cards(8), "n2": cards(4, begin=20)})
    for minute in range(31, 50):
        see(cluster, minutes(minute), {"n2": cards(4, begin=20)})
    # Known to the minute, although the row of a node that goes on is written once an hour only.
    assert said(cluster, minutes(49)) == (8, {"A30"}, minutes(30))
    assert said(cluster, minutes(49), "n2") == (4, {"A30"}, None)
    see(cluster, minutes(50), {"n1": cards(7), "n2": cards(4, begin=20)})
    assert said(cluster, minutes(50)) == (7, {"A30"}, None)


def test_a_prometheus_that_knows_no_series_any_more_takes_nothing_away() -> None:
    cluster = make_cluster()
    see(cluster, T0, {"n1": cards(8)})
    for minute in range(1, 11):
        see(cluster, minutes(minute), {})
    assert said(cluster, minutes(10)) == (8, {"A30"}, T0)


def test_a_card_that_is_gone_lowers_the_number_when_a_short_gap_is_over() -> None:
    cluster = make_cluster()
    see(cluster, T0, {"n1": cards(8)})
    counted = []
    for minute in range(1, 6):
        see(cluster, minutes(minute), {"n1": cards(7)})
        counted.append(said(cluster, minutes(minute)))
    # The eighth card's last sample is fresh for less than four minutes.
    assert counted == [(number, {"A30"}, None) for number in (8, 8, 8, 7, 7)]


def test_a_card_that_a_single_pull_misses_stays_counted_and_nothing_is_written() -> None:
    cluster = make_cluster()
    found = set()
    for minute, count in enumerate((8, 7, 8)):
        see(cluster, minutes(minute), {"n1": cards(count)})
        assert said(cluster, minutes(minute)) == (8, {"A30"}, None)
        found.update(versions())
    assert len(found) == 1


def test_a_card_that_was_exchanged_is_not_counted_beside_the_new_one() -> None:
    cluster = make_cluster()
    see(cluster, T0, {"n1": cards(8)})
    see(cluster, minutes(1), {"n1": cards(8, begin=1)})
    assert said(cluster, minutes(1)) == (8, {"A30"}, None)
    see(cluster, minutes(2), {"n1": cards(7, begin=2)})
    assert said(cluster, minutes(2)) == (8, {"A30"}, None)


def test_more_cards_count_at_once() -> None:
    cluster = make_cluster()
    see(cluster, T0, {"n1": cards(4)})
    see(cluster, minutes(1), {"n1": cards(8)})
    assert said(cluster, minutes(1)) == (8, {"A30"}, None)


def test_models_of_a_mixed_node() -> None:
    cluster = make_cluster()
    mixed = cards(2) | cards(1, "L4", begin=2)
    see(cluster, T0, {"n1": mixed})
    assert said(cluster, minutes(30)) == (3, {"A30", "L4"}, T0)
    see(cluster, minutes(31), {"n1": mixed})
    see(cluster, minutes(32), {"n1": cards(2)})
    assert said(cluster, minutes(32)) == (3, {"A30", "L4"}, None)
    for minute in range(33, 36):
        see(cluster, minutes(minute), {"n1": cards(2)})
    assert said(cluster, minutes(35)) == (2, {"A30"}, None)


def test_an_exporter_that_forgets_the_model_for_a_pull() -> None:
    cluster = make_cluster()
    see(cluster, T0, {"n1": cards(2)})
    see(cluster, minutes(1), {"n1": cards(2, "")})
    assert said(cluster, minutes(1)) == (2, {"A30"}, None)


def test_unchanged_pulls_write_once_an_hour() -> None:
    cluster = make_cluster()
    nodes = {"n1": cards(8), "n2": cards(4, begin=20)}
    see(cluster, T0, nodes)
    first = versions()
    for minute in range(1, 61):
        see(cluster, minutes(minute), nodes)
    assert versions() == first
    see(cluster, minutes(61), nodes)
    assert {at for (at,) in NodeCards.objects.values_list("seen_at")} == {minutes(61)}


def test_samples_of_a_past_that_is_imported() -> None:
    """Many instants at once: the newest of each node counts; an older past changes nothing."""
    cluster = make_cluster()
    rows = [
        (T0 + timedelta(hours=hour), f"GPU-{card}", "n1", "A30")
        for hour in range(6)
        for card in range(8 - hour)
    ]
    rows += [(T0, "GPU-x", "n2", "L4")]
    columns = ("sampled_at", "device", "node_name", "model")
    write_samples(cluster_id=cluster.pk, columns=columns, rows=rows)
    end = T0 + timedelta(hours=5)
    assert said(cluster, end) == (3, {"A30"}, None)
    assert said(cluster, end, "n2") == (1, {"L4"}, T0)
    older = [(T0 - timedelta(hours=1), f"GPU-{card}", "n1", "A30") for card in range(16)]
    write_samples(cluster_id=cluster.pk, columns=columns, rows=older)
    assert said(cluster, end) == (3, {"A30"}, None)


def test_upkeep_removes_what_nobody_remembers(settings: Any) -> None:
    cluster = make_cluster()
    see(cluster, T0, {"n1": cards(8)})
    see(cluster, minutes(1), {"n2": cards(4, begin=20)})
    settings.GONE_RETENTION_DAYS = 30
    drop_gone(now=T0 + timedelta(days=30) + MINUTE / 2)
    assert list(NodeCards.objects.values_list("node_name", flat=True)) == ["n2"]
