"""Patterns of clusters: what they find, what is not read, and that none takes long."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.capacity.patterns import LONGEST_PATTERN, Searcher, _Parser, _Program, searcher


def found(pattern: str, name: str) -> bool:
    reads = searcher(pattern)
    assert reads is not None, pattern
    return bool(reads(name))


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("^node-[0-9]+$", ["node-0", "node-12"], ["node-", "xnode-1", "node-1x"]),
        ("ode-0", ["node-0", "node-01"], ["node-1"]),
        (r"^(rack|leaf)-\d{2,3}-.*$", ["rack-01-a", "leaf-123-"], ["rack-1-a", "leaf-1234-", "x-01-a"]),
        ("^a?b{2}(c|d)*?$", ["bb", "abb", "abbcdc"], ["ab", "aabb", "abbx"]),
        ("^n[^-a-c]+$", ["nx", "nxyz"], ["n", "na", "n-x"]),
        (r"gpu\.east", ["gpu.east.1"], ["gpu-east"]),
        ("", ["", "anything"], []),
        ("^$", [""], ["x"]),
        ("$", ["", "x"], []),
        ("a|", ["", "b"], []),
        ("(?:ab)+(?P<n>c)(?<m>d)", ["xababcd"], ["xabad"]),
        ("^(^a)$", ["a"], ["ba"]),
        ("(a*)*$", ["aaa", "b"], []),
        ("[]a]", ["]", "a"], ["b"]),
        (r"[\d-]", ["-", "7"], ["a"]),
        (r"\w+", ["é1"], ["é"]),
        (".{3}", ["abc"], ["ab"]),
        (r"^\Aa\z", ["a"], ["ab"]),
        (r"^\(?<$", ["(<", "<"], ["("]),
        ("[(?<]x(?<n>y)", ["(xy", "<xy"], ["Pxy", "(x"]),
    ],
)
def test_what_is_found(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [found(pattern, name) for name in yes] == [True] * len(yes)
    assert [found(pattern, name) for name in no] == [False] * len(no)


@pytest.mark.parametrize(
    "pattern",
    [
        "node-(",
        "node)",
        "*a",
        "a**",
        "a{3,1}",
        "[a",
        "[z-a]",
        r"(a)\1",
        "a(?=b)",
        "a(?<!b)",
        "(?i)a",
        "a++",
        r"\ba",
        "[[:digit:]]",
        r"\pL",
        "a\\",
        "a{9999}{9999}",
        "((a{100}){100}){100}",
        "a" * (LONGEST_PATTERN + 1),
        "(" * LONGEST_PATTERN,
    ],
)
def test_what_is_not_read(pattern: str) -> None:
    assert searcher(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("(a+)+$", False),
        ("^(a+)+$", False),
        ("^(a|a)*$", False),
        ("(a|aa)+$", False),
        ("a*a*a*a*a*a*a*a*a*a*b", False),
        (".*.*.*.*.*.*.*.*=", False),
        ("(.*a){30}", True),
        ("(a?){100}a{100}$", False),
        ("(x+x+)+y", False),
        ("((a*)*)*!", True),
        ("a*a*b", False),
        ("^a*a*b", False),
        ("(a|a)" * 40 + "b", False),
        ("(a?)" * 40 + "b", False),
        ("a?" * 40 + "b", False),
        ("a{0,99}a{0,99}a{0,99}b", False),
        ("((a|a)|(a|a))" * 10 + "b", False),
    ],
)
def test_no_pattern_takes_long(pattern: str, expected: bool) -> None:
    """253 characters are the longest name that Kubernetes allows; `re` would need longer than the world is old."""
    reads, names = searcher(pattern), ["a" * 252 + "!", "a" * 200 + "!b", "x" * 252 + "!"]
    assert reads is not None
    begin = time.process_time()
    assert bool(reads(names[0])) is expected
    for name in names * 20:
        reads(name)
    assert time.process_time() - begin < 5


ATOMS = st.sampled_from(["a", "b", "-", ".", "[ab]", "[^a]", r"\d", "1", "^", "$"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}", "*?"])).map(
            lambda both: f"({both[0]}){both[1]}"
        ),
    ),
    max_leaves=6,
)


@given(PATTERNS, st.text("ab-1", max_size=6))
def test_the_same_is_found_as_by_re(pattern: str, name: str) -> None:
    """Short names, on which `re` is quick; whichever way the pattern is matched."""
    program = _Program()
    first, last = _Parser(pattern).whole()(program)
    program.ways[last].append(program.add("match"))
    expected = re.search(pattern, name) is not None
    assert (found(pattern, name), Searcher(program, first).search(name)) == (expected, expected)
