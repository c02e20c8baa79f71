"""Cards: every physical card of the waterfall, its bucket and why, who holds it, what its exporter says.

Input: clock and clusters; output: `CardRow`s, in the order of nodes. Invariants: the rows of a (node, group, bucket)
are as many as the waterfall counts; utilisation is efficiency and never decides what is held; None is "not said".
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import connection

from apps.capacity.card_labels import bucket_text
from apps.capacity.carding import SHARED, Card, Holder, HoldingPod, PodKey, Seen, hide_others, lay_cards
from apps.capacity.facts import NodeState, load_fleet, load_node
from apps.capacity.idle import NOISE, WINDOW, DeviceKey, Idle, Quiet, evidence, quiet_devices, quiet_places
from apps.capacity.labels import bucket_label
from apps.capacity.reading import read_devices
from apps.core.gpu import model_label
from apps.core.quantity import parse_quantity
from apps.core.working_memory import sorted_in_memory
from apps.fleet.dra import DraView
from apps.fleet.models import Cluster
from apps.fleet.registry import by_counted_name, is_device
from apps.fleet.selectors import BindingIndex, enabled_clusters
from apps.observations.selectors import Sample, live_nodes, newest_samples

ZERO = Decimal(0)
CHUNK = 50
"""Nodes whose samples and pods are read together at first; each further read takes four times as many, so that a
page is quick and a whole fleet is read in few statements."""

# What holds accelerators on nodes, with the queue that its LocalQueue leads to.
_PODS = """
SELECT p.cluster_id, p.node_name, p.namespace, p.name, p.queue_name, p.pod_group <> '',
  coalesce(q.spec->>'cluster_queue', ''), p.requests, p.claims, coalesce(p.bound_at, p.started_at, p.first_seen_at)
FROM observations_pod p
LEFT JOIN observations_clusterobject q ON q.cluster_id = p.cluster_id AND q.kind = 'LocalQueue'
  AND q.namespace = p.namespace AND q.name = p.queue_name AND q.gone_at IS NULL
WHERE p.cluster_id = ANY(%(clusters)s) AND p.node_name = ANY(%(nodes)s) AND p.gone_at IS NULL
  AND p.phase NOT IN ('Succeeded', 'Failed') AND (p.devices > 0 OR p.claims <> '[]')
ORDER BY p.cluster_id, p.node_name, p.namespace, p.name
"""
# Cards on which the exporter named several pods lately, one at a time; each card's own rows, by their unique index.
_IN_TURN = """
SELECT asked.cluster_id, asked.node_name, asked.device, found.pods
FROM unnest(%(clusters)s::bigint[], %(nodes)s::text[], %(devices)s::text[]) AS asked (cluster_id, node_name, device)
CROSS JOIN LATERAL (
  SELECT array_agg(DISTINCT ARRAY[namespace, pod]) AS pods FROM observations_devicesample s
  WHERE s.cluster_id = asked.cluster_id AND s.device = asked.device AND s.instance = ''
    AND s.node_name = asked.node_name AND sampled_at > %(since)s AND sampled_at <= %(now)s AND pod <> ''
  HAVING count(DISTINCT (namespace, pod)) > 1) found
"""


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """A partition of a card at its newest sample. `idle`: see CardRow."""

    instance: str
    profile: str
    holders: tuple[Holder, ...]
    utilisation_ratio: Decimal | None
    utilisation_source: str
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    idle: Idle | None


@dataclass(frozen=True, slots=True)
class CardRow:
    """One physical card. `device`, `position`, `origin`, `identified`, `state`, `holders`: see carding.Card;
    `bucket` "" while it is usable. `utilisation_ratio` 0…1 as `utilisation_source` measures it, of the whole card:
    a partitioned card says it per instance only. `attribution`, `shares`: as in DeviceSample. `idle`: evidence that
    the card is held and does nothing, None where it works, is not held, or is not known well enough."""

    cluster: Cluster
    node: str
    vendor: str
    model: str
    model_label: str
    sharing_mode: str
    group: int
    position: int
    device: str
    origin: str
    bucket: str
    bucket_label: str
    why: str
    identified: bool
    state: str
    holders: tuple[Holder, ...]
    instances: tuple[InstanceRow, ...]
    utilisation_ratio: Decimal | None
    utilisation_source: str
    attribution: str
    shares: tuple[Mapping[str, Any], ...]
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    power_watts: Decimal | None
    xid: int | None
    driver: str
    sampled_at: datetime | None
    idle: Idle | None
    numa: str
    pcie: str

    @property
    def key(self) -> tuple[int, str, int, int]:
        """Unique, and in the order of the rows."""
        return self.cluster.pk, self.node, self.group, self.position

    @property
    def idles(self) -> tuple[Idle, ...]:
        """Evidence about the card, or about those of its instances that are idle."""
        found = (self.idle, *(instance.idle for instance in self.instances))
        return tuple(one for one in found if one is not None)

    @property
    def is_idle(self) -> bool:
        return bool(self.idles)

    @property
    def holds_memory_idle(self) -> bool:
        """Something is loaded on the card, or on an instance of it, and nothing runs."""
        return any(idle.memory_held for idle in self.idles)


def card_rows(*, now: datetime, clusters: Iterable[Cluster] | None = None, node: str = "") -> list[CardRow]:
    """Every card of the clusters, or of the nodes of one name."""
    return list(iter_cards(now=now, clusters=clusters, node=node))


def iter_cards(
    *,
    now: datetime,
    clusters: Iterable[Cluster] | None = None,
    node: str = "",
    model: str = "",
    sharing_mode: str = "",
    after: tuple[int, str] | None = None,
    quiet_in: Collection[tuple[int, str]] | None = None,
) -> Iterator[CardRow]:
    """The same, node by node in the order of their keys, read only as far as it is asked for. `after`: begin with this
    (cluster id, node); `model`, `sharing_mode`: only nodes that have such a group, and its cards; `quiet_in`: only
    cards at noise level on these."""
    chosen = list(enabled_clusters() if clusters is None else clusters)
    nodes = [
        state
        for state in sorted(_states(now, chosen, node), key=lambda state: (state.cluster.pk, state.name))
        if (after is None or (state.cluster.pk, state.name) >= after)
        and (quiet_in is None or (state.cluster.pk, state.name) in quiet_in)
        and any(
            model in ("", item.group.model) and sharing_mode in ("", str(item.group.mode))
            for item in state.falls
        )
    ]
    whose = _Whose(BindingIndex.load(now, clusters=[cluster.pk for cluster in chosen]), nodes, now)
    for chunk in _growing(nodes, first=CHUNK if quiet_in is None else len(nodes)):
        found = _Surroundings.load(now, chunk, whose)
        for state in chunk:
            for row in found.rows(state, only_quiet=quiet_in is not None):
                if model in ("", row.model) and sharing_mode in ("", row.sharing_mode):
                    yield row


def _growing(nodes: Sequence[NodeState], *, first: int) -> Iterator[Sequence[NodeState]]:
    size, begin = first, 0
    while begin < len(nodes):
        yield nodes[begin : begin + size]
        begin, size = begin + size, size * 4


def idle_cards(*, now: datetime, clusters: Iterable[Cluster] | None = None) -> list[CardRow]:
    """Cards of which there is evidence that they, or instances of them, are held and do nothing. Only nodes with a
    device at noise level are laid out."""
    chosen = list(enabled_clusters() if clusters is None else clusters)
    places = quiet_places(now=now, clusters=chosen)
    if not places:
        return []
    return [row for row in iter_cards(now=now, clusters=chosen, quiet_in=places) if row.is_idle]


def _states(now: datetime, clusters: Sequence[Cluster], node: str) -> Iterable[NodeState]:
    if not node:
        return load_fleet(now=now, clusters=clusters).nodes
    by_id = {cluster.pk: cluster for cluster in clusters}
    named = live_nodes(clusters=clusters).filter(name=node).values_list("cluster_id", "uid")
    states = (load_node(now=now, cluster=by_id[cluster_id], uid=uid) for cluster_id, uid in named)
    return [state for state in states if state is not None]


class _Whose:
    """Teams of pods, and the cards that claims got; these are read when the first one is asked for."""

    def __init__(self, index: BindingIndex, nodes: Iterable[NodeState], now: datetime) -> None:
        self.index = index
        self._now = now
        self._labels: defaultdict[int, dict[str, Mapping[str, str]]] = defaultdict(dict)
        for state in nodes:
            self._labels[state.cluster.pk][state.name] = state.health.labels
        self._claimed: dict[int, _Claimed] = {}

    def claimed(self, cluster_id: int, node: str, pod: PodKey | None = None) -> frozenset[str]:
        """Names of the node's cards that claims were given: the pod's, or anybody's."""
        if cluster_id not in self._claimed:
            views = read_devices(cluster_ids=[cluster_id], nodes=self._labels, now=self._now)
            self._claimed[cluster_id] = _claimed_cards(views[cluster_id]) if cluster_id in views else {}
        return frozenset(self._claimed[cluster_id].get((node, pod), ()))


_Claimed = Mapping[tuple[str, PodKey | None], set[str]]


def _claimed_cards(view: DraView) -> _Claimed:
    """(node, pod) → cards of which the pod has a device, whole or in part; under None those that any claim has."""
    found: defaultdict[tuple[str, PodKey | None], set[str]] = defaultdict(set)
    for node, devices in view.by_node.items():
        for card in devices.cards:
            for listed in card.listed if card.uuid else ():
                if listed.key in view.holders:
                    found[node, None].add(card.uuid)
                for holder in view.holders.get(listed.key, ()):
                    found[node, (holder.namespace, holder.name)].add(card.uuid)
    return found


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """The cards of some nodes, and those of their held devices that were at noise level."""

    now: datetime
    cards: Mapping[tuple[int, str], list[Card]]
    quiet: Mapping[DeviceKey, Quiet]

    @classmethod
    def load(cls, now: datetime, nodes: Sequence[NodeState], whose: _Whose) -> _Surroundings:
        clusters = list({state.cluster.pk: state.cluster for state in nodes}.values())
        with sorted_in_memory():
            samples = newest_samples(now=now, clusters=clusters, nodes=[state.name for state in nodes])
        seen = _seen_on_nodes(samples, _in_turn(nodes, samples, now))
        pods = _pods_on_nodes(nodes, whose)
        cards = {
            place: lay_cards(
                state.falls,
                state.shares,
                seen.get(place, ()),
                pods.get(place, ()),
                whose.claimed(*place) if any(state.claimed) else (),
            )
            for state in nodes
            for place in [(state.cluster.pk, state.name)]
        }
        return cls(now, cards, quiet_devices(now=now, among=_may_be_idle(cards)))

    def rows(self, state: NodeState, *, only_quiet: bool) -> Iterator[CardRow]:
        for card in self.cards[state.cluster.pk, state.name]:
            if not only_quiet or self._is_quiet(state, card):
                yield self._row(state, card)

    def _is_quiet(self, state: NodeState, card: Card) -> bool:
        samples = card.seen.samples if card.seen else ()
        return any(_key(state, sample) in self.quiet for sample in samples)

    def _row(self, state: NodeState, card: Card) -> CardRow:
        whole = card.seen.whole if card.seen else None
        samples = card.seen.samples if card.seen else ()
        instances = self._instances(state, card)
        used, total = _memory(whole, instances)
        return CardRow(
            cluster=state.cluster,
            node=state.name,
            vendor=card.group.vendor,
            model=card.group.model,
            model_label=model_label(card.group.model),
            sharing_mode=str(card.group.mode),
            group=card.group_index,
            position=card.position,
            device=card.device,
            origin=card.origin,
            bucket=str(card.bucket) if card.bucket else "",
            bucket_label=bucket_label(card.bucket) if card.bucket else "",
            why=bucket_text(card),
            identified=card.identified,
            state=card.state,
            holders=card.holders,
            instances=instances,
            utilisation_ratio=whole.utilisation_ratio if whole and not instances else None,
            utilisation_source=whole.utilisation_source if whole and not instances else "",
            attribution=_attribution(card),
            shares=tuple(whole.shares) if whole else (),
            memory_used_bytes=used,
            memory_total_bytes=total,
            power_watts=next((s.power_watts for s in samples if s.power_watts is not None), None),
            xid=next((s.xid for s in samples if s.xid is not None), None),
            driver=next((s.driver for s in samples if s.driver), ""),
            sampled_at=max((s.sampled_at for s in samples), default=None),
            idle=self._idle(state, card, whole) if not instances else None,
            numa=card.numa,
            pcie=card.pcie,
        )

    def _idle(self, state: NodeState, card: Card, whole: Sample | None) -> Idle | None:
        if whole is None or not card.surely_held:
            return None
        return evidence([self.quiet.get(_key(state, whole))], card.holders, now=self.now)

    def _instances(self, state: NodeState, card: Card) -> tuple[InstanceRow, ...]:
        by_pod = {(holder.namespace, holder.pod): holder for holder in card.holders}
        rows = []
        for sample in card.seen.instances if card.seen else ():
            named: list[PodKey] = [(sample.namespace, sample.pod)] if sample.pod else []
            named += [(share.get("namespace") or "", share.get("pod") or "") for share in sample.shares]
            holders = tuple(by_pod[key] for key in named if key in by_pod)
            quiet = self.quiet.get(_key(state, sample))
            rows.append(
                InstanceRow(
                    instance=sample.instance,
                    profile=sample.profile,
                    holders=holders,
                    utilisation_ratio=sample.utilisation_ratio,
                    utilisation_source=sample.utilisation_source,
                    memory_used_bytes=sample.memory_used_bytes,
                    memory_total_bytes=sample.memory_total_bytes,
                    idle=evidence([quiet], holders, now=self.now),
                )
            )
        return tuple(rows)


def _key(state: NodeState, sample: Sample) -> DeviceKey:
    return state.cluster.pk, state.name, sample.device, sample.instance


def _may_be_idle(cards: Mapping[tuple[int, str], Iterable[Card]]) -> list[DeviceKey]:
    """Devices of held cards that their newest sample does not show at work."""
    return [
        (*place, sample.device, sample.instance)
        for place, found in cards.items()
        for card in found
        for sample in (card.seen.samples if card.seen and card.holders else ())
        if sample.utilisation_ratio is None or sample.utilisation_ratio <= NOISE
    ]


def _attribution(card: Card) -> str:
    """As the exporter's newest sample has it, unless its one label was on several of the holders in turn."""
    if card.seen is None or card.seen.whole is None:
        return ""
    named = set(card.seen.in_turn) & {(holder.namespace, holder.pod) for holder in card.holders}
    said = card.seen.whole.attribution
    return "flips" if said in ("", "whole") and len(named) > 1 else said


def _memory(whole: Sample | None, instances: Sequence[InstanceRow]) -> tuple[int | None, int | None]:
    """(used, total) of the card; of a partitioned one the sums over its instances, where all of them say it."""
    if not instances:
        return (whole.memory_used_bytes, whole.memory_total_bytes) if whole else (None, None)
    used = [row.memory_used_bytes for row in instances]
    total = [row.memory_total_bytes for row in instances]
    return (
        None if None in used else sum(amount for amount in used if amount is not None),
        None if None in total else sum(amount for amount in total if amount is not None),
    )


def _seen_on_nodes(
    samples: Iterable[Sample], in_turn: Mapping[tuple[int, str, str], tuple[PodKey, ...]]
) -> dict[tuple[int, str], list[Seen]]:
    """(cluster id, node) → the cards that telemetry sees there."""
    by_card: defaultdict[tuple[int, str], defaultdict[str, list[Sample]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for sample in samples:
        by_card[sample.cluster_id, sample.node_name][sample.device].append(sample)
    return {
        place: [
            Seen(device, tuple(found), in_turn.get((*place, device), ()))
            for device, found in sorted(cards.items())
        ]
        for place, cards in by_card.items()
    }


def _in_turn(
    nodes: Iterable[NodeState], samples: Iterable[Sample], now: datetime
) -> dict[tuple[int, str, str], tuple[PodKey, ...]]:
    """(cluster id, node, device) → pods that were named there one after the other. A label that names one pod at a
    time goes round the pods of a shared card."""
    sharing = {
        (state.cluster.pk, state.name)
        for state in nodes
        if any(item.group.mode in SHARED for item in state.falls)
    }
    cards = {
        (sample.cluster_id, sample.node_name, sample.device)
        for sample in samples
        if (sample.cluster_id, sample.node_name) in sharing
    }
    if not cards:
        return {}
    columns = zip(("clusters", "nodes", "devices"), map(list, zip(*cards, strict=True)), strict=True)
    values: dict[str, Any] = {**dict(columns), "since": now - WINDOW, "now": now}
    with connection.cursor() as cursor:
        cursor.execute(_IN_TURN, values)
        return {
            (cluster_id, node, device): tuple((namespace, pod) for namespace, pod in pods)
            for cluster_id, node, device, pods in cursor.fetchall()
        }


def _pods_on_nodes(nodes: Sequence[NodeState], whose: _Whose) -> dict[tuple[int, str], list[HoldingPod]]:
    """(cluster id, node) → the pods that hold something there, in units under the names that count there."""
    offers = {(state.cluster.pk, state.name): state.offers for state in nodes}
    pods: defaultdict[tuple[int, str], list[HoldingPod]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(
            _PODS,
            {
                "clusters": list({state.cluster.pk for state in nodes}),
                "nodes": [state.name for state in nodes],
            },
        )
        rows = cursor.fetchall()
    for cluster_id, node, namespace, name, queue_name, volcano, queue, requests, claims, since in rows:
        team = whose.index.team_id_for(
            cluster_id,
            namespace=namespace,
            queue_name=queue_name,
            queue=queue_name if volcano else queue,
            volcano=volcano,
        )
        claims = _json(claims) if claims != "[]" else []
        served = {resource for claim in claims for resource in claim.get("resources") or ()}
        devices = whose.claimed(cluster_id, node, (namespace, name)) if claims else frozenset()
        asked = {
            resource: parse_quantity(amount)
            for resource, amount in _json(requests).items()
            if resource not in served and is_device(resource)
        }
        units = by_counted_name(asked, offers.get((cluster_id, node), {}))
        pods[cluster_id, node].append(HoldingPod(namespace, name, team, units, since, devices))
    return pods


def _json(value: Any) -> Any:
    """jsonb of a raw query comes as text."""
    return json.loads(value) if isinstance(value, str) else value


def without_others(rows: Iterable[CardRow], team_ids: Collection[int] | None) -> list[CardRow]:
    """The same cards for a reader of `team_ids`: that a card is held is shown, by whom only of their own pods."""
    return list(rows) if team_ids is None else [_hidden(row, team_ids) for row in rows]


def _hidden(row: CardRow, team_ids: Collection[int]) -> CardRow:
    def shown(holder: Holder) -> bool:
        return holder.team_id in team_ids

    mine = {(holder.namespace, holder.pod) for holder in row.holders if shown(holder)}
    return replace(
        row,
        holders=hide_others(row.holders, shown),
        instances=tuple(
            replace(instance, holders=hide_others(instance.holders, shown)) for instance in row.instances
        ),
        shares=tuple(share for share in row.shares if (share.get("namespace"), share.get("pod")) in mine),
    )
