"""Printing results. Input: ratios with their targets; output: a table for people and, with --json, one last line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True)
class Result:
    """`value` against `target`; `better` says which side of the target is good."""

    name: str
    value: float
    unit: str
    target: float
    better: Literal["lower", "higher"]

    @property
    def met(self) -> bool:
        return self.value <= self.target if self.better == "lower" else self.value >= self.target


def report(bench: str, results: list[Result], *, as_json: bool) -> None:
    for result in results:
        sign = "≤" if result.better == "lower" else "≥"
        verdict = "met" if result.met else "MISSED"
        print(f"{result.name:<62} {result.value:>9.3f} {result.unit:<6} {sign} {result.target:g}  {verdict}")
    if as_json:
        print(json.dumps({"bench": bench, "results": [asdict(result) for result in results]}))
