"""Devices of DRA for any cluster: order does not matter, nothing counts twice, more of the past changes nothing."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.fleet.dra import ClaimObject, DraView, count_slices
from apps.fleet.registry import is_device

NODES: dict[str, dict[str, str]] = {"n1": {}, "n2": {}}
PLACES = {"1g.10gb": (1, range(7)), "2g.20gb": (2, (0, 2, 4)), "3g.40gb": (4, (0, 4))}
"""Profile → memory slices, and where it may begin."""
MODELS = ("NVIDIA H100 80GB HBM3", "NVIDIA L4")
Spec = dict[str, Any]


def device(name: str, attributes: dict[str, Any], **more: Any) -> Spec:
    usual = {
        "node": "",
        "all_nodes": False,
        "node_selector": None,
        "capacity": {},
        "consumes": [],
        "taints": [],
    }
    return {"name": name, "attributes": attributes, **usual, "multiple": False, **more}


def placements(card: str) -> list[Spec]:
    """Every MIG placement of a card: memory slices are its counters."""
    found = []
    for profile, (size, starts) in PLACES.items():
        for start in starts:
            uses = {f"slice-{n}": "1" for n in range(start, start + size)}
            attributes = {"type": "mig", "parentUUID": card, "profile": profile, "productName": MODELS[0]}
            name = f"{card}-{profile}-{start}".lower().replace(".", "")
            found.append(device(name, attributes, consumes=[{"set": f"{card}-set", "counters": uses}]))
    return found


@st.composite
def cards(draw: st.DrawFn, name: str) -> list[Spec]:
    """The listings of one card."""
    form = draw(st.sampled_from(("whole", "twice", "fixed", "dynamic", "shared")))
    taint = draw(st.sampled_from(((), ("None",), ("NoSchedule",))))
    taints = [{"key": "k", "value": "", "effect": effect} for effect in taint]
    attributes = {"type": "gpu", "uuid": name, "productName": draw(st.sampled_from(MODELS))}
    whole = device(f"{name}-whole".lower(), attributes, taints=taints)
    everything = [{"set": f"{name}-set", "counters": {f"slice-{n}": "1" for n in range(8)}}]
    if form == "twice":
        return [whole, device(f"{name}-vfio".lower(), {"type": "vfio", "uuid": name})]
    if form == "shared":
        return [{**whole, "multiple": True, "capacity": {"memory": "80"}}]
    if form == "dynamic":
        return [
            {**whole, "attributes": {**attributes, "productName": MODELS[0]}, "consumes": everything},
            *placements(name),
        ]
    if form == "fixed":
        kinds = draw(st.sampled_from((("1g.10gb",) * 7, ("3g.40gb", "3g.40gb"), ("3g.40gb", "2g.20gb"))))
        return [
            device(
                f"{name}-m{n}".lower(),
                {"type": "mig", "parentUUID": name, "profile": kind, "productName": MODELS[0]},
                taints=taints,
            )
            for n, kind in enumerate(kinds)
        ]
    return [whole]


def slice_of(node: str, devices: list[Spec], *, generation: int = 2, slices: int = 1) -> Spec:
    sets = {entry["set"] for each in devices for entry in each["consumes"]}
    return {
        "driver": "gpu.nvidia.com",
        "pool": node,
        "generation": generation,
        "slices": slices,
        "node": node,
        "all_nodes": False,
        "node_selector": None,
        "per_device_nodes": False,
        "counters": {name: {f"slice-{n}": "1" for n in range(8)} for name in sets},
        "devices": devices,
    }


@st.composite
def fleets(draw: st.DrawFn) -> list[Spec]:
    """Slices of complete pools, one or two per node."""
    found = []
    for node in NODES:
        listed = [draw(cards(f"{node}-{n}")) for n in range(draw(st.integers(0, 3)))]
        parts = [[d for card in listed[::2] for d in card], [d for card in listed[1::2] for d in card]]
        parts = parts if draw(st.booleans()) else [parts[0] + parts[1]]
        found += [slice_of(node, devices, slices=len(parts)) for devices in parts]
    return found


@st.composite
def allocations(draw: st.DrawFn, slices: list[Spec]) -> list[ClaimObject]:
    """Claims that a scheduler could have allocated: of each card one listing, or some that do not overlap."""
    claims: list[ClaimObject] = []
    for spec in slices:
        free: dict[str, set[str]] = {}
        for each in spec["devices"]:
            attributes = each["attributes"]
            card = attributes.get("parentUUID") or attributes["uuid"]
            uses = {c for entry in each["consumes"] for c in entry["counters"]}
            uses = uses or ({each["name"]} if attributes["type"] == "mig" else {"all"})
            taken = free.setdefault(card, set())
            if uses & taken or not draw(st.booleans()):
                continue
            taken |= uses
            shares: list[tuple[str, Spec]] = [("", {})]
            if each["multiple"]:
                shares = [(f"s{n}", {"memory": str(draw(st.integers(1, 40)))}) for n in range(2)]
            for share, consumed in shares:
                claims.append(
                    claim(
                        f"c{len(claims)}",
                        spec["pool"],
                        each["name"],
                        draw(st.integers(0, 3)),
                        share,
                        consumed,
                    )
                )
    return claims


def claim(
    name: str, pool: str, device_name: str, pods: int, share: str = "", consumed: Spec | None = None
) -> ClaimObject:
    result = {"request": "r", "driver": "gpu.nvidia.com", "pool": pool, "device": device_name, "admin": False}
    reserved = [{"kind": "Pod", "name": f"{name}-{n}", "uid": f"{name}-{n}"} for n in range(pods)]
    status = {
        "results": [{**result, "share_id": share, "consumed": consumed or {}}],
        "reserved_for": reserved,
    }
    return ClaimObject("ns", name, {}, status)


worlds = fleets().flatmap(lambda slices: st.tuples(st.just(slices), allocations(slices)))


def count(slices: list[Spec], claims: list[ClaimObject] = [], former: list[Spec] = []) -> DraView:  # noqa: B006
    return count_slices(
        slices=slices, taint_rules=(), classes=(), claims=claims, nodes=NODES, last_good=former
    )


def numbers(view: DraView) -> dict[str, Any]:
    """Everything countable, without the order of cards."""
    return {
        node: (
            [
                (
                    g.vendor,
                    g.model,
                    g.mode,
                    g.cards,
                    g.units,
                    g.unhealthy_cards,
                    g.stranded_compute,
                    g.stranded_memory,
                )
                for g in found.groups
            ],
            found.held_in,
            found.held,
            sorted(card.uuid for card in found.cards),
        )
        for node, found in view.by_node.items()
    }


def physical(view: DraView) -> int:
    return sum(len(found.cards) for found in view.by_node.values())


@given(worlds, st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_order_does_not_matter(world: tuple[list[Spec], list[ClaimObject]], random: Any) -> None:
    slices, claims = world
    mixed = [{**spec, "devices": random.sample(spec["devices"], len(spec["devices"]))} for spec in slices]
    random.shuffle(mixed)
    shuffled = random.sample(claims, len(claims))
    assert numbers(count(mixed, shuffled)) == numbers(count(slices, claims))


@given(worlds)
@settings(max_examples=150, deadline=None)
def test_held_is_never_more_than_there_is(world: tuple[list[Spec], list[ClaimObject]]) -> None:
    view = count(*world)
    assert not view.orphans
    for found in view.by_node.values():
        assert all(amount <= found.held[resource] for resource, amount in found.held_blocked.items())
        for group, held in zip(found.groups, found.held_in, strict=True):
            units = {unit.resource: unit for unit in group.units}
            assert held.keys() <= units.keys()
            for resource, amount in held.items():
                assert 0 <= amount <= units[resource].allocatable
            assert all(0 <= unit.allocatable <= unit.capacity for unit in group.units)
            whole = sum((unit.equivalents * Fraction(unit.capacity) for unit in group.units), Fraction(0))
            assert whole <= group.cards
            assert 0 <= (group.unhealthy_cards or 0) <= group.cards
            assert 0 <= group.stranded_compute <= group.cards * 7


@given(worlds)
@settings(max_examples=100, deadline=None)
def test_pods_that_share_a_claim_hold_it_once(world: tuple[list[Spec], list[ClaimObject]]) -> None:
    slices, claims = world
    crowd = [{"kind": "Pod", "name": f"p{n}", "uid": f"p{n}"} for n in range(5)]
    crowded = [ClaimObject(c.namespace, c.name, c.spec, {**c.status, "reserved_for": crowd}) for c in claims]
    lonely = [
        ClaimObject(c.namespace, c.name, c.spec, {**c.status, "reserved_for": crowd[:1]}) for c in claims
    ]
    assert numbers(count(slices, crowded)) == numbers(count(slices, lonely))


@given(worlds)
@settings(max_examples=100, deadline=None)
def test_what_claims_hold_adds_up_to_what_nodes_hold(world: tuple[list[Spec], list[ClaimObject]]) -> None:
    view = count(*world)
    of_claims: dict[tuple[str, str], Decimal] = {}
    for amounts in view.held_by_claim.values():
        for key, amount in amounts.items():
            of_claims[key] = of_claims.get(key, Decimal(0)) + amount
    of_nodes = {
        (node, resource): a for node, found in view.by_node.items() for resource, a in found.held.items()
    }
    assert of_claims.keys() == of_nodes.keys()
    assert all(abs(of_claims[key] - amount) <= Decimal("0.0001") for key, amount in of_nodes.items())


@given(fleets(), st.data())
@settings(max_examples=100, deadline=None)
def test_removing_a_slice_never_raises_a_total(slices: list[Spec], data: st.DataObject) -> None:
    if not slices:
        return
    left = list(slices)
    left.pop(data.draw(st.integers(0, len(slices) - 1)))
    assert physical(count(left)) <= physical(count(slices))


@given(fleets())
@settings(max_examples=100, deadline=None)
def test_an_older_generation_changes_nothing(slices: list[Spec]) -> None:
    older = [
        slice_of(node, [device("old", {"type": "gpu", "uuid": f"{node}-old"})], generation=1)
        for node in NODES
    ]
    pools = {spec["pool"] for spec in slices}
    older = [spec for spec in older if spec["pool"] in pools]
    assert numbers(count([*older, *slices], former=older)) == numbers(count(slices))


def test_the_names_used_here_are_not_extended_resources() -> None:
    assert not is_device("gpu.nvidia.com/gpu")
