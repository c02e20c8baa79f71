"""What is kept of quota equals what is read anew, after any changes; and costs nothing while nothing changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Team
from apps.fleet.models import Cluster, TeamBinding
from apps.observations.models import ClusterObject, Node, Pod, Source, SourceState, Workload
from apps.quotas.rows import QuotaRow
from apps.quotas.selectors import queue_forest, quota_rows
from apps.quotas.snapshot import ClusterView, Snapshot, load_snapshot

pytestmark = pytest.mark.django_db
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
GPU = "nvidia.com/gpu"
COUNTER = iter(range(10**9))


@pytest.fixture(autouse=True)
def remembering(settings: Any) -> None:
    settings.CAPACITY_MEMORY = True


def pulled(cluster: Cluster, at: datetime, *sources: Source) -> None:
    """As a pull ends: the source's mark moves."""
    for source in sources:
        SourceState.objects.update_or_create(cluster=cluster, source=source, defaults={"last_run_at": at})


def put(cluster: Cluster, kind: str, name: str, at: datetime, **spec: Any) -> None:
    """An object as a pull writes it: new, or with another spec."""
    ClusterObject.objects.update_or_create(
        cluster=cluster,
        uid=f"{kind}-{name}",
        defaults={
            "kind": kind,
            "name": name,
            "namespace": "ns" if kind == "LocalQueue" else "",
            "spec": spec,
            "first_seen_at": START,
            "observed_at": at,
            "gone_at": None,
        },
    )


def queue(nominal: int, cohort: str = "root") -> dict[str, Any]:
    quota = {"name": GPU, "nominal": str(nominal), "borrowing_limit": None, "lending_limit": None}
    groups = [{"covered": [GPU], "flavors": [{"name": "h100", "resources": [quota]}]}]
    return {"cohort": cohort, "resource_groups": groups, "stop_policy": "None"}


def work(cluster: Cluster, name: str, at: datetime, *, state: str, queue_name: str, gpus: int) -> None:
    usage = [{"flavor": "h100", "resource": GPU, "quantity": str(gpus)}] if state == "admitted" else []
    Workload.objects.update_or_create(
        cluster=cluster,
        uid=f"w-{name}",
        defaults={
            "kind": "Workload",
            "name": name,
            "namespace": "ns",
            "queue_name": queue_name,
            "cluster_queue": queue_name,
            "state": state,
            "usage": usage,
            "requests": {GPU: str(gpus)},
            "first_seen_at": START,
            "observed_at": at,
            "gone_at": None,
        },
    )


def node(cluster: Cluster, name: str, at: datetime, *, product: str) -> None:
    Node.objects.update_or_create(
        cluster=cluster,
        uid=f"n-{name}",
        defaults={
            "name": name,
            "labels": {"flavor": "h100", "nvidia.com/gpu.product": product},
            "capacity": {GPU: "8"},
            "allocatable": {GPU: "8"},
            "first_seen_at": START,
            "observed_at": at,
            "gone_at": None,
        },
    )


def world(slug: str) -> Cluster:
    cluster = Cluster.objects.create(slug=slug, name=slug)
    put(cluster, "ResourceFlavor", "h100", START, node_labels={"flavor": "h100"})
    for name in ("a", "b"):
        put(cluster, "ClusterQueue", name, START, **queue(8))
        put(cluster, "LocalQueue", name, START, cluster_queue=name)
    work(cluster, "first", START, state="admitted", queue_name="a", gpus=3)
    pulled(cluster, START, Source.KUEUE, Source.NODES, Source.PODS)
    return cluster


def content(view: ClusterView) -> dict[str, Any]:
    """A view without what was computed from it, and without order among equals."""
    return {
        "objects": {kind: dict(items) for kind, items in view.objects.items() if items},
        "local": sorted((item.namespace, item.name, str(item.spec)) for item in view.local_queues),
        "reserved": dict(view.reserved),
        "admitted": dict(view.admitted),
        "demand": {key: (dict(d.amounts), dict(d.counts)) for key, d in view.demand.items()},
        "teams": dict(view.teams),
        "work": dict(view.work),
        "volcano": view.volcano,
        "reach": dict(view.reach),
    }


def everything(now: datetime) -> tuple[Any, list[QuotaRow], Any]:
    found: Snapshot = load_snapshot(now=now)
    views = {pk: content(view) for pk, view in found.views.items()}
    return (views, dict(found.work)), quota_rows(now=now), queue_forest(now=now)


def check(now: datetime) -> None:
    kept = everything(now)
    with override_settings(CAPACITY_MEMORY=False):
        assert kept == everything(now)


def change(random: Random, clusters: list[Cluster], teams: list[Team], at: datetime) -> None:
    """One change as a pull, or an admin, makes it; now and then without any."""
    cluster = random.choice(clusters)
    name = random.choice("abcd")
    what = random.randrange(12)
    source = Source.KUEUE
    if what == 0:
        cohort = random.choice(["root", "", "other"])
        put(cluster, "ClusterQueue", name, at, **queue(random.randrange(16), cohort))
    elif what == 1:
        put(cluster, "LocalQueue", name, at, cluster_queue=random.choice("abcd"))
    elif what == 2:
        kind = random.choice(["ClusterQueue", "LocalQueue", "Cohort", "VolcanoQueue", "ResourceFlavor"])
        ClusterObject.objects.filter(cluster=cluster, kind=kind, gone_at=None, name=name).update(gone_at=at)
    elif what in (3, 4, 5):
        state = random.choice(["admitted", "pending"])
        gpus = random.randrange(1, 6)
        work(cluster, f"w{random.randrange(6)}", at, state=state, queue_name=name, gpus=gpus)
    elif what == 6:
        gone = f"w-w{random.randrange(6)}"
        Workload.objects.filter(cluster=cluster, uid=gone, gone_at=None).update(gone_at=at)
    elif what == 7:
        source = Source.NODES
        product = random.choice(["NVIDIA-H100-80GB-HBM3", "NVIDIA-L4"])
        node(cluster, random.choice("xy"), at, product=product)
    elif what == 8:
        source = Source.NODES
        Node.objects.filter(cluster=cluster, name="x", gone_at=None).update(gone_at=at)
    elif what == 9:
        source = Source.VOLCANO
        put(cluster, "VolcanoQueue", name, at, weight=random.randrange(1, 4), deserved={GPU: "4"})
        group(cluster, at, name, f"g{random.randrange(3)}")
    elif what == 10:
        source = Source.PODS
        pod(cluster, at, f"g{random.randrange(3)}", random.randrange(1, 5))
        return_mark(cluster, at, source)
        return
    else:
        bind(random, cluster, teams, at, name)
        return
    return_mark(cluster, at, source)


def return_mark(cluster: Cluster, at: datetime, source: Source) -> None:
    pulled(cluster, at + timedelta(milliseconds=1), source)


def group(cluster: Cluster, at: datetime, queue_name: str, name: str) -> None:
    Workload.objects.update_or_create(
        cluster=cluster,
        uid=f"g-{name}",
        defaults={
            "kind": "PodGroup",
            "name": name,
            "namespace": "ns",
            "queue_name": queue_name,
            "state": "admitted",
            "usage": [{"resource": GPU, "quantity": "2"}],
            "requests": {GPU: "2"},
            "first_seen_at": START,
            "observed_at": at,
            "gone_at": None,
        },
    )


def pod(cluster: Cluster, at: datetime, group_name: str, gpus: int) -> None:
    Pod.objects.create(
        cluster=cluster,
        uid=f"p-{next(COUNTER)}",
        name="p",
        namespace="ns",
        pod_group=group_name,
        node_name="x",
        phase="Running",
        requests={GPU: str(gpus)},
        first_seen_at=at,
        observed_at=at,
    )


def bind(random: Random, cluster: Cluster, teams: list[Team], at: datetime, name: str) -> None:
    """Another owner from now on; no pull tells of it."""
    kind, namespace = random.choice(
        [("cluster_queue", ""), ("local_queue", "ns"), ("volcano_queue", ""), ("namespace", "")]
    )
    named = "ns" if kind == "namespace" else name
    open_ = TeamBinding.objects.filter(cluster=cluster, kind=kind, name=named, valid_to=None)
    if open_.exists():
        open_.update(valid_to=at)
    else:
        TeamBinding.objects.create(
            cluster=cluster,
            kind=kind,
            namespace=namespace,
            name=named,
            team=random.choice(teams),
            valid_from=at,
        )


@pytest.mark.parametrize("seed", range(8))
def test_after_any_sequence_of_changes_kept_equals_read_anew(seed: int) -> None:
    random = Random(seed)
    clusters = [world("one"), world("two")]
    teams = [Team.objects.create(slug=slug, name=slug) for slug in ("red", "blue")]
    now = START
    check(now)
    for _step in range(40):
        now += timedelta(seconds=random.choice([1, 7, 45, 400]))
        for _change in range(random.choice([1, 1, 2])):
            change(random, clusters, teams, now)
            now += timedelta(milliseconds=10)
        check(now)


def test_two_queries_where_nothing_changed() -> None:
    """A pull that wrote nothing moves a mark: three looks more, and the view stays the same object."""
    cluster = world("one")
    first = load_snapshot(now=START, clusters=[cluster]).views[cluster.pk]
    with CaptureQueriesContext(connection) as queries:
        assert load_snapshot(now=START, clusters=[cluster]).views[cluster.pk] is first
    assert len(queries) == 2
    pulled(cluster, START + timedelta(minutes=1), Source.KUEUE)
    with CaptureQueriesContext(connection) as queries:
        again = load_snapshot(now=START + timedelta(minutes=1), clusters=[cluster]).views[cluster.pk]
    assert again is first
    assert len(queries) == 5


def test_a_change_within_the_skew_of_the_newest_is_found() -> None:
    """Another worker's clock is half a minute behind: its row is older than the newest one, and still new."""
    cluster = world("one")
    put(cluster, "ClusterQueue", "c", START + timedelta(seconds=40), **queue(1))
    pulled(cluster, START + timedelta(seconds=41), Source.KUEUE)
    check(START + timedelta(seconds=41))
    put(cluster, "ClusterQueue", "d", START + timedelta(seconds=10), **queue(1))
    pulled(cluster, START + timedelta(seconds=42), Source.KUEUE)
    found = load_snapshot(now=START + timedelta(seconds=42)).views[cluster.pk]
    assert set(found.objects["ClusterQueue"]) == {"a", "b", "c", "d"}


def test_marks_and_clocks_that_go_back_are_read_anew() -> None:
    cluster = world("one")
    later = START + timedelta(hours=1)
    put(cluster, "ClusterQueue", "c", later, **queue(1))
    pulled(cluster, later, Source.KUEUE)
    check(later)
    ClusterObject.objects.filter(cluster=cluster, name="c").delete()  # a restored backup
    pulled(cluster, START, Source.KUEUE)
    check(later)
    check(START)


def test_another_number_of_objects_is_noticed() -> None:
    """A row that no pull wrote, older than anything looked at: found when numbers are checked."""
    cluster = world("one")
    check(START)
    put(cluster, "ClusterQueue", "late", START - timedelta(days=1), **queue(1))
    after = START + timedelta(minutes=6)
    pulled(cluster, after, Source.KUEUE)
    check(after)


def test_another_row_of_the_cluster_makes_it_anew() -> None:
    cluster = world("one")
    check(START)
    Cluster.objects.filter(pk=cluster.pk).update(name="renamed")
    (row, *_others) = quota_rows(now=START)
    assert row.cluster.name == "renamed"


def test_reading_a_kept_view_stores_nothing() -> None:
    cluster = world("one")
    view = load_snapshot(now=START, clusters=[cluster]).views[cluster.pk]
    assert view.teams["ClusterQueue", "nobody"] == set()
    assert view.objects["Unheard"] == {}
    assert ("ClusterQueue", "nobody") not in view.teams
    assert "Unheard" not in view.objects
