from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import plotly.graph_objects as go
import pytest
from django.conf import settings
from django.utils.timezone import localtime

from apps.admissions.life import Stretch
from apps.console.figures import PALETTE, Line, Series, figure
from apps.console.lifeline import lanes_of, ticks_of

START = datetime(2026, 12, 1, tzinfo=UTC)
TIMES = [START + timedelta(hours=n) for n in range(3)]
LINES = [
    Line("held", "--held", [Decimal(8), None, Decimal("7.25")]),
    Line("nominal", "--borrowed", [Decimal(16)] * 3, dash="dash"),
]


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_a_figure_is_one_that_plotly_accepts(stacked: bool, language: str) -> None:
    made = figure(Series(times=TIMES, lines=LINES, unit="GPUs", stacked=stacked), language=language)
    text = json.dumps(made).replace('"--held"', '"#3451c6"').replace('"--borrowed"', '"#d98a00"')
    assert len(go.Figure(json.loads(text)).data) == 2


def test_a_missing_hour_is_a_gap_not_a_zero() -> None:
    made = figure(Series(times=TIMES, lines=LINES, unit="GPUs"), language="en")
    assert made["data"][0]["y"] == [8.0, None, 7.25]
    assert made["data"][0]["connectgaps"] is False


def test_the_table_twin_has_the_same_numbers_newest_first() -> None:
    rows = Series(times=TIMES, lines=LINES, unit="GPUs").rows()
    assert rows[0] == (TIMES[2], [Decimal("7.25"), Decimal(16)])
    assert rows[1] == (TIMES[1], [None, Decimal(16)])


def test_chinese_ticks_are_numbers() -> None:
    made = figure(Series(times=TIMES, lines=LINES, unit="", daily=True), language="zh-hans")
    assert made["layout"]["xaxis"]["tickformat"] == "%m-%d"


def test_a_life_line_gives_every_stay_its_share() -> None:
    def at(hours: int) -> datetime:
        return START + timedelta(hours=hours)

    stretches = [
        Stretch("queued", at(0), at(1), at(1), cause="quota"),
        Stretch("running", at(1), at(3), at(3)),
        Stretch("queued", at(3), None, at(4), cause="held"),
    ]
    waiting, running = lanes_of(stretches)
    assert [(piece.x, piece.w) for piece in waiting.pieces] == [("0.00%", "25.00%"), ("75.00%", "25.00%")]
    assert [(piece.number, piece.style) for piece in waiting.pieces] == [(1, "f-quota"), (3, "f-onhold")]
    assert [(piece.x, piece.w, piece.style) for piece in running.pieces] == [("25.00%", "50.00%", "f-ok")]
    assert (waiting.seconds, running.seconds) == (7200, 7200)
    # The time after the end is not drawn.
    ended = [*stretches[:2], Stretch("finished", at(3), at(9), at(9))]
    ticks = ticks_of(ended)
    assert [tick.x for tick in ticks] == ["0%", "25%", "50%", "75%", "100%"]
    assert [tick.text for tick in ticks] == [
        (localtime(START) + timedelta(minutes=45 * n)).strftime("%H:%M") for n in range(5)
    ]
    assert lanes_of([]) == []
    assert ticks_of([]) == []


def test_no_two_causes_have_one_colour_in_any_theme() -> None:
    """What is stacked or listed side by side is told apart by it; "others" is beside them."""
    text = (settings.BASE_DIR / "static" / "portal.css").read_text(encoding="utf-8")
    themes = [
        dict(re.findall(r"(--c-[a-z]+): (#[0-9a-f]{3,6})", block))
        for block in re.findall(r"\{[^{}]*--c-quota:[^{}]*\}", text)
    ]
    assert len(themes) == 3
    assert all(set(PALETTE) <= set(theme) for theme in themes)
    twice = [
        [name for name, colour in theme.items() if list(theme.values()).count(colour) > 1] for theme in themes
    ]
    assert twice == [[], [], []]
    assert themes[1] == themes[2], "what follows the system is the dark theme"
