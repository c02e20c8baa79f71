"""Every parser reads every recorded list and every line of every recorded watch of its kind."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from worker.parsers.kinds import KINDS, Bad, decode_list, decode_watch, page_rows, watch_row

from .recorded import body, lists, rows, watches


@pytest.mark.parametrize(("path", "kind"), lists())
def test_list(path: str, kind: str) -> None:
    raw = body(path)
    plain = json.loads(raw)
    found = KINDS[kind]
    page = decode_list(found, found.versions[0], raw)
    made, bad = page_rows(found, page)
    assert bad == []
    assert [row[found.columns.index("uid")] for row in made] == [i["metadata"]["uid"] for i in plain["items"]]
    assert page.resource_version == plain["metadata"]["resourceVersion"]
    assert page.continue_token == plain["metadata"].get("continue", "")
    for row in made:
        assert len(row) == len(found.columns)
        assert all(cell.tzinfo is not None for cell in row if isinstance(cell, datetime))


@pytest.mark.parametrize(("path", "kind"), watches())
def test_watch(path: str, kind: str) -> None:
    found = KINDS[kind]
    lines = body(path).splitlines()
    assert len(lines) > 10
    for line in lines:
        plain = json.loads(line)
        watched = decode_watch(found, found.versions[0], line)
        assert watched.type == plain["type"]
        assert watched.resource_version == plain["object"]["metadata"]["resourceVersion"]
        if watched.type != "BOOKMARK":
            row = watch_row(found, watched)
            assert not isinstance(row, Bad)
            assert row[found.columns.index("uid")] == plain["object"]["metadata"]["uid"]


def test_there_are_recordings_of_every_kind() -> None:
    unserved = {"DeviceTaintRule", "ClusterPolicy"}  # by the recorded clusters
    assert {kind for _path, kind in lists()} == set(KINDS) - unserved
    assert len(lists()) > 45
    assert {kind for _path, kind in watches()} == {
        "Node",
        "Pod",
        "Event",
        "ClusterQueue",
        "LocalQueue",
        "Workload",
    }


@pytest.mark.parametrize("kind", ["Workload", "ClusterQueue", "LocalQueue"])
def test_both_versions_give_the_same_rows(kind: str) -> None:
    stem = KINDS[kind].plural
    new = rows(f"kueue/{stem}.json", kind, "v1beta2")
    old = rows(f"kueue/{stem}-v1beta1.json", kind, "v1beta1")
    assert len(new) > 10
    assert old.keys() == new.keys()
    for name, row in new.items():
        # The lists were taken one after the other: what only moved in between is not compared.
        if old[name]["resource_version"] == row["resource_version"]:
            # `raw` is as served, in its own version.
            assert old[name] | {"raw": None} == row | {"raw": None}
    same = [n for n, r in new.items() if old[n]["resource_version"] == r["resource_version"]]
    assert len(same) >= len(new) - 2


def test_watched_error_says_expired() -> None:
    watched = decode_watch(KINDS["Pod"], "v1", body("kueue/watch-410-error-event.txt"))
    assert (watched.type, watched.code, watched.bad) == ("ERROR", 410, None)
    assert watched.message == "too old resource version: 1 (429)"


def test_pages_of_a_list_continue() -> None:
    first = decode_list(KINDS["Workload"], "v1beta2", body("kueue/workloads-page1.json"))
    second = decode_list(KINDS["Workload"], "v1beta2", body("kueue/workloads-page2.json"))
    assert first.continue_token
    assert first.resource_version == second.resource_version
    assert not {i.metadata.uid for i in first.items} & {i.metadata.uid for i in second.items}
