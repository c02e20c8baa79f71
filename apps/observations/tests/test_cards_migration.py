"""The cards seen before the upgrade are known after it."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module

import pytest
from django.db import connection

from apps.observations.models import NodeCards, SourceState
from apps.observations.tests.builders import T0, make_cluster, minutes, see

pytestmark = pytest.mark.django_db
migration = import_module("apps.observations.migrations.0008_cards_seen_until_now")


def test_the_minutes_before_the_last_good_pull_are_read() -> None:
    cluster, other = make_cluster(), make_cluster("c2")
    see(cluster, minutes(-10), {"left": {"GPU-9": "A30"}})
    see(cluster, minutes(-2), {"n1": {"GPU-1": "A30", "GPU-2": "L4"}, "": {"GPU-x": "A30"}})
    see(cluster, T0, {"n1": {"GPU-1": "A30"}, "n2": {"GPU-3/1": "", "GPU-3/2": ""}})
    see(other, T0, {"n1": {"GPU-4": "A30"}})
    # The pull ends after the instant that it asks for; the cluster's Prometheus has been silent since.
    SourceState.objects.filter(cluster=cluster).update(last_ok_at=T0 + timedelta(seconds=20))
    NodeCards.objects.filter(cluster=cluster).delete()
    NodeCards.objects.filter(cluster=other).update(cards=5)
    with connection.cursor() as cursor:
        cursor.execute(migration.KEEP)
    found = NodeCards.objects.order_by("cluster", "node_name").values_list(
        "cluster__slug", "node_name", "cards", "model_names", "seen_at", "silent"
    )
    assert list(found) == [
        ("c1", "n1", 2, ["A30", "L4"], T0, False),
        ("c1", "n2", 1, [], T0, False),
        ("c2", "n1", 5, ["A30"], T0, False),
    ]
