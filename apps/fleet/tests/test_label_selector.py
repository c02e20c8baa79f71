"""Selectors as `kubectl -l` reads them."""

import pytest

from apps.fleet.label_selector import Requirement, Selector, SelectorError, parse_selector

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
