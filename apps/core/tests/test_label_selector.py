"""Selectors as `kubectl -l` reads them."""

import pytest

from apps.core.label_selector import (
    Requirement,
    Selector,
    SelectorError,
    node_expression_holds,
    parse_selector,
    selects,
)

NODE = {"pool": "infer", "zone": "a", "nvidia.com/gpu.count": "8", "empty": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("  ", ()),
        ("pool", (Requirement("pool", "exists"),)),
        ("!spot", (Requirement("spot", "absent"),)),
        ("! spot", (Requirement("spot", "absent"),)),
        ("pool=infer", (Requirement("pool", "in", ("infer",)),)),
        ("pool==infer", (Requirement("pool", "in", ("infer",)),)),
        ("pool != infer", (Requirement("pool", "notin", ("infer",)),)),
        ("pool=", (Requirement("pool", "in", ("",)),)),
        ("in=a,notin=b", (Requirement("in", "in", ("a",)), Requirement("notin", "in", ("b",)))),
        (
            "pool=infer, zone in (a, b),!spot",
            (
                Requirement("pool", "in", ("infer",)),
                Requirement("zone", "in", ("a", "b")),
                Requirement("spot", "absent"),
            ),
        ),
        ("zone notin (a)", (Requirement("zone", "notin", ("a",)),)),
        ("nvidia.com/gpu.count>4", (Requirement("nvidia.com/gpu.count", "gt", ("4",)),)),
        ("nvidia.com/gpu.count < 16", (Requirement("nvidia.com/gpu.count", "lt", ("16",)),)),
    ],
)
def test_reads(text: str, expected: tuple[Requirement, ...]) -> None:
    assert parse_selector(text) == Selector(expected)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (",", "term"),
        ("a,", "term"),
        ("a,,b", "term"),
        ("a b", "term"),
        ("=a", "term"),
        ("zone in a", "term"),
        ("zone in (a", "term"),
        ("zone in ()", "value"),
        ("zone in (a b)", "value"),
        ("-pool", "key"),
        ("a/b/c", "key"),
        ("Example.com/a", "key"),
        (f"{'a' * 64}=b", "key"),
        ("pool=-x", "value"),
        (f"pool={'a' * 64}", "value"),
        ("count>x", "number"),
        ("count>", "number"),
    ],
)
def test_refuses(text: str, code: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_selector(text)
    assert caught.value.code == code
    assert caught.value.part


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("pool", True),
        ("pool=infer,zone in (a,b),!spot", True),
        ("pool=infer,zone in (b,c)", False),
        ("spot", False),
        ("!pool", False),
        ("spot!=true", True),
        ("pool!=infer", False),
        ("spot notin (true)", True),
        ("empty=", True),
        ("spot=", False),
        ("nvidia.com/gpu.count>7", True),
        ("nvidia.com/gpu.count>8", False),
        ("nvidia.com/gpu.count<9", True),
        ("pool>1", False),
        ("missing<1", False),
    ],
)
def test_matches(text: str, expected: bool) -> None:
    assert parse_selector(text).matches(NODE) == expected


@pytest.mark.parametrize(
    ("operator", "values", "of_a_node", "of_a_label_selector"),
    [
        ("In", ["8", "9"], True, True),
        ("In", [], False, False),
        ("NotIn", ["8"], False, False),
        ("NotIn", [], True, True),
        ("Exists", [], True, True),
        ("DoesNotExist", [], False, False),
        ("Gt", ["7"], True, False),
        ("Gt", ["8"], False, False),
        ("Gt", ["many"], False, False),
        ("Gt", [], False, False),
        ("Lt", ["9"], True, False),
        ("exists", [], False, False),
        ("", [], False, False),
    ],
)
def test_expressions_as_served(
    operator: str, values: list[str], of_a_node: bool, of_a_label_selector: bool
) -> None:
    said = {"key": "nvidia.com/gpu.count", "operator": operator, "values": values}
    assert node_expression_holds(said, NODE) == of_a_node
    assert selects({"matchExpressions": [said]}, NODE) == of_a_label_selector


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert not selects(None, NODE)
    assert selects({}, NODE)
    assert selects({}, {})
    assert selects({"matchLabels": {"pool": "infer"}}, NODE)
    assert not selects({"matchLabels": {"pool": "infer", "zone": "b"}}, NODE)
