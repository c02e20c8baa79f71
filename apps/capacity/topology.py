"""How close together cards are: domains of nodes, and how many jobs of k cards fit into them. Pure.

Input: whole cards of one pool per node (`Cards`), and layouts that say in which domain of which level a node lies;
output: numbers per domain and jobs that fit. Only whole cards of one pool are added up.

Rules
- A `Path` names a node's domains from the widest level to the narrowest, "" where it lies in none of a level.
- Two nodes that share a domain share every wider one, whatever a label says twice: a domain is its full path.
- Jobs of k cards inside one domain, made of pods of p cards (p = 1: cards may be taken one by one; a job smaller
  than a pod is one pod of its own size):  pods(domain) = Σ over its nodes ⌊free / min(p, k)⌋,
  jobs(domain) = ⌊pods(domain) / (k / min(p, k))⌋,  jobs = Σ over the domains of the level.
- "same node" is every node as its own domain; a node in no domain of a level goes by its next narrower one, at last
  by itself. So jobs never grow with k, and same block ≥ same rack ≥ same node.
- Free cards of a node that is not wholly free are broken: no job of a whole node can take them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.capacity.patterns import searcher
from apps.core.label_selector import all_hold

JOB_SIZES = (1, 2, 4, 8, 16, 32, 64)
HOSTNAME = "kubernetes.io/hostname"
CLIQUE = "nvidia.com/gpu.clique"
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cards:
    """Whole cards of one pool on one node. `stranded`: neither held nor to be had, since the node has no room for
    another pod. `free`, `held`, `stranded` None: the pods of the cluster were never read."""

    node: str
    physical: int
    allocatable: int
    held: int | None
    free: int | None
    stranded: int | None = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to group the nodes of a cluster. `kind`: "kueue" | "volcano" | "nvlink" | "hostname"; `levels` from
    the widest to the narrowest, as the cluster names them; `paths`: per node its domain at each level."""

    kind: str
    name: str
    levels: tuple[str, ...]
    paths: Mapping[str, Path]

    def scopes(self) -> dict[str, int]:
        """ "rack" and "block" → index of the level that stands for it: the narrowest level above the host is the
        rack, the next wider one the block. NVLink's only level is "nvlink"."""
        above = [index for index, level in enumerate(self.levels) if level != HOSTNAME]
        if self.kind == "nvlink":
            return {"nvlink": above[-1]}
        return dict(zip(("rack", "block"), reversed(above), strict=False)) if self.kind != "hostname" else {}

    def domain(self, node: str, level: int) -> Path | None:
        """The node's domain at a level as its full path, None when it lies in none."""
        path = self.paths.get(node)
        return path[: level + 1] if path is not None and path[level] else None

    def block_of(self, node: str, level: int) -> tuple[str, ...]:
        """What a job may spread over from this node: the domain, else the next narrower one, else the node."""
        for index in range(level, len(self.levels)):
            if found := self.domain(node, index):
                return (str(index), *found)
        return ("node", node)


@dataclass(slots=True)
class Sum:
    """Cards of some nodes of one pool. `free_by_node`: what packing needs; None as soon as one is not known."""

    nodes: int = 0
    physical: int = 0
    allocatable: int = 0
    held: int | None = 0
    free: int | None = 0
    stranded: int | None = 0
    broken: int | None = 0
    largest_node: int | None = 0
    free_by_node: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def add(self, cards: Cards) -> None:
        self.nodes += 1
        self.names.append(cards.node)
        self.physical += cards.physical
        self.allocatable += cards.allocatable
        if cards.free is None or cards.held is None or self.free is None:
            self.held = self.free = self.stranded = self.broken = self.largest_node = None
            return
        self.held = (self.held or 0) + cards.held
        self.free += cards.free
        self.stranded = (self.stranded or 0) + (cards.stranded or 0)
        self.broken = (self.broken or 0) + (cards.free if cards.free < cards.physical else 0)
        self.largest_node = max(self.largest_node or 0, cards.free)
        self.free_by_node.append(cards.free)

    def jobs(self, size: int, pod: int = 1) -> int | None:
        """Jobs of `size` cards inside this one domain."""
        return None if self.free is None else jobs_in(self.free_by_node, size, pod)


def total(cards: Iterable[Cards]) -> Sum:
    found = Sum()
    for item in cards:
        found.add(item)
    return found


def jobs_in(free_by_node: Iterable[int], size: int, pod: int = 1) -> int:
    """How many jobs of `size` cards fit into one domain, in pods of `pod` cards (both powers of two)."""
    piece = min(pod, size)
    return sum(free // piece for free in free_by_node) // (size // piece)


def domains(cards: Iterable[Cards], layout: Layout, level: int) -> dict[Path | None, Sum]:
    """The cards by domain of one level; None gathers the nodes in no domain, when there are any."""
    found: dict[Path | None, Sum] = {}
    for item in cards:
        found.setdefault(layout.domain(item.node, level), Sum()).add(item)
    return found


def blocks(cards: Iterable[Cards], layout: Layout | None, level: int) -> list[Sum]:
    """The cards by what a job may spread over. Without a layout every node stands alone ("same node")."""
    found: dict[tuple[str, ...], Sum] = {}
    for item in cards:
        key = ("node", item.node) if layout is None else layout.block_of(item.node, level)
        found.setdefault(key, Sum()).add(item)
    return list(found.values())


def jobs(parts: Sequence[Sum], size: int, pod: int = 1) -> int | None:
    """Jobs of `size` cards over several domains, each inside one of them."""
    counted = 0
    for part in parts:
        fit = part.jobs(size, pod)
        if fit is None:
            return None
        counted += fit
    return counted


# ---- layouts --------------------------------------------------------------------------------------------------


def label_layout(
    kind: str, name: str, levels: Sequence[str], nodes: Mapping[str, Mapping[str, str]]
) -> Layout:
    """Domains by node labels (Kueue's Topology, NVLink cliques). `nodes`: name → labels. As in Kueue, a node that
    does not carry every label lies in no domain. The host level is the node's own name where its label is missing."""
    paths = {}
    for node, labels in nodes.items():
        path = tuple(labels.get(level) or (node if level == HOSTNAME else "") for level in levels)
        if all(path):
            paths[node] = path
    return Layout(kind, name, tuple(levels), paths)


@dataclass(frozen=True, slots=True)
class HyperNode:
    """Volcano's HyperNode as stored. `members`: [{kind, exact, regex, labels}], see worker/parsers/volcano.py."""

    name: str
    tier: int
    tier_name: str
    members: tuple[Mapping[str, Any], ...]
    labels: Mapping[str, str]


def hypernode_layout(
    hypernodes: Iterable[HyperNode], nodes: Mapping[str, Mapping[str, str]]
) -> Layout | None:
    """Domains by Volcano's HyperNodes: members by exact name, regular expression (found anywhere in the name, as in
    Go) or labels. Tiers are the levels, the highest the widest. A node belongs to the lowest HyperNode that names it, a
    HyperNode to the lowest of a higher tier that names it (then by name): every node has one path."""
    found = sorted(hypernodes, key=lambda item: (item.tier, item.name))
    if not found:
        return None
    tiers = sorted({item.tier for item in found}, reverse=True)
    labels_of = {item.name: item.labels for item in found}
    parent: dict[str, HyperNode] = {}
    home: dict[str, HyperNode] = {}
    by_name = {item.name: item for item in found}
    for item in found:
        for member in item.members:
            if member.get("kind") == "HyperNode":
                for name in _matching(member, labels_of):
                    if by_name[name].tier < item.tier:
                        parent.setdefault(name, item)
            else:
                for name in _matching(member, nodes):
                    home.setdefault(name, item)
    paths = {}
    for node, item in home.items():
        chain = {item.tier: item.name}
        while (above := parent.get(item.name)) is not None:
            chain[above.tier] = above.name
            item = above
        paths[node] = tuple(chain.get(tier, "") for tier in tiers)
    return Layout("volcano", "HyperNode", tuple(_tier_label(tier, found) for tier in tiers), paths)


def _tier_label(tier: int, hypernodes: Iterable[HyperNode]) -> str:
    names = {item.tier_name for item in hypernodes if item.tier == tier and item.tier_name}
    return names.pop() if len(names) == 1 else f"tier {tier}"


def unreadable(hypernodes: Iterable[HyperNode]) -> dict[str, str]:
    """HyperNode → the first pattern of its members that cannot be read and so selects nothing."""
    found: dict[str, str] = {}
    for item in hypernodes:
        for member in item.members:
            pattern = "" if member.get("exact") else str(member.get("regex") or "")
            if pattern and searcher(pattern) is None:
                found.setdefault(item.name, pattern)
    return found


def _matching(member: Mapping[str, Any], things: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Names of things (name → labels) that a member selector selects; an unreadable pattern selects nothing."""
    exact = member.get("exact") or ()
    if exact:
        return [name for name in ([exact] if isinstance(exact, str) else exact) if name in things]
    if pattern := str(member.get("regex") or ""):
        has = searcher(pattern)
        return [name for name in things if has(name)] if has else []
    selector = member.get("labels") or {}
    if not selector.get("match_labels") and not selector.get("match_expressions"):
        return []
    return [name for name, labels in things.items() if selects(selector, labels)]


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Kubernetes' label selector in stored form: {match_labels, match_expressions: [{key, operator, values}]}."""
    return all_hold(selector.get("match_labels"), selector.get("match_expressions"), labels)
