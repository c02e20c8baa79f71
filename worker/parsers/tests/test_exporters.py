"""DCGM series in the shapes that different installations give them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.parsers.exporters import COLUMNS, Samples, group_by_metric, queries, samples

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MI = 1 << 20
CARD = {"UUID": "GPU-1", "gpu": "0", "modelName": "NVIDIA H100 80GB HBM3", "Hostname": "n1", "job": "dcgm"}
UTIL, ENGINE, SM = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE"
USED, FREE, RESERVED = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED"
POWER, XID = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_XID_ERRORS"


def one(metric: str, value: Any, **labels: str) -> dict[str, Any]:
    return {"metric": {"__name__": metric, **CARD, **labels}, "value": [NOW.timestamp(), str(value)]}


def read(*series: dict[str, Any]) -> Samples:
    return samples(group_by_metric(series), NOW)


def rows(*series: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in read(*series).rows]


def test_a_whole_card() -> None:
    (row,) = rows(
        one(
            UTIL,
            37,
            exported_namespace="team-a",
            exported_pod="train-0",
            namespace="gpu-operator",
            pod="dcgm-exporter-x",
        ),
        one(USED, 60000),
        one(FREE, 20000),
        one(RESERVED, 1559),
        one(POWER, 512.345),
        one(XID, 0),
    )
    assert row == {
        "sampled_at": NOW,
        "device": "GPU-1",
        "instance": "",
        "node_name": "n1",
        "model": "NVIDIA H100 80GB HBM3",
        "namespace": "team-a",
        "pod": "train-0",
        "utilisation_ratio": Decimal("0.3700"),
        "utilisation_source": "gpu_util",
        "memory_used_bytes": 60000 * MI,
        "memory_total_bytes": 81559 * MI,
        "power_watts": Decimal("512.35"),
        "xid": 0,
        "vendor": "nvidia",
        "profile": "",
        "driver": "",
        "attribution": "whole",
        "shares": "[]",
    }


@pytest.mark.parametrize(
    ("series", "ratio", "source"),
    [
        ([(SM, 0.5), (ENGINE, 0.9), (UTIL, 99)], "0.5000", "sm_active"),
        ([(ENGINE, 0.9), (UTIL, 99)], "0.9000", "gr_engine_active"),
        ([(UTIL, 99)], "0.9900", "gpu_util"),
        ([(SM, "NaN"), (UTIL, 99)], "0.9900", "gpu_util"),
        ([(ENGINE, 1.00005)], "1.0000", "gr_engine_active"),
    ],
)
def test_utilisation_comes_from_the_best_source(
    series: list[tuple[str, Any]], ratio: str, source: str
) -> None:
    (row,) = rows(*(one(metric, value) for metric, value in series))
    assert (row["utilisation_ratio"], row["utilisation_source"]) == (Decimal(ratio), source)


def test_absent_is_not_zero() -> None:
    (row,) = rows(one(USED, 100))
    assert row["memory_used_bytes"] == 100 * MI
    assert row["utilisation_ratio"] is None
    assert row["utilisation_source"] == ""
    assert (row["memory_total_bytes"], row["power_watts"], row["xid"]) == (None, None, None)


@pytest.mark.parametrize(
    ("metric", "value", "reason"),
    [
        (UTIL, 101, "out of range"),
        (SM, 1.01, "out of range"),
        (USED, 9223372036854775794, "blank"),
        (USED, -1, "out of range"),
        (POWER, "NaN", "blank"),
        (POWER, "+Inf", "infinite"),
        (XID, "many", "not a number"),
    ],
)
def test_unusable_values_are_dropped_and_reported(metric: str, value: Any, reason: str) -> None:
    found = read(one(FREE, 1), one(metric, value))
    assert [(p.metric, p.reason, p.times) for p in found.problems] == [(metric, reason, 1)]
    assert found.problems[0].example.startswith("GPU-1: ")
    (row,) = rows(one(FREE, 1), one(metric, value))
    values = ("utilisation_ratio", "memory_used_bytes", "power_watts", "xid")
    assert [row[name] for name in values] == [None] * 4


# DCGM's blanks of each type: unknown, not found, not supported, not permitted (dcgm_structs.h).
BLANKS = [str(base + kind) for base in (0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, 1 << 47) for kind in range(4)]


@pytest.mark.parametrize("metric", [SM, UTIL, USED, POWER, XID])
@pytest.mark.parametrize("value", [*BLANKS, "9.223372036854775794e+18", "NaN"])
def test_what_the_vendor_says_is_blank_is_no_fault(metric: str, value: str) -> None:
    found = read(one(FREE, 1), one(metric, value))
    assert [(p.metric, p.reason, p.blank) for p in found.problems] == [(metric, "blank", True)]
    (row,) = rows(one(FREE, 1), one(metric, value))
    assert [row[name] for name in ("utilisation_ratio", "memory_used_bytes", "power_watts", "xid")] == [
        None
    ] * 4


@pytest.mark.parametrize(
    ("metric", "value"),
    [(XID, 0x7FFFFFF0 - 1), (USED, (1 << 47) + 16), (UTIL, -1), (POWER, "+Inf"), (XID, "many")],
)
def test_what_nobody_says_is_blank_is_read_or_a_fault(metric: str, value: Any) -> None:
    assert [p.blank for p in read(one(FREE, 1), one(metric, value)).problems] in ([], [False])


def test_a_blank_of_one_vendor_is_none_of_another() -> None:
    series = {
        "metric": {"__name__": "npu_chip_info_utilization", "vdie_id": "A", "node": "n1"},
        "value": [NOW.timestamp(), "NaN"],
    }
    assert [(p.reason, p.blank) for p in read(series).problems] == [("NaN", False)]


def test_problems_are_counted_not_listed() -> None:
    found = read(*(one(UTIL, "NaN", UUID=f"GPU-{i}") for i in range(50)))
    assert [(p.times, p.example) for p in found.problems] == [(50, "GPU-0: NaN")]
    # the devices are known all the same
    assert len(found.rows) == 50


# ------------------------------------------------------------------ who uses a device
def test_exported_labels_hold_the_user_and_idle_cards_have_none() -> None:
    exporter = {"namespace": "gpu-operator", "pod": "nvidia-dcgm-exporter-abc"}
    busy, idle = rows(
        one(UTIL, 50, exported_namespace="team-a", exported_pod="train-0", **exporter),
        one(UTIL, 0, UUID="GPU-2", **exporter),
    )
    assert (busy["namespace"], busy["pod"]) == ("team-a", "train-0")
    assert (idle["namespace"], idle["pod"]) == ("", "")


def test_plain_labels_hold_the_user_but_never_the_exporter() -> None:
    busy, idle = rows(
        one(UTIL, 50, namespace="team-a", pod="train-0"),
        one(UTIL, 0, UUID="GPU-2", namespace="gpu-operator", pod="nvidia-dcgm-exporter-abc"),
    )
    assert (busy["namespace"], busy["pod"]) == ("team-a", "train-0")
    assert (idle["namespace"], idle["pod"]) == ("", "")


def test_the_exporter_is_known_by_its_target_whatever_its_name() -> None:
    target = {
        "metric": {"__name__": "up", "job": "dcgm", "namespace": "mon", "pod": "gpu-agent-1"},
        "value": [0, "1"],
    }
    (idle,) = rows(one(UTIL, 0, namespace="mon", pod="gpu-agent-1"), target)
    assert (idle["namespace"], idle["pod"]) == ("", "")


def test_the_scheme_is_decided_per_scrape_job() -> None:
    found = rows(
        one(UTIL, 50, exported_namespace="a", exported_pod="p", namespace="ops", pod="agent"),
        one(UTIL, 50, UUID="GPU-2", job="static", namespace="b", pod="q"),
    )
    assert [(r["namespace"], r["pod"]) for r in found] == [("a", "p"), ("b", "q")]


@pytest.mark.parametrize(
    ("labels", "node"),
    [
        ({"Hostname": "n1"}, "n1"),
        ({"Hostname": "", "hostname": "n2"}, "n2"),
        ({"Hostname": "localhost", "node": "n3"}, "n3"),
        ({"Hostname": "dcgm-exporter-x", "pod": "dcgm-exporter-x"}, ""),
    ],
)
def test_node_names(labels: dict[str, str], node: str) -> None:
    (row,) = rows(one(UTIL, 1, **labels))
    assert row["node_name"] == node


def test_series_without_a_device_are_reported() -> None:
    found = read(one(UTIL, 1, UUID="", gpu=""))
    assert found.rows == []
    assert found.problems[0].reason == "no label names the device"


# ------------------------------------------------------------------ sharing and MIG
W1, W2 = {"namespace": "default", "pod": "w-1"}, {"namespace": "other", "pod": "w-2"}


def use(*series: dict[str, Any]) -> tuple[Any, ...]:
    """(utilisation, namespace, pod, attribution, [(pod, ratio)]) of the one row."""
    (row,) = rows(*series)
    shares = [(share["pod"], share["ratio"]) for share in json.loads(row["shares"])]
    return row["utilisation_ratio"], row["namespace"], row["pod"], row["attribution"], shares


def test_copies_per_pod_become_one_row() -> None:
    assert use(one(ENGINE, 0.714, **W1, vgpu="0"), one(ENGINE, 0.714, **W2, vgpu="1")) == (
        Decimal("0.7140"),
        "",
        "",
        "copies",
        [("w-1", None), ("w-2", None)],
    )


def test_the_cards_own_series_beats_the_parts_of_pods() -> None:
    """The better rung is repeated per pod; only the exporter's per-process metrics differ."""
    copies = (one(ENGINE, 0.9, **W1, vgpu="0"), one(ENGINE, 0.9, **W2, vgpu="1"))
    parts = (one(UTIL, 45, **W1, vgpu="0"), one(UTIL, 70), one(UTIL, 25, **W2, vgpu="1"))
    measured = [("w-1", "0.4500"), ("w-2", "0.2500")]
    assert use(*parts) == (Decimal("0.7000"), "", "", "per_process", measured)
    assert use(*copies, *parts) == (Decimal("0.9000"), "", "", "per_process", measured)


def test_equal_parts_of_pods_that_are_not_the_cards_value_are_measured() -> None:
    parts = (one(UTIL, 35, **W1, vgpu="0"), one(UTIL, 70), one(UTIL, 35, **W2, vgpu="1"))
    assert use(*parts)[3:] == ("per_process", [("w-1", "0.3500"), ("w-2", "0.3500")])


def test_where_only_memory_is_measured_per_pod_no_ratio_is_claimed() -> None:
    mig = {"GPU_I_ID": "3"}
    memory = (one(USED, 300, **mig), one(USED, 100, **mig, **W1), one(USED, 200, **mig, **W2))
    found = use(*memory, one(UTIL, 0, **mig, **W1), one(UTIL, 5, **mig, **W2, vgpu="1"))
    assert found == (None, "", "", "per_process", [("w-1", None), ("w-2", None)])


def test_values_that_differ_without_a_share_label_are_the_leavings_of_a_label() -> None:
    assert use(one(ENGINE, 0.7, **W1), one(ENGINE, 0.5, **W2))[0] == Decimal("0.7000")
    assert use(one(ENGINE, 0.7, **W1), one(ENGINE, 0.5, **W2))[3] == "flips"
    assert use(one(ENGINE, 0.7, **W1), one(USED, 5, **W2))[3] == "flips"


def test_a_job_that_is_repeated_is_still_one_pod() -> None:
    jobs = (one(ENGINE, 0.5, **W1, hpc_job=job) for job in ("7", "8"))
    assert use(*jobs) == (Decimal("0.5000"), "default", "w-1", "whole", [])


def test_instances_are_rows_and_board_power_stands_once() -> None:
    mig = [{"GPU_I_ID": gi, "GPU_I_PROFILE": "1g.10gb"} for gi in ("7", "8", "9")]
    found = rows(
        *(one(ENGINE, 0.1 * i, **labels) for i, labels in enumerate(mig)),
        *(one(POWER, 300, **labels) for labels in mig),
        *(one(UTIL, 0, **labels) for labels in mig),
    )
    assert [r["instance"] for r in found] == ["7", "8", "9"]
    assert [r["power_watts"] for r in found] == [Decimal("300.00"), None, None]
    assert [r["utilisation_source"] for r in found] == ["gr_engine_active"] * 3


def test_gpu_util_means_nothing_on_an_instance() -> None:
    (row,) = rows(one(UTIL, 0, GPU_I_ID="1"))
    assert row["utilisation_ratio"] is None


# ------------------------------------------------------------------ many times
def test_a_matrix_gives_rows_per_time() -> None:
    start = NOW.timestamp()
    matrix = {
        "metric": {"__name__": UTIL, **CARD},
        "values": [[start, "10"], [start + 3600, "20"], [start + 7200, "NaN"]],
    }
    found = samples(group_by_metric([matrix]))
    assert [(row[0], row[7]) for row in found.rows] == [
        (NOW, Decimal("0.1000")),
        (NOW + timedelta(hours=1), Decimal("0.2000")),
        (NOW + timedelta(hours=2), None),
    ]


@pytest.mark.parametrize(
    "series",
    [
        {},
        {"metric": None},
        {"metric": {"__name__": UTIL, "UUID": "GPU-9"}},
        {"metric": {"__name__": UTIL, "UUID": "GPU-9"}, "value": None},
        {"metric": {"__name__": UTIL, "UUID": "GPU-9"}, "value": ["soon", "1"]},
        {"metric": {"__name__": UTIL, "UUID": "GPU-9"}, "values": "none"},
        {"metric": {"__name__": UTIL, "UUID": "GPU-9"}, "values": [[1], None, 7]},
    ],
)
def test_a_series_that_is_none_gives_nothing(series: dict[str, Any]) -> None:
    assert [row[1] for row in read(series, one(UTIL, 1)).rows] == ["GPU-1"]


def test_nothing_at_all() -> None:
    assert read() == Samples([], COLUMNS, [])
    assert "DCGM_FI_PROF_SM_ACTIVE|" in queries()[0]


# ------------------------------------------------------------------ any labels
PODS = [
    {},
    {"namespace": "ml", "pod": "a"},
    {"namespace": "ml", "pod": "b"},
    {"namespace": "web", "pod": "a"},
]


@st.composite
def scrapes(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Series of up to four cards, some of them partitioned, with copies per pod, job and replica."""
    found = []
    for card in range(draw(st.integers(1, 4))):
        instances = draw(st.sampled_from([[""], ["1"], ["1", "2", "13"], ["", "1"]]))
        for instance in instances:
            mig = {"GPU_I_ID": instance, "GPU_I_PROFILE": "1g.10gb"} if instance else {}
            for metric in draw(
                st.lists(st.sampled_from([UTIL, ENGINE, SM, USED, FREE, POWER, XID]), min_size=1)
            ):
                extra = draw(st.sampled_from([{}, {"vgpu": "0"}, {"hpc_job": "7"}, {"err_code": "3"}]))
                value = draw(st.sampled_from([0, 0.25, 1, 45, "NaN", 9223372036854775794]))
                pod = draw(st.sampled_from(PODS))
                found.append(one(metric, value, UUID=f"GPU-{card}", **mig, **pod, **extra))
    return found


@given(scrapes(), st.randoms())
def test_one_row_per_device_whatever_the_labels_do(series: list[dict[str, Any]], chance: Random) -> None:
    found = rows(*series)
    keys = [(row["device"], row["instance"]) for row in found]
    said = {(s["metric"]["UUID"], s["metric"].get("GPU_I_ID", "")) for s in series}
    assert len(keys) == len(set(keys))
    assert set(keys) == said
    powered = [row["device"] for row in found if row["power_watts"] is not None]
    assert len(powered) == len(set(powered))
    partitioned = {device for device, instance in keys if instance}
    for row in found:
        assert row["utilisation_ratio"] is None or 0 <= row["utilisation_ratio"] <= 1
        assert (row["utilisation_ratio"] is None) is (row["utilisation_source"] == "")
        assert row["device"] not in partitioned or row["utilisation_source"] != "gpu_util"
        shares = json.loads(row["shares"])
        # either nobody, or one pod by its name, or several in shares
        assert (row["attribution"] == "") is (not row["pod"] and not shares)
        assert (row["attribution"] == "whole") is bool(row["pod"])
        assert len(shares) != 1
        assert row["attribution"] == "per_process" or all(share["ratio"] is None for share in shares)
    shuffled = list(series)
    chance.shuffle(shuffled)
    assert rows(*shuffled) == found
