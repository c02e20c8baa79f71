"""What is kept in memory equals what is read anew, after any sequence of changes; and what is not kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import translation
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from apps.capacity import facts, store
from apps.capacity.laying import NodeState, lay_node
from apps.capacity.loading import Laid, load_nodes
from apps.capacity.reading import NodeFacts
from apps.capacity.reports import forget, report_of, rows_of
from apps.capacity.selectors import capacity_and_nodes
from apps.capacity.store import STORE
from apps.fleet.models import Cluster, Reserve
from apps.observations import keeping
from apps.observations.models import (
    ClusterObject,
    Node,
    Outcome,
    Pod,
    Presence,
    Source,
    SourceState,
)
from apps.observations.tests.builders import see

START = datetime(2026, 12, 2, 3, tzinfo=UTC)
GPU, GIB = "nvidia.com/gpu", 2**30
H100, L4 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4"
ROOM = {"cpu": "16", "memory": str(64 * GIB), "pods": "6"}


@pytest.fixture(autouse=True)
def remembering(settings: Any) -> None:
    settings.CAPACITY_MEMORY = True


def pulled(cluster: Cluster, *sources: Source, at: datetime) -> None:
    """As a pull ends: the source's marks move."""
    for source in sources:
        SourceState.objects.update_or_create(
            cluster=cluster,
            source=source,
            defaults={
                "presence": Presence.INSTALLED,
                "last_run_at": at,
                "last_ok_at": at,
                "last_outcome": Outcome.OK,
            },
        )


def new_cluster(slug: str, *, at: datetime = START) -> Cluster:
    made = Cluster.objects.create(slug=slug, name=slug, kubeconfig_path="/nowhere")
    pulled(made, *Source, at=at)
    return made


def node_values(model: str = H100, cards: int = 8, **changes: Any) -> dict[str, Any]:
    labels = {
        "nvidia.com/gpu.product": model,
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.memory": "81559",
        "pool": "a",
    }
    return {
        "labels": labels,
        "capacity": ROOM | {GPU: str(cards)},
        "allocatable": ROOM | {GPU: str(cards)},
        "conditions": {"Ready": {"status": "True"}},
        **changes,
    }


def add_node(cluster: Cluster, name: str, *, at: datetime = START, uid: str = "", **values: Any) -> Node:
    return Node.objects.create(
        cluster=cluster,
        uid=uid or f"{cluster.slug}-{name}",
        name=name,
        created_at=at,
        first_seen_at=at,
        observed_at=at,
        **node_values(**values),
    )


def add_pod(
    cluster: Cluster, name: str, node: str, cards: int, *, at: datetime = START, cpu: str = "2"
) -> Pod:
    requests = {"cpu": cpu, "memory": str(GIB)} | ({GPU: str(cards)} if cards else {})
    return Pod.objects.create(
        cluster=cluster,
        uid=f"{cluster.slug}-{name}",
        namespace="n",
        name=name,
        node_name=node,
        phase="Running",
        requests=requests,
        devices=cards,
        first_seen_at=at,
        observed_at=at,
    )


def anew(now: datetime, clusters: list[Cluster] | None = None) -> tuple[Any, ...]:
    """Everything, read and made without memory."""
    from django.test import override_settings

    with override_settings(CAPACITY_MEMORY=False):
        return seen(now, clusters)


def seen(now: datetime, clusters: list[Cluster] | None = None) -> tuple[Any, ...]:
    fleet = facts.load_fleet(now=now, clusters=clusters)
    report, rows = report_of(fleet), rows_of(fleet)
    return list(fleet.nodes), fleet.sums, fleet.kinds, fleet.usable, report, list(rows)


# ---- any sequence of changes ------------------------------------------------------------------------------------

NAMES = [f"node-{letter}" for letter in "abcdefgh"]


class Changes(RuleBasedStateMachine):
    """Pulls that change nodes, pods, flavors and claims, and people who change reserves, while the clock goes on."""

    @initialize()
    def start(self) -> None:
        STORE.clear()
        forget()
        Cluster.objects.all()
        self.now = START
        self.cluster = new_cluster("c")
        self.other = new_cluster("d")
        self.serial = 0
        for name in NAMES[:4]:
            add_node(self.cluster, name)
        add_node(self.other, "other")
        self.check()

    def tick(self, *sources: Source) -> None:
        self.now += timedelta(seconds=30)
        pulled(self.cluster, *sources, at=self.now)

    def nodes(self) -> list[Node]:
        return list(Node.objects.filter(cluster=self.cluster, gone_at=None).order_by("name"))

    @rule(name=st.sampled_from(NAMES), model=st.sampled_from([H100, L4, ""]), cards=st.integers(0, 8))
    def node_comes(self, name: str, model: str, cards: int) -> None:
        self.tick(Source.NODES)
        if not Node.objects.filter(cluster=self.cluster, name=name, gone_at=None).exists():
            self.serial += 1
            add_node(self.cluster, name, at=self.now, uid=f"n{self.serial}", model=model, cards=cards)

    @rule(place=st.integers(0, 7))
    def node_goes(self, place: int) -> None:
        self.tick(Source.NODES)
        if nodes := self.nodes():
            Node.objects.filter(pk=nodes[place % len(nodes)].pk).update(gone_at=self.now)

    @rule(
        place=st.integers(0, 7),
        usable=st.integers(0, 8),
        cordoned=st.booleans(),
        pool=st.sampled_from("ab"),
        ready=st.sampled_from(["True", "True", "False"]),
    )
    def node_changes(self, place: int, usable: int, cordoned: bool, pool: str, ready: str) -> None:
        self.tick(Source.NODES)
        if nodes := self.nodes():
            node = nodes[place % len(nodes)]
            Node.objects.filter(pk=node.pk).update(
                allocatable={**node.allocatable, GPU: str(usable)},
                unschedulable=cordoned,
                labels={**node.labels, "pool": pool},
                conditions={"Ready": {"status": ready}},
                observed_at=self.now,
            )

    @rule(place=st.integers(0, 7))
    def plugin_goes(self, place: int) -> None:
        self.tick(Source.NODES)
        if nodes := self.nodes():
            node = nodes[place % len(nodes)]
            Node.objects.filter(pk=node.pk).update(
                capacity={**node.capacity, GPU: "0"},
                allocatable={**node.allocatable, GPU: "0"},
                observed_at=self.now,
            )
            with connection.cursor() as cursor:
                cursor.execute(
                    "INSERT INTO observations_transition (cluster_id, observed_at, kind, uid, namespace, name, facet,"
                    " from_value, to_value, reason, message)"
                    " VALUES (%s, %s, 'Node', %s, '', %s, 'devices', %s, %s, '', '')",
                    [self.cluster.pk, self.now, node.uid, node.name, f"{GPU}=8", f"{GPU}=0"],
                )

    @rule(name=st.sampled_from([*NAMES, ""]), cards=st.integers(0, 8), cpu=st.sampled_from(["2", "15", "16"]))
    def pod_comes(self, name: str, cards: int, cpu: str) -> None:
        self.tick(Source.PODS)
        self.serial += 1
        add_pod(self.cluster, f"p{self.serial}", name, cards, at=self.now, cpu=cpu)

    @rule(place=st.integers(0, 30), how=st.sampled_from(["bound", "over", "gone"]))
    def pod_changes(self, place: int, how: str) -> None:
        self.tick(Source.PODS)
        pods = list(Pod.objects.filter(cluster=self.cluster, gone_at=None).order_by("pk"))
        if not pods:
            return
        rows = Pod.objects.filter(pk=pods[place % len(pods)].pk)
        if how == "gone":
            rows.update(gone_at=self.now)
        elif how == "over":
            rows.update(phase="Succeeded", observed_at=self.now)
        else:
            rows.filter(node_name="").update(node_name=NAMES[place % len(NAMES)], observed_at=self.now)

    @rule(pool=st.sampled_from(["a", "b", ""]))
    def flavor_changes(self, pool: str) -> None:
        self.tick(Source.KUEUE)
        ClusterObject.objects.update_or_create(
            cluster=self.cluster,
            uid="flavor",
            defaults={
                "kind": "ResourceFlavor",
                "name": "f",
                "spec": {"node_labels": {"pool": pool} if pool else {}, "node_taints": [], "tolerations": []},
                "first_seen_at": self.now,
                "observed_at": self.now,
            },
        )

    @rule(quota=st.integers(0, 40))
    def quota_changes(self, quota: int) -> None:
        self.tick(Source.KUEUE)
        cell = {"name": GPU, "nominal": str(quota), "borrowing_limit": None, "lending_limit": None}
        flavors = [{"name": "f", "resources": [cell]}]
        ClusterObject.objects.update_or_create(
            cluster=self.cluster,
            uid="queue",
            defaults={
                "kind": "ClusterQueue",
                "name": "q",
                "spec": {"cohort": "", "resource_groups": [{"covered": [GPU], "flavors": flavors}]},
                "first_seen_at": self.now,
                "observed_at": self.now,
            },
        )

    @rule(
        selector=st.sampled_from(["", "pool=a", "pool=b"]),
        cards=st.none() | st.integers(1, 12),
        model=st.sampled_from(["", "L4"]),
        minutes=st.integers(-5, 5),
    )
    def reserve_comes(self, selector: str, cards: int | None, model: str, minutes: int) -> None:
        Reserve.objects.create(
            cluster=self.cluster,
            selector=selector,
            model=model,
            devices=cards,
            reason="spares",
            valid_from=self.now + timedelta(minutes=minutes),
        )

    @rule(place=st.integers(0, 5))
    def reserve_ends(self, place: int) -> None:
        rows = list(Reserve.objects.filter(valid_to=None, valid_from__lt=self.now).order_by("pk"))
        if rows:
            Reserve.objects.filter(pk=rows[place % len(rows)].pk).update(valid_to=self.now)

    @rule(place=st.integers(0, 7), card=st.sampled_from("xyz"), tainted=st.booleans(), held=st.booleans())
    def slice_changes(self, place: int, card: str, tainted: bool, held: bool) -> None:
        self.tick(Source.DEVICES)
        name, taint = NAMES[place], {"key": "bad", "value": "", "effect": "NoSchedule"}
        pool = f"pool-{name}"
        device = {
            "name": "gpu-0",
            "node": "",
            "all_nodes": False,
            "node_selector": None,
            "attributes": {"type": "gpu", "uuid": f"GPU-{card}", "productName": "NVIDIA H100 80GB HBM3"},
            "capacity": {"memory": "85520809984"},
            "consumes": [],
            "taints": [taint] if tainted else [],
            "multiple": False,
        }
        self.device_object("ResourceSlice", pool, {
            "driver": "gpu.nvidia.com", "pool": pool, "generation": 1, "slices": 1, "node": name,
            "all_nodes": False, "node_selector": None, "per_device_nodes": False, "counters": {},
            "devices": [device],
        })  # fmt: skip
        result = {
            "request": "r", "driver": "gpu.nvidia.com", "pool": pool, "device": "gpu-0", "admin": False,
            "share_id": "", "consumed": {},
        }  # fmt: skip
        self.device_object(
            "ResourceClaim",
            f"claim-{name}",
            {"requests": [], "extended": False, "pod_claim_name": ""},
            {"allocated": held, "node": name, "results": [result] if held else [], "reserved_for": []},
        )

    def device_object(self, kind: str, name: str, spec: Any, status: Any = None) -> None:
        ClusterObject.objects.update_or_create(
            cluster=self.cluster,
            uid=f"{kind}-{name}",
            defaults={
                "kind": kind,
                "name": name,
                "spec": spec,
                "status": status or {},
                "first_seen_at": self.now,
                "observed_at": self.now,
            },
        )

    @rule(
        place=st.integers(0, 7),
        geometry=st.sampled_from(["A100-SXM4-40GB-MIG-1g.5gb", "A100-SXM4-40GB-MIG-INVALID", ""]),
    )
    def geometry_changes(self, place: int, geometry: str) -> None:
        """A node whose cards nobody but telemetry counts, or not any more."""
        self.tick(Source.NODES)
        if nodes := self.nodes():
            node = nodes[place % len(nodes)]
            labels = node_values()["labels"]
            if geometry:
                labels |= {
                    "nvidia.com/gpu.product": geometry, "nvidia.com/mig.strategy": "single",
                    "nvidia.com/gpu.count": node.capacity.get(GPU, "0"),
                }  # fmt: skip
            Node.objects.filter(pk=node.pk).update(labels=labels, observed_at=self.now)

    @rule(
        cards=st.dictionaries(st.sampled_from(NAMES), st.integers(0, 8)),
        model=st.sampled_from(["NVIDIA A100", "NVIDIA L4"]),
    )
    def telemetry_sees(self, cards: Mapping[str, int], model: str) -> None:
        """A pull of exporters, some of which are silent, or all."""
        self.now += timedelta(seconds=30)
        see(
            self.cluster,
            self.now,
            {name: {f"{name}-{card}": model for card in range(count)} for name, count in cards.items()},
        )

    @rule(minutes=st.sampled_from([1, 2, 3]))
    def prometheus_does_not_answer(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)
        SourceState.objects.filter(cluster=self.cluster, source=Source.DCGM).update(
            last_run_at=self.now, last_outcome=Outcome.FAILED
        )

    @rule(minutes=st.sampled_from([1, 9, 60 * 24 * 8]))
    def time_passes(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    @rule()
    def pods_are_forgotten_and_read_again(self) -> None:
        self.tick(Source.NODES)
        state = SourceState.objects.filter(cluster=self.cluster, source=Source.PODS)
        if state.filter(last_ok_at=None).exists():
            state.update(last_ok_at=self.now, last_run_at=self.now)
        else:
            state.update(last_ok_at=None, last_run_at=self.now)

    @rule()
    def a_transaction_is_rolled_back(self) -> None:
        """What was kept inside it is not served after it."""
        try:
            with transaction.atomic():
                self.node_comes("node-a", H100, 8)
                self.node_changes(1, 3, True, "b", "True")
                self.pod_comes("node-b", 2, "2")
                seen(self.now)
                raise RuntimeError
        except RuntimeError:
            self.now += timedelta(seconds=30)

    @invariant()
    def check(self) -> None:
        if hasattr(self, "cluster"):
            with translation.override("en"):
                found, expected = seen(self.now), anew(self.now)
            for part, other in zip(found, expected, strict=True):
                assert part == other


class TestKeptEqualsAnew(TestCase):
    """Each example in a transaction of its own."""

    def test_after_any_sequence_of_changes(self) -> None:
        run_state_machine_as_test(
            Isolated,
            settings=settings(
                max_examples=10,
                stateful_step_count=20,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )


class Isolated(Changes):
    def __init__(self) -> None:
        super().__init__()
        self.around = transaction.atomic()
        self.around.__enter__()

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.around.__exit__(None, None, None)


@pytest.mark.django_db
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_long_walk(seed: int) -> None:
    """Every change in turn and in random order, with no end that starts anew: differences would add up."""
    random = Random(seed)
    walk = Changes()
    walk.start()
    steps: list[Callable[[], None]] = [
        lambda: walk.node_comes(random.choice(NAMES), random.choice([H100, L4, ""]), random.randint(0, 8)),
        lambda: walk.node_goes(random.randint(0, 7)),
        lambda: walk.node_changes(
            random.randint(0, 7), random.randint(0, 8), random.random() < 0.2, random.choice("ab"), "True"
        ),
        lambda: walk.plugin_goes(random.randint(0, 7)),
        lambda: walk.pod_comes(random.choice([*NAMES, ""]), random.randint(0, 4), random.choice(["2", "15"])),
        lambda: walk.pod_changes(random.randint(0, 30), random.choice(["bound", "over", "gone"])),
        lambda: walk.flavor_changes(random.choice(["a", "b", ""])),
        lambda: walk.quota_changes(random.randint(0, 40)),
        lambda: walk.reserve_comes(random.choice(["", "pool=a"]), random.choice([None, 3, 9]), "", -1),
        lambda: walk.reserve_ends(random.randint(0, 5)),
        lambda: walk.slice_changes(
            random.randint(0, 7), random.choice("xyz"), random.random() < 0.5, random.random() < 0.5
        ),
        lambda: walk.geometry_changes(random.randint(0, 7), "A100-SXM4-40GB-MIG-1g.5gb"),
        lambda: walk.geometry_changes(random.randint(0, 7), "A100-SXM4-40GB-MIG-INVALID"),
        lambda: walk.telemetry_sees(
            {name: random.randint(0, 8) for name in random.sample(NAMES, random.randint(0, 8))}, "NVIDIA A100"
        ),
        lambda: walk.prometheus_does_not_answer(random.choice([1, 2, 3])),
        lambda: walk.time_passes(random.choice([1, 9])),
    ]
    for _ in range(8):
        random.shuffle(steps)
        for step in steps:
            step()
            walk.check()


# ---- what is read -----------------------------------------------------------------------------------------------


@pytest.fixture
def cluster() -> Cluster:
    made = new_cluster("c")
    for name in NAMES[:4]:
        add_node(made, name)
    add_pod(made, "p", NAMES[0], 4)
    return made


def counted(work: Callable[[], object]) -> int:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        work()
    return len(queries)


@pytest.mark.django_db
def test_nothing_is_read_again_while_no_mark_moves(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    capacity_and_nodes(now=START)
    for name in ("read_nodes", "used_on_nodes", "read_flavors", "read_devices"):
        monkeypatch.setattr(store, name, lambda **_: pytest.fail("read again"))
    report, rows = capacity_and_nodes(now=START + timedelta(minutes=1))
    again, same = capacity_and_nodes(now=START + timedelta(minutes=2))
    assert report.pools == again.pools
    assert rows is same
    # Clusters, statuses with quarantine and runs, reserves.
    assert counted(lambda: capacity_and_nodes(now=START + timedelta(minutes=3))) <= 6


@pytest.mark.django_db
def test_only_the_node_that_changed_is_laid_out_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = START + timedelta(minutes=5)
    before = facts.load_fleet(now=START)
    laid: list[str] = []

    def watched(node: NodeFacts, *given: Any, **named: Any) -> NodeState:
        laid.append(node.name)
        return lay_node(node, *given, **named)

    monkeypatch.setattr(store, "lay_node", watched)
    Node.objects.filter(name=NAMES[1]).update(unschedulable=True, observed_at=later)
    pulled(cluster, Source.NODES, at=later)
    after = facts.load_fleet(now=later)
    assert laid == [NAMES[1]]
    assert [one is two for one, two in zip(before.nodes, after.nodes, strict=True)] == [
        True,
        False,
        True,
        True,
    ]
    # The pull after that says the same again.
    pulled(cluster, Source.NODES, Source.PODS, Source.KUEUE, at=later + timedelta(seconds=30))
    again = facts.load_fleet(now=later + timedelta(seconds=30))
    assert (laid, again.version) == ([NAMES[1]], after.version)


@pytest.mark.django_db
def test_texts_are_in_the_language_of_the_reader(cluster: Cluster) -> None:
    Node.objects.filter(name=NAMES[1]).update(unschedulable=True)

    def label(language: str) -> str:
        with translation.override(language):
            _report, rows = capacity_and_nodes(now=START)
            return rows[1].reasons[0].label

    assert (label("en"), label("zh-hans") != "cordoned", label("en")) == ("cordoned", True, "cordoned")


@pytest.mark.django_db
def test_a_renamed_cluster_is_shown_under_its_new_name(cluster: Cluster) -> None:
    capacity_and_nodes(now=START)
    Cluster.objects.update(name="new name")
    report, rows = capacity_and_nodes(now=START)
    assert {report.pools[0].cluster.name, rows[0].cluster.name} == {"new name"}


@pytest.mark.django_db
def test_memory_is_bounded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "MOST_CLUSTERS", 1)
    other = new_cluster("d")
    capacity_and_nodes(now=START, clusters=[cluster])
    capacity_and_nodes(now=START, clusters=[other])
    assert len(STORE._kept) == 1


@pytest.mark.django_db
def test_a_past_clock_is_answered_but_not_kept(cluster: Cluster) -> None:
    now = facts.load_fleet(now=START + timedelta(hours=1))
    assert facts.load_fleet(now=START).version != now.version
    assert facts.load_fleet(now=START + timedelta(hours=1)).version == now.version


@pytest.mark.django_db(transaction=True)
def test_threads_share_one_reading(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[int] = []

    def watched(*given: Any, **named: Any) -> list[Laid]:
        loads.append(1)
        return load_nodes(*given, **named)

    monkeypatch.setattr(store, "load_nodes", watched)
    versions: list[Any] = []

    def read() -> None:
        try:
            versions.append(facts.load_fleet(now=START).version)
        finally:
            connection.close()

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(loads), len(versions), len(set(versions))) == (1, 4, 1)


@pytest.mark.django_db
@pytest.mark.parametrize("remember", [True, False])
def test_queries_do_not_grow_with_nodes(settings: Any, remember: bool) -> None:
    settings.CAPACITY_MEMORY = remember

    def queries(slug: str, nodes: int) -> int:
        made = new_cluster(slug)
        for number in range(nodes):
            add_node(made, f"{slug}-{number:03d}")
            add_pod(made, f"{slug}-{number:03d}", f"{slug}-{number:03d}", 2)
        return counted(lambda: [list(part) for part in capacity_and_nodes(now=START, clusters=[made])[1:]])

    assert queries("few", 5) == queries("many", 60)


# ---- what telemetry saw last ------------------------------------------------------------------------------------

SINGLE = {
    "nvidia.com/gpu.product": "A100-SXM4-40GB-MIG-1g.5gb",
    "nvidia.com/mig.strategy": "single",
    "nvidia.com/gpu.memory": "4864",
}
MINUTE = timedelta(minutes=1)


def physical(now: datetime, place: int = 0) -> tuple[int, bool, datetime | None]:
    """Of a node in memory, and the same read anew."""
    _report, rows = capacity_and_nodes(now=now)
    row = rows[place]
    (again,) = (one for one in anew(now)[-1] if one.node == row.node)
    assert row == again
    return row.physical_devices, row.estimated, row.cards_seen_at


@pytest.fixture
def partitioned(settings: Any) -> Cluster:
    """Two nodes with 28 instances each, that fit on four cards: telemetry sees eight on the one and four on the other."""
    settings.COLLECT_INTERVAL_SECONDS = 60
    made = new_cluster("m")
    for name in ("one", "two"):
        add_node(made, name, labels=SINGLE, cards=28)
    sees(made, START, one=8, two=4)
    return made


def sees(cluster: Cluster, at: datetime, **cards: int) -> None:
    see(
        cluster,
        at,
        {node: {f"{node}-{card}": "NVIDIA A100" for card in range(count)} for node, count in cards.items()},
    )


@pytest.mark.django_db
def test_a_stale_prometheus_takes_no_card_away(partitioned: Cluster) -> None:
    assert physical(START) == (8, False, None)
    assert physical(START + 2 * MINUTE) == (8, False, None)
    assert physical(START + 3 * MINUTE) == (8, False, START)
    assert physical(START + timedelta(days=7) - MINUTE) == (8, False, START)
    # Nobody remembers: what the instances need at least.
    assert physical(START + timedelta(days=7)) == (4, True, None)
    sees(partitioned, START + timedelta(days=8), one=8)
    assert physical(START + timedelta(days=8)) == (8, False, None)


@pytest.mark.django_db
def test_a_silent_exporter_takes_no_card_away(partitioned: Cluster) -> None:
    assert physical(START) == (8, False, None)
    for minute in range(1, 11):
        sees(partitioned, START + minute * MINUTE, two=4)
    now = START + 10 * MINUTE
    assert physical(now) == (8, False, START)
    # Four are what the instances need as well: the number is no estimate and telemetry sees it.
    assert physical(now, 1) == (4, False, None)
    report, rows = capacity_and_nodes(now=now)
    assert [pool.physical_devices for pool in report.pools] == [12]
    silence = "Telemetry is silent about this node; its cards are counted as it saw them last."
    assert [silence in row.notes for row in rows] == [True, False]


@pytest.mark.django_db
def test_a_card_that_is_really_gone_is_taken_away(partitioned: Cluster) -> None:
    found = []
    for minute in range(1, 6):
        sees(partitioned, START + minute * MINUTE, one=6, two=4)
        found.append(physical(START + minute * MINUTE)[0])
    assert found == [8, 8, 8, 6, 6]


@pytest.mark.django_db
def test_another_node_under_the_same_name_has_cards_of_its_own(partitioned: Cluster) -> None:
    later = START + 10 * MINUTE
    sees(partitioned, later, two=4)
    assert physical(later) == (8, False, START)
    Node.objects.filter(name="one").update(gone_at=later)
    add_node(partitioned, "one", at=later, uid="another", labels=SINGLE, cards=28)
    pulled(partitioned, Source.NODES, at=later)
    assert physical(later) == (4, True, None)


@pytest.mark.django_db
def test_models_of_a_mixed_node_are_known_in_silence(partitioned: Cluster) -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.count": "3"}
    add_node(partitioned, "three", labels=labels, cards=4)
    see(
        partitioned,
        START,
        {"three": {"a": "NVIDIA L4", "b": "NVIDIA L4", "c": "NVIDIA L4", "d": "NVIDIA A100"}},
    )
    for now, seen_at in ((START, None), (START + timedelta(days=1), START)):
        row = next(row for row in anew(now)[-1] if row.node == "three")
        assert (row.model, row.cards_seen_at) == ("NVIDIA-A100 + NVIDIA-L4", seen_at)


@pytest.mark.django_db
def test_silence_is_read_about_once(partitioned: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the instants at which the clock changes something, nothing is asked."""
    capacity_and_nodes(now=START)
    capacity_and_nodes(now=START + 3 * MINUTE)
    monkeypatch.setattr(store, "read_seen", lambda **_: pytest.fail("read again"))
    for hours in (1, 24, 167):
        capacity_and_nodes(now=START + timedelta(hours=hours))
