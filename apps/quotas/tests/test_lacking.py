"""What waiting work lacks: every case worked out by hand."""

from collections.abc import Sequence
from decimal import Decimal as D

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.quotas.lacking import Lack, Offer, lacking

GPU = "nvidia.com/gpu"
Spec = tuple[str, int | None, int | None]


def offers(*flavors: Spec, resource: str = GPU) -> dict[str, list[Offer]]:
    def number(value: int | None) -> D | None:
        return None if value is None else D(value)

    return {resource: [Offer(name, number(free), number(most)) for name, free, most in flavors]}


def gpus(*amounts: int) -> list[dict[str, D]]:
    return [{GPU: D(amount)} for amount in amounts]


@pytest.mark.parametrize(
    ("asked", "flavors", "expected"),
    [
        # 8 asked, 8 free: nothing is short.
        ([8], [("h100", 8, 32)], None),
        # 16 asked, 6 free: 10 must come free.
        ([16], [("h100", 6, 32)], Lack(GPU, D(16), D(10), "h100")),
        # 8 asked, the queue is 4 over: 8 + 4.
        ([8], [("h100", -4, 32)], Lack(GPU, D(8), D(12), "h100")),
        # The second flavor lacks less: 8 − 5 = 3 against 8 − 2 = 6.
        ([8], [("h100", 2, 32), ("a100", 5, 16)], Lack(GPU, D(8), D(3), "a100")),
        # Equal: the one that is tried first.
        ([8], [("h100", 2, 32), ("a100", 2, 16)], Lack(GPU, D(8), D(6), "h100")),
        # a100 lacks only 2, but can never hold 8: h100 counts, 8 − 0.
        ([8], [("h100", 0, 32), ("a100", 6, 6)], Lack(GPU, D(8), D(8), "h100")),
        # 64 asked, the highest ceiling is 48: beyond by 16. The least short now: 64 − 10 = 54.
        ([64], [("h100", 10, 48), ("a100", 4, 16)], Lack(GPU, D(64), D(54), "h100", beyond=D(16))),
        # Two pod sets, one flavor: 4 + 8 of 10, 2 short.
        ([4, 8], [("h100", 10, 32)], Lack(GPU, D(12), D(2), "h100")),
        # Two pod sets, a flavor each: nothing is short.
        ([8, 8], [("h100", 8, 8), ("a100", 8, 8)], None),
        # 4 of 2: 2 short; then 4 more where all is gone: 4 short, 6 in all.
        ([4, 4], [("h100", 2, 32)], Lack(GPU, D(8), D(6), "h100")),
        # A flavor without a limit holds anything.
        ([500], [("h100", 0, 8), ("any", None, None)], None),
        # A quota of nothing that may borrow nothing: all is beyond.
        ([1], [("h100", 0, 0)], Lack(GPU, D(1), D(1), "h100", beyond=D(1))),
        # Ceiling 8, 10 and then 3 more: beyond by 13 − 8 = 5; with 2 free, 11 must come free.
        ([10, 3], [("h100", 2, 8)], Lack(GPU, D(13), D(11), "h100", beyond=D(5))),
        # 4 fit into 8; 6 more are 2 beyond; 1 more is 1 beyond: 11 − 8 = 3.
        ([4, 6, 1], [("h100", 8, 8)], Lack(GPU, D(11), D(3), "h100", beyond=D(3))),
        # Over-used by 5, nothing asked of it: nothing is short.
        ([0], [("h100", -5, 8)], None),
    ],
)
def test_what_is_short(asked: Sequence[int], flavors: Sequence[Spec], expected: Lack | None) -> None:
    assert lacking(gpus(*asked), offers(*flavors)) == (() if expected is None else (expected,))


def test_each_resource_for_itself_and_only_what_is_short() -> None:
    free = offers(("h100", 8, 8)) | offers(("h100", 4, 100), resource="cpu")
    asked = [{GPU: D(8), "cpu": D(10)}]
    assert lacking(asked, free) == (Lack("cpu", D(10), D(6), "h100"),)


def test_all_resources_of_a_group_go_to_one_flavor() -> None:
    """A has the cards and no CPU, B the CPU and no cards: neither holds both. In A all 64 CPU are missing (all of them),
    in B all 8 cards (all of them): equal, so the first."""
    free = offers(("a", 8, 32), ("b", 0, 32)) | offers(("a", 0, 640), ("b", 64, 640), resource="cpu")
    asked = [{GPU: D(8), "cpu": D(64)}]
    assert lacking(asked, free) == (Lack("cpu", D(64), D(64), "a"),)


def test_what_the_queue_does_not_offer() -> None:
    asked = [{GPU: D(2), "amd.com/gpu": D(1)}]
    assert lacking(asked, offers(("h100", 8, 8))) == (Lack("amd.com/gpu", D(1), D(1), "", offered=False),)


def test_what_has_no_limit_in_volcano_is_not_short() -> None:
    asked = [{GPU: D(2), "cpu": D(64)}]
    assert lacking(asked, offers(("", 1, 8)), every_resource_needs_quota=False) == (
        Lack(GPU, D(2), D(1), ""),
    )


def test_the_first_flavor_whose_ceiling_holds_all_resources_counts() -> None:
    """A could hold the cards but never 64 CPU (ceiling 32), though nothing is short of cards there; B and C could hold
    both. B lacks 8 of 8 cards, C 4 of 8: C counts, and A's smaller lack (32 of 64 CPU equals C's half) is no way out."""
    free = offers(("a", 8, 32), ("b", 0, 32), ("c", 4, 32))
    free |= offers(("a", 32, 32), ("b", 64, 640), ("c", 64, 640), resource="cpu")
    asked = [{GPU: D(8), "cpu": D(64)}]
    assert lacking(asked, free) == (Lack(GPU, D(8), D(4), "c"),)


def test_of_equal_flavors_that_could_hold_it_the_first_tried_counts() -> None:
    """The first of the list never holds 8 (ceiling 7); the second and third lack 6 each: the second."""
    free = offers(("a", 7, 7), ("b", 2, 8), ("c", 2, 64))
    assert lacking(gpus(8), free) == (Lack(GPU, D(8), D(6), "b"),)


def test_a_later_pod_set_moves_on_when_the_first_took_the_ceiling() -> None:
    """8 fill A to its ceiling (8 free of 8). The next 4 could no more fit A; B holds at most 4, 1 of them free: 3 short.
    The next 1 is above A's ceiling (9 of 8) and B's (5 of 4): beyond by 1, and 1 more short."""
    free = offers(("a", 8, 8), ("b", 1, 4))
    assert lacking(gpus(8, 4), free) == (Lack(GPU, D(12), D(3), "b"),)
    assert lacking(gpus(8, 4, 1), free) == (Lack(GPU, D(13), D(4), "b", beyond=D(1)),)


def test_pod_sets_of_a_leader_and_workers_share_what_is_free() -> None:
    """A leader asks 8 CPU, workers 16 cards and 64 CPU, of one flavor with 10 cards and 70 CPU: 6 cards short, and
    8 + 64 − 70 = 2 CPU. Groups of their own: CPU in `cpu-only` alone, cards in `h100` alone, each named for itself."""
    asked = [{"cpu": D(8)}, {GPU: D(16), "cpu": D(64)}]
    one = offers(("h100", 10, 64)) | offers(("h100", 70, 640), resource="cpu")
    assert lacking(asked, one) == (
        Lack("cpu", D(72), D(2), "h100"),
        Lack(GPU, D(16), D(6), "h100"),
    )
    two = offers(("h100", 10, 64)) | offers(("cpu-only", 70, 640), resource="cpu")
    assert lacking(asked, two) == (
        Lack("cpu", D(72), D(2), "cpu-only"),
        Lack(GPU, D(16), D(6), "h100"),
    )


numbers = st.integers(-20, 40)


@given(
    st.lists(st.integers(0, 20), max_size=4),
    st.lists(st.tuples(numbers, st.integers(0, 40)), min_size=1, max_size=4),
)
def test_bounds(asked: list[int], flavors: list[tuple[int, int]]) -> None:
    given_ = offers(*((f"f{i}", free, most) for i, (free, most) in enumerate(flavors)))
    found = lacking(gpus(*asked), given_)
    if not found:
        return
    (lack,) = found
    assert lack.asked == sum(asked)
    assert lack.missing >= 0
    assert lack.beyond is None or lack.beyond > 0
    # With everything free that could ever be, only what is beyond a ceiling is left.
    idle = offers(*((f"f{i}", most, most) for i, (_free, most) in enumerate(flavors)))
    left = lacking(gpus(*asked), idle)
    assert all(lack.beyond is not None for lack in left)
