"""A pool's bar and numbers in each measure, by hand: 10 MIG cards of two profiles, 2 of them out of use."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from django.test import RequestFactory

from apps.capacity.rows import Amounts, Note, PoolRow, Ref
from apps.console.capacity_tables import PoolTable
from apps.console.measures import amounts_of, capacity_bar, measure_links, measure_of, shaded
from apps.console.note_links import note_lines
from apps.core.tables import prepare
from apps.fleet.models import Cluster

EAST = Cluster(pk=1, slug="east", name="East")
D = Decimal
WEIGHED = Amounts(
    "gpu_equivalent", D(10), D(8), held_bound=D(4), free=D(3), stranded=D(1), nominal=D(9), ceiling=D(30)
)
GIB = 2**30


def pool(**changes: Any) -> PoolRow:
    values: dict[str, Any] = {
        "cluster": EAST,
        "vendor": "nvidia",
        "model": "NVIDIA-H100-80GB-HBM3",
        "model_label": "H100 80GB",
        "sharing_mode": "mig",
        "unit": "gpu_equivalent",
        "physical_devices": 10,
        "buckets": {"lost": 1, "platform_reserve": 1},
        "allocatable_devices": 8,
        "physical_units": D(10),
        "unit_buckets": {},
        "allocatable": D(8),
        "held_bound": D(4),
        "held_reserved": None,
        "free": D(3),
        "nominal": D(9),
        "ceiling": D(30),
        "nodes": 2,
        "units": (),
        "estimated": False,
        "stranded": D(1),
        "amounts": {
            "units": Amounts("mig_instance", None, None),
            "equivalents": WEIGHED,
            "memory": Amounts("byte", D(800 * GIB), D(640 * GIB)),
        },
        "mode_sentence": "One MIG instance is a hardware partition.",
        "stranded_slices": (4, 12),
    }
    return PoolRow(**{**values, **changes})


def widths(bar: str) -> dict[str, str]:
    return {
        name: width for width, name in re.findall(r'width="([0-9.]+%)" height="100%" class="([\w-]+)"', bar)
    }


def marks(bar: str) -> dict[str, str]:
    return {name: at for at, name in re.findall(r'x="([0-9.]+%)" y="0" width="2" [^>]*class="([\w-]+)"', bar)}


def test_a_bar_is_on_one_scale() -> None:
    bar = str(capacity_bar(pool(), "equivalents"))
    # 12.5 is the width: a quarter more than the cards; the ceiling of 30 stands at the edge.
    assert widths(bar) == {
        "f-held": "32.00%",
        "f-stranded": "8.00%",
        "f-free": "24.00%",
        "f-broken": "8.00%",
        "f-reserve": "8.00%",
    }
    assert marks(bar) == {"mark": "72.00%", "mark-ceiling": "100.00%"}
    assert "4 held, 3 free, 1 stranded, 2 out of use; 9 committed" in bar


def test_units_of_several_kinds_are_read_as_equivalents() -> None:
    assert amounts_of(pool(), "units") is WEIGHED
    assert amounts_of(pool(), "memory").unit == "byte"


def test_a_bar_says_in_words_what_nobody_knows() -> None:
    unread = Amounts("card", D(8), D(8))
    bar = str(capacity_bar(pool(unit="card", amounts={"units": unread}), "units"))
    assert "f-unknown-use" in bar
    assert "not collected held" in bar
    nothing = Amounts("byte", None, None)
    assert "not collected" in str(capacity_bar(pool(amounts={"memory": nothing}), "memory"))


def test_reasons_are_shaded_by_who_can_change_them() -> None:
    found = dict(shaded({"lost": 1, "device_unhealthy": 2, "cordoned": 3, "platform_reserve": 4}))
    assert found == {"f-broken": 3, "f-away": 3, "f-reserve": 4}


@pytest.mark.parametrize(("query", "measure"), [("", "units"), ("memory", "memory"), ("cards", "units")])
def test_the_measure_is_in_the_address(rf: RequestFactory, query: str, measure: str) -> None:
    request = rf.get("/capacity/", {"measure": query, "model": "x"})
    assert measure_of(request) == measure
    links = [(url, current) for _label, url, current in measure_links(request)]
    assert ("/capacity/?model=x&measure=equivalents", False) in links
    assert [current for _url, current in links] == [m == measure for m in ("units", "equivalents", "memory")]


def test_a_pool_names_its_unit_its_isolation_and_its_loose_slices(rf: RequestFactory) -> None:
    body = prepare(PoolTable([pool()]), rf.get("/")).body
    assert "One MIG instance is a hardware partition." in body
    assert "Numbers in GPU-equivalents." in body
    assert "No instance covers 4 compute and 12 memory slices of its cards." in body
    assert "bucket=lost" in body
    assert "state=stranded" in body
    assert "state-warn" in body  # 9 promised of 8


def test_memory_of_time_slices_is_not_divided(rf: RequestFactory) -> None:
    body = prepare(PoolTable([pool()], measure="memory"), rf.get("/")).body
    assert "640 GiB" in body
    assert "800 GiB" in body


def test_what_is_not_to_be_said_is_neither_none_nor_unknown(rf: RequestFactory) -> None:
    """Memory of time slices: what exists is known, its quota is not memory."""
    table = prepare(PoolTable([pool()], measure="memory"), rf.get("/"))
    assert "none" not in re.findall(r">([^<]+)<", table.body)
    assert table.body.count(">–</td>") >= 4
    unknown = pool(amounts={"equivalents": WEIGHED, "memory": Amounts("byte", None, None)})
    assert "not collected" in prepare(PoolTable([unknown], measure="memory"), rf.get("/")).body


def test_volcano_is_shown_where_a_queue_says_something(rf: RequestFactory) -> None:
    assert "volcano" not in [c.name for c in prepare(PoolTable([pool()]), rf.get("/")).columns]
    said = Amounts("card", D(8), D(8), deserved=D(4), capability=D(6), held_admitted=D(2))
    row = pool(unit="card", amounts={"units": said, "equivalents": said})
    table = prepare(PoolTable([row]), rf.get("/"))
    assert {"volcano", "held_admitted"} <= {c.name for c in table.columns}
    assert "– / 4 / 6" in table.body
    head, values = table.as_values()
    assert dict(zip(head, values, strict=True))["Deserved"] == D(4)


def test_a_note_leads_to_what_causes_it() -> None:
    refs = (
        Ref("node", "n1"),
        Ref("Cohort", "all"),
        Ref("flavor", "h100"),
        Ref("pool", "X|mig"),
        Ref("resource", "example.com/npu"),
        Ref("ResourceClaim", "c", "ns"),
        Ref("node", "n2"),
    )
    (line,) = note_lines([Note("code", EAST, "Text.", (), refs)])
    assert re.findall(r'href="([^"]+)"', line.shown) == [
        "/capacity/nodes/n1/?cluster=east",
        "/queues/east/Cohort/all/",
        "/capacity/?cluster=east&amp;flavor=h100#nodes",
        "/capacity/?cluster=east&amp;model=X&amp;sharing_mode=mig#nodes",
    ]
    assert "<code>ns/c</code>" in line.shown
    assert line.more == '<a href="/capacity/nodes/n2/?cluster=east">n2</a>'
    assert (line.count, line.beyond) == (1, 0)


def test_a_note_about_thousands_names_some() -> None:
    refs = tuple(Ref("node", f"n{number}") for number in range(4000))
    (line,) = note_lines([Note("no_flavor", EAST, "Text.", (), refs)])
    assert (line.shown.count("<a "), line.more.count("<a "), line.beyond) == (6, 20, 3974)
