"""The kinds that the simulated API serves. Input: nothing; output: `KINDS` by name, lookup by path, discovery bodies.

Invariants: a kind is stored once, in its first (storage) version; other versions are made from it when asked for.
The names agree with those of the portal's parsers ("VolcanoQueue" is Volcano's Queue, "VolcanoJob" its Job), which do
not read Commands: one lives for a moment only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

KUEUE_GROUP = "kueue.x-k8s.io"
VISIBILITY_GROUP = "visibility.kueue.x-k8s.io"
VOLCANO_GROUPS = ("scheduling.volcano.sh", "batch.volcano.sh", "topology.volcano.sh", "bus.volcano.sh")
DEVICE_GROUPS = ("resource.k8s.io", "nvidia.com")
ABSENT_GROUPS: dict[str, tuple[str, ...]] = {
    "kueue": (KUEUE_GROUP, VISIBILITY_GROUP),
    "volcano": VOLCANO_GROUPS,
    "devices": DEVICE_GROUPS,
}
"""The groups that a cluster does not serve when it is without one of these."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. `api_kind` is what the objects say, `plural` what the path says."""

    name: str
    group: str
    versions: tuple[str, ...]
    plural: str
    namespaced: bool
    api_kind: str = ""
    short: tuple[str, ...] = ()
    bookmarks: bool = True
    prefix: bytes = field(init=False, default=b"")

    def __post_init__(self) -> None:
        object.__setattr__(self, "api_kind", self.api_kind or self.name)
        head = f'{{"kind":"{self.api_kind}","apiVersion":"{self.api_version()}",'
        object.__setattr__(self, "prefix", head.encode())

    def api_version(self, version: str | None = None) -> str:
        version = version or self.versions[0]
        return f"{self.group}/{version}" if self.group else version

    @property
    def qualified(self) -> str:
        """The name in refusals: "clusterqueues.kueue.x-k8s.io", "pods"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def list_path(self, version: str | None = None, namespace: str = "") -> str:
        base = f"/apis/{self.api_version(version)}" if self.group else "/api/v1"
        where = f"/namespaces/{namespace}" if namespace else ""
        return f"{base}{where}/{self.plural}"


def _kueue(name: str, plural: str, *, namespaced: bool = False, short: tuple[str, ...] = ()) -> Kind:
    return Kind(name, KUEUE_GROUP, ("v1beta2", "v1beta1"), plural, namespaced, short=short)


def _device(name: str, plural: str, *, namespaced: bool = False, versions: tuple[str, ...] = ()) -> Kind:
    return Kind(name, "resource.k8s.io", versions or ("v1", "v1beta2", "v1beta1"), plural, namespaced)


_ALL = (
    Kind("Namespace", "", ("v1",), "namespaces", False, short=("ns",)),
    Kind("Node", "", ("v1",), "nodes", False, short=("no",)),
    Kind("Pod", "", ("v1",), "pods", True, short=("po",)),
    Kind("Event", "", ("v1",), "events", True, short=("ev",), bookmarks=False),
    Kind("ConfigMap", "", ("v1",), "configmaps", True, short=("cm",)),
    _kueue("ResourceFlavor", "resourceflavors", short=("rf", "flavor")),
    _kueue("Topology", "topologies"),
    _kueue("AdmissionCheck", "admissionchecks"),
    _kueue("WorkloadPriorityClass", "workloadpriorityclasses"),
    _kueue("Cohort", "cohorts"),
    _kueue("ClusterQueue", "clusterqueues", short=("cq",)),
    _kueue("LocalQueue", "localqueues", namespaced=True, short=("lq",)),
    _kueue("Workload", "workloads", namespaced=True, short=("kwl",)),
    Kind("VolcanoQueue", "scheduling.volcano.sh", ("v1beta1",), "queues", False, "Queue", ("q",)),
    Kind("PodGroup", "scheduling.volcano.sh", ("v1beta1",), "podgroups", True, short=("pg",)),
    Kind("VolcanoJob", "batch.volcano.sh", ("v1alpha1",), "jobs", True, "Job", ("vcjob", "vj")),
    Kind("HyperNode", "topology.volcano.sh", ("v1alpha1",), "hypernodes", False, short=("hn",)),
    Kind("Command", "bus.volcano.sh", ("v1alpha1",), "commands", True),
    _device("DeviceClass", "deviceclasses"),
    _device("ResourceSlice", "resourceslices"),
    _device("ResourceClaim", "resourceclaims", namespaced=True),
    _device("DeviceTaintRule", "devicetaintrules", versions=("v1beta2", "v1alpha3")),
    Kind("ClusterPolicy", "nvidia.com", ("v1",), "clusterpolicies", False),
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}
BY_PATH: dict[tuple[str, str], Kind] = {(kind.group, kind.plural): kind for kind in _ALL}


def versions_of(group: str) -> tuple[str, ...]:
    """Every version in which a kind of the group is served, best first; empty for no group of ours."""
    return tuple(dict.fromkeys(v for kind in _ALL if kind.group == group for v in kind.versions))


_VERBS = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]


def group_body(group: str, versions: Iterable[str]) -> dict[str, Any]:
    """An APIGroup, newest version first, as `/apis/<group>` answers."""
    found = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": group,
        "versions": found,
        "preferredVersion": found[0],
    }


def resources_body(group: str, version: str) -> dict[str, Any]:
    """An APIResourceList, as `/api/v1` and `/apis/<group>/<version>` answer."""
    resources: list[dict[str, Any]] = []
    for kind in _ALL:
        if kind.group != group or version not in kind.versions:
            continue
        one = {
            "name": kind.plural,
            "singularName": kind.api_kind.lower(),
            "namespaced": kind.namespaced,
            "kind": kind.api_kind,
            "verbs": _VERBS,
        }
        resources.append({**one, "shortNames": list(kind.short)} if kind.short else one)
        if kind.name not in ("Namespace", "Event", "ConfigMap", "Command"):
            status = {
                "name": f"{kind.plural}/status",
                "singularName": "",
                "verbs": ["get", "patch", "update"],
            }
            resources.append({**status, "namespaced": kind.namespaced, "kind": kind.api_kind})
    where = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": where, "resources": resources}
