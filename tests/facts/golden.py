"""The golden fleet (tests/data/golden): its nodes as Kubernetes objects, and what was expected of them by hand."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from apps.fleet.models import Cluster, Reserve
from apps.observations import models
from apps.observations.services import Target, apply_list, write_samples
from worker.parsers.kinds import KINDS, decode_list, page_rows

DATA = Path(__file__).resolve().parents[1] / "data" / "golden"
PLUGINS, DRIVERS = "fleet.yaml", "dra.yaml"
BOTH = (PLUGINS, DRIVERS)
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Wanted:
    """One group as the file expects it; units: resource → (physical, usable, equivalents, memory of one unit)."""

    model: str
    mode: str
    cards: int
    out: dict[str, int]
    usable: int
    units: dict[str, tuple[Decimal, Decimal, Fraction, int | None]]
    card_memory: int | None
    stranded: tuple[int, int]
    estimated: bool
    codes: frozenset[str]


@functools.lru_cache(maxsize=2)
def fleet(file: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DATA / file).read_text("utf-8"))
    return found


def nodes(*files: str) -> dict[str, dict[str, Any]]:
    return {node["name"]: node for file in files for node in fleet(file)["nodes"]}


def pools(*files: str) -> dict[str, tuple[int, int, Decimal, Decimal]]:
    """By hand: cards, usable cards, GPU-equivalents of all units and of the usable ones."""
    found: dict[str, tuple[int, int, Decimal, Decimal]] = {}
    for file in files:
        for key, (cards, usable, every, left) in fleet(file)["pools"].items():
            before = found.get(key, (0, 0, Decimal(0), Decimal(0)))
            found[key] = (
                before[0] + cards, before[1] + usable, before[2] + Decimal(every), before[3] + Decimal(left),
            )  # fmt: skip
    return found


def memory(*files: str) -> dict[str, tuple[int, int]]:
    """By hand: bytes of all units of a pool and of the usable ones, where they can be said. A pool of both files whose
    memory one of them cannot say has none."""
    found: dict[str, tuple[int, int]] = {}
    silent = {key for file in files for key in fleet(file)["pools"] if key not in fleet(file)["memory"]}
    for file in files:
        for key, (every, usable) in fleet(file)["memory"].items():
            before = found.get(key, (0, 0))
            found[key] = (before[0] + (bytes_of(every) or 0), before[1] + (bytes_of(usable) or 0))
    return {key: amounts for key, amounts in found.items() if key not in silent}


def bytes_of(memory: str | int | None) -> int | None:
    """ "81559 MiB" or plain bytes."""
    if isinstance(memory, str):
        match = re.fullmatch(r"(\d+) MiB", memory)
        assert match, memory
        return int(match[1]) * MIB
    return memory


def wanted(node: dict[str, Any]) -> list[Wanted]:
    return [_wanted(group) for group in node["expect"]]


def _wanted(group: dict[str, Any]) -> Wanted:
    stranded = group.get("stranded", [0, 0])
    return Wanted(
        group["model"],
        group["mode"],
        group["cards"],
        group.get("out", {}),
        group["usable"],
        {
            resource: (Decimal(physical), Decimal(usable), Fraction(weight), bytes_of(memory))
            for resource, (physical, usable, weight, memory) in group["units"].items()
        },
        bytes_of(group.get("card")),
        (stranded[0], stranded[1]),
        group.get("estimated", False),
        frozenset(group.get("codes", ())),
    )


# ------------------------------------------------------------------------------------------ Kubernetes objects


def node_object(node: dict[str, Any], *, before: bool = False) -> dict[str, Any]:
    """`before`: as it was while it last offered something."""
    capacity = dict(node.get("capacity", {}))
    allocatable = dict(node.get("allocatable", capacity))
    if before:
        capacity = allocatable = dict(node["before"])
    machine = {"cpu": "192", "memory": "2Ti", "pods": "110"}
    return {
        "metadata": {
            "name": node["name"],
            "uid": f"uid-{node['name']}",
            "resourceVersion": "1" if before else "2",
            "creationTimestamp": "2026-11-01T00:00:00Z",
            "labels": {"kubernetes.io/hostname": node["name"], **node.get("labels", {})},
            "annotations": {"node.alpha.kubernetes.io/ttl": "0", **node.get("annotations", {})},
            **({"deletionTimestamp": "2026-12-02T03:00:00Z"} if node.get("deleting") else {}),
        },
        "spec": {
            "taints": [{"key": k, "value": v, "effect": e} for k, v, e in node.get("taints", ())],
            "unschedulable": node.get("cordoned", False),
        },
        "status": {
            "capacity": {**machine, **capacity},
            "allocatable": {**machine, **allocatable},
            "conditions": [
                {"type": type_, "status": status, "lastTransitionTime": "2026-11-01T00:00:00Z"}
                for type_, status in node.get("conditions", {"Ready": "True"}).items()
            ],
        },
    }


def pod_objects(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "metadata": {
                "name": name,
                "namespace": "golden",
                "uid": f"uid-{node['name']}-{name}",
                "resourceVersion": "1",
                "creationTimestamp": "2026-11-02T00:00:00Z",
            },
            "spec": {
                "nodeName": node["name"],
                "containers": [{"name": "main", "resources": {"requests": requests, "limits": requests}}],
            },
            "status": {"phase": phase},
        }
        for name, (phase, requests) in node.get("pods", {}).items()
    ]


# ------------------------------------------------------------------------------------------ DRA's objects

DRIVER = "gpu.nvidia.com"


def _meta(name: str, namespace: str = "") -> dict[str, Any]:
    return {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "creationTimestamp": "2026-11-01T00:00:00Z",
        **({"namespace": namespace} if namespace else {}),
    }


def class_objects() -> list[dict[str, Any]]:
    return [
        {
            "metadata": _meta(found["name"]),
            "spec": {
                "selectors": [{"cel": {"expression": found["cel"]}}],
                **({"extendedResourceName": found["extended"]} if "extended" in found else {}),
            },
        }
        for found in fleet(DRIVERS)["classes"]
    ]


def slice_objects(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [_slice(node["name"], place, said) for place, said in enumerate(node.get("slices", ()))]


def _slice(node: str, place: int, said: dict[str, Any]) -> dict[str, Any]:
    driver = said.get("driver", DRIVER)
    devices = [*_whole(node, said), *said.get("devices", ()), *_placed(node, said)]
    spec: dict[str, Any] = {
        "driver": driver,
        "nodeName": node,
        "pool": {
            "name": node,
            "generation": said.get("generation", 1),
            "resourceSliceCount": said.get("of", 1),
        },
    }
    if devices:
        taints = said.get("taints", {})
        spec["devices"] = [_device(found, taints.get(found["name"], ())) for found in devices]
    if "counters" in said:
        spec["sharedCounters"] = [
            {"name": name, "counters": _amounts(counters)} for name, counters in said["counters"].items()
        ]
    return {"metadata": _meta(f"{node}-{driver}-{place}"), "spec": spec}


def _whole(node: str, said: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": f"gpu-{number}",
            "type": "gpu",
            "uuid": f"GPU-{node}-{number}",
            "model": said["model"],
            "memory": said["memory"],
        }
        for number in range(said.get("cards", 0))
    ]


def _placed(node: str, said: dict[str, Any]) -> list[dict[str, Any]]:
    """A card and every placement of its profiles, each with the counters that it takes."""
    found = []
    for card, profiles in said.get("placements", {}).items():
        size = int(said["memory"].removesuffix("Mi"))
        every = max(part for placed in profiles.values() for parts in placed for part in parts) + 1
        uuid = f"GPU-{node}-{card}"
        places = [("", 0, list(range(every)))] + [
            (profile, place, parts)
            for profile, placed in profiles.items()
            for place, parts in enumerate(placed)
        ]
        for profile, place, parts in places:
            memory = f"{size * len(parts) // every}Mi"
            counters = {"memory": memory, **{f"s{part}": 1 for part in parts}}
            named = {"parent": uuid, "profile": profile} if profile else {"uuid": uuid}
            found.append(
                {
                    "name": f"{card}-mig-{profile}-{place}" if profile else card,
                    "type": "mig" if profile else "gpu",
                    "model": said["model"],
                    "memory": memory,
                    "consumes": {f"{card}-counter-set": counters},
                    **named,
                }
            )
    return found


_ATTRIBUTES = {
    "type": "type",
    "uuid": "uuid",
    "parent": "parentUUID",
    "profile": "profile",
    "model": "productName",
}


def _device(said: dict[str, Any], taints: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": said["name"],
        "attributes": {key: {"string": said[name]} for name, key in _ATTRIBUTES.items() if name in said},
        "taints": [{"key": key, "value": value, "effect": effect} for key, value, effect in taints],
    }
    if "memory" in said:
        found["capacity"] = _amounts({"memory": said["memory"]})
    if said.get("multiple"):
        found["allowMultipleAllocations"] = True
    if "consumes" in said:
        found["consumesCounters"] = [
            {"counterSet": name, "counters": _amounts(counters)}
            for name, counters in said["consumes"].items()
        ]
    return found


def _amounts(said: dict[str, Any]) -> dict[str, Any]:
    return {name: {"value": str(amount)} for name, amount in said.items()}


def claim_objects(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [_claim(node["name"], said) for said in node.get("claims", ())]


def _claim(node: str, said: dict[str, Any]) -> dict[str, Any]:
    more: dict[str, Any] = {"adminAccess": True} if said.get("admin") else {}
    if "consumed" in said:
        more |= {"shareID": said["share"], "consumedCapacity": said["consumed"]}
    results = [
        {"request": "gpu", "driver": DRIVER, "pool": node, "device": device, **more}
        for device in said["devices"]
    ]
    return {
        "metadata": _meta(f"{node}-{said['name']}", "golden"),
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [
                {"resource": "pods", "name": pod, "uid": f"uid-{node}-{pod}"} for pod in said["pods"]
            ],
        },
    }


def parsed(kind_name: str, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Objects as the parsers store them: columns by name."""
    kind = KINDS[kind_name]
    page = decode_list(kind, kind.versions[0], json.dumps({"metadata": {}, "items": items}).encode())
    rows, bad = page_rows(kind, page)
    assert not bad, bad[:1]
    return [
        {
            name: json.loads(value) if name in ("spec", "status", "labels") else value
            for name, value in zip(kind.columns, row, strict=True)
        }
        for row in rows
    ]


# ------------------------------------------------------------------------------------------ the collected cluster

AT = datetime(2026, 12, 2, 3, 5, tzinfo=UTC)
EARLIER = AT - timedelta(minutes=3)


def written(cluster: Cluster, kind_name: str, items: list[dict[str, Any]], at: datetime) -> None:
    """A list as the API server answers it, through the parsers into the tables."""
    kind = KINDS[kind_name]
    page = decode_list(kind, kind.versions[0], json.dumps({"metadata": {}, "items": items}).encode())
    rows, bad = page_rows(kind, page)
    assert not bad, bad[:1]
    target = Target(getattr(models, kind.model), kind.name, kind.columns)
    _count, rejected = apply_list(cluster_id=cluster.pk, target=target, rows=rows, now=at)
    assert not rejected


def collected_fleet() -> Cluster:
    """The golden fleet as a cluster that was read at AT; what a node offered `before` was read three minutes earlier."""
    cluster = Cluster.objects.create(slug="golden", name="Golden", kubeconfig_path="/nowhere")
    found = nodes(*BOTH).values()
    written(cluster, "Node", [node_object(node, before="before" in node) for node in found], EARLIER)
    written(cluster, "Node", [node_object(node) for node in found], AT)
    written(cluster, "Pod", [pod for node in found for pod in pod_objects(node)], AT)
    written(cluster, "DeviceClass", class_objects(), AT)
    written(cluster, "ResourceSlice", [item for node in found for item in slice_objects(node)], AT)
    written(cluster, "ResourceClaim", [item for node in found for item in claim_objects(node)], AT)
    for source in models.Source:
        there = source not in (models.Source.KUEUE, models.Source.VOLCANO)
        models.SourceState.objects.create(
            cluster=cluster,
            source=source,
            presence=models.Presence.INSTALLED if there else models.Presence.ABSENT,
            last_run_at=AT,
            last_ok_at=AT,
            last_outcome=models.Outcome.OK,
        )
    for node in found:
        _sampled(cluster, node)
        _reserved(cluster, node)
    return cluster


def _sampled(cluster: Cluster, node: dict[str, Any]) -> None:
    """One fresh sample of every card that telemetry sees, written as a pull writes it; the models take turns."""
    seen = node.get("telemetry", {"cards": 0})
    at, product_names = AT - timedelta(seconds=20), seen.get("models", ())
    rows = [
        (
            at,
            f"GPU-{node['name']}-{number}",
            node["name"],
            product_names[number % len(product_names)],
            "nvidia",
        )
        for number in range(seen["cards"])
    ]
    columns = ("sampled_at", "device", "node_name", "model", "vendor")
    write_samples(cluster_id=cluster.pk, columns=columns, rows=rows)


def _reserved(cluster: Cluster, node: dict[str, Any]) -> None:
    if "reserve" in node:
        (group,) = node["expect"]
        Reserve.objects.create(
            cluster=cluster,
            model=group["model"],
            sharing_mode=group["mode"],
            devices=node["reserve"],
            reason="spares",
            valid_from=EARLIER,
        )
