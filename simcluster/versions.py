"""Objects as the older versions of their group say them. Input: an encoded item; output: an encoded item.

Kueue's v1beta2 and v1beta1 differ by names: cohort/cohortName, parent/parentName, admissionChecks, fungibility words, a LocalQueue's
flavorUsage, a Workload's priorityClassName and a typo in accumulatedPastExexcutionTimeSeconds.
DRA's v1beta1 has a device's fields under `basic` and a request's at its top.
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
