"""The recorded API objects of tests/data, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from worker.parsers.kinds import KINDS, decode_list, page_rows

DATA = Path(__file__).resolve().parents[3] / "tests" / "data"

_LISTS = {
    "nodes": "Node",
    "pods": "Pod",
    "events-core": "Event",
    "workloads": "Workload",
    "clusterqueues": "ClusterQueue",
    "localqueues": "LocalQueue",
    "cohorts": "Cohort",
    "namespaces": "Namespace",
    "resourceflavors": "ResourceFlavor",
    "admissionchecks": "AdmissionCheck",
    "topologies": "Topology",
    "workloadpriorityclasses": "WorkloadPriorityClass",
    "deviceclasses": "DeviceClass",
    "resourceslices": "ResourceSlice",
    "resourceclaims": "ResourceClaim",
}
_PREFIXES = ("", "early-", "deactivated-", "nodefail-", "nodefail5m-", "fair-")
_VOLCANO = {
    "nodes": "Node",
    "pods": "Pod",
    "events": "Event",
    "queues": "VolcanoQueue",
    "podgroups": "PodGroup",
    "vcjobs": "VolcanoJob",
    "hypernodes": "HyperNode",
}


def lists() -> list[tuple[str, str]]:
    """(file, kind) of every recorded list that a parser reads."""
    found = [
        (f"kueue/{prefix}{stem}{suffix}.json", kind)
        for stem, kind in _LISTS.items()
        for prefix in _PREFIXES
        for suffix in ("", "-v1beta1")
    ]
    found += [("kueue/workloads-page1.json", "Workload"), ("kueue/workloads-page2.json", "Workload")]
    found += [
        ("kueue/kueue-down-v1beta1-list.json", "ClusterQueue"),
        ("kueue/200-no-such-crd.json", "VolcanoQueue"),
    ]
    found += [
        (f"volcano-{plugin}/{stem}.json", kind)
        for plugin in ("capacity", "proportion")
        for stem, kind in _VOLCANO.items()
    ]
    return [(path, kind) for path, kind in found if (DATA / path).exists()]


def watches() -> list[tuple[str, str]]:
    """(file, kind) of every recorded watch stream that a parser reads."""
    plurals = {kind.plural: kind.name for kind in KINDS.values() if kind.source != "volcano"}
    found = []
    for path in sorted((DATA / "kueue").glob("watch-*.ndjson")):
        plural = path.stem.removeprefix("watch-").removeprefix("list-")
        if plural in plurals:
            found.append((f"kueue/{path.name}", plurals[plural]))
    return found


def body(path: str) -> bytes:
    return (DATA / path).read_bytes()


def rows(path: str, kind: str, version: str = "") -> dict[str, dict[str, Any]]:
    """Rows of a recorded list by "namespace/name" (or name) as dicts, JSON columns decoded."""
    found = KINDS[kind]
    page = decode_list(found, version or found.versions[0], body(path))
    made, bad = page_rows(found, page)
    assert bad == []
    named = [as_dict(kind, row) for row in made]
    return {_key(row): row for row in named}


def _key(row: dict[str, Any]) -> str:
    """Events have no name worth keeping: their uid."""
    name: str = row.get("name") or row["uid"]
    return f"{row['namespace']}/{name}" if row["namespace"] else name


_TEXT = frozenset(("message", "name", "namespace"))


def as_dict(kind: str, row: tuple[Any, ...]) -> dict[str, Any]:
    def value(name: str, cell: Any) -> Any:
        is_json = isinstance(cell, str) and cell.startswith(("[", "{")) and name not in _TEXT
        return json.loads(cell) if is_json else cell

    return {name: value(name, cell) for name, cell in zip(KINDS[kind].columns, row, strict=True)}
