"""What the table of cards says in a cell and in the CSV."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from apps.capacity.carding import Holder
from apps.capacity.cards import CardRow, InstanceRow
from apps.capacity.idle import Idle
from apps.console.card_table import CardTable
from apps.fleet.models import Cluster

D = Decimal
T0 = datetime(2026, 1, 1, 12, tzinfo=UTC)
CARD = CardRow(
    cluster=Cluster(slug="east", name="East"),
    node="n1",
    vendor="nvidia",
    model="NVIDIA-H100-80GB-HBM3",
    model_label="H100 80GB",
    sharing_mode="exclusive",
    group=0,
    position=3,
    device="GPU-1",
    origin="telemetry",
    bucket="",
    bucket_label="",
    why="",
    identified=True,
    state="held",
    holders=(Holder("ml", "train-0", 1, "telemetry"),),
    instances=(),
    utilisation_ratio=D("0.2500"),
    utilisation_source="sm_active",
    attribution="whole",
    shares=(),
    memory_used_bytes=None,
    memory_total_bytes=None,
    power_watts=None,
    xid=None,
    driver="",
    sampled_at=T0,
    idle=None,
    numa="",
    pcie="",
)
IDLE = Idle(D("0.0040"), 29, 30, T0, D("0.500000"))


def cells(row: CardRow) -> dict[str, str]:
    (shown,) = CardTable([row]).rows
    return {column.name: str(cell) for column, cell in shown.items()}


def csv(row: CardRow) -> dict[str, Any]:
    table = CardTable([row])
    names = [column.name for column in table.columns.iterall()]
    _head, values = table.as_values()
    return dict(zip(names, values, strict=True))


def test_a_held_card() -> None:
    shown = cells(CARD)
    assert (shown["device"], shown["state"], shown["holders"]) == ("GPU-1", "held", "ml/train-0")
    assert shown["utilisation_ratio"].startswith("25")
    plain = csv(CARD)
    assert (plain["holders"], plain["utilisation_ratio"]) == ("ml/train-0 (telemetry)", "0.2500")
    assert (plain["memory_used_bytes"], plain["position"], plain["identified"]) == (None, 3, "true")


def test_a_card_that_is_out_of_use_and_not_known() -> None:
    out = replace(
        CARD,
        device="",
        state="out",
        bucket="device_unhealthy",
        bucket_label="device unhealthy",
        why="1 of 2",
        identified=False,
    )
    shown = cells(out)
    assert "card 3, no name" in shown["device"]
    assert "device unhealthy (?)" in shown["state"]
    assert "1 of 2" in shown["state"]
    assert csv(out)["identified"] == "false"


def test_pods_of_others_are_counted() -> None:
    hidden = Holder("", "", None, "telemetry")
    shown = cells(replace(CARD, holders=(*CARD.holders, hidden, hidden)))
    assert shown["holders"] == "ml/train-0<br>2 of other teams"


@pytest.mark.parametrize(
    ("how", "said"),
    [("perhaps", "held by one of 2 pods: which card is not said"), ("one_of", "held by one of 2 pods")],
)
def test_a_holder_that_is_not_certain_says_so(how: str, said: str) -> None:
    holders = (Holder("ml", "a", 1, how), Holder("ml", "b", 1, how))
    assert said in cells(replace(CARD, holders=holders))["holders"]


def test_a_card_that_is_held_by_nobody_says_so() -> None:
    assert "no pod is known" in cells(replace(CARD, holders=()))["holders"]
    assert "no pod" not in cells(replace(CARD, holders=(), state="free"))["holders"]


def test_parts_of_pods_are_shown_where_they_were_measured_and_explained_where_not() -> None:
    parts = (
        {"namespace": "ml", "pod": "a", "ratio": "0.1000"},
        {"namespace": "ml", "pod": "b", "ratio": None},
    )
    row = replace(CARD, sharing_mode="time_slicing", attribution="per_process", shares=parts)
    assert "a: 10" in cells(row)["utilisation_ratio"]
    assert "b:" not in cells(row)["utilisation_ratio"]
    copies = cells(replace(row, attribution="copies", shares=()))
    assert "repeats the card" in copies["utilisation_source"]


def test_idleness_comes_with_its_evidence() -> None:
    shown = cells(replace(CARD, idle=IDLE))
    assert "29 of 30 samples" in shown["idle"]
    assert "50" in shown["idle"]
    assert "memory" not in cells(replace(CARD, idle=replace(IDLE, memory_ratio=None)))["idle"]


def test_instances_are_lines_of_their_card() -> None:
    parts = tuple(
        InstanceRow(name, "1g.10gb", (), ratio, "gr_engine_active", None, None, None)
        for name, ratio in (("7", D("0.5")), ("8", None))
    )
    row = replace(CARD, instances=parts, utilisation_ratio=None)
    shown = cells(row)
    assert shown["device"] == "GPU-1<br>7: 1g.10gb<br>8: 1g.10gb"
    assert shown["utilisation_ratio"].count("<br>") == 2
    assert csv(row)["utilisation_ratio"] == "7=0.5; 8="
