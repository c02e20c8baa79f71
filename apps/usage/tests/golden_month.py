"""The month in tests/data/chargeback/golden_month.yaml, as spells and what they are judged by."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from apps.usage.allocation import Basis, Owned, Place, Spell, Stretch, Surroundings, Unit
from apps.usage.limits import Limit

FILE = Path(__file__).parents[3] / "tests" / "data" / "chargeback" / "golden_month.yaml"
CLUSTER = 1
FIRST, LAST = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC)


@cache
def month() -> Mapping[str, Any]:
    found: Mapping[str, Any] = yaml.safe_load(FILE.read_text())
    return found


def place(queue: str) -> Place:
    return Place(CLUSTER, "Workload", f"ns-{queue}", "main", queue)


def team_number(slug: str) -> int:
    return int(slug.removeprefix("t"))


def spells() -> list[Spell]:
    """All of reserved quota. What lasts ends with the period: it is known that far."""
    until = month()["period"]["end"]
    return [
        Spell(
            basis=Basis.RESERVED,
            uid=row["uid"],
            place=place(row["queue"]),
            on=flavor,
            resource=resource,
            quantity=Decimal(quantity),
            start=row["start"],
            end=row.get("end", until),
            since=min(other["start"] for other in month()["work"] if other["uid"] == row["uid"]),
            priority_class=row.get("priority", ""),
        )
        for row in month()["work"]
        for flavor, resource, quantity in row["usage"]
    ]


def pod_spells() -> list[Spell]:
    return [
        Spell(
            basis=Basis.POD,
            uid=row["uid"],
            place=place(row["queue"]),
            on=row["node"],
            resource="nvidia.com/gpu",
            quantity=Decimal(row["units"]),
            start=row["start"],
            end=row["end"],
            since=row["start"],
        )
        for row in month()["pods"]
    ]


def surroundings() -> Surroundings:
    kinds = {
        (row["flavor"], row["resource"]): Unit(
            row["model"], row["mode"], row["profile"], Fraction(row["equivalents"])
        )
        for row in month()["units"]
    }
    units = {(Basis.RESERVED, CLUSTER, *key): unit for key, unit in kinds.items()}
    for row in month()["nodes"]:
        units[Basis.POD, CLUSTER, row["node"], row["resource"]] = kinds[row["like"], row["resource"]]
    outages = [Stretch(row["start"], row["end"]) for row in month()["outages"]]
    return Surroundings(
        owners={place(f"q{number:02}"): _owners(f"q{number:02}") for number in range(1, 13)},
        units=units,
        gaps={"Workload": outages, "Pod": outages},
        nominal={
            (CLUSTER, row["queue"], row["flavor"], row["resource"]): [Limit(FIRST, Decimal(row["units"]))]
            for row in month()["nominal"]
        },
        node_units={
            (CLUSTER, "", row["node"], row["resource"]): [Limit(FIRST, Decimal(row["capacity"]))]
            for row in month()["nodes"]
        },
    )


def _owners(queue: str) -> list[Owned]:
    for moved in month()["bindings_moved"]:
        if moved["queue"] == queue:
            return [
                Owned(team_number(moved["from"]), "", FIRST, moved["at"]),
                Owned(team_number(moved["to"]), "", moved["at"], LAST),
            ]
    return [Owned(team_number("t" + queue.removeprefix("q")), "", FIRST, LAST)]
