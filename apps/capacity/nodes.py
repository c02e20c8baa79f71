"""One node's rows and its page. Input: a node's state; output: `NodeRow`s and `NodeDetail`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import accumulate
from operator import attrgetter
from typing import overload

from django.db.models import Q
from django.db.models.fields.json import KT
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from apps.capacity.facts import NodeState, load_node
from apps.capacity.health import BUCKETS, warnings
from apps.capacity.labels import bucket_label, code_text, evidence_text
from apps.capacity.pooling import sums_of
from apps.capacity.pools import Numbers, card_buckets
from apps.capacity.reading import read_devices
from apps.capacity.rows import BucketReason, NodeDetail, NodePod, NodeRow
from apps.core.gpu import model_label
from apps.core.quantity import parse_quantity, plain
from apps.fleet.models import Cluster
from apps.fleet.registry import is_device
from apps.fleet.selectors import BindingIndex
from apps.observations.models import Node, Pod, Source
from apps.observations.selectors import AsOf, live_objects, live_pods

ZERO = Decimal(0)
_OVER = ("Succeeded", "Failed")


Member = tuple[NodeState, int]


class _Members(Sequence[Member]):
    """Every group of some nodes, in their order, without a list of them all."""

    def __init__(self, nodes: Sequence[NodeState]) -> None:
        self._nodes = nodes
        self._ends = list(accumulate(map(len, map(attrgetter("falls"), nodes))))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> Member: ...
    @overload
    def __getitem__(self, index: slice) -> list[Member]: ...
    def __getitem__(self, index: int | slice) -> Member | list[Member]:
        if isinstance(index, slice):
            return [self._at(place) for place in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self._at(index % len(self))

    def _at(self, place: int) -> Member:
        found = bisect_right(self._ends, place)
        return self._nodes[found], place - (self._ends[found - 1] if found else 0)

    def __iter__(self) -> Iterator[Member]:
        return ((node, index) for node in self._nodes for index in range(len(node.falls)))


class NodeRows(Sequence[NodeRow]):
    """Rows of a fleet's nodes, one per group, each made when somebody looks at it and kept with its node."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members

    @classmethod
    def of(cls, nodes: Sequence[NodeState]) -> NodeRows:
        return cls(_Members(nodes))

    def __len__(self) -> int:
        return len(self._members)

    @overload
    def __getitem__(self, index: int) -> NodeRow: ...
    @overload
    def __getitem__(self, index: slice) -> NodeRows: ...
    def __getitem__(self, index: int | slice) -> NodeRow | NodeRows:
        if isinstance(index, slice):
            return NodeRows(self._members[index])
        return kept_row(*self._members[index])

    def __iter__(self) -> Iterator[NodeRow]:
        return (kept_row(node, index) for node, index in self._members)

    @property
    def typed(self) -> bool:
        """Whether labels say of any node how it was bought."""
        return any(node.bought for node, _index in self._members)


def kept_row(node: NodeState, index: int) -> NodeRow:
    """`node_row`, made once per language while the node stays as it is."""
    rows = node.kept.setdefault(get_language() or "", {})
    if index not in rows:
        rows[index] = node_row(node, index)
    found: NodeRow = rows[index]
    return found


def node_row(node: NodeState, index: int) -> NodeRow:
    """One group of a node, in the active language."""
    item = node.falls[index]
    group = item.group
    numbers = _numbers(node, index)
    own = numbers.own
    return NodeRow(
        cluster=node.cluster,
        node=node.name,
        uid=node.uid,
        vendor=group.vendor,
        model=group.model,
        model_label=model_label(group.model),
        sharing_mode=str(group.mode),
        unit=own.unit,
        physical_devices=item.physical,
        buckets=card_buckets(item.buckets),
        allocatable_devices=item.allocatable,
        physical_units=own.physical or ZERO,
        allocatable=own.allocatable or ZERO,
        held_bound=own.held_bound,
        free=own.free,
        units=numbers.units,
        reasons=tuple(
            BucketReason(
                str(bucket),
                bucket_label(bucket),
                item.buckets[bucket],
                evidence_text(item.evidence.get(bucket, "")),
            )
            for bucket in BUCKETS
            if item.buckets.get(bucket)
        ),
        flavors=node.flavors,
        estimated=group.estimated,
        notes=(
            *(code_text(code) for code in (*group.codes, *node.codes)),
            *_seen_last(node),
            *_warned(node),
            *_over_held(numbers),
        ),
        observed_at=node.observed_at,
        plugin_down=group.plugin_down,
        stranded=own.stranded,
        amounts=numbers.amounts,
        mode_sentence=numbers.mode_sentence(),
        stranded_slices=(group.stranded_compute, group.stranded_memory),
        origin=group.origin,
        capacity_type=node.bought,
        over_held=numbers.over_held,
        cards_seen_at=node.seen_at,
    )


MOST_NUMBERS = 4096
_made: dict[Hashable, Numbers] = {}


def _numbers(node: NodeState, index: int) -> Numbers:
    """Worked out once for groups with the same numbers: thousands of nodes are few kinds of them."""
    item = node.falls[index]
    key = (
        item.group.mode,
        item.group.vendor,
        item.group.card_memory_bytes,
        item.physical,
        item.allocatable,
        tuple(
            (found.unit, found.physical, found.allocatable, tuple(found.buckets.items()))
            for found in item.units
        ),
        None if node.shares is None else node.shares[index],
    )
    found = _made.get(key)
    if found is None:
        if len(_made) >= MOST_NUMBERS:
            _made.clear()
        found = _made[key] = Numbers(sums_of([(node, index)]), str(item.group.mode))
    return found


def _over_held(numbers: Numbers) -> list[str]:
    if not numbers.over_held:
        return []
    words = {"amount": plain(numbers.over_held)}
    return [_("Pods hold %(amount)s more than is usable: on units that are out of use.") % words]


def _seen_last(node: NodeState) -> list[str]:
    if node.seen_at is None:
        return []
    return [_("Telemetry is silent about this node; its cards are counted as it saw them last.")]


def _warned(node: NodeState) -> list[str]:
    return [
        _("Condition %(condition)s: not counted as a loss.") % {"condition": text}
        for text in warnings(node.health)
    ]


def detail(*, now: datetime, cluster: Cluster, node: Node, fresh: AsOf) -> NodeDetail:
    state = load_node(now=now, cluster=cluster, uid=node.uid)
    return NodeDetail(
        cluster=cluster,
        node=node,
        rows=tuple(node_row(state, index) for index in range(len(state.falls))) if state else (),
        pods=tuple(_pods(now=now, cluster=cluster, node=node)),
        as_of=fresh,
        pods_read=all(status.source != Source.PODS for status in fresh.missing),
    )


def _pods(*, now: datetime, cluster: Cluster, node: Node) -> list[NodePod]:
    """The node's pods that ask for accelerators, by name or through claims."""
    index = BindingIndex.load(now, clusters=[cluster.pk])
    local = live_objects(kind="LocalQueue", clusters=[cluster])
    leads_to = {
        (namespace, queue_name): queue or ""
        for namespace, queue_name, queue in local.values_list("namespace", "name", KT("spec__cluster_queue"))
    }
    asking = Q(devices__gt=0) | ~Q(claims=[])
    rows = list(
        live_pods(clusters=[cluster]).filter(asking, node_name=node.name).order_by("namespace", "name")
    )
    claimed = _claimed(now=now, node=node) if any(row.claims for row in rows) else {}
    found = [(row, _units(row, claimed)) for row in rows]
    return [_pod(row, units, index, leads_to) for row, units in found if units or row.devices]


ClaimKey = tuple[str, str]
"""(namespace, name)."""


def _claimed(*, now: datetime, node: Node) -> dict[ClaimKey, dict[str, Decimal]]:
    """What each claim holds on the node, by resource."""
    labels = {node.cluster_id: {node.name: node.labels}}
    view = read_devices(cluster_ids=[node.cluster_id], nodes=labels, now=now).get(node.cluster_id)
    found: dict[ClaimKey, dict[str, Decimal]] = {}
    for claim, amounts in (view.held_by_claim if view else {}).items():
        here = {resource: amount for (name, resource), amount in amounts.items() if name == node.name}
        if here:
            found[claim] = here
    return found


def _units(row: Pod, claimed: Mapping[ClaimKey, Mapping[str, Decimal]]) -> dict[str, Decimal]:
    """Accelerator units of a pod: what it asks for by name and no claim serves, and what its claims hold."""
    served = {resource for claim in row.claims for resource in claim["resources"]}
    units = {
        resource: parse_quantity(amount)
        for resource, amount in row.requests.items()
        if is_device(resource) and resource not in served
    }
    for claim in row.claims:
        for resource, amount in claimed.get((row.namespace, claim["claim"]), {}).items():
            units[resource] = units.get(resource, ZERO) + amount
    return units


def _pod(
    row: Pod, units: Mapping[str, Decimal], index: BindingIndex, leads_to: Mapping[tuple[str, str], str]
) -> NodePod:
    team = index.team_id_for(
        row.cluster_id,
        namespace=row.namespace,
        queue_name=row.queue_name,
        queue=row.queue_name if row.pod_group else leads_to.get((row.namespace, row.queue_name), ""),
        volcano=bool(row.pod_group),
    )
    return NodePod(
        uid=row.uid,
        namespace=row.namespace,
        name=row.name,
        phase=row.phase,
        team_id=team,
        requests=units,
        owner_kind=row.owner_kind,
        owner_name=row.owner_name,
        queue_name=row.queue_name,
        bound_at=row.bound_at,
        held=row.phase not in _OVER,
    )
