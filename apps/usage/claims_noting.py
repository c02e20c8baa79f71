"""What claims held, written down while they stand: the cluster keeps no past of them. Input: claims and devices as observed;
output: rows of ClaimSeen.

Invariants: a claim that came and went between two runs is written as well, with what it held last; devices are counted as
the fleet counts them; noting twice writes nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from apps.capacity.facts import Fleet
from apps.capacity.laying import DUAL_ADVERTISED, plugin_units
from apps.capacity.reading import read_devices
from apps.fleet.dra import ClaimObject, DraView, counted_drivers, held_by
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, Node, Pod
from apps.usage.accounted import is_held
from apps.usage.claims import ClaimNow, On, Step, Whose, new_steps
from apps.usage.forgetting import forget_steps
from apps.usage.models import ClaimSeen
from apps.usage.services import REDO_AT_MOST

UNIT = Decimal("0.000001")
User = tuple[Whose, datetime | None]
"""Whose a pod is, and when it was bound."""


def note_claims(cluster: Cluster, fleet: Fleet, now: datetime) -> datetime | None:
    """Write down what is new, and tell since when it is: None when nothing is. `fleet`: of this cluster, as it is now."""
    holding = _holding(cluster)
    objects = _claims(cluster, holding, now)
    if not objects and not holding:
        return None
    known = _known(cluster, holding | {row.uid for row in objects})
    fresh = list(new_steps(known, _present(cluster, fleet, objects, now), now))
    ClaimSeen.objects.bulk_create(
        [
            ClaimSeen(
                cluster=cluster,
                uid=step.uid,
                namespace=step.namespace,
                node=step.on.node,
                resource=step.on.resource,
                kind=step.whose.kind,
                queue_name=step.whose.queue_name,
                units=step.units,
                seen_from=step.at,
            )
            for step in fresh
        ],
        update_conflicts=True,
        unique_fields=["cluster", "uid", "node", "resource", "seen_from"],
        update_fields=["units", "kind", "queue_name"],
        batch_size=5000,
    )
    return min((step.at for step in fresh), default=None)


def drop_old_claims(*, now: datetime) -> int:
    """Forget what claims held before pods of that time are forgotten; what holds since then stays."""
    return forget_steps(ClaimSeen, key=("cluster_id", "uid", "node", "resource"), amount="units", now=now)


def _newest(cluster: Cluster) -> QuerySet[ClaimSeen]:
    """Each claim's newest step per kind of unit."""
    rows = ClaimSeen.objects.filter(cluster=cluster).order_by("uid", "node", "resource", "-seen_from")
    return rows.distinct("uid", "node", "resource")


def _holding(cluster: Cluster) -> set[str]:
    """Those that hold something as far as is written."""
    newest = ClaimSeen.objects.filter(pk__in=_newest(cluster).values("pk"))
    return set(newest.filter(units__gt=0).values_list("uid", flat=True))


def _known(cluster: Cluster, uids: Collection[str]) -> Mapping[str, Collection[Step]]:
    found: defaultdict[str, list[Step]] = defaultdict(list)
    for row in _newest(cluster).filter(uid__in=uids):
        on, whose = On(row.node, row.resource), Whose(row.kind, row.queue_name)
        found[row.uid].append(Step(row.uid, row.namespace, on, whose, row.units, row.seen_from))
    return found


def _claims(cluster: Cluster, holding: Collection[str], now: datetime) -> list[ClusterObject]:
    """Those that are allocated, or were when they went and that is not written yet, or were when they were seen last."""
    rows = ClusterObject.objects.filter(cluster=cluster, kind="ResourceClaim")
    written = ClaimSeen.objects.filter(
        cluster=cluster, uid=OuterRef("uid"), seen_from__gte=OuterRef("gone_at")
    )
    gone = Q(gone_at__gt=now - REDO_AT_MOST) & ~Exists(written)
    allocated = Q(status__allocated=True) & (Q(gone_at=None) | gone)
    needed = rows.only("uid", "namespace", "name", "spec", "status", "observed_at", "gone_at")
    return list(needed.filter(allocated | Q(uid__in=holding)).order_by("uid"))


def _present(
    cluster: Cluster, fleet: Fleet, objects: Collection[ClusterObject], now: datetime
) -> Iterator[ClaimNow]:
    labels = dict(Node.objects.filter(cluster=cluster, gone_at=None).values_list("name", "labels"))
    views = read_devices(cluster_ids=[cluster.pk], nodes={cluster.pk: labels}, now=now)
    view, users = views.get(cluster.pk, DraView()), _users(cluster, objects)
    counted_as = _counted_as(fleet, view)
    for row in objects:
        own = [users[uid] for uid in _reserving(row) if uid in users]
        said = row.status["allocated_at"]
        bound = min((at for _whose, at in own if at is not None), default=row.observed_at)
        yield ClaimNow(
            uid=row.uid,
            namespace=row.namespace,
            held={on: units for on, units in _held(row, view, counted_as).items() if is_held(on.resource)},
            since=datetime.fromisoformat(said) if said else bound,
            changed_at=row.observed_at,
            gone_at=row.gone_at,
            users={whose for whose, _at in own},
        )


def _counted_as(fleet: Fleet, view: DraView) -> Mapping[On, tuple[On, Fraction]]:
    """What a unit of a driver is counted as where the vendor's plugin offers the same cards: supply has them once, as
    the plugin's units."""
    found: dict[On, tuple[On, Fraction]] = {}
    for node in fleet.nodes:
        devices = view.by_node.get(node.name)
        if devices is None or DUAL_ADVERTISED not in node.codes:
            continue
        for resource, (own, each) in plugin_units([item.group for item in node.falls], devices).items():
            found[On(node.name, resource)] = (On(node.name, own), each)
    return found


def _held(
    row: ClusterObject, view: DraView, counted_as: Mapping[On, tuple[On, Fraction]]
) -> Mapping[On, Decimal]:
    """What it holds; of one that went, what it held alone."""
    units: defaultdict[On, Fraction] = defaultdict(Fraction)
    for listed, amount in _listed(row, view):
        on, each = counted_as.get(listed, (listed, Fraction(1)))
        units[on] += amount * each
    found = {on: (Decimal(n.numerator) / Decimal(n.denominator)).quantize(UNIT) for on, n in units.items()}
    return {on: amount for on, amount in found.items() if amount}


def _listed(row: ClusterObject, view: DraView) -> Iterator[tuple[On, Fraction]]:
    """The same in the units of drivers."""
    if row.gone_at is None:
        mine = view.held_by_claim.get((row.namespace, row.name), {})
        yield from ((On(*on), Fraction(units)) for on, units in mine.items())
        return
    claim = ClaimObject(row.namespace, row.name, row.spec, row.status)
    for key, shares in held_by([claim], view.devices, counted_drivers()).shares.items():
        device = view.devices[key]
        yield from ((On(device.node, device.resource), share) for share in shares.values())


def _reserving(row: ClusterObject) -> list[str]:
    users: list[dict[str, Any]] = row.status["reserved_for"]
    return [user["uid"] for user in users if user["kind"] == "Pod"]


def _users(cluster: Cluster, objects: Collection[ClusterObject]) -> Mapping[str, User]:
    """Pods that reserve them, by uid."""
    uids = [uid for row in objects for uid in _reserving(row)]
    rows = Pod.objects.filter(cluster=cluster, uid__in=uids)
    return {
        uid: (Whose("PodGroup" if pod_group else "Workload", queue_name), bound_at)
        for uid, pod_group, queue_name, bound_at in rows.values_list(
            "uid", "pod_group", "queue_name", "bound_at"
        )
    }
