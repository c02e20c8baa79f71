"""Figures as plain data. Pure. Input: a `Series`; output: plotly JSON and the rows of the table twin.

Colours are names of CSS variables ("--held"): the browser puts in the theme's own. A missing value stays a gap in
the line, never a zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

# In the order in which they are given out; the sixth and later share the last.
PALETTE = ("--c-quota", "--c-capacity", "--c-topology", "--c-model", "--c-scale", "--c-others")


@dataclass(frozen=True, slots=True)
class Line:
    """One line (or layer of a stack): its label, its colour, one value per time. `urls`: where each value leads."""

    label: str
    colour: str
    values: Sequence[Decimal | None]
    dash: str = "solid"
    filled: bool = False
    urls: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """`times` are the starts of the buckets; `stacked` draws bars on top of each other; `daily` and `monthly` say
    that the hour of a time means nothing."""

    times: Sequence[datetime]
    lines: Sequence[Line]
    unit: str
    stacked: bool = False
    daily: bool = False
    monthly: bool = False

    @property
    def is_empty(self) -> bool:
        return all(value is None for line in self.lines for value in line.values)

    def rows(self) -> list[tuple[datetime, list[Decimal | None]]]:
        """Newest first, for the CSV."""
        columns = [line.values for line in self.lines]
        rows = [(at, [column[i] for column in columns]) for i, at in enumerate(self.times)]
        return rows[::-1]

    def linked_rows(self) -> list[tuple[datetime, list[tuple[Decimal | None, str]]]]:
        """Newest first, each value with where it leads ("" nowhere), for the table twin."""
        rows = [
            (at, [(line.values[i], line.urls[i] if line.urls else "") for line in self.lines])
            for i, at in enumerate(self.times)
        ]
        return rows[::-1]


def _number(value: Decimal | None) -> float | None:
    return None if value is None else round(float(value), 3)


def _trace(line: Line, series: Series) -> dict[str, Any]:
    trace: dict[str, Any] = {
        "name": line.label,
        "x": [at.isoformat() for at in series.times],
        "y": [_number(value) for value in line.values],
    }
    if line.urls:
        trace["customdata"] = list(line.urls)
    if series.stacked:
        return {**trace, "type": "bar", "marker": {"color": line.colour}}
    trace |= {
        "type": "scatter",
        # Markers: an hour between two gaps is a point, which a line alone would not show.
        "mode": "lines+markers",
        "marker": {"color": line.colour, "size": 3},
        "connectgaps": False,
        "line": {"color": line.colour, "width": 2, "dash": line.dash, "shape": "hv"},
    }
    return trace | {"fill": "tozeroy", "fillcolor": line.colour, "opacity": 0.9} if line.filled else trace


def figure(series: Series, *, language: str) -> dict[str, Any]:
    """Months by name read badly in Chinese: ticks are numbers there."""
    day = "%m-%d" if language.startswith("zh") else "%d %b"
    ticks, hover = f"{day}\n%H:%M", "%Y-%m-%d %H:%M"
    if series.daily:
        ticks, hover = day, "%Y-%m-%d"
    elif series.monthly:
        ticks = hover = "%Y-%m"
    layout = {
        "barmode": "stack",
        "bargap": 0.15,
        "yaxis": {"title": {"text": series.unit, "standoff": 8}},
        "xaxis": {
            "tickformat": ticks,
            "hoverformat": hover,
            "nticks": 6,
            "tickangle": 0,
        },
        "showlegend": len(series.lines) > 1,
    }
    return {"data": [_trace(line, series) for line in series.lines], "layout": layout}
