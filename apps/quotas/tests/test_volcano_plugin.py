"""Which plugin decides, what the portal says of it, and what it makes of a hierarchy that is switched off. Numbers are
worked out by hand in the tests."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal as D
from typing import Any

import pytest

from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, Node
from apps.quotas.rows import QuotaRow
from apps.quotas.selectors import queue_forest, quota_rows
from apps.quotas.volcano_plugin import QueuePlugin, plugin_text

AT = datetime(2026, 12, 2, 3, 5, tzinfo=UTC)
GPU = "nvidia.com/gpu"
NAME, KEY = "volcano-scheduler-configmap", "volcano-scheduler.conf"
WHERE = f"volcano-system/{NAME}, {KEY}"
pytestmark = pytest.mark.django_db


def put(cluster: Cluster, kind: str, name: str, spec: dict[str, Any], namespace: str = "") -> None:
    ClusterObject.objects.create(
        cluster=cluster,
        kind=kind,
        uid=f"{kind}/{name}",
        namespace=namespace,
        name=name,
        spec=spec,
        status={"state": "Open"} if kind == "VolcanoQueue" else {},
        first_seen_at=AT,
        observed_at=AT,
    )


def world(*, parents: bool, conf: dict[str, Any] | None = None, admin: str = "") -> None:
    """100 GPUs. root; eng (at most 40, 10 guaranteed); ml below it (30 deserved, at most 60)."""
    cluster = Cluster.objects.create(slug="c", name="C", kubeconfig_path="/nowhere", volcano_plugin=admin)
    Node.objects.create(
        cluster=cluster, uid="n", name="n", allocatable={GPU: "100"}, first_seen_at=AT, observed_at=AT
    )
    put(cluster, "VolcanoQueue", "root", {"weight": 1})
    eng = {"parent": "root", "capability": {GPU: "40"}, "guarantee": {GPU: "10"}}
    put(cluster, "VolcanoQueue", "eng", eng)
    below = "eng" if parents else "root"
    ml = {"parent": below, "capability": {GPU: "60"}, "deserved": {GPU: "30"}}
    put(cluster, "VolcanoQueue", "ml", ml)
    if conf is not None:
        put(cluster, "VolcanoScheduler", NAME, {"key": KEY, **conf}, namespace="volcano-system")


def row_of(name: str) -> QuotaRow:
    (row,) = (row for row in quota_rows(now=AT) if row.queue == name and row.resource == GPU)
    return row


def said(*plugins: str, hierarchy: bool = False) -> dict[str, Any]:
    name = plugins[0] if len(plugins) == 1 else ""
    return {"plugin": name, "plugins": list(plugins), "hierarchy": hierarchy}


@pytest.mark.parametrize(
    ("parents", "conf", "admin", "expected"),
    [
        (False, None, "", ("", "")),
        (True, None, "", ("capacity", "hierarchy")),
        (True, said("proportion"), "", ("proportion", WHERE)),
        (True, said("capacity", hierarchy=True), "", ("capacity", WHERE)),
        (True, said("proportion"), "capacity", ("capacity", "admin")),
        # the configuration is known, and leaves it open: no guess
        (True, said(), "", ("", WHERE)),
        (True, said("proportion", "capacity"), "", ("", WHERE)),
    ],
)
def test_who_says_it_first(
    parents: bool, conf: dict[str, Any] | None, admin: str, expected: tuple[str, str]
) -> None:
    world(parents=parents, conf=conf, admin=admin)
    row = row_of("ml")
    assert (row.plugin, row.plugin_from) == expected


@pytest.mark.parametrize(
    ("conf", "ceiling", "deserved"),
    [
        # real(ml) = min(60, real(eng) = 40) = 40, also the lowest on the way up
        (said("capacity", hierarchy=True), D(40), D(30)),
        # flat: real(ml) = min(60, 100 − 10 guaranteed to eng) = 60; eng's 40 is no limit of it
        (said("capacity"), D(60), D(30)),
        # flat as well; nothing is asked for, so that nothing is deserved
        (said("proportion"), D(60), None),
        # not known: as configured, the lowest capability on the way up
        (said(), D(40), D(30)),
    ],
)
def test_parents_limit_only_where_the_plugin_reads_them(
    conf: dict[str, Any], ceiling: D, deserved: D | None
) -> None:
    world(parents=True, conf=conf)
    row = row_of("ml")
    assert (row.ceiling, row.available, row.nominal) == (ceiling, ceiling, deserved)


def test_a_hierarchy_that_is_switched_on_counts_for_the_admin_sites_word_too() -> None:
    world(parents=True, conf=said("capacity"), admin="capacity")
    assert row_of("ml").ceiling == D(60)
    Cluster.objects.update(volcano_plugin="proportion")
    ClusterObject.objects.filter(kind="VolcanoScheduler").update(spec=said("capacity", hierarchy=True))
    assert (row_of("ml").plugin, row_of("ml").ceiling) == ("proportion", D(60))


def test_nodes_say_it_even_of_queues_without_rows() -> None:
    world(parents=False, conf=said("capacity"))
    (root,) = queue_forest(now=AT)
    assert root.plugin == QueuePlugin("capacity", "configuration", WHERE, ("capacity",), hierarchy=False)


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        (QueuePlugin(""), "not known for this cluster. The scheduler's configuration has not been read"),
        (QueuePlugin("capacity", "hierarchy"), "capacity plugin is in force: what the queue deserves is as"),
        (QueuePlugin("capacity", "hierarchy"), "Concluded from queues that have a parent"),
        (
            QueuePlugin("proportion", "admin"),
            "no entitlement. This is set for the cluster in the admin site.",
        ),
        (QueuePlugin("capacity", "configuration", WHERE), f"Read from the scheduler's ConfigMap {WHERE}."),
        (QueuePlugin("", "configuration", WHERE), f"(ConfigMap {WHERE}) lists no plugin"),
        (
            QueuePlugin("", "configuration", WHERE, ("proportion", "capacity")),
            "lists the plugins proportion and capacity, which exclude each other",
        ),
    ],
)
def test_what_is_said(plugin: QueuePlugin, text: str) -> None:
    assert text in plugin_text(plugin)
