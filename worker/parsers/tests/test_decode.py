"""Faults stay where they are: k broken objects of n cost k, a broken body costs the page, a broken line the watch."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.parsers.kinds import KINDS, Bad, ParseError, decode_list, decode_watch, page_rows, watch_row

from .recorded import body, lists

PODS = json.loads(body("kueue/pods.json"))["items"]
POD = KINDS["Pod"]


def _as_list(items: list[Any]) -> bytes:
    return json.dumps({"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": items}).encode()


def _break(pod: dict[str, Any], how: str) -> Any:
    broken = json.loads(json.dumps(pod))
    if how == "type":
        broken["status"] = ["not", "an", "object"]
    elif how == "time":
        broken["metadata"]["creationTimestamp"] = "yesterday"
    elif how == "uid":
        del broken["metadata"]["uid"]
    elif how == "labels":
        broken["metadata"]["labels"] = {"a": 1}
    elif how == "quantity":
        broken["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "many"}}
    elif how == "null":
        return None
    return broken


HOWS = ("type", "time", "uid", "labels", "quantity", "null")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(("",) * 6 + HOWS), min_size=1, max_size=30))
def test_broken_objects_cost_only_themselves(hows: list[str]) -> None:
    items = [_break(PODS[i], how) if how else PODS[i] for i, how in enumerate(hows)]
    page = decode_list(POD, "v1", _as_list(items))
    rows, bad = page_rows(POD, page)
    assert [row[0] for row in rows] == [PODS[i]["metadata"]["uid"] for i, how in enumerate(hows) if not how]
    assert len(bad) == sum(1 for how in hows if how)
    assert page.resource_version == "7"
    # every broken object is kept with exactly its own bytes
    kept = sorted(json.dumps(json.loads(b.raw)) for b in bad)
    assert kept == sorted(json.dumps(item) for item, how in zip(items, hows, strict=True) if how)


def test_a_broken_object_is_named_as_well_as_it_can_be() -> None:
    meta = PODS[0]["metadata"]
    named = f"{meta['namespace']}/{meta['name']}"
    items = [_break(PODS[0], how) for how in ("type", "uid", "quantity", "null")]
    _rows, bad = page_rows(POD, decode_list(POD, "v1", _as_list(items)))
    by_error = {b.error: b for b in bad}
    assert [b.key for b in bad[:2]] == [meta["uid"], named]
    assert bad[2].key.startswith("sha256:")
    assert bad[2].name == ""
    quantity = by_error["resources[cpu]: 'many' is not a Kubernetes quantity"]
    assert (quantity.key, quantity.name) == (meta["uid"], named)
    assert "Object missing required field `uid`" in bad[1].error


def test_a_name_without_namespace_keeps_the_slash_in_its_key() -> None:
    node = {"metadata": {"name": "n1"}, "status": []}
    _rows, bad = page_rows(KINDS["Node"], decode_list(KINDS["Node"], "v1", _as_list([node])))
    assert (bad[0].key, bad[0].name) == ("/n1", "n1")


def test_wrong_bytes_inside_one_string_cost_one_object() -> None:
    raw = _as_list(PODS[:3]).replace(PODS[1]["metadata"]["uid"].encode(), b"\xff\xfe", 1)
    rows, bad = page_rows(POD, decode_list(POD, "v1", raw))
    assert [row[0] for row in rows] == [PODS[0]["metadata"]["uid"], PODS[2]["metadata"]["uid"]]
    assert b"\xff\xfe" in bad[0].raw


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"upstream connect error",
        _as_list(PODS[:5])[:-400],
        b"<html><body>504 Gateway Time-out</body></html>",
        b'{"kind":"Status","apiVersion":"v1","status":"Failure","code":410}',
        b"[]",
        b'{"items":{}}',
    ],
)
def test_a_body_that_is_no_list_is_refused_as_a_whole(raw: bytes) -> None:
    with pytest.raises(ParseError, match="the answer for pods") as caught:
        decode_list(POD, "v1", raw)
    assert caught.value.kind == "bad_body"


@settings(max_examples=80, deadline=None)
@given(cut=st.integers(min_value=0, max_value=20_000))
def test_a_truncated_list_never_passes_for_a_whole_one(cut: int) -> None:
    raw = _as_list(PODS[:4])
    shortened = raw[: max(0, len(raw) - 1 - cut)]
    with pytest.raises(ParseError):
        decode_list(POD, "v1", shortened)


def test_no_items_is_an_empty_list() -> None:
    assert decode_list(POD, "v1", b'{"items":null,"metadata":{}}').items == []
    assert decode_list(POD, "v1", _as_list([])).items == []


# ------------------------------------------------------------------ anything at all
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(10**20), max_value=10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "-1", "1e36", "9" * 40, "0x1", "\x00", "2026-02-30T00:00:00Z", "日本語"]),
    st.just([]),
    st.just({}),
    st.just([None]),
    st.just({"": ""}),
)
SAMPLES = {
    kind: json.loads(body(path))["items"][:12]
    for path, kind in reversed(lists())
    if "v1beta1" not in path and json.loads(body(path))["items"]
}


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in an object that holds something, managedFields left out."""
    found = [path] if path else []
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in inside:
        if name != "managedFields":
            found += _places(child, (*path, name))
    return found


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_whatever_stands_anywhere_costs_at_most_its_object(data: st.DataObject) -> None:
    kind = KINDS[data.draw(st.sampled_from(sorted(SAMPLES)))]
    items = SAMPLES[kind.name]
    index = data.draw(st.integers(min_value=0, max_value=len(items) - 1))
    broken = json.loads(json.dumps(items[index]))
    broken["metadata"].pop("managedFields", None)
    for _ in range(data.draw(st.integers(min_value=1, max_value=3))):
        *above, last = data.draw(st.sampled_from(_places(broken)))
        holder = broken
        for name in above:
            holder = holder[name]
        holder[last] = json.loads(json.dumps(data.draw(ODD)))
    changed = [*items[:index], broken, *items[index + 1 :]]
    raw = json.dumps({"metadata": {"resourceVersion": "1"}, "items": changed}).encode()
    rows, bad = page_rows(kind, decode_list(kind, kind.versions[0], raw))
    assert len(rows) + len(bad) == len(items)
    assert len(bad) <= 1
    assert all(len(row) == len(kind.columns) for row in rows)
    watched = decode_watch(
        kind, kind.versions[0], json.dumps({"type": "MODIFIED", "object": broken}).encode()
    )
    assert isinstance(watch_row(kind, watched), Bad) == bool(bad)


def test_an_amount_beyond_reckoning_costs_one_object() -> None:
    items = [json.loads(json.dumps(item)) for item in SAMPLES["Workload"]]
    usage = {"name": "main", "count": 3, "resourceUsage": {"nvidia.com/gpu": "1e36"}}
    items[0]["status"] = {
        "conditions": [{"type": "QuotaReserved", "status": "True"}],
        "admission": {"clusterQueue": "cq", "podSetAssignments": [usage]},
        "reclaimablePods": [{"name": items[0]["spec"]["podSets"][0]["name"], "count": 10**6}],
    }
    items[0]["spec"]["podSets"][0].update(name="main", count=2)
    items[0]["status"]["reclaimablePods"] = [{"name": "main", "count": 1}]
    raw = json.dumps({"items": items}).encode()
    rows, bad = page_rows(KINDS["Workload"], decode_list(KINDS["Workload"], "v1beta2", raw))
    assert (len(rows), len(bad)) == (len(items) - 1, 1)
    assert "InvalidOperation" in bad[0].error


# ------------------------------------------------------------------ watches
def _line(kind: str, obj: Any) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()


def test_a_deleted_object_is_read_to_its_last_state() -> None:
    watched = decode_watch(POD, "v1", _line("DELETED", PODS[0]))
    assert watched.type == "DELETED"
    row = watch_row(POD, watched)
    assert not isinstance(row, Bad)
    assert row[0] == PODS[0]["metadata"]["uid"]


@pytest.mark.parametrize("how", ["type", "time", "labels", "uid", "quantity"])
def test_a_broken_object_in_a_watch_moves_the_version_on(how: str) -> None:
    broken = _break(PODS[0], how)
    watched = decode_watch(POD, "v1", _line("MODIFIED", broken))
    assert watched.resource_version == PODS[0]["metadata"]["resourceVersion"]
    bad = watch_row(POD, watched)
    assert isinstance(bad, Bad)
    assert json.loads(bad.raw) == broken


def test_a_bookmark_only_carries_a_version() -> None:
    mark = {"kind": "Pod", "metadata": {"resourceVersion": "991", "creationTimestamp": None}}
    watched = decode_watch(POD, "v1", _line("BOOKMARK", mark))
    assert (watched.type, watched.resource_version, watched.obj, watched.bad) == (
        "BOOKMARK",
        "991",
        None,
        None,
    )


@pytest.mark.parametrize(
    "line", [b"garbage", b"", b'{"type":"ADDED","object":{"metadata"', b"null", b'{"type":3}']
)
def test_a_line_that_is_no_event_ends_the_watch(line: bytes) -> None:
    watched = decode_watch(POD, "v1", line)
    assert (watched.type, watched.code, watched.obj) == ("ERROR", 0, None)
    assert watched.bad is not None
    assert watched.bad.raw == line


@given(st.binary(max_size=200))
def test_decode_watch_never_raises(line: bytes) -> None:
    assert decode_watch(POD, "v1", line).type
