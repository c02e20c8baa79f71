"""The store, the bulk objects and the selectors, without HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simcluster import promql
from simcluster.bulk import Bulk, fill_bulk, mutate
from simcluster.kinds import KINDS
from simcluster.state import StateError, load_state
from simcluster.store import Gone, Store
from simcluster.versions import in_version

POD, WORK = KINDS["Pod"], KINDS["Workload"]
NOW = 1_795_500_000


def pod(name: str, namespace: str = "a") -> dict[str, dict[str, str]]:
    return {"metadata": {"name": name, "namespace": namespace}}


def test_pages_of_a_namespace_are_complete_and_sorted() -> None:
    store = Store(now=NOW)
    for namespace in ("b", "a", "a-b", "ab"):
        for name in ("z", "x", "y"):
            store.put(POD, pod(name, namespace))
    names: list[str] = []
    after = ""
    while True:
        page = store.page(POD, namespace="a", after=after, limit=2)
        names += [json.loads(raw)["metadata"]["name"] for raw in page.items]
        after = page.next_key
        if not after:
            break
    assert names == ["x", "y", "z"]
    assert len(store.page(POD).items) == 12


def test_changes_after_a_version_and_what_was_compacted() -> None:
    store = Store(now=NOW)
    first = store.put(POD, pod("a"))
    second = store.put(POD, pod("b"))
    assert [change.version for change in store.changes_since(POD, first)] == [second]
    store.compact()
    assert store.changes_since(POD, store.version) == []
    with pytest.raises(Gone):
        store.changes_since(POD, first)


def test_versions_follow_the_simulated_time_and_never_fall() -> None:
    store = Store(now=NOW)
    versions = [store.put(POD, pod("a"), at=NOW), store.put(POD, pod("a"), at=NOW)]
    versions.append(store.put(POD, pod("a"), at=NOW + 60))
    versions.append(store.put(POD, pod("a"), at=NOW + 30))
    assert versions == sorted(set(versions))
    assert versions[2] - versions[0] > 59_000


def test_raw_bytes_are_kept_but_for_the_version() -> None:
    store = Store(now=NOW)
    raw = b'{"kind":"Pod","metadata":{"name":"a","namespace":"n","resourceVersion":"7"},"spec":"\\u0000 nonsense"}'
    version = store.put_raw(POD, "n/a", raw)
    assert store.raws(POD) == [raw.replace(b'"7"', b'"%d"' % version)]


def test_bulk_objects_have_realistic_sizes_and_names() -> None:
    store = Store(now=NOW)
    fill_bulk(store, Bulk(pods=40, workloads=60, queues=10))
    pods = store.raws(POD)
    assert len(pods) == 40
    assert 8_400 < sum(map(len, pods)) / 40 < 9_200
    work = store.raws(WORK)
    assert 2_800 < sum(map(len, work)) / 60 < 4_000
    uids = {json.loads(raw)["metadata"]["uid"] for raw in (*pods, *work)}
    assert len(uids) == 100
    queues = {json.loads(raw)["metadata"]["name"] for raw in store.raws(KINDS["ClusterQueue"])}
    locals_ = [json.loads(raw) for raw in store.raws(KINDS["LocalQueue"])]
    assert {one["spec"]["clusterQueue"] for one in locals_} == queues
    named = {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in locals_}
    for raw in work:
        one = json.loads(raw)
        assert (one["metadata"]["namespace"], one["spec"]["queueName"]) in named
        if admission := one["status"].get("admission"):
            assert admission["clusterQueue"] in queues


def test_mutate_changes_a_share_spread_evenly() -> None:
    store = Store(now=NOW)
    fill_bulk(store, Bulk(workloads=500, queues=10))
    before = store.version
    assert mutate(store, WORK, 1) == 5
    changes = store.changes_since(WORK, before)
    assert len({json.loads(change.raw)["metadata"]["uid"] for change in changes}) == 5
    assert {change.type for change in changes} == {"MODIFIED"}


def test_a_workload_in_the_older_version() -> None:
    raw = json.dumps(
        {
            "kind": "Workload",
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "metadata": {"name": "w"},
            "spec": {
                "priorityClassRef": {
                    "group": "kueue.x-k8s.io",
                    "kind": "WorkloadPriorityClass",
                    "name": "high",
                }
            },
            "status": {"accumulatedPastExecutionTimeSeconds": 40},
        }
    ).encode()
    older = json.loads(in_version(WORK, "v1beta1", raw))
    assert older["apiVersion"] == "kueue.x-k8s.io/v1beta1"
    assert older["spec"]["priorityClassName"] == "high"
    assert older["spec"]["priorityClassSource"] == "kueue.x-k8s.io/workloadpriorityclass"
    assert older["status"] == {"accumulatedPastExexcutionTimeSeconds": 40}
    assert in_version(WORK, "v1beta2", raw) is raw


@pytest.mark.parametrize(
    ("query", "labels", "chosen"),
    [
        ("up", {"__name__": "up"}, True),
        ("up", {"__name__": "upper"}, False),
        ('up{job="a"}', {"__name__": "up", "job": "a"}, True),
        ('up{job=""}', {"__name__": "up"}, True),
        ('up{job!="a"}', {"__name__": "up"}, True),
        ("up{job=~'a|b.+',}", {"__name__": "up", "job": "bc"}, True),
        ("up{job=~'a|b.+'}", {"__name__": "up", "job": "abc"}, False),
        ('up{job!~"a.*"}', {"__name__": "up", "job": "abc"}, False),
        (' { __name__ =~ "u.", job = "x}\\"y" } ', {"__name__": "up", "job": 'x}"y'}, True),
    ],
)
def test_selectors(query: str, labels: dict[str, str], chosen: bool) -> None:
    assert promql.matches(promql.parse(query), labels) is chosen


@pytest.mark.parametrize(
    "query", ["", " ", "rate(up[5m])", "up{", "up{job}", 'up{job="a"', 'up{a="b"}[5m]', '{job=~".*"}']
)
def test_what_is_no_selector(query: str) -> None:
    with pytest.raises(promql.QueryError):
        promql.parse(query)


def test_a_state_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="file"):
        load_state(tmp_path / "file", seed=None, days=1, now=NOW)
