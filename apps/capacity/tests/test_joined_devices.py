"""Nodes whose plugin and driver offer the same cards, and flavors that reach a node, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest

from apps.capacity.cards import card_rows
from apps.capacity.laying import join_devices, plugin_units
from apps.capacity.selectors import capacity_report
from apps.core.gpu import SharingMode
from apps.fleet.dra import NodeDevices
from apps.fleet.inventory import Group, Unit

from .builders import AT, GPU, make_claim, make_cluster, make_flavor, make_node, make_queue, make_slice

D = Decimal
MIG1G, DRA_MIG = "nvidia.com/mig-1g.10gb", "gpu.nvidia.com/mig-1g.10gb"


def group(
    mode: SharingMode, cards: int, resource: str, per_card: int = 1, profile: str = "", model: str = "H100"
) -> Group:
    units = D(cards * per_card)
    unit = Unit(resource, profile, units, units, Fraction(1, per_card))
    return Group("nvidia", model, mode, cards, (unit,))


WHOLE = group(SharingMode.EXCLUSIVE, 4, GPU)
SLICES = group(SharingMode.TIME_SLICING, 4, GPU, 4)
MIG = group(SharingMode.MIG, 4, MIG1G, 7, "1g.10gb")
OTHER = group(SharingMode.EXCLUSIVE, 8, GPU, model="A100")
CARDS = group(SharingMode.EXCLUSIVE, 4, "gpu.nvidia.com/gpu")
PARTS = group(SharingMode.MIG, 4, DRA_MIG, 7, "1g.10gb")


@pytest.mark.parametrize(
    ("plugin", "driver", "held", "expected"),
    [
        # whole cards on both sides
        ([WHOLE], [CARDS], [{"gpu.nvidia.com/gpu": D(2)}], [{GPU: D(2)}]),
        # a claimed card is all of its four time slices
        ([SLICES], [CARDS], [{"gpu.nvidia.com/gpu": D(1)}], [{GPU: D(4)}]),
        # each kind of unit to its own, whichever group comes first
        (
            [MIG, WHOLE],
            [CARDS, PARTS],
            [{"gpu.nvidia.com/gpu": D(2)}, {DRA_MIG: D(5)}],
            [{MIG1G: D(5)}, {GPU: D(2)}],
        ),
        # by model before by size
        ([OTHER, WHOLE], [CARDS], [{"gpu.nvidia.com/gpu": D(3)}], [{}, {GPU: D(3)}]),
        # five of seven instances of a card that the plugin offers whole: it is not free
        ([WHOLE], [PARTS], [{DRA_MIG: D(5)}], [{GPU: D(1)}]),
        # a quarter of a card that claims share by amounts
        ([SLICES], [CARDS], [{"gpu.nvidia.com/gpu": D("0.25")}], [{GPU: D(1)}]),
        # an instance of another profile is in no unit of these
        ([MIG], [group(SharingMode.MIG, 4, "x", 2, "3g.40gb")], [{"x": D(1)}], [{}]),
    ],
)
def test_what_claims_hold_of_cards_that_the_plugin_offers_too(
    plugin: list[Group],
    driver: list[Group],
    held: list[dict[str, Decimal]],
    expected: list[dict[str, Decimal]],
) -> None:
    groups, claimed, codes = join_devices(tuple(plugin), NodeDevices(groups=driver, held_in=held))
    assert [found.cards for found in groups] == [found.cards for found in plugin]
    assert list(claimed) == expected
    assert codes == ("dual_advertised",)


@pytest.mark.parametrize(
    ("plugin", "driver", "expected"),
    [
        ([SLICES], [CARDS], {"gpu.nvidia.com/gpu": (GPU, Fraction(4))}),
        ([WHOLE], [PARTS], {DRA_MIG: (GPU, Fraction(1, 7))}),
        (
            [MIG, WHOLE],
            [CARDS, PARTS],
            {"gpu.nvidia.com/gpu": (GPU, Fraction(1)), DRA_MIG: (MIG1G, Fraction(1))},
        ),
        # only the driver offers them
        ([replace(CARDS, origin="dra")], [CARDS], {}),
        ([replace(WHOLE, plugin_down=True)], [CARDS], {}),
    ],
)
def test_what_one_of_a_drivers_units_is_of_the_plugins(
    plugin: list[Group], driver: list[Group], expected: dict[str, tuple[str, Fraction]]
) -> None:
    assert plugin_units(plugin, NodeDevices(groups=driver)) == expected


@pytest.mark.django_db
def test_a_claim_that_nobody_uses_holds_the_card_that_it_names() -> None:
    east = make_cluster()
    make_node(east, "d1", offers={"cpu": "64"}, model="")
    make_slice(east, "d1", cards=3)
    claim = make_claim(east, "left", "d1", cards=1)
    claim.status["reserved_for"], claim.status["results"][0]["device"] = [], "gpu-2"
    claim.save()
    rows = [(row.device, row.state, row.holders) for row in card_rows(now=AT)]
    assert rows == [("GPU-d1-0", "free", ()), ("GPU-d1-1", "free", ()), ("GPU-d1-2", "held", ())]


@pytest.mark.django_db
def test_two_flavors_that_tolerate_one_taint_each_open_no_node() -> None:
    """Work comes by one flavor: the node with both taints takes none, its cards are not usable."""
    east = make_cluster()
    taints = [{"key": f"site.example/{name}", "value": "", "effect": "NoSchedule"} for name in ("a", "b")]
    make_node(east, "n1", {"pool": "h100"}, taints=taints)
    for name, taint in zip("ab", taints, strict=True):
        flavor = make_flavor(east, name, pool="h100")
        flavor.spec = {**flavor.spec, "tolerations": [{"key": taint["key"], "operator": "Exists"}]}
        flavor.save()
    make_queue(east, "red", a={GPU: 8})
    (pool,) = capacity_report(now=AT).pools
    assert (dict(pool.buckets), pool.allocatable) == ({"tainted": 8}, D(0))
