from __future__ import annotations

import re
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from apps.core.templatetags.portal import quota_bar, segments, share

AMOUNT = st.decimals(min_value=0, max_value=10**6, allow_nan=False, allow_infinity=False, places=3)


def test_a_share_stays_within_the_drawing() -> None:
    assert [share(1, 4), share(9, 4), share(-1, 4), share(1, 0)] == ["25.00%", "100.00%", "0.00%", "0%"]


def _width(bar: str, name: str) -> Decimal:
    found = re.search(rf'width="([0-9.]+)%"[^>]*class="{name}"', bar)
    assert found
    return Decimal(found[1])


@given(AMOUNT, st.none() | AMOUNT, st.none() | AMOUNT)
def test_a_quota_bar_fills_what_is_used_and_marks_nominal(
    used: Decimal, nominal: Decimal | None, ceiling: Decimal | None
) -> None:
    bar = str(quota_bar(used, nominal, ceiling))
    assert "style=" not in bar
    held, borrowed = (_width(bar, name) for name in ("f-held", "f-borrowed"))
    assert 0 <= held + borrowed <= Decimal("100.01")
    assert ("mark" in bar) is (nominal is not None)
    if nominal is not None and used <= nominal:
        assert borrowed == 0


def test_unknown_use_is_said_in_words() -> None:
    assert "not collected" in quota_bar(None, Decimal(8), None)


def test_segments_follow_each_other_and_leave_out_what_is_empty() -> None:
    bar = str(
        segments(
            [("a", Decimal(25)), ("b", Decimal(0)), ("c", Decimal(50))], scale=Decimal(100), label="x <y>"
        )
    )
    assert re.findall(r'x="([0-9.]+)%" y="0" width="([0-9.]+)%"', bar) == [
        ("0.00", "25.00"),
        ("25.00", "50.00"),
    ]
    assert "x &lt;y&gt;" in bar
