"""The software that nodes run: drivers, CUDA, kernels, kubelets. Pure.

Input: what each accelerator node says of itself; output: the versions in use per cluster with their nodes, which
nodes differ from most of their kind, and how far kubelets are apart.

Invariants: a node counts once per component, with the best source that names it (the node's own labels and
nodeInfo, then its DRA devices, then its exporter); what nobody says is no version at all, never an outlier. A
version is an outlier on a node when, among the nodes of the same model in the same cluster, strictly more carry
another one. DRA writes versions as semver ("570.124.6" for "570.124.06", "12.8.0" for "12.8"): equal versions are
equal whatever their zeros.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from apps.fleet.models import Cluster
from apps.fleet.registry import first_label, registry

COMPONENTS = ("driver", "cuda", "kernel", "os", "runtime", "kubelet", "architecture")
"""What a node says of itself, in the order of the page; `cuda` is the newest CUDA that its driver supports."""
OPERATOR = "operator/"
OPERATOR_VENDOR = "nvidia"
"""Whose operator it is: no other one says its versions in an object of the cluster."""
OF_NODE_INFO = ("kernel", "os", "runtime", "kubelet", "architecture")
_NUMBERED = frozenset({"driver", "cuda"})
# Older discovery writes a version in parts only: (component, its labels in order).
_IN_PARTS = (
    (
        "driver",
        ("nvidia.com/cuda.driver.major", "nvidia.com/cuda.driver.minor", "nvidia.com/cuda.driver.rev"),
    ),
    ("cuda", ("nvidia.com/cuda.runtime.major", "nvidia.com/cuda.runtime.minor")),
)
_DRA_ATTRIBUTES = {"driver": "driverVersion", "cuda": "cudaDriverVersion"}


@dataclass(frozen=True, slots=True)
class Said:
    """One version as one source writes it; `source`: "label" | "node" | "dra" | "telemetry"."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class NodeSoftware:
    """`said`: per component what each source says, best first; `models`: of the node's accelerators."""

    cluster: Cluster
    node: str
    models: tuple[str, ...]
    said: Mapping[str, tuple[Said, ...]] = field(default_factory=dict)

    def version(self, component: str) -> Said | None:
        return next(iter(self.said.get(component, ())), None)

    @property
    def disagreements(self) -> tuple[str, ...]:
        """Components of which two sources say different versions: stale labels, or a driver just replaced."""
        return tuple(
            component
            for component, sayings in self.said.items()
            if len(sayings) > 1 and len({version_key(component, saying.text) for saying in sayings}) > 1
        )


@dataclass(frozen=True, slots=True)
class NodeVersion:
    """One component of one node. `version` None: nobody says; `usual`: what most nodes of its model run where that
    is another version, else ""."""

    cluster: Cluster
    node: str
    models: tuple[str, ...]
    component: str
    version: str | None
    source: str
    usual: str = ""
    disagrees: tuple[Said, ...] = ()

    @property
    def is_outlier(self) -> bool:
        return bool(self.usual)


@dataclass(frozen=True, slots=True)
class StackRow:
    """One version of one component in one cluster. `nodes` carry it, `outliers` are those of them that differ from
    most of their model, `of` counts the cluster's accelerator nodes. `version` None: the nodes that do not say.
    An operator's component is chosen once per cluster: `nodes` is empty and `of` None."""

    cluster: Cluster
    component: str
    version: str | None
    nodes: tuple[str, ...]
    models: tuple[str, ...]
    outliers: tuple[str, ...]
    of: int | None
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Skew:
    """Kubelets of one cluster that are `minors` minor versions apart."""

    cluster: Cluster
    oldest: str
    newest: str
    minors: int


def version_key(component: str, text: str) -> str:
    """Equal for equal versions. Only versions made of numbers lose their leading zeros and trailing ".0"."""
    bare = text.strip()
    if component not in _NUMBERED:
        return bare
    parts = [str(int(part)) if part.isdecimal() else part for part in bare.removeprefix("v").split(".")]
    while len(parts) > 1 and parts[-1] == "0":
        parts.pop()
    return ".".join(parts)


def from_node(labels: Mapping[str, str], info: Mapping[str, str]) -> dict[str, tuple[Said, ...]]:
    """What a node's labels and nodeInfo say."""
    found: dict[str, tuple[Said, ...]] = {}
    drivers, runtimes = _label_names()
    labelled = {"driver": first_label(labels, drivers), "cuda": first_label(labels, runtimes)}
    for component, names in _IN_PARTS:
        parts = [labels.get(name, "") for name in names]
        if not labelled[component] and all(parts):
            labelled[component] = ".".join(parts)
    found |= {component: (Said(text, "label"),) for component, text in labelled.items() if text}
    found |= {
        component: (Said(info[component], "node"),) for component in OF_NODE_INFO if info.get(component)
    }
    return found


@lru_cache(maxsize=1)
def _label_names() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The labels of drivers and of the runtimes that they support, of all vendors."""
    every = [vendor.labels for vendor in registry().vendors.values()]
    return tuple(n for found in every for n in found.driver), tuple(
        n for found in every for n in found.runtime
    )


def from_devices(devices: Iterable[Mapping[str, object]]) -> dict[str, Said]:
    """What a node's DRA devices say: the first of them that says anything. `devices`: attribute maps."""
    found: dict[str, Said] = {}
    for attributes in devices:
        for component, name in _DRA_ATTRIBUTES.items():
            text = attributes.get(name)
            if isinstance(text, str) and text:
                found.setdefault(component, Said(text, "dra"))
    return found


def node_versions(nodes: Sequence[NodeSoftware]) -> list[NodeVersion]:
    """One row per node and component, in the order of components, clusters and names."""
    usual, written = _usual(nodes), _written(nodes)
    ordered = sorted(nodes, key=lambda found: (found.cluster.name, found.cluster.pk, found.node))
    odd = [frozenset(node.disagreements) for node in ordered]
    rows = []
    for component in COMPONENTS:
        for node, disagreed in zip(ordered, odd, strict=True):
            saying = node.version(component)
            other = _other(node, component, usual) if saying else ""
            rows.append(
                NodeVersion(
                    cluster=node.cluster,
                    node=node.node,
                    models=node.models,
                    component=component,
                    version=saying.text if saying else None,
                    source=saying.source if saying else "",
                    usual=written.get((node.cluster.pk, component, other), "") if other else "",
                    disagrees=node.said[component][1:] if component in disagreed else (),
                )
            )
    return rows


_Kind = tuple[int, str, str]  # cluster, component, model


def _usual(nodes: Iterable[NodeSoftware]) -> dict[_Kind, Counter[str]]:
    """How many nodes of each model carry which version, by its key."""
    counts: dict[_Kind, Counter[str]] = defaultdict(Counter)
    for node in nodes:
        for component in node.said:
            saying = node.version(component)
            for model in node.models or ("",):
                if saying is not None:
                    counts[node.cluster.pk, component, model][version_key(component, saying.text)] += 1
    return counts


def _other(node: NodeSoftware, component: str, usual: Mapping[_Kind, Counter[str]]) -> str:
    """The version that most nodes of one of the node's models run, when this node's is carried by fewer."""
    saying = node.version(component)
    if saying is None:
        return ""
    own = version_key(component, saying.text)
    for model in node.models or ("",):
        counts = usual[node.cluster.pk, component, model]
        most = max(counts.values())
        if counts[own] < most:
            return min(key for key, count in counts.items() if count == most)
    return ""


def _written(nodes: Iterable[NodeSoftware]) -> dict[tuple[int, str, str], str]:
    """How a version is shown that sources write differently: with all its zeros, as its vendor writes it."""
    found: dict[tuple[int, str, str], str] = {}
    for node in nodes:
        for component, sayings in node.said.items():
            key = node.cluster.pk, component, version_key(component, sayings[0].text)
            found[key] = max(found.get(key, ""), sayings[0].text, key=lambda text: (len(text), text))
    return found


def stack_rows(versions: Iterable[NodeVersion]) -> list[StackRow]:
    """The versions in use, most carried first within a component; last the nodes that do not say."""
    groups: dict[tuple[int, str, str | None], list[NodeVersion]] = defaultdict(list)
    totals: Counter[tuple[int, str]] = Counter()
    for row in versions:
        key = None if row.version is None else version_key(row.component, row.version)
        groups[row.cluster.pk, row.component, key].append(row)
        totals[row.cluster.pk, row.component] += 1
    rows = [
        StackRow(
            cluster=found[0].cluster,
            component=component,
            version=max(
                (row.version for row in found if row.version), key=lambda t: (len(t), t), default=None
            ),
            nodes=tuple(row.node for row in found),
            models=tuple(sorted({model for row in found for model in row.models})),
            outliers=tuple(row.node for row in found if row.is_outlier),
            of=totals[cluster_id, component],
            sources=tuple(sorted({row.source for row in found if row.source})),
        )
        for (cluster_id, component, key), found in groups.items()
    ]
    place = {component: index for index, component in enumerate(COMPONENTS)}
    return sorted(
        rows,
        key=lambda row: (
            place[row.component],
            row.cluster.name,
            row.cluster.pk,
            row.version is None,
            -len(row.nodes),
            row.version or "",
        ),
    )


def under_operator(vendors: Iterable[str]) -> bool:
    """Whether cards of one of these are the operator's: its vendor's own, or splits that go by the same labels."""
    known = registry().vendors
    its = set(known[OPERATOR_VENDOR].labels.model)
    return any(vendor == OPERATOR_VENDOR or its & set(known[vendor].labels.model) for vendor in vendors)


def operator_rows(cluster: Cluster, components: Mapping[str, str]) -> list[StackRow]:
    """The versions that a GPU operator's ClusterPolicy chooses for the whole cluster, by name."""
    return [
        StackRow(cluster, f"{OPERATOR}{name}", version, (), (), (), None, ("operator",))
        for name, version in sorted(components.items())
        if version
    ]


def kubelet_skews(nodes: Iterable[NodeSoftware]) -> list[Skew]:
    """The clusters whose kubelets are of more than one minor version."""
    seen: dict[int, dict[tuple[int, int], str]] = defaultdict(dict)
    clusters: dict[int, Cluster] = {}
    for node in nodes:
        saying = node.version("kubelet")
        minor = _minor(saying.text) if saying else None
        if saying is not None and minor is not None:
            clusters[node.cluster.pk] = node.cluster
            seen[node.cluster.pk].setdefault(minor, saying.text)
    skews = []
    for cluster_id, found in seen.items():
        oldest, newest = min(found), max(found)
        if oldest != newest:
            apart = newest[1] - oldest[1] if newest[0] == oldest[0] else len(found) - 1
            skews.append(Skew(clusters[cluster_id], found[oldest], found[newest], apart))
    return skews


def _minor(text: str) -> tuple[int, int] | None:
    """(major, minor) of "v1.32.4-gke.1", None for anything else."""
    parts = text.removeprefix("v").split(".")
    if len(parts) < 2 or not (parts[0].isdecimal() and parts[1].isdecimal()):
        return None
    return int(parts[0]), int(parts[1])
