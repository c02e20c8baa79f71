from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from apps.capacity.rows import Totals
from apps.console.ladder import ladder


def totals(**changes: Any) -> Totals:
    values: dict[str, Any] = {
        "physical_devices": 1024,
        "buckets": {
            "node_not_ready": 40,
            "cordoned": 24,
            "device_unhealthy": 16,
            "platform_reserve": 8,
            "lost": 0,
        },
        "allocatable_devices": 936,
        "allocatable": Decimal(936),
        "allocatable_of_read": Decimal(936),
        "held_bound": Decimal(812),
        "held_reserved": Decimal(812),
        "free": Decimal(124),
        "nominal": Decimal(1040),
        "ceiling": Decimal(1296),
        "pools": 41,
        "nodes": 130,
    }
    return Totals(**{**values, **changes})


def test_the_gaps_are_named_largest_first() -> None:
    shown = ladder(totals())
    assert shown.out == (
        ("node_not_ready", 40),
        ("cordoned", 24),
        ("device_unhealthy", 16),
        ("platform_reserve", 8),
    )
    assert shown.out_total == 88
    assert shown.gap == 104
    assert shown.held_ratio == Decimal(812) / 936


def test_no_promise_is_not_a_promise_of_zero() -> None:
    shown = ladder(totals(nominal=None, ceiling=None))
    assert shown.gap is None
    assert shown.committed_ratio is None


def test_pods_that_nobody_read_hold_nothing_known() -> None:
    shown = ladder(totals(allocatable_of_read=Decimal(0), held_bound=None, free=None))
    assert shown.held_ratio is None
    assert sum(amount for _, amount in shown.allocatable) == 0


def test_the_ratio_held_is_of_what_was_read() -> None:
    shown = ladder(totals(allocatable_of_read=Decimal(400), held_bound=Decimal(300), free=Decimal(100)))
    assert shown.held_ratio == Decimal("0.75")
    assert sum(amount for _, amount in shown.allocatable) == 400


def test_what_is_out_of_use_is_drawn_by_who_can_change_it() -> None:
    shown = ladder(totals())
    assert shown.physical == (
        ("f-free", Decimal(936)),
        ("f-broken", Decimal(56)),
        ("f-away", Decimal(24)),
        ("f-reserve", Decimal(8)),
    )


def test_stranded_is_neither_held_nor_free() -> None:
    shown = ladder(totals(free=Decimal(92), stranded=Decimal(32)))
    assert shown.allocatable == (
        ("f-held", Decimal(812)),
        ("f-stranded", Decimal(32)),
        ("f-free", Decimal(92)),
    )


def test_an_empty_fleet_has_no_ratios() -> None:
    nothing = Decimal(0)
    empty = totals(
        physical_devices=0,
        buckets={},
        allocatable_devices=0,
        allocatable=nothing,
        allocatable_of_read=nothing,
        held_bound=nothing,
        free=nothing,
        nominal=None,
        ceiling=None,
    )
    assert ladder(empty).held_ratio is None
    assert ladder(empty).scale == 1


AMOUNT = st.integers(min_value=0, max_value=10**5).map(Decimal)


@given(AMOUNT, AMOUNT, st.none() | AMOUNT, AMOUNT)
def test_no_rung_is_wider_than_the_scale(
    physical: Decimal, held: Decimal, nominal: Decimal | None, extra: Decimal
) -> None:
    held = min(held, physical)
    shown = ladder(
        totals(
            physical_devices=int(physical),
            buckets={},
            allocatable_devices=int(physical),
            allocatable=physical,
            allocatable_of_read=physical,
            held_bound=held,
            free=physical - held,
            nominal=nominal,
            ceiling=None if nominal is None else nominal + extra,
        )
    )
    for rung in (shown.physical, shown.allocatable, shown.committed):
        assert sum(amount for _, amount in rung) <= shown.scale
        assert all(amount >= 0 for _, amount in rung)
