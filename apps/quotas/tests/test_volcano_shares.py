"""What Volcano's plugins make of queues. Every expected number was worked out by hand from the formulas in the module's
docstring; the real scheduler's own numbers are in tests/facts/test_recorded_volcano_shares.py."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.quotas.volcano_shares import QueueSpec, Share, shares

D = Decimal
GPU = "nvidia.com/gpu"


def gpus(n: str | int) -> dict[str, Decimal]:
    return {GPU: D(n)}


def queue(
    name: str,
    parent: str = "",
    *,
    weight: int = 1,
    capability: int | None = None,
    deserved: int | None = None,
    guarantee: int | None = None,
) -> QueueSpec:
    said = [{} if n is None else gpus(n) for n in (capability, deserved, guarantee)]
    return QueueSpec(name, parent, weight, *said)


def of(found: dict[str, Share]) -> dict[str, tuple[int | None, Decimal | None]]:
    return {
        name: (
            None if GPU not in share.real_capability else int(share.real_capability[GPU]),
            share.deserved.get(GPU),
        )
        for name, share in found.items()
    }


def test_proportion_lays_out_by_weight_and_goes_on_with_what_a_satisfied_queue_leaves() -> None:
    # 100 cards, weights 1 : 3. First round: a 25 (asks 40), b 75, but it asks for 30: takes 30. 45 remain for a alone:
    # a 25 + 45 = 70, but it asks for 40. 30 remain that nobody asks for.
    found = shares(
        "proportion",
        [queue("a", weight=1), queue("b", weight=3)],
        total=gpus(100),
        asked={"a": gpus(40), "b": gpus(30)},
    )
    assert of(found) == {"a": (100, D(40)), "b": (100, D(30))}


def test_proportion_gives_nothing_of_what_the_cluster_does_not_have() -> None:
    # 10 cards and no NPU. a asks for 4 and 2, nothing limits it in NPUs, and there is none to lay out: 4 and nothing.
    found = shares(
        "proportion", [queue("a")], total=gpus(10), asked={"a": {**gpus(4), "huawei.com/npu": D(2)}}
    )
    assert found["a"] == Share(gpus(10), gpus(4))


def test_proportion_divides_what_is_short() -> None:
    # 20 cards, both ask for 40; weights 1 : 3 → 5 and 15
    found = shares(
        "proportion",
        [queue("a", weight=1), queue("b", weight=3)],
        total=gpus(20),
        asked={"a": gpus(40), "b": gpus(40)},
    )
    assert of(found) == {"a": (20, D(5)), "b": (20, D(15))}


def test_proportion_caps_by_what_others_are_guaranteed() -> None:
    # total 20; guarantees 8 (a) and 4 (b): real a = 20 − 12 + 8 = 16, b = min(capability 10, 20 − 12 + 4 = 12) = 10,
    # c = 20 − 12 = 8. Round 1, a third of 20 each: a 6⅔ → guarantee 8; b 6⅔; c 6⅔. Nothing is left (the guarantee
    # took more than was there), so that is it; milli-units are cut off.
    found = shares(
        "proportion",
        [queue("a", guarantee=8), queue("b", guarantee=4, capability=10), queue("c")],
        total=gpus(20),
        asked={"a": gpus(30), "b": gpus(30), "c": gpus(30)},
    )
    assert of(found) == {"a": (16, D(8)), "b": (10, D("6.666")), "c": (8, D("6.666"))}


def test_proportion_gives_nothing_to_who_asks_for_nothing_but_keeps_the_guarantee() -> None:
    found = shares(
        "proportion",
        [queue("idle", deserved=16), queue("safe", guarantee=4)],
        total=gpus(20),
        asked={},
    )
    assert of(found) == {"idle": (16, None), "safe": (20, D(4))}


def test_capacity_follows_the_hierarchy() -> None:
    # root has no limit. eng: min(56, ∞). a: min(40, 56 − (8 + 4) + 8 = 52) = 40; b: min(∞, 56 − 12 + 4) = 48;
    # c: min(4, 56 − 12) = 4.
    found = shares(
        "capacity",
        [
            queue("root"),
            queue("eng", "root", capability=56, deserved=40, guarantee=16),
            queue("a", "eng", capability=40, deserved=24, guarantee=8),
            queue("b", "eng", deserved=50, guarantee=4),
            queue("c", "eng", capability=4, deserved=6),
            queue("other", "root"),
        ],
        total=gpus(203),
        asked={},
    )
    assert of(found) == {
        "root": (None, D(40)),  # the sum of its children
        "eng": (56, D(40)),
        "a": (40, D(24)),
        "b": (48, D(48)),  # 50 are said, 48 can be had
        "c": (4, D(4)),  # as here: 6 and 4
        "other": (None, None),
    }


def test_capacity_raises_what_is_deserved_to_the_guarantee() -> None:
    found = shares(
        "capacity", [queue("root"), queue("a", "root", guarantee=8, deserved=2)], total=gpus(20), asked={}
    )
    assert of(found)["a"] == (20, D(8))


def test_capacity_without_a_hierarchy_stays_inside_the_cluster() -> None:
    # 20 − 12 + 8 = 16; 20 − 12 + 4 = 12, but 10 is its limit; 20 − 12 = 8
    found = shares(
        "capacity",
        [queue("root"), queue("a", guarantee=8), queue("b", "root", guarantee=4, capability=10), queue("c")],
        total=gpus(20),
        asked={},
    )
    assert [of(found)[name][0] for name in "abc"] == [16, 10, 8]


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_no_limit_on_cpu_is_written_as_zero(plugin: str) -> None:
    found = shares(
        plugin,
        [queue("root"), QueueSpec("eng", "root"), QueueSpec("a", "eng", capability={"cpu": D(0), GPU: D(0)})],
        total={},
        asked={},
    )
    assert found["a"].real_capability == {GPU: D(0)}


def test_queues_in_a_circle_are_roots() -> None:
    found = shares(
        "capacity",
        [queue("a", "b", capability=4), queue("b", "a", capability=8), queue("self", "self")],
        total=gpus(20),
        asked={},
    )
    assert {"a", "b", "self"} == set(found)
    assert min(of(found)["a"][0] or 0, of(found)["b"][0] or 0) == 4


amounts = st.integers(0, 40)


@st.composite
def flat(draw: st.DrawFn) -> tuple[list[QueueSpec], dict[str, Decimal], dict[str, dict[str, Decimal]]]:
    names = [f"q{i}" for i in range(draw(st.integers(1, 6)))]
    queues, asked = [], {}
    for name in names:
        limit = draw(st.none() | amounts)
        queues.append(queue(name, weight=draw(st.integers(1, 9)), capability=limit))
        asked[name] = gpus(draw(amounts))
    return queues, gpus(draw(st.integers(0, 80))), asked


@given(flat())
def test_nobody_deserves_more_than_there_is_or_is_asked_for(
    case: tuple[list[QueueSpec], dict[str, Decimal], dict[str, dict[str, Decimal]]],
) -> None:
    queues, total, asked = case
    found = shares("proportion", queues, total=total, asked=asked)
    given_out = [found[q.name].deserved.get(GPU, D(0)) for q in queues]
    assert sum(given_out) <= total[GPU]
    for q, amount in zip(queues, given_out, strict=True):
        assert amount <= asked[q.name][GPU]
        assert amount <= found[q.name].real_capability[GPU]


@given(flat())
def test_what_can_be_given_is_given(
    case: tuple[list[QueueSpec], dict[str, Decimal], dict[str, dict[str, Decimal]]],
) -> None:
    """All of it is laid out, or everybody has what it asks for or may have (but for what is cut off)."""
    queues, total, asked = case
    found = shares("proportion", queues, total=total, asked=asked)
    most = {q.name: min(asked[q.name][GPU], found[q.name].real_capability[GPU]) for q in queues}
    given_out = {q.name: found[q.name].deserved.get(GPU, D(0)) for q in queues}
    assert sum(given_out.values()) > min(total[GPU], sum(most.values())) - D("0.001") * (len(queues) + 1)


@given(flat(), st.randoms())
def test_the_order_of_queues_does_not_matter(
    case: tuple[list[QueueSpec], dict[str, Decimal], dict[str, dict[str, Decimal]]], random: object
) -> None:
    queues, total, asked = case
    turned = list(reversed(queues))
    for plugin in ("proportion", "capacity"):
        assert shares(plugin, queues, total=total, asked=asked) == shares(
            plugin, turned, total=total, asked=asked
        )
