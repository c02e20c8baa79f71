"""What holds for any fleet: nothing counted twice or lost, whatever its nodes say about themselves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal as D
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.capacity.laying import NodeState, Shapes, Surroundings, lay_cluster
from apps.capacity.pooling import PoolSum, sums_of
from apps.capacity.pools import Numbers, parts_of
from apps.capacity.reading import Flavor, LastOffered, NodeFacts
from apps.capacity.reserves import Rule
from apps.capacity.waterfall import Fall
from apps.core.gpu import SharingMode
from apps.fleet.dra import NodeDevices
from apps.fleet.inventory import Group, Unit
from apps.fleet.models import Cluster

NOW = datetime(2026, 12, 2, 3, tzinfo=UTC)
CLUSTER = Cluster(pk=1, slug="c", name="c")
GPU = "nvidia.com/gpu"
PRODUCTS = [
    "",
    "NVIDIA-H100-80GB-HBM3",
    "NVIDIA-L4-SHARED",
    "NVIDIA-A30-MIG-2g.12gb",
    "NVIDIA-H100-80GB-HBM3-MIG-INVALID",
]
TAINTS = [
    "nvidia.com/gpu",
    "spot",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/memory-pressure",
    "karpenter.sh/disrupted",
    "karpenter.sh/unregistered",
]
RESOURCES = [GPU, "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb", "amd.com/gpu"]
HAMI = "GPU-a,10,32768,100,NVIDIA A10,0,true:GPU-b,10,32768,100,NVIDIA A10,0,false:"
amounts = st.integers(0, 40).map(str)
FLAVORS: tuple[Flavor, ...] = (
    ("any", {}),
    ("spot", {"node_labels": {"pool": "a"}, "node_taints": [{"key": "spot", "effect": "NoSchedule"}]}),
)


@dataclass(frozen=True)
class Made:
    """A node with what its pods ask for, what it offered before and what DRA drivers list of it."""

    facts: NodeFacts
    used: dict[str, D]
    last: LastOffered | None
    devices: NodeDevices | None


def facts_of(draw: st.DrawFn, name: str) -> NodeFacts:
    labels = {
        "nvidia.com/gpu.product": draw(st.sampled_from(PRODUCTS)),
        "nvidia.com/gpu.count": draw(st.sampled_from(["", "0", "4", "8", "56", "x"])),
        "nvidia.com/gpu.replicas": draw(st.sampled_from(["", "0", "1", "4"])),
        "nvidia.com/gpu.sharing-strategy": draw(st.sampled_from(["", "none", "time-slicing", "mps"])),
        "nvidia.com/mig.strategy": draw(st.sampled_from(["", "single", "mixed"])),
        "nvidia.com/gpu.memory": draw(st.sampled_from(["", "81559", "rubbish"])),
        "nvidia.com/gpu-driver-upgrade-state": draw(st.sampled_from(["", "upgrade-done", "drain-required"])),
        "pool": draw(st.sampled_from(["a", "b"])),
    }
    ready: list[dict[str, Any]] = [{}]
    ready += [{"Ready": {"status": status}} for status in ("True", "True", "True", "False", "Unknown")]
    room = draw(
        st.fixed_dictionaries({}, optional={"cpu": amounts, "memory": amounts.map(lambda gi: f"{gi}Gi")})
    )
    return NodeFacts(
        cluster_id=1,
        uid=f"uid-{name}",
        name=name,
        labels=labels,
        annotations=draw(st.sampled_from([{}, {}, {"hami.io/node-nvidia-register": HAMI}])),
        capacity=draw(st.dictionaries(st.sampled_from(RESOURCES), amounts, max_size=4)),
        allocatable=draw(st.dictionaries(st.sampled_from(RESOURCES), amounts, max_size=4)) | room,
        taints=[
            {"key": key, "effect": draw(st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]))}
            for key in draw(st.lists(st.sampled_from(TAINTS), max_size=2))
        ],
        conditions=draw(st.sampled_from(ready))
        | draw(st.sampled_from([{}, {"AcceleratedHardwareReady": {"status": "False"}}])),
        unschedulable=draw(st.booleans()),
        deleting_since=draw(st.sampled_from([None, None, NOW])),
        observed_at=NOW,
    )


@st.composite
def listed(draw: st.DrawFn) -> NodeDevices:
    """Cards of one vendor or two, some tainted, some held by claims; a driver that is down lists what it had."""
    groups, held = [], []
    for vendor, driver in draw(
        st.lists(st.sampled_from([("nvidia", "gpu.nvidia.com"), ("amd", "gpu.amd.com")]), unique=True)
    ):
        cards, down = draw(st.integers(1, 8)), draw(st.booleans())
        usable = 0 if down else draw(st.integers(0, cards))
        share = draw(st.sampled_from([1, 4]))
        unit = Unit(f"{driver}/gpu", "", D(cards * share), D(usable * share), Fraction(1, share))
        groups.append(
            Group(
                vendor,
                "NVIDIA-H100-80GB-HBM3",
                SharingMode.VGPU if share > 1 else SharingMode.EXCLUSIVE,
                cards,
                (unit,),
                unhealthy_cards=0 if down else cards - usable,
                plugin_down=down,
                origin="dra",
            )
        )
        held.append({unit.resource: D(draw(st.integers(0, cards * share)))})
    return NodeDevices(groups=groups, held_in=held)


@st.composite
def fleets(draw: st.DrawFn) -> list[Made]:
    names = draw(st.lists(st.sampled_from("abcdef"), unique=True, min_size=1, max_size=5))
    made = []
    for name in names:
        used = draw(
            st.dictionaries(
                st.sampled_from([*RESOURCES, "cpu", "pods"]), st.integers(0, 20).map(D), max_size=3
            )
        )
        last = draw(
            st.none()
            | st.builds(
                LastOffered,
                st.dictionaries(st.sampled_from(RESOURCES[:2]), amounts, min_size=1, max_size=1),
                st.integers(0, 30).map(lambda minutes: NOW - timedelta(minutes=minutes)),
            )
        )
        made.append(Made(facts_of(draw, name), used, last, draw(st.none() | listed())))
    return made


rules = st.lists(
    st.builds(
        Rule,
        st.just(0),
        st.sampled_from(["", "pool=a", "pool in (a,b)", "!pool", "not a selector at all ="]),
        st.sampled_from(["", "NVIDIA-H100-80GB-HBM3", "L4"]),
        st.sampled_from(["", "exclusive", "mig"]),
        st.none() | st.integers(1, 20),
        st.just("spares"),
    ),
    max_size=3,
).map(
    lambda made: tuple(
        Rule(n + 1, r.selector, r.model, r.sharing_mode, r.cards, r.reason) for n, r in enumerate(made)
    )
)


def lay(fleet: list[Made], kept_back: tuple[Rule, ...] = (), *, pods_read: bool = True) -> list[NodeState]:
    devices = {made.facts.name: made.devices for made in fleet if made.devices}
    around = Surroundings(CLUSTER, FLAVORS, kept_back, pods_read, has_slices=bool(devices), devices=devices)
    return lay_cluster(
        [made.facts for made in fleet],
        around,
        used={(1, made.facts.name): made.used for made in fleet},
        last={(1, made.facts.uid): made.last for made in fleet if made.last},
        now=NOW,
        shapes=Shapes(),
    )


def pools(nodes: list[NodeState]) -> dict[tuple[str, str], PoolSum]:
    found: dict[tuple[str, str], PoolSum] = {}
    for node in nodes:
        for index, item in enumerate(node.falls):
            found.setdefault((item.group.model, str(item.group.mode)), PoolSum()).add(node, index)
    return found


def holds(item: Fall) -> None:
    assert 0 <= item.allocatable <= item.physical
    assert all(cards > 0 for cards in item.buckets.values())
    assert sum(item.buckets.values()) + item.allocatable == item.physical
    for unit in item.units:
        assert 0 <= unit.allocatable <= unit.physical
        assert all(amount >= 0 for amount in unit.buckets.values())
        assert sum(unit.buckets.values(), D(0)) + unit.allocatable == unit.physical
        assert unit.unit.equivalents > 0


@settings(max_examples=150, deadline=None)
@given(fleets(), rules)
def test_every_card_and_unit_is_in_exactly_one_bucket(fleet: list[Made], kept_back: tuple[Rule, ...]) -> None:
    for node in lay(fleet, kept_back):
        for item in node.falls:
            holds(item)


@settings(max_examples=150, deadline=None)
@given(fleets(), rules)
def test_held_free_and_stranded_make_up_what_is_usable(
    fleet: list[Made], kept_back: tuple[Rule, ...]
) -> None:
    """For each unit exactly, for each row in its unit and in GPU-equivalents as shown."""
    nodes = lay(fleet, kept_back)
    for node in nodes:
        assert node.shares is not None
        for item, row in zip(node.falls, node.shares, strict=True):
            for unit, share in zip(item.units, row, strict=True):
                assert min(share.held, share.free, share.stranded, share.over) >= 0
                assert share.held + share.free + share.stranded == unit.allocatable
        assert node.held is not None
        for resource, amount in node.held.items():
            offered = [
                share
                for item, row in zip(node.falls, node.shares, strict=True)
                for unit, share in zip(item.units, row, strict=True)
                if unit.unit.resource == resource
            ]
            claimed = sum((claims.get(resource, D(0)) for claims in node.claimed), D(0))
            assert not offered or sum((s.held + s.over for s in offered), D(0)) == amount + claimed
    for (_model, mode), pool in pools(nodes).items():
        numbers = Numbers(pool, mode)
        for measure in ("units", "equivalents", "memory"):
            found = numbers.amounts[measure]
            if found.held_bound is not None:
                assert found.free is not None
                assert found.stranded is not None
                assert min(found.held_bound, found.free, found.stranded) >= 0
                assert found.held_bound + found.free + found.stranded == found.allocatable
        own = numbers.own
        assert own.allocatable is not None
        assert sum(numbers.unit_buckets().values(), D(0)) + own.allocatable == own.physical


@settings(max_examples=100, deadline=None)
@given(fleets(), rules)
def test_reserves_move_cards_and_lose_none(fleet: list[Made], kept_back: tuple[Rule, ...]) -> None:
    before, after = lay(fleet), lay(fleet, kept_back)
    usable = sum(item.allocatable for node in before for item in node.falls)
    left = sum(item.allocatable for node in after for item in node.falls)
    reserved = sum(item.buckets.get("platform_reserve", 0) for node in after for item in node.falls)  # type: ignore[call-overload]
    assert usable == left + reserved
    if all(rule.cards is not None for rule in kept_back):
        assert reserved <= sum(rule.cards or 0 for rule in kept_back)
    assert [item.physical for node in before for item in node.falls] == [
        item.physical for node in after for item in node.falls
    ]


def totals(nodes: list[NodeState]) -> list[Fraction]:
    """Cards, usable cards; usable, held, free and stranded in GPU-equivalents; physical units by resource."""
    found = list(pools(nodes).values())
    units = [(key, unit) for pool in found for key, unit in pool.units.items()]
    return [
        Fraction(sum(pool.physical for pool in found)),
        Fraction(sum(pool.allocatable for pool in found)),
        sum((Fraction(unit.allocatable) * key[2] for key, unit in units), Fraction(0)),
        *(
            sum((Fraction(unit.physical) for key, unit in units if key[0] == resource), Fraction(0))
            for resource in RESOURCES
        ),
    ]


@settings(max_examples=100, deadline=None)
@given(fleets(), rules, st.data())
def test_removing_a_node_never_raises_a_total(
    fleet: list[Made], kept_back: tuple[Rule, ...], data: st.DataObject
) -> None:
    gone = data.draw(st.integers(0, len(fleet) - 1))
    less = totals(lay(fleet[:gone] + fleet[gone + 1 :], kept_back))
    assert all(low <= high for low, high in zip(less, totals(lay(fleet, kept_back)), strict=True))


@settings(max_examples=100, deadline=None)
@given(fleets(), rules, st.randoms(use_true_random=False))
def test_the_order_of_nodes_never_matters(
    fleet: list[Made], kept_back: tuple[Rule, ...], random: Any
) -> None:
    shuffled = list(fleet)
    random.shuffle(shuffled)
    assert lay(shuffled, kept_back) == lay(fleet, kept_back)
    nodes = lay(fleet, kept_back)
    backwards = pools(nodes[::-1])
    assert pools(nodes) == backwards


@settings(max_examples=100, deadline=None)
@given(fleets(), rules, st.data())
def test_taking_a_node_out_of_a_sum_leaves_the_others(
    fleet: list[Made], kept_back: tuple[Rule, ...], data: st.DataObject
) -> None:
    members = [(node, index) for node in lay(fleet, kept_back) for index in range(len(node.falls))]
    gone = set(data.draw(st.lists(st.sampled_from(range(len(members))), unique=True))) if members else set()
    found = sums_of(members)
    for index in gone:
        found.add(*members[index], -1)
    assert found == sums_of(member for index, member in enumerate(members) if index not in gone)


@settings(max_examples=50, deadline=None)
@given(fleets())
def test_without_pods_nothing_is_said_of_what_is_held(fleet: list[Made]) -> None:
    nodes = lay(fleet, pods_read=False)
    for (_model, mode), pool in pools(nodes).items():
        for found in Numbers(pool, mode).amounts.values():
            assert (found.held_bound, found.free, found.stranded) == (None, None, None)


@given(st.lists(st.fractions(0, 50, max_denominator=97), min_size=1, max_size=6))
def test_rounded_parts_add_up_and_are_near(parts: list[Fraction]) -> None:
    total = sum(parts, Fraction(0))
    whole = (D(total.numerator) / D(total.denominator)).quantize(D("0.001"))
    found = parts_of(whole, parts)
    assert sum(found, D(0)) == whole
    for part, shown in zip(parts, found, strict=True):
        assert shown >= 0
        assert abs(Fraction(shown) - part) < Fraction(1, 1000)
