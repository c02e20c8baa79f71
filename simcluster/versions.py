"""Objects as the older versions of their group say them, and back. Input: an object; output: the same object.

Kueue's v1beta2 and v1beta1 differ by names: cohort/cohortName, parent/parentName, admissionChecks, fungibility words,
a LocalQueue's flavorUsage, a Workload's priorityClassName and a typo in accumulatedPastExexcutionTimeSeconds.
DRA's v1beta1 has a device's fields under `basic` and a request's at its top.

Invariant: what is said in an older version and read back is what it was: what the older version has no word for is
kept from the stored object as long as the word that stands for it is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from simcluster.kinds import Kind

_FUNGIBILITY = {"MayStopSearch": "Borrow", "TryNextFlavor": "TryNextFlavor"}
_PREEMPT = {"MayStopSearch": "Preempt", "TryNextFlavor": "TryNextFlavor"}


def _cluster_queue(obj: dict[str, Any]) -> None:
    spec = obj.get("spec", {})
    if "cohortName" in spec:
        spec["cohort"] = spec.pop("cohortName")
    strategy = spec.pop("admissionChecksStrategy", None)
    if strategy:
        spec["admissionChecks"] = [check["name"] for check in strategy.get("admissionChecks", ())]
    fungibility = spec.get("flavorFungibility")
    if fungibility:
        for field, words in (("whenCanBorrow", _FUNGIBILITY), ("whenCanPreempt", _PREEMPT)):
            if field in fungibility:
                fungibility[field] = words.get(fungibility[field], fungibility[field])


def _cohort(obj: dict[str, Any]) -> None:
    spec = obj.get("spec", {})
    if "parentName" in spec:
        spec["parent"] = spec.pop("parentName")


def _local_queue(obj: dict[str, Any]) -> None:
    status = obj.get("status", {})
    if "flavorsUsage" in status:
        status["flavorUsage"] = status.pop("flavorsUsage")


def _workload(obj: dict[str, Any]) -> None:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    ref = spec.pop("priorityClassRef", None)
    if ref:
        spec["priorityClassName"] = ref["name"]
        spec["priorityClassSource"] = f"{ref.get('group', '')}/{ref.get('kind', '').lower()}"
    if "accumulatedPastExecutionTimeSeconds" in status:
        status["accumulatedPastExexcutionTimeSeconds"] = status.pop("accumulatedPastExecutionTimeSeconds")


def _resource_slice(obj: dict[str, Any]) -> None:
    devices = obj.get("spec", {}).get("devices", ())
    for index, device in enumerate(devices):
        devices[index] = {"name": device.pop("name"), "basic": device}


def _resource_claim(obj: dict[str, Any]) -> None:
    for request in obj.get("spec", {}).get("devices", {}).get("requests", ()):
        request.update(request.pop("exactly", {}))


_OLDER: dict[str, Callable[[dict[str, Any]], None]] = {
    "ClusterQueue": _cluster_queue,
    "Cohort": _cohort,
    "LocalQueue": _local_queue,
    "Workload": _workload,
    "ResourceSlice": _resource_slice,
    "ResourceClaim": _resource_claim,
}


def in_version(kind: Kind, version: str, raw: bytes) -> bytes:
    """The object in one of its versions."""
    if version == kind.versions[0]:
        return raw
    obj = msgspec.json.decode(raw)
    obj["apiVersion"] = kind.api_version(version)
    change = _OLDER.get(kind.name)
    if change and version == "v1beta1":
        change(obj)
    return msgspec.json.encode(obj)


# ---- and back -----------------------------------------------------------------------------------------------------
def _renamed(part: dict[str, Any], old: str, new: str) -> None:
    """A name that the older version does not know is dropped, as its schema drops it."""
    part.pop(new, None)
    if old in part:
        part[new] = part.pop(old)


def _cluster_queue_back(obj: dict[str, Any], stored: dict[str, Any]) -> None:
    spec, kept = obj.get("spec", {}), stored.get("spec", {})
    _renamed(spec, "cohort", "cohortName")
    strategy = kept.get("admissionChecksStrategy")
    known = {check["name"]: check for check in (strategy or {}).get("admissionChecks", ())}
    spec.pop("admissionChecksStrategy", None)
    names = spec.pop("admissionChecks", None)
    if names == list(known) and strategy is not None:
        spec["admissionChecksStrategy"] = strategy
    elif names:
        checks = [known.get(name, {"name": name}) for name in names]
        spec["admissionChecksStrategy"] = {"admissionChecks": checks}
    elif strategy == {}:
        spec["admissionChecksStrategy"] = strategy
    fungibility = spec.get("flavorFungibility") or {}
    for field in ("whenCanBorrow", "whenCanPreempt"):
        if fungibility.get(field) in ("Borrow", "Preempt"):
            fungibility[field] = "MayStopSearch"


def _cohort_back(obj: dict[str, Any], _stored: dict[str, Any]) -> None:
    _renamed(obj.get("spec", {}), "parent", "parentName")


def _local_queue_back(obj: dict[str, Any], _stored: dict[str, Any]) -> None:
    _renamed(obj.get("status", {}), "flavorUsage", "flavorsUsage")


_PRIORITY_KINDS = {"workloadpriorityclass": "WorkloadPriorityClass", "priorityclass": "PriorityClass"}


def _workload_back(obj: dict[str, Any], _stored: dict[str, Any]) -> None:
    spec = obj.get("spec", {})
    spec.pop("priorityClassRef", None)
    name, source = spec.pop("priorityClassName", None), spec.pop("priorityClassSource", "")
    if name:
        group, _, kind = source.rpartition("/")
        spec["priorityClassRef"] = {"group": group, "kind": _PRIORITY_KINDS.get(kind, kind), "name": name}
    old, new = "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds"
    _renamed(obj.get("status", {}), old, new)


def _resource_slice_back(obj: dict[str, Any], _stored: dict[str, Any]) -> None:
    devices = obj.get("spec", {}).get("devices", ())
    for index, device in enumerate(devices):
        devices[index] = {"name": device["name"], **device.get("basic", {})}


def _resource_claim_back(obj: dict[str, Any], _stored: dict[str, Any]) -> None:
    requests = obj.get("spec", {}).get("devices", {}).get("requests", ())
    for index, request in enumerate(requests):
        outside = {name: request[name] for name in ("name", "firstAvailable") if name in request}
        inside = {name: value for name, value in request.items() if name not in outside}
        requests[index] = {**outside, "exactly": inside} if inside else outside


_BACK: dict[str, Callable[[dict[str, Any], dict[str, Any]], None]] = {
    "ClusterQueue": _cluster_queue_back,
    "Cohort": _cohort_back,
    "LocalQueue": _local_queue_back,
    "Workload": _workload_back,
    "ResourceSlice": _resource_slice_back,
    "ResourceClaim": _resource_claim_back,
}


def from_version(kind: Kind, version: str, obj: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    """The object that one of its versions says, in the version it is stored in. `stored`: what is stored before."""
    if version == kind.versions[0]:
        return obj
    result: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(obj))
    result["apiVersion"] = kind.api_version()
    change = _BACK.get(kind.name)
    if change and version == "v1beta1":
        change(result, stored)
    return result
