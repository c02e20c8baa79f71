"""Fleets kept in memory: what did not change since the last reading is neither read nor laid out again.

Input: a cluster and where its sources stand; output: `Kept`, equal to what a full reading would give. What this
rests on (docs/adr/0008):
- Whoever writes nodes, pods, flavors, device objects or the cards that telemetry saw moves the source's `last_run_at`
  in the same transaction, and writes `observed_at` or `gone_at` not before the newest one there, but for SKEW (one
  writer per source, by its lease). Marks are read before rows, so that what changes in between is read once more,
  never missed.
- Reserves are read each time. What changes by the clock alone says when (`NodeState.due`, `SeenCards.until`).
- A mark or a clock that goes back, another number of living nodes than expected (counted now and then), other
  flavors or another cluster row: everything is read anew.

A `Kept` is never changed, only replaced: readers share it without locks, one thread at a time makes the next.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from typing import Any

from django.db import connection

from apps.capacity.laying import (
    Kind,
    NodeState,
    PoolKey,
    Shapes,
    Surroundings,
    kind_of,
    lay_node,
    pool_key,
    usable_groups,
    with_reserves,
)
from apps.capacity.loading import Laid, load_nodes
from apps.capacity.pooling import PoolSum
from apps.capacity.reading import (
    DevicesMark,
    NodeFacts,
    changed_nodes,
    devices_mark,
    last_offered,
    read_devices,
    read_flavors,
    read_nodes,
    read_seen,
    used_on_nodes,
)
from apps.capacity.reserves import Place, Rule, Taken, lay
from apps.fleet.dra import Adrift
from apps.fleet.models import Cluster
from apps.observations.cards import SeenCards
from apps.observations.keeping import BESIDE, COUNT_AGAIN, SKEW, Keeper, Marks, same_row
from apps.observations.models import Source

ZERO = Decimal(0)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_versions = count(1)

_LIVING = "SELECT count(*) FROM observations_node WHERE cluster_id = %s AND gone_at IS NULL"
_PODS = """
SELECT node_name, max(at), count(*) FROM (
  SELECT node_name, observed_at AS at FROM observations_pod
  WHERE cluster_id = %(cluster)s AND observed_at > %(since)s
  UNION ALL
  SELECT node_name, gone_at FROM observations_pod
  WHERE cluster_id = %(cluster)s AND gone_at IS NOT NULL AND gone_at > %(since)s
) p GROUP BY 1
"""
_NEWEST = """
SELECT (SELECT greatest(max(observed_at), max(gone_at)) FROM observations_node WHERE cluster_id = %(cluster)s),
  (SELECT greatest(max(observed_at), max(gone_at)) FROM observations_pod WHERE cluster_id = %(cluster)s)
"""


@dataclass(frozen=True, slots=True)
class Kept:
    """One cluster laid out as of `marks`. `version` differs whenever anything does, `kinds_version` when the kind or
    the name of some node does; `usable`: of each kind, the usable units by resource; `taken`: what reserves take; `nodes_until`, `pods_until`: the newest changes read;
    `look_at`: when what telemetry saw is too old; `counted_at`: when the number of nodes was last checked."""

    version: int
    kinds_version: int
    marks: Marks
    now: datetime
    around: Surroundings
    nodes: list[NodeState]
    by_uid: dict[str, NodeState]
    sums: dict[PoolKey, PoolSum]
    kinds: dict[Kind, dict[str, NodeState]]
    usable: dict[Kind, dict[str, Decimal]]
    taken: dict[Place, Taken]
    nodes_until: datetime
    pods_until: datetime
    due: datetime | None
    look_at: datetime | None
    counted_at: datetime
    pods_seen: Mapping[str, tuple[datetime, int]] = field(default_factory=dict)
    """By node, the newest change of its pods and the number of changes, of those looked at last."""
    devices_mark: DevicesMark | None = None
    """Of the device objects that `around` has."""


# ---- everything -----------------------------------------------------------------------------------------------


def full(cluster: Cluster, *, marks: Marks, rules: tuple[Rule, ...], now: datetime) -> Kept:
    """Read and lay out a whole cluster."""
    with connection.cursor() as cursor:
        cursor.execute(_NEWEST, {"cluster": cluster.pk})
        nodes_until, pods_until = cursor.fetchone()
    mark = devices_mark(cluster_id=cluster.pk, now=now)
    (laid,) = load_nodes(
        [cluster], now=now, rules={cluster.pk: rules}, unread=() if marks.pods_read else [cluster.pk]
    )
    kept = kept_of(laid, marks=marks, now=now, until=(nodes_until or _EPOCH, pods_until or _EPOCH))
    return replace(kept, devices_mark=mark)


def kept_of(laid: Laid, *, marks: Marks, now: datetime, until: tuple[datetime, datetime]) -> Kept:
    sums: dict[PoolKey, PoolSum] = {}
    kinds: dict[Kind, dict[str, NodeState]] = {}
    usable: dict[Kind, dict[str, Decimal]] = {}
    for node in laid.nodes:
        kind = kind_of(node)
        kinds.setdefault(kind, {})[node.uid] = node
        _add_usable(usable.setdefault(kind, {}), node, 1)
        for index, item in enumerate(node.falls):
            sums.setdefault(pool_key(node, item.group), PoolSum()).add(node, index)
    return Kept(
        version=next(_versions),
        kinds_version=next(_versions),
        marks=marks,
        now=now,
        around=laid.around,
        nodes=laid.nodes,
        by_uid={node.uid: node for node in laid.nodes},
        sums=sums,
        kinds=kinds,
        usable=usable,
        taken=_taken(laid.around.rules, laid.nodes),
        nodes_until=until[0],
        pods_until=until[1],
        due=_due(laid.nodes),
        look_at=_look_at(laid.around.seen.values()),
        counted_at=now,
    )


def _add_usable(usable: dict[str, Decimal], node: NodeState, sign: int) -> None:
    for item in node.falls:
        for found in item.units:
            name = found.unit.resource
            usable[name] = usable.get(name, ZERO) + sign * found.allocatable


def _taken(rules: tuple[Rule, ...], nodes: Iterable[NodeState]) -> dict[Place, Taken]:
    if not rules:
        return {}
    return lay(rules, (item for node in nodes for item in node.usable))[0]


def _due(nodes: Iterable[NodeState]) -> datetime | None:
    return min((node.due for node in nodes if node.due is not None), default=None)


def _look_at(seen: Iterable[SeenCards]) -> datetime | None:
    return min((cards.until for cards in seen if cards.until is not None), default=None)


# ---- what changed ---------------------------------------------------------------------------------------------


class _Anew(Exception):
    """What is kept cannot be carried on: everything is read anew."""


@dataclass(slots=True)
class _Step:
    """From one `Kept` to the next: which nodes have to be laid out again, which are gone, and by what."""

    before: Kept
    marks: Marks
    now: datetime
    around: Surroundings
    nodes_until: datetime
    pods_until: datetime
    look_at: datetime | None
    devices_mark: DevicesMark | None
    pods_seen: Mapping[str, tuple[datetime, int]]
    uids: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    rows: dict[str, NodeFacts] = field(default_factory=dict)
    used: dict[str, Mapping[str, Decimal]] = field(default_factory=dict)
    living: int | None = None


def advance(before: Kept, cluster: Cluster, *, marks: Marks, rules: tuple[Rule, ...], now: datetime) -> Kept:
    """The cluster as of `marks`, from what is kept of it. The same object where nothing changed."""
    try:
        return _advanced(before, cluster, marks=marks, rules=rules, now=now)
    except _Anew:
        return full(cluster, marks=marks, rules=rules, now=now)


def is_current(kept: Kept, cluster: Cluster, *, marks: Marks, rules: tuple[Rule, ...], now: datetime) -> bool:
    return (
        kept.marks == marks
        and kept.around.rules == rules
        and same_row(kept.around.cluster, cluster)
        and kept.now - BESIDE <= now
        and (kept.due is None or now < kept.due)
        and (kept.look_at is None or now < kept.look_at)
    )


def _advanced(
    before: Kept, cluster: Cluster, *, marks: Marks, rules: tuple[Rule, ...], now: datetime
) -> Kept:
    if (
        now < before.now - BESIDE
        or marks.behind(before.marks)
        or marks.pods_read != before.marks.pods_read
        or not same_row(before.around.cluster, cluster)
    ):
        raise _Anew
    step = _Step(
        before=before,
        marks=marks,
        now=now,
        around=replace(before.around, rules=rules),
        nodes_until=before.nodes_until,
        pods_until=before.pods_until,
        look_at=before.look_at,
        devices_mark=before.devices_mark,
        pods_seen=before.pods_seen,
    )
    if marks.moved(before.marks, Source.KUEUE) and _flavors(cluster) != before.around.flavors:
        raise _Anew
    if marks.moved(before.marks, Source.NODES):
        _find_nodes(step)
    if marks.moved(before.marks, Source.PODS):
        _find_pods(step)
    if before.due is not None and before.due <= now:
        step.uids.update(node.uid for node in before.nodes if node.due is not None and node.due <= now)
    if marks.moved(before.marks, Source.DEVICES) or (before.around.has_slices and (step.uids or step.gone)):
        _find_devices(step)
    if marks.moved(before.marks, Source.DCGM) or (before.look_at is not None and before.look_at <= now):
        _find_seen(step, (node.name for node in before.nodes if node.asks))
    return _carried_on(step)


def _flavors(cluster: Cluster) -> tuple[Any, ...]:
    return read_flavors(cluster_ids=[cluster.pk]).get(cluster.pk, ())


def _find_nodes(step: _Step) -> None:
    """Nodes that are new, differ or are gone; those seen before with the same content are left out."""
    cluster_id, known = step.around.cluster.pk, step.before.by_uid
    for row, gone_at in changed_nodes(cluster_id=cluster_id, since=step.before.nodes_until - SKEW):
        step.nodes_until = max(step.nodes_until, row.observed_at, gone_at or row.observed_at)
        if gone_at is not None:
            if row.uid in known:
                step.gone.add(row.uid)
        elif row.uid not in known or known[row.uid].observed_at != row.observed_at:
            step.uids.add(row.uid)
            step.rows[row.uid] = row
    if step.now - step.before.counted_at >= COUNT_AGAIN:
        with connection.cursor() as cursor:
            cursor.execute(_LIVING, [cluster_id])
            (step.living,) = cursor.fetchone()


def _find_pods(step: _Step) -> None:
    """Nodes whose pods, all added up, ask for something else than before."""
    with connection.cursor() as cursor:
        cursor.execute(_PODS, {"cluster": step.around.cluster.pk, "since": step.before.pods_until - SKEW})
        found = {name: (at, rows) for name, at, rows in cursor.fetchall()}
    step.pods_until = max([step.pods_until, *(at for at, _rows in found.values())])
    # Within SKEW the same changes are found again: looked at once, unless one more has come.
    changed = {name for name, seen in found.items() if name and step.before.pods_seen.get(name) != seen}
    step.pods_seen = found
    if not changed:
        return
    _read_used(step, changed)
    step.uids.update(
        node.uid for node in step.before.nodes if node.name in changed and node.used != step.used[node.name]
    )


def _read_used(step: _Step, names: Iterable[str]) -> None:
    """What pods ask for on nodes of which it was not read in this step."""
    wanted = [name for name in names if name not in step.used]
    if wanted:
        cluster_id = step.around.cluster.pk
        used = used_on_nodes(cluster_ids=[cluster_id], names=wanted)
        step.used.update((name, used.get((cluster_id, name), {})) for name in wanted)


def _read_rows(step: _Step, uids: Iterable[str]) -> list[NodeFacts]:
    """The living nodes of these, each read once in this step."""
    wanted = [uid for uid in uids if uid not in step.rows]
    if wanted:
        rows = read_nodes(cluster_ids=[step.around.cluster.pk], uids=wanted)
        step.rows.update((row.uid, row) for row in rows)
    return [step.rows[uid] for uid in uids if uid in step.rows]


def _find_devices(step: _Step) -> None:
    """Nodes of which drivers say something else. Whether a slice reaches a node depends on all nodes' labels."""
    cluster_id, before = step.around.cluster.pk, step.around.devices
    known = {node.name: node.health.labels for node in step.before.nodes}
    labels = {node.name: known[node.name] for node in step.before.nodes if node.uid not in step.gone}
    labels.update((row.name, row.labels) for row in _read_rows(step, step.uids - step.gone))
    mark = devices_mark(cluster_id=cluster_id, now=step.now)
    if mark == step.devices_mark and labels == known:
        return
    step.devices_mark = mark
    view = read_devices(cluster_ids=[cluster_id], nodes={cluster_id: labels}, now=step.now).get(cluster_id)
    devices = {} if view is None else view.by_node
    adrift = Adrift() if view is None else view.adrift
    step.around = replace(step.around, has_slices=view is not None, devices=devices, adrift=adrift)
    step.uids.update(
        node.uid for node in step.before.nodes if devices.get(node.name) != before.get(node.name)
    )


def _find_seen(step: _Step, names: Iterable[str]) -> None:
    """Nodes of which telemetry saw something else, or sees nothing any more."""
    found = read_seen(now=step.now, clusters=[step.around.cluster], names=list(names))
    seen = {name: cards for (_pk, name), cards in found.items()}
    before = step.around.seen
    step.around = replace(step.around, seen=seen)
    step.uids.update(node.uid for node in step.before.nodes if seen.get(node.name) != before.get(node.name))
    step.look_at = _look_at(seen.values())


# ---- carrying on ----------------------------------------------------------------------------------------------


def _carried_on(step: _Step) -> Kept:
    before = step.before
    uids = step.uids - step.gone
    laid = _laid_again(step, uids) if uids else {}
    step.gone.update(uid for uid in uids if uid not in laid and uid in before.by_uid)
    changed: dict[str, NodeState | None] = dict.fromkeys(step.gone)
    rules = step.around.rules
    if rules != before.around.rules:
        for node in before.nodes:
            if node.uid not in laid and node.uid not in step.gone:
                usable = usable_groups(node.uid, node.health.labels, node.before_reserves, rules)
                if usable != node.usable:
                    laid[node.uid] = replace(node, usable=usable)
    taken = before.taken
    if rules != before.around.rules or _touches_reserves(before, laid, step.gone):
        merged = {**before.by_uid, **laid}
        order = sorted(
            (node for uid, node in merged.items() if node.usable and uid not in step.gone),
            key=lambda node: (node.name, node.uid),
        )
        taken = _taken(rules, order)
        for place in before.taken.keys() | taken.keys():
            uid = place[0]
            if before.taken.get(place) != taken.get(place) and uid not in step.gone:
                laid.setdefault(uid, merged[uid])
    for uid, node in laid.items():
        final = with_reserves(node, taken)
        if final != before.by_uid.get(uid):
            changed[uid] = final
    return _replaced(step, changed, taken)


def _laid_again(step: _Step, uids: Iterable[str]) -> dict[str, NodeState]:
    cluster_id = step.around.cluster.pk
    rows = _read_rows(step, sorted(uids))
    _read_used(step, [row.name for row in rows])
    last, shapes = last_offered(rows, step.now), Shapes()
    found: dict[str, NodeState] = {}

    def lay_row(row: NodeFacts) -> NodeState:
        return lay_node(
            row,
            step.around,
            used=step.used[row.name],
            last=last.get((cluster_id, row.uid)),
            now=step.now,
            shapes=shapes,
        )

    for row in rows:
        found[row.uid] = lay_row(row)
    asking = {node.name for node in found.values() if node.asks} - step.around.seen.keys()
    if asking:
        more = read_seen(now=step.now, clusters=[step.around.cluster], names=sorted(asking))
        seen = {**step.around.seen, **{name: cards for (_pk, name), cards in more.items()}}
        step.around = replace(step.around, seen=seen)
        step.look_at = _look_at(seen.values())
        for row in rows:
            if row.name in asking:
                found[row.uid] = lay_row(row)
    return found


def _touches_reserves(before: Kept, laid: Mapping[str, NodeState], gone: Iterable[str]) -> bool:
    """Whether what reserves can take from differs."""
    for uid in gone:
        if before.by_uid[uid].usable:
            return True
    for uid, node in laid.items():
        old = before.by_uid.get(uid)
        if node.usable != (old.usable if old else ()) or (node.usable and old and old.name != node.name):
            return True
    return False


def _replaced(step: _Step, changed: Mapping[str, NodeState | None], taken: dict[Place, Taken]) -> Kept:
    """A new `Kept` in which these nodes are exchanged, by exact differences of the sums."""
    before = step.before
    nodes, by_uid = before.nodes, before.by_uid
    sums, kinds, usable, kinds_version = before.sums, before.kinds, before.usable, before.kinds_version
    if changed:
        by_uid, sums, kinds, usable = dict(by_uid), dict(sums), dict(kinds), dict(usable)
        own_sums: set[PoolKey] = set()
        own_kinds: set[Kind] = set()
        moved = False
        for uid, new in changed.items():
            old = by_uid.pop(uid, None)
            if new is not None:
                by_uid[uid] = new
            _exchange_sums(sums, own_sums, old, new)
            same_kind = _exchange_kinds(kinds, usable, own_kinds, old, new)
            moved = moved or not same_kind or (old is not None and new is not None and old.name != new.name)
        nodes = _exchange_nodes(before.nodes, before.by_uid, changed)
        kinds_version = next(_versions) if moved else kinds_version
    if step.living is not None and step.living != len(nodes):
        raise _Anew
    drifted = step.around.adrift != before.around.adrift
    if drifted:  # notes look at it as they look at kinds of nodes
        kinds_version = next(_versions)
    return Kept(
        version=next(_versions) if changed or drifted else before.version,
        kinds_version=kinds_version,
        marks=step.marks,
        now=step.now,
        around=step.around,
        nodes=nodes,
        by_uid=by_uid,
        sums=sums,
        kinds=kinds,
        usable=usable,
        taken=taken,
        nodes_until=step.nodes_until,
        pods_until=step.pods_until,
        due=_due(nodes) if changed else before.due,
        look_at=step.look_at,
        counted_at=before.counted_at if step.living is None else step.now,
        devices_mark=step.devices_mark,
        pods_seen=step.pods_seen,
    )


def _exchange_sums(
    sums: dict[PoolKey, PoolSum], own: set[PoolKey], old: NodeState | None, new: NodeState | None
) -> None:
    members = [
        (node, index, item, sign)
        for node, sign in ((old, -1), (new, 1))
        if node is not None
        for index, item in enumerate(node.falls)
    ]
    for node, index, item, sign in members:
        key = pool_key(node, item.group)
        if key not in own:
            sums[key] = sums[key].copy() if key in sums else PoolSum()
            own.add(key)
        sums[key].add(node, index, sign)
    for key in [key for key in own if key in sums and not sums[key].nodes]:
        del sums[key]
        own.discard(key)


def _exchange_kinds(
    kinds: dict[Kind, dict[str, NodeState]],
    usable: dict[Kind, dict[str, Decimal]],
    own: set[Kind],
    old: NodeState | None,
    new: NodeState | None,
) -> bool:
    """Whether the node is of the same kind as before."""
    kind_before, kind_after = old and kind_of(old), new and kind_of(new)
    for kind in (kind_before, kind_after):
        if kind and kind not in own:
            kinds[kind], usable[kind] = dict(kinds.get(kind, {})), dict(usable.get(kind, {}))
            own.add(kind)
    if old and kind_before:
        del kinds[kind_before][old.uid]
        _add_usable(usable[kind_before], old, -1)
    if new and kind_after:
        kinds[kind_after][new.uid] = new
        _add_usable(usable[kind_after], new, 1)
    if kind_before and not kinds[kind_before]:
        del kinds[kind_before], usable[kind_before]
        own.discard(kind_before)
    return kind_before == kind_after


def _exchange_nodes(
    nodes: list[NodeState], known: Mapping[str, NodeState], changed: Mapping[str, NodeState | None]
) -> list[NodeState]:
    """In the order of names still."""
    result = list(nodes)
    added: list[NodeState] = []
    for uid, new in changed.items():
        old = known.get(uid)
        if old is not None:
            place = bisect_left(result, _by_name(old), key=_by_name)
            if new is not None and new.name == old.name:
                result[place] = new
                continue
            del result[place]
        if new is not None:
            added.append(new)
    for node in added:
        insort(result, node, key=_by_name)
    return result


def _by_name(node: NodeState) -> tuple[str, str]:
    return node.name, node.uid


# ---- one per process ------------------------------------------------------------------------------------------


class Store(Keeper[Kept]):
    """What one process keeps of fleets."""

    def get(
        self,
        cluster: Cluster,
        *,
        marks: Marks,
        rules: tuple[Rule, ...],
        now: datetime,
        again: Callable[[], Marks],
    ) -> Kept:
        """`again`: see `Keeper`."""
        return self.keep(
            cluster,
            marks=marks,
            now=now,
            again=again,
            is_current=lambda kept, marks: is_current(kept, cluster, marks=marks, rules=rules, now=now),
            full=lambda marks: full(cluster, marks=marks, rules=rules, now=now),
            advance=lambda kept, marks: advance(kept, cluster, marks=marks, rules=rules, now=now),
        )


STORE = Store()
