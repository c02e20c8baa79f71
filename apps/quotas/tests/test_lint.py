"""Each check of lint.py on cases worked out by hand, one where it speaks and one where it is silent."""

from collections.abc import Iterable, Mapping
from decimal import Decimal as D
from typing import Any

import pytest

from apps.quotas.lint import lint
from apps.quotas.lint_model import Ask, Facts, Problem, QueueFacts, VolcanoFacts
from apps.quotas.tests.test_tree import GPU, cell, cohort, queue, tree
from apps.quotas.tree import QuotaNode

EVERY: Mapping[str, Any] = {}


def facts(*nodes: QuotaNode, **changes: Any) -> Facts:
    """Queues that are fine apart from their quota: they take every namespace and a LocalQueue leads to each."""
    names = [node.name for node in nodes if node.kind == "ClusterQueue"]
    values: dict[str, Any] = {
        "queues": {name: QueueFacts(EVERY) for name in names},
        "local_queues": tuple(("ns", name, name) for name in names),
        "flavors": frozenset({"h100"}),
        "checks": {"quota-ok": True, "broken": False},
        "namespaces": {"ns": {"team": "red"}},
        **changes,
    }
    return Facts(tree=tree(*nodes), **values)


def told(found: Iterable[Problem]) -> list[tuple[str, str, str]]:
    return [(item.code, item.cause, item.main.name) for item in found]


PAIR = (queue("a", "c", 8), queue("b", "c", 4))  # each may borrow all that the other lends


def test_a_sound_pair_has_no_problem() -> None:
    assert lint(facts(*PAIR)) == []


QUOTA_CASES: dict[str, tuple[tuple[QuotaNode, ...], list[tuple[str, str, str]]]] = {
    # b lists nothing of a's flavor, so nobody takes a's 8.
    "no sibling lists it": (
        (queue("a", "c", 8), QuotaNode("b", "ClusterQueue", "c", {("h100", "cpu"): cell(4)})),
        [("lendable_unreachable", "queue", "a"), ("lendable_unreachable", "queue", "b")],
    ),
    # b may borrow 0, a may borrow b's 4.
    "the only sibling may not borrow": (
        (queue("a", "c", 8), queue("b", "c", 4, borrow=0)),
        [("lendable_unreachable", "queue", "a")],
    ),
    # a lends nothing: nothing is unreachable, b's limit 3 > 0 of a's.
    "a limit above what anybody lends": (
        (queue("a", "c", 8, lend=0), queue("b", "c", 4, borrow=3)),
        [("limit_never_binds", "borrowing", "b")],  # 4 + 3 > 0 + 4
    ),
    "a limit that binds": ((queue("a", "c", 8), queue("b", "c", 4, borrow=7)), []),  # 4 + 7 < 12
    "a limit just as large as all there is": ((queue("a", "c", 8), queue("b", "c", 4, borrow=8)), []),
    "a lending limit of everything": (
        (queue("a", "c", 8, lend=8), queue("b", "c", 4)),
        [("limit_never_binds", "lending", "a")],
    ),
    "a lending limit of a part": ((queue("a", "c", 8, lend=7), queue("b", "c", 4)), []),
    "limits without a cohort": (
        (queue("a", None, 8, borrow=2),),
        [("limit_never_binds", "no_cohort", "a")],
    ),
    "a cohort alone with one queue of no limit": (
        (cohort("c", nominal=16), queue("a", "c", 0)),
        [],
    ),
    "a cohort whose only queue may not borrow": (
        (cohort("c", nominal=16), queue("a", "c", 2, borrow=0)),
        [("lendable_unreachable", "queue", "a"), ("lendable_unreachable", "cohort", "c")],
    ),
    # left lends nothing upward, so a's 8 have no taker: it is alone in left.
    "a middle cohort that lends nothing": (
        (cohort("left", "top", 0, lend=0), queue("a", "left", 8), queue("b", "top", 4)),
        [("lendable_unreachable", "queue", "a")],
    ),
    "through a middle cohort": (
        (cohort("left", "top"), queue("a", "left", 8), queue("b", "top", 4)),
        [],
    ),
    # 20096Mi = 20096 × 1048576 bytes, beside a 1 that meant something else; b may borrow all of it.
    "one resource in two units": (
        (queue("a", "c", 20096 * 1048576), queue("b", "c", 1)),
        [("unit_mismatch", "size", "c")],
    ),
    "amounts of very different size": ((queue("a", "c", 999_999), queue("b", "c", 1)), []),
    "nothing at all": (
        (queue("a", "c", 0), queue("b", "c", 0)),
        [("never_admits", "zero_ceiling", "a"), ("never_admits", "zero_ceiling", "b")],
    ),
    "cohorts in a circle": (
        (cohort("x", "y"), cohort("y", "x"), queue("a", "x", 8), queue("b", "y", 4)),
        [
            ("never_admits", "cohort_cycle", "x"),
            ("lendable_unreachable", "queue", "a"),
            ("lendable_unreachable", "queue", "b"),
        ],
    ),
}


@pytest.mark.parametrize("name", QUOTA_CASES)
def test_quota_without_effect(name: str) -> None:
    nodes, expected = QUOTA_CASES[name]
    assert told(lint(facts(*nodes))) == expected


def test_a_circle_names_its_cohorts_and_the_queues_below() -> None:
    found = lint(facts(cohort("x", "y"), cohort("y", "x"), queue("a", "x", 8)))[0]
    assert [thing.name for thing in found.objects] == ["x", "y", "a"]
    assert found.values == {"ring": "x → y → x", "n": "1"}


@pytest.mark.parametrize(
    ("said", "causes"),
    [
        (QueueFacts(None), ["no_selector"]),
        (QueueFacts({"matchLabels": {"team": "blue"}}), ["no_namespace"]),
        (QueueFacts({"matchLabels": {"team": "red"}}), []),
        (
            QueueFacts({"matchExpressions": [{"key": "team", "operator": "In", "values": ["red", "x"]}]}),
            [],
        ),
        (QueueFacts({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}), ["no_namespace"]),
        (QueueFacts(EVERY, ("quota-ok",)), []),
        (QueueFacts(EVERY, ("broken",)), ["check_inactive"]),
        (QueueFacts(EVERY, ("nowhere",)), ["check_missing"]),
    ],
)
def test_queues_that_can_never_admit(said: QueueFacts, causes: list[str]) -> None:
    found = lint(facts(*PAIR, queues={"a": said, "b": QueueFacts(EVERY)}))
    assert told(found) == [("never_admits", cause, "a") for cause in causes]


def test_what_was_not_collected_is_not_judged() -> None:
    said = QueueFacts({"matchLabels": {"team": "blue"}}, ("nowhere",))
    found = facts(*PAIR, queues={"a": said, "b": said}, namespaces=None, checks=None)
    assert lint(found) == []


def test_flavors_missing_stopped_queues_and_queues_that_nothing_leads_to() -> None:
    stopped = QuotaNode("a", "ClusterQueue", "c", queue("a", "c", 8).cells, stopped=True)
    found = lint(
        facts(
            stopped,
            queue("b", "c", 4),
            flavors=frozenset(),
            local_queues=(("ns", "b", "b"), ("ns", "z", "q")),
        )
    )
    assert told(found) == [
        ("never_admits", "stopped", "a"),
        ("never_admits", "flavor_missing", "a"),
        ("never_admits", "no_local_queue", "a"),
        ("never_admits", "flavor_missing", "b"),
        ("local_queue_nowhere", "", "z"),
    ]
    assert found[1].values == {"names": "h100"}


def test_work_larger_than_its_ceiling() -> None:
    # Ceiling of a: 8 + 4 = 12. Two pod sets of 12 may take turns in flavors; one of 13 fits none.
    def ask(name: str, *amounts: int, queue: str = "a") -> Ask:
        return Ask("ns", name, queue, tuple({"nvidia.com/gpu": D(amount)} for amount in amounts), "lq")

    asks = (ask("fits", 12, 12), ask("big", 1, 13), ask("other", 13, queue="gone"), ask("big-2", 99))
    (found,) = lint(facts(*PAIR, asks=asks))
    assert (found.code, found.main.name, found.count) == ("larger_than_ceiling", "a", 2)
    assert [thing.name for thing in found.objects] == ["a", "lq", "big", "big-2"]
    unlisted = Ask("ns", "cpu", "a", ({"cpu": D(1000)},))
    assert lint(facts(*PAIR, asks=(unlisted,))) == []


def gpus(amount: int) -> Mapping[str, D]:
    return {"nvidia.com/gpu": D(amount)}


VOLCANO_CASES: dict[str, tuple[dict[str, VolcanoFacts], list[tuple[str, str, str]]]] = {
    "children within their parent": (
        {
            "p": VolcanoFacts("root", "Open", gpus(8), gpus(6), gpus(4)),
            "x": VolcanoFacts("p", "Open", gpus(8), gpus(3), gpus(2)),
            "y": VolcanoFacts("p", "Open", gpus(4), gpus(3), gpus(2)),
        },
        [],
    ),
    "children above their parent": (
        {
            "p": VolcanoFacts("root", "Open", gpus(8), gpus(6), gpus(3)),
            "x": VolcanoFacts("p", "Open", gpus(9), gpus(4), gpus(2)),
            "y": VolcanoFacts("p", "Open", {}, gpus(3), gpus(2)),
        },
        [
            ("volcano_children_over_parent", "guarantee", "p"),  # 4 > 3
            ("volcano_children_over_parent", "deserved", "p"),  # 7 > 6
            ("volcano_children_over_parent", "capability", "x"),  # 9 > 8
        ],
    ),
    "the parent says nothing: its share counts as 0, its capability is the next one above": (
        {
            "g": VolcanoFacts("root", "Open", gpus(8)),
            "p": VolcanoFacts("g"),
            "x": VolcanoFacts("p", "Open", gpus(9), gpus(1)),
        },
        [
            ("volcano_children_over_parent", "deserved", "p"),
            ("volcano_children_over_parent", "capability", "x"),
        ],
    ),
    "sums below root are not judged": (
        {"root": VolcanoFacts(""), "x": VolcanoFacts("root", "", {}, gpus(9))},
        [],
    ),
    "a parent that is not there": (
        {"x": VolcanoFacts("gone")},
        [("never_admits", "parent_missing", "x")],
    ),
    "a shut parent shuts those below": (
        {"p": VolcanoFacts("root", "Closing"), "q": VolcanoFacts("p"), "x": VolcanoFacts("q", "Closed")},
        [
            ("never_admits", "stopped", "p"),
            ("never_admits", "stopped_parent", "q"),
            ("never_admits", "stopped", "x"),
        ],
    ),
    "a circle ends": ({"x": VolcanoFacts("y"), "y": VolcanoFacts("x")}, []),
}


@pytest.mark.parametrize("name", VOLCANO_CASES)
def test_volcano(name: str) -> None:
    queues, expected = VOLCANO_CASES[name]
    assert told(lint(Facts(tree=tree(), volcano=queues))) == expected


def test_a_status_that_differs_from_what_work_holds() -> None:
    key = ("ClusterQueue", "a")
    other = ("ClusterQueue", "b")
    said = {key: {GPU: D(8)}, other: {GPU: D(0)}}
    (found,) = lint(facts(*PAIR, said=said, counted={key: {GPU: D(6)}}))
    assert (found.code, found.main.name, found.cells) == ("status_differs", "a", (GPU,))
    assert (found.values["said"], found.values["counted"]) == ("8", "6")


def test_linting_twice_says_the_same() -> None:
    for nodes, _expected in QUOTA_CASES.values():
        assert lint(facts(*nodes)) == lint(facts(*reversed(nodes)))
