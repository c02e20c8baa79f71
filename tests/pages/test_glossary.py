"""The glossary's weight table: on the page, as CSV, and the same rows as over REST."""

from __future__ import annotations

import csv
import io

from apps.api.tests.world import World


def test_weights_as_csv_are_those_of_the_interface(world: World) -> None:
    client = world.client("finance")
    text = b"".join(client.get("/glossary/?format=csv&table=weights")).decode("utf-8-sig")
    header, *rows = csv.reader(io.StringIO(text))
    assert header == [
        "Vendor",
        "Model",
        "Profile",
        "Most on one card",
        "Compute slices",
        "Compute slices of the card",
        "Memory slices",
        "Memory slices of the card",
    ]
    assert ["nvidia", "A30 24GB", "2g.12gb", "2", "2", "4", "2", "4"] in rows
    assert ["amd", "", "cpx_nps4", "8", "1", "8", "", ""] in rows
    served = client.get("/api/v1/gpu-weights/?page_size=500").json()["results"]
    told = [["" if value is None else str(value) for value in row.values()] for row in served]
    assert sorted(rows) == sorted(told)


def test_the_page_says_what_a_unit_is_and_is_not(world: World) -> None:
    page = world.client("viewer").get("/glossary/").content.decode()
    assert "Several slices share one card: no memory or fault isolation." in page
    assert "One MIG instance is a hardware partition: own memory, own fault isolation." in page
    assert "RTX PRO 6000 Blackwell 96GB" in page
    assert "?format=csv&amp;table=weights" in page
