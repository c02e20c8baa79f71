"""Noting quota over time in the database: what is written, what is not, what is read back, what upkeep leaves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings

from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, Source, SourceState, Workload
from apps.quotas.history import (
    SOURCE_KIND,
    borrowing_since,
    note_quotas,
    quota_series,
    thin_quota_points,
)
from apps.quotas.models import QuotaPoint

pytestmark = pytest.mark.django_db
GPU = "nvidia.com/gpu"
T0 = datetime(2026, 11, 2, 8, 0, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return T0 + timedelta(minutes=minutes)


def pulled(cluster: Cluster, when: datetime, outcome: str = "ok") -> None:
    values: dict[str, Any] = {"last_run_at": when, "last_outcome": outcome}
    if outcome == "ok":
        values["last_ok_at"] = when
    SourceState.objects.update_or_create(cluster=cluster, source=Source.KUEUE, defaults=values)


def a_queue(cluster: Cluster, name: str, nominal: int) -> None:
    groups = [
        {
            "covered": [GPU],
            "flavors": [
                {
                    "name": "h100",
                    "resources": [
                        {
                            "name": GPU,
                            "nominal": str(nominal),
                            "borrowing_limit": None,
                            "lending_limit": None,
                        }
                    ],
                }
            ],
        }
    ]
    ClusterObject.objects.create(
        cluster=cluster,
        kind="ClusterQueue",
        uid=f"uid-{name}",
        name=name,
        spec={"cohort": "all", "resource_groups": groups, "stop_policy": "None"},
        status={"conditions": {}},
        first_seen_at=T0,
        observed_at=T0,
    )


def holds(cluster: Cluster, uid: str, queue: str, cards: int) -> None:
    Workload.objects.create(
        cluster=cluster,
        kind="Workload",
        uid=uid,
        name=uid,
        namespace="ns",
        state="admitted",
        cluster_queue=queue,
        requests={GPU: str(cards)},
        usage=[{"flavor": "h100", "resource": GPU, "quantity": str(cards)}],
        first_seen_at=T0,
        observed_at=T0,
    )


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster.objects.create(slug="east", name="East", kubeconfig_path="/nowhere")
    a_queue(made, "red", 8)
    a_queue(made, "blue", 8)
    return made


def noted(cluster: Cluster, when: datetime) -> int:
    pulled(cluster, when)
    return note_quotas(cluster=cluster, now=when)


def series(cluster: Cluster, queue: str, now: datetime, window: str = "hour") -> dict[datetime, Any]:
    found = quota_series(
        cluster=cluster,
        kind="ClusterQueue",
        queue=queue,
        flavor="h100",
        resource=GPU,
        window=window,
        now=now,
    )
    return {point.at: point for point in found}


def test_only_what_changed_is_written(cluster: Cluster) -> None:
    assert noted(cluster, at(0)) == 3  # red, blue, and the cohort "all"
    assert noted(cluster, at(1)) == 0
    holds(cluster, "w", "red", 4)
    # red and the sum of its cohort; what blue has and may reach is as before
    assert noted(cluster, at(2)) == 2
    red = QuotaPoint.objects.filter(kind="ClusterQueue", queue="red").order_by("at")
    assert [p.at for p in red] == [at(0), at(2)]
    assert [(p.nominal, p.reserved, p.borrowed) for p in red] == [
        (Decimal(8), Decimal(0), Decimal(0)),
        (Decimal(8), Decimal(4), Decimal(0)),
    ]


def test_a_cluster_is_noted_once_a_minute(cluster: Cluster) -> None:
    noted(cluster, at(0))
    holds(cluster, "w", "red", 4)
    assert noted(cluster, at(0.5)) == 0
    assert noted(cluster, at(1)) > 0


def test_a_failed_or_stale_source_leaves_a_gap(cluster: Cluster) -> None:
    noted(cluster, at(0))
    noted(cluster, at(1))
    holds(cluster, "w", "red", 4)
    pulled(cluster, at(2), "failed")
    assert note_quotas(cluster=cluster, now=at(2)) == 0
    assert note_quotas(cluster=cluster, now=at(50)) == 0
    noted(cluster, at(20))
    found = series(cluster, "red", at(22))
    assert found[at(0)].mean["reserved"] == 0
    assert found[at(1)].mean["reserved"] is None
    assert found[at(10)].mean["nominal"] is None
    assert found[at(20)].mean["reserved"] == 4
    marks = QuotaPoint.objects.filter(kind=SOURCE_KIND).order_by("at")
    assert [mark.ended for mark in marks] == [False, True, False, True]


def test_a_row_that_vanishes_ends(cluster: Cluster) -> None:
    noted(cluster, at(0))
    ClusterObject.objects.filter(name="red").update(gone_at=at(0.5))
    noted(cluster, at(1))
    last = QuotaPoint.objects.filter(kind="ClusterQueue", queue="red").latest("at")
    assert last.ended
    assert last.nominal is None
    assert noted(cluster, at(2)) == 0
    found = series(cluster, "red", at(2))
    assert found[at(0)].mean["nominal"] == 8
    assert found[at(1)].mean["nominal"] is None


def test_since_when_a_queue_borrows_and_lends(cluster: Cluster) -> None:
    red = (cluster.pk, "ClusterQueue", "red", "h100", GPU)
    blue = (cluster.pk, "ClusterQueue", "blue", "h100", GPU)
    assert borrowing_since([red]) == {red: (None, None)}
    noted(cluster, at(0))
    holds(cluster, "w1", "red", 10)
    noted(cluster, at(1))
    holds(cluster, "w2", "red", 2)
    noted(cluster, at(2))
    assert borrowing_since([red, blue]) == {red: (at(1), None), blue: (None, at(1))}
    Workload.objects.filter(uid="w1").update(gone_at=at(3))
    noted(cluster, at(3))
    assert borrowing_since([red, blue]) == {red: (None, None), blue: (None, None)}
    assert borrowing_since([]) == {}


def point(cluster: Cluster, when: datetime, nominal: int, **fields: Any) -> None:
    QuotaPoint.objects.create(
        cluster=cluster,
        at=when,
        kind="ClusterQueue",
        queue="red",
        flavor="h100",
        resource=GPU,
        nominal=nominal,
        **fields,
    )


def test_upkeep_thins_after_a_month_and_keeps_what_holds_at_the_horizon(cluster: Cluster) -> None:
    now = at(0) + timedelta(days=800)
    horizon = now - timedelta(days=settings.TRANSITION_RETENTION_DAYS)
    hour = horizon.replace(minute=0) + timedelta(days=10)
    for when, nominal in (
        (horizon - timedelta(days=2), 1),
        (horizon - timedelta(days=1), 2),
        (hour, 3),
        (hour + timedelta(minutes=59), 4),
        (hour + timedelta(minutes=60), 5),
        (now - timedelta(days=30, minutes=1), 6),
        (now - timedelta(days=30), 7),
    ):
        point(cluster, when, nominal)
    assert thin_quota_points(now=now) == 2
    left = QuotaPoint.objects.order_by("at").values_list("nominal", flat=True)
    assert list(left) == [Decimal(n) for n in (2, 4, 5, 6, 7)]
    assert thin_quota_points(now=now) == 0
