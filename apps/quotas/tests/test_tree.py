"""Vectors worked out by hand from the formulas, before the code was run; the sums stand beside each number."""

from collections.abc import Mapping
from decimal import Decimal as D

import pytest

from apps.quotas.tree import Cell, Key, Kind, Loan, QuotaNode, QuotaTree, spread

GPU = ("h100", "nvidia.com/gpu")
A100 = ("a100", "nvidia.com/gpu")
CPU = ("h100", "cpu")


def cell(nominal: object, borrow: object = None, lend: object = None) -> Cell:
    limit = [None if value is None else D(str(value)) for value in (borrow, lend)]
    return Cell(D(str(nominal)), *limit)


def queue(
    name: str, parent: str | None, nominal: object, borrow: object = None, lend: object = None
) -> QuotaNode:
    return QuotaNode(name, "ClusterQueue", parent, {GPU: cell(nominal, borrow, lend)})


def cohort(
    name: str, parent: str | None = None, nominal: object = None, borrow: object = None, lend: object = None
) -> QuotaNode:
    cells = {} if nominal is None else {GPU: cell(nominal, borrow, lend)}
    return QuotaNode(name, "Cohort", parent, cells)


def tree(*nodes: QuotaNode, **held: object) -> QuotaTree:
    return QuotaTree(nodes, {name: {GPU: D(str(amount))} for name, amount in held.items()})


def numbers(subject: QuotaTree, name: str, kind: Kind = "ClusterQueue") -> Mapping[str, D]:
    key: tuple[Kind, str, tuple[str, str]] = (kind, name, GPU)
    return {
        "subtree": subject.subtree_quota(*key),
        "local": subject.local_quota(*key),
        "usage": subject.usage(*key),
        "available": subject.available(*key),
        "ceiling": subject.potential_available(*key),
        "whole": subject.subtree_ceiling(*key),
        "borrowed": subject.borrowed(*key),
        "lent": subject.lent(*key),
        "over": subject.over(*key),
    }


def check(subject: QuotaTree, name: str, kind: Kind = "ClusterQueue", **expected: object) -> None:
    found = numbers(subject, name, kind)
    assert {key: found[key] for key in expected} == {key: D(str(value)) for key, value in expected.items()}


def test_lending_and_borrowing_limit_in_a_flat_cohort() -> None:
    # a: nominal 8, lends 2, so 6 stay at home; b: nominal 4, borrows at most 3.
    subject = tree(queue("a", "root", 8, lend=2), queue("b", "root", 4, borrow=3))
    check(subject, "root", "Cohort", subtree=6, usage=0, available=6, ceiling=6)  # 2 + 4
    check(subject, "a", local=6, available=12, ceiling=12)  # 6 + min(6)
    check(subject, "b", local=0, available=6, ceiling=6)  # min(0 + 6, 4 + 3)


def test_borrower_up_to_what_the_lender_lends() -> None:
    # b holds 6 = 4 own + 2 from a. Cohort: 6 − 6 = 0 left. a still has its 6 at home, the 2 it lent are gone.
    subject = tree(queue("a", "root", 8, lend=2), queue("b", "root", 4, borrow=3), b=6)
    check(subject, "b", usage=6, borrowed=2, lent=0, available=0, over=0)
    check(subject, "a", lent=2, available=6)
    check(subject, "root", "Cohort", usage=6, available=0)


def test_home_quota_is_used_first_and_does_not_reach_the_cohort() -> None:
    # a holds 7: 6 at home, 1 of the cohort's 6. Left in the cohort 5; a: 0 + 5; b: min(5, 4 − 0 + 3) = 5.
    subject = tree(queue("a", "root", 8, lend=2), queue("b", "root", 4, borrow=3), a=7)
    check(subject, "root", "Cohort", usage=1, available=5)
    check(subject, "a", available=5, borrowed=0)
    check(subject, "b", available=5)


def test_borrowing_limit_binds_before_the_cohort_is_empty() -> None:
    # b holds 4 of 4 and may borrow 3, the cohort has 20 + 4 − 4 = 20 left: min(20, 4 − 4 + 3) = 3.
    subject = tree(queue("a", "root", 20), queue("b", "root", 4, borrow=3), b=4)
    check(subject, "b", available=3, ceiling=7, borrowed=0)  # min(24, 4 + 3)


def test_borrowing_limit_zero_is_a_limit() -> None:
    subject = tree(queue("a", "root", 8), queue("b", "root", 4, borrow=0))
    check(subject, "b", ceiling=4, available=4)


def test_lending_limit_zero_keeps_everything_at_home() -> None:
    subject = tree(queue("a", "root", 8, lend=0), queue("b", "root", 4))
    check(subject, "a", local=8, ceiling=12)  # 8 + 4
    check(subject, "b", ceiling=4)
    check(subject, "root", "Cohort", subtree=4)


def test_quota_on_the_cohort_with_queues_at_nominal_zero() -> None:
    # All use is "borrowed"; the cohort's own quota lends it, no queue does.
    subject = tree(
        cohort("pool", nominal=16), queue("x", "pool", 0), queue("y", "pool", 0, borrow=10), x=5, y=3
    )
    check(subject, "pool", "Cohort", subtree=16, usage=8, available=8)
    check(subject, "x", ceiling=16, available=8, borrowed=5, lent=0)
    check(subject, "y", ceiling=10, available=7, borrowed=3)  # min(8, 0 − 3 + 10)
    assert subject.taken("pool", GPU) == 8


def test_three_levels_with_limits_on_the_middle_cohorts() -> None:
    # org ─ research (own 4, borrows ≤ 6, lends ≤ 3) ─ r1 8, r2 2 (lends 1)
    #     └ product (no own)                          ─ p1 10 (borrow ≤ 5)
    subject = tree(
        cohort("org", nominal=2),
        cohort("research", "org", nominal=4, borrow=6, lend=3),
        cohort("product", "org"),
        queue("r1", "research", 8),
        queue("r2", "research", 2, lend=1),
        queue("p1", "product", 10, borrow=5),
        r1=12,
        p1=6,
    )
    # research: 4 + 8 + (2 − 1) = 13, local max(0, 13 − 3) = 10. product: 10, local 0. org: 2 + 3 + 10 = 15.
    check(subject, "research", "Cohort", subtree=13, local=10, usage=12, borrowed=0)
    check(subject, "product", "Cohort", subtree=10, usage=6)
    # org's usage: max(0, 12 − 10) + 6 = 8; available 7.
    check(subject, "org", "Cohort", subtree=15, usage=8, available=7, ceiling=15)
    # research: local left max(0, 10 − 12) = 0; + min(7, 13 − 10 − 2 + 6 = 7) = 7. potential min(10 + 15, 13 + 6) = 19
    check(subject, "research", "Cohort", available=7, ceiling=19)
    check(subject, "r1", available=7, ceiling=19, borrowed=4)  # 12 − 8
    check(subject, "r2", local=1, available=8, ceiling=20)  # 1 + 7; 1 + 19
    # product: min(7) = 7; p1: min(7, 10 − 6 + 5 = 9) = 7; ceiling min(15, 10 + 5) = 15
    check(subject, "p1", available=7, ceiling=15)
    # r1 borrows 4: research's own 4 covers it, so r2 lends nothing and nothing goes up.
    assert subject.taken("research", GPU) == 4
    check(subject, "r2", lent=0)
    check(subject, "p1", lent=0)


def test_what_a_whole_subtree_may_hold_counts_what_is_never_lent() -> None:
    # team: own 4; a 8 (lends 4, keeps 4); b 8. team passes on 4 + 4 + 8 = 16, a's 4 lie beside: 20 = 4 + 8 + 8.
    subject = tree(cohort("team", nominal=4), queue("a", "team", 8, lend=4), queue("b", "team", 8))
    check(subject, "team", "Cohort", subtree=16, ceiling=16, whole=20)
    check(subject, "a", ceiling=20, whole=20)
    check(subject, "b", ceiling=16, whole=16)


def test_what_a_whole_subtree_may_hold_over_three_levels() -> None:
    # team: own 4 + (8 − 4) + 8 = 16, lends 6, keeps 10, borrows at most 3. org: own 2 + 6 + other 5 = 13.
    subject = tree(
        cohort("org", nominal=2),
        cohort("team", "org", nominal=4, borrow=3, lend=6),
        queue("a", "team", 8, lend=4),
        queue("b", "team", 8),
        queue("other", "org", 5),
    )
    # org: 13 + 10 (team) + 4 (a) = 27 = 2 + 4 + 8 + 8 + 5. team: min(10 + 13, 16 + 3) = 19, + a's 4 = 23.
    check(subject, "org", "Cohort", ceiling=13, whole=27)
    check(subject, "team", "Cohort", ceiling=19, whole=23)


def test_borrowing_across_a_level() -> None:
    # r1 holds 20 of 8: research = 8 + 4 = 12 is 8 over, which comes from org's own 2, then product's p1 (10, holds 1).
    subject = tree(
        cohort("org", nominal=2),
        cohort("research", "org"),
        cohort("product", "org"),
        queue("r1", "research", 8),
        queue("r2", "research", 4),
        queue("p1", "product", 10),
        r1=20,
        p1=1,
    )
    check(subject, "research", "Cohort", borrowed=8)
    check(subject, "r1", borrowed=12)
    check(subject, "r2", lent=4)
    assert subject.taken("org", GPU) == 2
    check(subject, "product", "Cohort", lent=6)
    check(subject, "p1", lent=6, available=3)  # org: 2 + 12 + 10 − 21 = 3


def test_cohort_without_object_and_queue_with_the_same_name() -> None:
    subject = tree(queue("shared", "shared", 3), queue("b", "shared", 1))
    assert subject.roots == (("Cohort", "shared"),)
    check(subject, "shared", "Cohort", subtree=4)
    check(subject, "shared", subtree=3, ceiling=4)


def test_no_cohort_nothing_is_borrowed_and_over_is_said() -> None:
    # Nominal lowered to 1 while 3 are held (kueue#746): borrowed 0, over 2, available −2.
    subject = tree(queue("alone", None, 1), alone=3)
    check(subject, "alone", borrowed=0, over=2, available=-2, ceiling=1)


def test_negative_available_after_quota_was_lowered_in_a_cohort() -> None:
    # a holds 10 of 2, b 4 of 4: cohort 6 − 14 = −8 for both; a borrowed 8, its ceiling is 6: over 4.
    subject = tree(queue("a", "root", 2), queue("b", "root", 4), a=10, b=4)
    check(subject, "a", available=-8, borrowed=8, over=4)
    check(subject, "b", available=-8, borrowed=0, over=0, lent=0)


def test_negative_parent_still_leaves_what_was_never_lent() -> None:
    # keep: nominal 5, lends 0, holds 2 → 3 at home, but Kueue adds the cohort's debt of −8 to it: −5.
    subject = tree(queue("keep", "root", 5, lend=0), queue("a", "root", 2), a=10, keep=2)
    check(subject, "root", "Cohort", available=-8)
    check(subject, "keep", available=-5)


def test_cohort_that_is_its_own_parent() -> None:
    subject = tree(cohort("self", "self", nominal=4), queue("q", "self", 2))
    assert subject.cycles == (("self",),)
    assert subject.leads_to_cycle("ClusterQueue", "q")
    check(subject, "q", ceiling=6)
    assert subject.weighted_share("ClusterQueue", "q") is None


def test_longer_cycles_are_named_once_and_cut() -> None:
    nodes = [
        cohort("b", "c"),
        cohort("c", "a"),
        cohort("a", "b"),
        cohort("below", "c"),
        cohort("x", "y"),
        cohort("y", "x"),
    ]
    subject = tree(*nodes, queue("q", "below", 2), queue("fine", "other", 1))
    assert subject.cycles == (("a", "b", "c"), ("x", "y"))
    assert subject.leads_to_cycle("ClusterQueue", "q")
    assert not subject.leads_to_cycle("ClusterQueue", "fine")
    check(subject, "c", "Cohort", subtree=2)


def test_flavors_are_separate_and_unlisted_usage_is_kept() -> None:
    node = QuotaNode("q", "ClusterQueue", None, {GPU: cell(4), CPU: cell("100.5")})
    subject = QuotaTree([node], {"q": {A100: D(2), CPU: D("0.5")}, "deleted": {GPU: D(8)}})
    assert subject.usage("ClusterQueue", "q", A100) == 2
    assert not subject.lists("ClusterQueue", "q", A100)
    assert subject.over("ClusterQueue", "q", A100) == 2
    assert subject.available("ClusterQueue", "q", CPU) == 100
    assert subject.orphan_usage == {"deleted": {GPU: D(8)}}
    assert subject.flavor_resources == (A100, CPU, GPU)


def test_the_shape_of_a_tree() -> None:
    # r over m over q and s; p stands directly below r; alone has no cohort
    subject = tree(
        cohort("m", "r"), queue("q", "m", 1), queue("s", "m", 1), queue("p", "r", 1), queue("alone", None, 1)
    )
    named = [("ClusterQueue", name) for name in ("alone", "p", "q", "s")] + [
        ("Cohort", name) for name in ("m", "r")
    ]
    assert list(subject) == named
    assert sorted(subject.below("Cohort", "m")) == [
        ("ClusterQueue", "q"),
        ("ClusterQueue", "s"),
        ("Cohort", "m"),
    ]
    assert set(subject.below("Cohort", "r")) == set(named) - {("ClusterQueue", "alone")}
    assert list(subject.below("ClusterQueue", "alone")) == [("ClusterQueue", "alone")]
    assert ("Cohort", "r") in subject
    assert ("Cohort", "q") not in subject
    assert subject.node("Cohort", "r") == QuotaNode("r", "Cohort", None, {})


def test_weighted_share_counts_all_flavors_of_a_resource() -> None:
    # q borrows 3 h100 and 1 a100; the cohort could lend 10 + 6 = 16: 4 × 1000 / 16 = 250, weight 2 → 125.
    cells = {GPU: cell(2), A100: cell(0)}
    nodes = [
        QuotaNode("q", "ClusterQueue", "root", cells, fair_weight=D(2)),
        QuotaNode("other", "ClusterQueue", "root", {GPU: cell(8), A100: cell(6)}),
    ]
    subject = QuotaTree(nodes, {"q": {GPU: D(5), A100: D(1)}})
    assert subject.weighted_share("ClusterQueue", "q") == 125
    assert subject.weighted_share("ClusterQueue", "other") == 0
    assert subject.weighted_share("Cohort", "root") == 0


def test_weight_zero_is_infinite_only_for_a_borrower() -> None:
    nodes = [QuotaNode("q", "ClusterQueue", "root", {GPU: cell(2)}, fair_weight=D(0)), queue("o", "root", 8)]
    assert QuotaTree(nodes, {"q": {GPU: D(2)}}).weighted_share("ClusterQueue", "q") == 0
    assert QuotaTree(nodes, {"q": {GPU: D(3)}}).weighted_share("ClusterQueue", "q") == D("Infinity")


def test_without_stopped_shows_what_hangs_on_a_stopped_queue() -> None:
    stopped = QuotaNode("s", "ClusterQueue", "root", {GPU: cell(6)}, stopped=True)
    subject = tree(stopped, queue("q", "root", 4))
    assert subject.potential_available("ClusterQueue", "q", GPU) == 10
    assert subject.without_stopped().potential_available("ClusterQueue", "q", GPU) == 4


def test_add_usage_follows_and_comes_back() -> None:
    subject = tree(queue("a", "root", 8, lend=2), queue("b", "root", 4))
    before = numbers(subject, "b")
    subject.add_usage("b", {GPU: D(6)})
    check(subject, "a", lent=2)
    subject.add_usage("b", {GPU: D(-6)})
    assert numbers(subject, "b") == before
    check(subject, "a", lent=0)


def test_same_node_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="ClusterQueue a is given twice"):
        tree(queue("a", None, 1), queue("a", "root", 2))


@pytest.mark.parametrize(
    ("amount", "over", "expected"),
    [
        ("3", ["1", "1", "4"], ["0", "1", "2"]),  # 3·1/6 = 0, 3·2/6 = 1, 3·6/6 = 3, each less what was given
        ("6", ["1", "1", "4"], ["1", "1", "4"]),
        ("9", ["1", "1"], ["1", "1"]),
        ("0", ["1"], ["0"]),
        ("5", [], []),
        ("1", ["0.5", "1.5"], ["0.25", "0.75"]),
    ],
)
def test_spread_gives_whole_units(amount: str, over: list[str], expected: list[str]) -> None:
    assert spread(D(amount), [D(part) for part in over]) == [D(part) for part in expected]


def test_loans_come_from_the_cohort_first_then_from_siblings() -> None:
    # b borrows 9 − 2 = 7. pool's own 3 first; the 4 left are laid on a (8 unused) and c (8 unused): 2 and 2.
    subject = tree(
        cohort("pool", nominal=3), queue("a", "pool", 8), queue("b", "pool", 2), queue("c", "pool", 8), b=9
    )
    borrower: Key = ("ClusterQueue", "b")
    assert subject.loans(GPU) == (
        Loan(("ClusterQueue", "a"), borrower, D(2)),
        Loan(("ClusterQueue", "c"), borrower, D(2)),
        Loan(("Cohort", "pool"), borrower, D(3)),
    )


def test_loans_over_cohorts_name_the_queue_that_lends() -> None:
    # left: x 4 holds 7, y 1 unused: x borrows 3, 1 found inside (y), 2 beyond left (7 − 5). right: z 6 lends 2.
    subject = tree(
        cohort("left", "org"),
        cohort("right", "org"),
        queue("x", "left", 4),
        queue("y", "left", 1),
        queue("z", "right", 6),
        x=7,
    )
    borrower: Key = ("ClusterQueue", "x")
    assert subject.loans(GPU) == (
        Loan(("ClusterQueue", "y"), borrower, D(1)),
        Loan(("ClusterQueue", "z"), borrower, D(2)),
    )


def test_what_a_root_is_over_is_lent_by_nobody() -> None:
    # b holds 9 of 2 with a's 4 beside it: 7 beyond, 4 from a, 3 from nobody (quota was lowered).
    subject = tree(queue("a", "root", 4), queue("b", "root", 2), b=9)
    assert subject.loans(GPU) == (Loan(("ClusterQueue", "a"), ("ClusterQueue", "b"), D(4)),)


def test_a_new_spec_reaches_the_root() -> None:
    # a: 8, lends 2, keeps 6, root 2 + 4 = 6. Then a: 10, lends 5, keeps 5, root 5 + 4 = 9; b's ceiling 9.
    # a holds 7: 7 − 6 = 1 reached the root, then 7 − 5 = 2.
    subject = tree(queue("a", "root", 8, lend=2), queue("b", "root", 4), a=7)
    check(subject, "root", "Cohort", subtree=6, usage=1, available=5, whole=12)
    subject.replace_node(queue("a", "root", 10, lend=5))
    check(subject, "root", "Cohort", subtree=9, usage=2, available=7, whole=14)
    check(subject, "b", ceiling=9, available=7)
