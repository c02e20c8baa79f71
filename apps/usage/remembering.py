"""What is known only at present and asked for later: what units are, what nodes have, cost centres, which quota is a promise, when nobody
could look. Input: a cluster and the clock; output: rows of UnitSeen, SupplySeen, CostCentreSeen, PromiseSeen and
UnseenStretch, and these as intervals are judged by.

Invariants: a row is written only when something differs from the last one, so that noting often costs little and changes
nothing; what is not known now takes nothing away that was known. A moment before the first row is judged by the first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from django.conf import settings

from apps.accounts.models import Team
from apps.capacity.facts import Fleet
from apps.capacity.promised import reached_by_flavor
from apps.core.quantity import plain
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, CollectionRun, Outcome, Source
from apps.quotas.history import walk
from apps.quotas.rows import QueueNode
from apps.quotas.selectors import queue_forest
from apps.usage.accounted import is_held
from apps.usage.allocation import Basis, Group, Stretch, Unit, gaps_between
from apps.usage.commitments import KIND_OF_WORK, Standing
from apps.usage.limits import Limit
from apps.usage.models import ClaimSeen, CostCentreSeen, PromiseSeen, SupplySeen, UnitSeen, UnseenStretch

SOURCES: Mapping[str, str] = {"Workload": Source.KUEUE, "PodGroup": Source.VOLCANO, "Pod": Source.PODS}
SOURCE_OF_CLAIMS: Mapping[str, str] = {"ResourceClaim": Source.DEVICES}
SOURCE_OF_SUPPLY: Mapping[str, str] = {"Node": Source.NODES}
LONGEST_INTERVALS = 4
"""Pulls further apart than this many intervals leave a stretch in which nobody could look."""
LOOK_BACK = timedelta(days=7)
# A flavor stands for the same whether its quota is reserved or promised.
_BASES = {Basis.RESERVED: (Basis.RESERVED, Basis.NOMINAL), Basis.POD: (Basis.POD,)}
Key = tuple[str, str, str]
Known = tuple[Unit, Decimal | None]


def note_present(*, cluster: Cluster, fleet: Fleet, now: datetime) -> None:
    """Write down what is there now, and the stretches of the last days that nobody could see."""
    _note_units(cluster, fleet, now)
    _note_supply(cluster, fleet, now)
    _note_cost_centres(now)
    _note_promises(cluster, now)
    _note_unseen(cluster, now)


def watched_by(cluster: Cluster) -> Mapping[str, str]:
    """The sources that see what holds devices, by kind. Where there are no claims, their source holds nothing back."""
    claims = ClusterObject.objects.filter(cluster=cluster, kind="ResourceClaim")
    if claims.exists() or ClaimSeen.objects.filter(cluster=cluster).exists():
        return {**SOURCES, **SOURCE_OF_CLAIMS}
    return SOURCES


# ---- units ----------------------------------------------------------------------------------------------------------


def units_at(
    cluster: Cluster, at: datetime
) -> tuple[Mapping[tuple[Basis, int, str, str], Unit], Mapping[Group, Sequence[Limit]]]:
    """(what units are, what nodes have) as known at `at`."""
    units: dict[tuple[Basis, int, str, str], Unit] = {}
    nodes: dict[Group, list[Limit]] = {}
    for row in _latest(cluster, at):
        for basis in _BASES[Basis(row.basis)]:
            units[basis, cluster.pk, row.on, row.resource] = row.unit
        if row.basis == Basis.POD and row.capacity is not None:
            nodes[cluster.pk, "", row.on, row.resource] = [Limit(row.seen_from, row.capacity)]
    return units, nodes


def _latest(cluster: Cluster, at: datetime) -> Iterable[UnitSeen]:
    found: dict[Key, UnitSeen] = {}
    for row in UnitSeen.objects.filter(cluster=cluster).order_by("seen_from", "pk"):
        key = (row.basis, row.on, row.resource)
        if key not in found or row.seen_from <= at:
            found[key] = row
    return found.values()


def _note_units(cluster: Cluster, fleet: Fleet, now: datetime) -> None:
    known = {(row.basis, row.on, row.resource): row for row in _latest(cluster, now)}
    fresh: list[UnitSeen] = []
    for key, (unit, capacity) in {**_of_flavors(fleet), **_of_nodes(fleet)}.items():
        old = known.get(key)
        if old is not None and (old.unit, old.capacity) == (unit, capacity):
            continue
        basis, on, resource = key
        fresh.append(
            UnitSeen(
                cluster=cluster,
                basis=basis,
                on=on,
                resource=resource,
                model=unit.model,
                sharing_mode=unit.sharing_mode,
                profile=unit.profile,
                weight_over=None if unit.equivalents is None else unit.equivalents.numerator,
                weight_under=None if unit.equivalents is None else unit.equivalents.denominator,
                capacity=capacity,
                seen_from=now,
            )
        )
    UnitSeen.objects.bulk_create(fresh, ignore_conflicts=True)


def _of_flavors(fleet: Fleet) -> Mapping[Key, Known]:
    """Of a flavor over several kinds of cards only what they have in common is known."""
    found: dict[Key, Known] = {}
    for (_cluster, flavor, resource), reached in reached_by_flavor(fleet).items():
        kinds = {Unit(pool[1], pool[2], unit[1], unit[2]) for pool, unit in reached}
        found[Basis.RESERVED, flavor, resource] = (_in_common(kinds), None)
    return found


def _in_common(kinds: Iterable[Unit]) -> Unit:
    units = list(kinds)
    models, modes, profiles, weights = (
        {getattr(unit, name) for unit in units}
        for name in ("model", "sharing_mode", "profile", "equivalents")
    )
    return Unit(
        model=models.pop() if len(models) == 1 else "",
        sharing_mode=modes.pop() if len(modes) == 1 else "",
        profile=profiles.pop() if len(profiles) == 1 else "",
        equivalents=weights.pop() if len(weights) == 1 else None,
    )


def _of_nodes(fleet: Fleet) -> Mapping[Key, Known]:
    kinds: defaultdict[Key, set[Unit]] = defaultdict(set)
    capacity: defaultdict[Key, Decimal] = defaultdict(Decimal)
    for node in fleet.nodes:
        for item in node.falls:
            for found in item.units:
                key = (Basis.POD, node.name, found.unit.resource)
                kinds[key].add(
                    Unit(item.group.model, str(item.group.mode), found.unit.profile, found.unit.equivalents)
                )
                capacity[key] += found.unit.capacity
    return {key: (_in_common(units), capacity[key]) for key, units in kinds.items()}


# ---- supply ---------------------------------------------------------------------------------------------------------


Had = tuple[Decimal, Mapping[str, str]]
"""(physical units, out of use by bucket)."""


def _note_supply(cluster: Cluster, fleet: Fleet, now: datetime) -> None:
    if cluster.pk not in fleet.clusters:
        return
    rows = SupplySeen.objects.filter(cluster=cluster).order_by("node", "resource", "-seen_from", "-pk")
    newest = rows.distinct("node", "resource").values_list("node", "resource", "physical", "out_of_use")
    known: dict[tuple[str, str], Had] = {(node, name): (had, out) for node, name, had, out in newest}
    present = _had(fleet)
    gone: dict[tuple[str, str], Had] = {key: (Decimal(0), {}) for key in known.keys() - present.keys()}
    SupplySeen.objects.bulk_create(
        [
            SupplySeen(
                cluster=cluster,
                node=node,
                resource=resource,
                physical=physical,
                out_of_use=out_of_use,
                seen_from=now,
            )
            for (node, resource), (physical, out_of_use) in {**present, **gone}.items()
            if known.get((node, resource)) != (physical, out_of_use)
        ],
        ignore_conflicts=True,
        batch_size=5000,
    )


def _had(fleet: Fleet) -> Mapping[tuple[str, str], Had]:
    physical: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
    out: defaultdict[tuple[str, str], defaultdict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for node in fleet.nodes:
        for item in node.falls:
            for found in item.units:
                key = (node.name, found.unit.resource)
                physical[key] += found.physical
                for bucket, units in found.buckets.items():
                    out[key][str(bucket)] += units
    return {
        key: (had, {bucket: plain(units) for bucket, units in sorted(out[key].items()) if units})
        for key, had in physical.items()
        if is_held(key[1])
    }


# ---- cost centres ---------------------------------------------------------------------------------------------------


def cost_centres() -> Mapping[int, Sequence[tuple[datetime, str]]]:
    """By team, in order."""
    found: defaultdict[int, list[tuple[datetime, str]]] = defaultdict(list)
    rows = CostCentreSeen.objects.order_by("seen_from", "pk")
    for team_id, at, cost_centre in rows.values_list("team_id", "seen_from", "cost_centre"):
        found[team_id].append((at, cost_centre))
    return found


def _note_cost_centres(now: datetime) -> None:
    known = {team_id: rows[-1][1] for team_id, rows in cost_centres().items()}
    CostCentreSeen.objects.bulk_create(
        [
            CostCentreSeen(team_id=team_id, cost_centre=cost_centre, seen_from=now)
            for team_id, cost_centre in Team.objects.values_list("pk", "cost_centre")
            if known.get(team_id) != cost_centre
        ],
        ignore_conflicts=True,
    )


# ---- which quota is a promise ---------------------------------------------------------------------------------------


def standings(cluster: Cluster) -> Mapping[tuple[str, str], Sequence[Standing]]:
    """By kind and name of the queue, in order."""
    found: defaultdict[tuple[str, str], list[Standing]] = defaultdict(list)
    rows = PromiseSeen.objects.filter(cluster=cluster).order_by("seen_from", "pk")
    for kind, queue, at, left_out in rows.values_list("kind", "queue", "seen_from", "left_out"):
        found[kind, queue].append(Standing(at, left_out))
    return found


def _note_promises(cluster: Cluster, now: datetime) -> None:
    known = {key: rows[-1].left_out for key, rows in standings(cluster).items()}
    present = {
        (node.kind, node.name): _left_out(node)
        for node in walk(queue_forest(now=now, clusters=[cluster]))
        if node.kind in KIND_OF_WORK
    }
    PromiseSeen.objects.bulk_create(
        [
            PromiseSeen(cluster=cluster, kind=kind, queue=queue, left_out=left_out, seen_from=now)
            for (kind, queue), left_out in present.items()
            if known.get((kind, queue)) != left_out
        ],
        ignore_conflicts=True,
    )


def _left_out(node: QueueNode) -> str:
    """Volcano without a hierarchy lets each queue keep its own numbers, whatever parent it names."""
    plugin = node.plugin
    if node.stopped:
        return PromiseSeen.LeftOut.STOPPED
    if plugin is not None and plugin.name == "proportion":
        return PromiseSeen.LeftOut.BY_DEMAND
    if node.children and not (plugin is not None and plugin.flat):
        return PromiseSeen.LeftOut.PARENT
    return PromiseSeen.LeftOut.NOT


# ---- what could not be seen -----------------------------------------------------------------------------------------


def unseen(cluster: Cluster, start: datetime, end: datetime) -> Mapping[str, Sequence[Stretch]]:
    """By kind, in order, those that touch [start, end)."""
    found: defaultdict[str, list[Stretch]] = defaultdict(list)
    rows = UnseenStretch.objects.filter(cluster=cluster, started_at__lt=end, ended_at__gt=start)
    for kind, low, high in rows.order_by("started_at").values_list("kind", "started_at", "ended_at"):
        found[kind].append(Stretch(low, high))
    return found


def _note_unseen(cluster: Cluster, now: datetime) -> None:
    longest = LONGEST_INTERVALS * settings.COLLECT_INTERVAL_SECONDS
    fresh = []
    for kind, source in {**watched_by(cluster), **SOURCE_OF_SUPPLY}.items():
        pulls = CollectionRun.objects.filter(
            cluster=cluster,
            source=source,
            outcome__in=(Outcome.OK, Outcome.PARTIAL),
            started_at__gt=now - LOOK_BACK,
        )
        ends = pulls.values_list("ended_at", flat=True)
        fresh += [
            UnseenStretch(cluster=cluster, kind=kind, started_at=gap.start, ended_at=gap.end)
            for gap in gaps_between(ends.iterator(chunk_size=5000), longest=longest)
        ]
    UnseenStretch.objects.bulk_create(fresh, ignore_conflicts=True)
