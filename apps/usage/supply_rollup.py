"""Hours of what there was, and what of it was idle, written with the hours of what was held. Input: what nodes were noted to
offer (`remembering`) and the table `counted` of the open transaction; output: rows of SupplyHour.

Invariant: an hour's rows say the same as `supply_hours` of each node, and are written in the transaction of that hour's rows
of AllocationHour: both sides are always of the same facts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import connection

from apps.fleet.models import Cluster
from apps.usage import supply_sql as sql
from apps.usage.allocation import Stretch, Surroundings
from apps.usage.allocation_params import columns
from apps.usage.forgetting import forget_steps
from apps.usage.models import SupplyHour, SupplySeen
from apps.usage.supply_hours import Offer, between, merged

Offers = Mapping[tuple[str, str], Sequence[Offer]]
"""By node and resource, in order."""


def add_supply(
    *,
    cluster: Cluster,
    start: datetime,
    end: datetime,
    around: Surroundings,
    until: Mapping[str, datetime],
    given: Mapping[str, Any],
) -> int:
    """Write the rows of [start, end) anew. `until`: how far nodes ("Node"), pods ("Pod") and
    claims are known; `given`: the
    parameters of slots and units."""
    SupplyHour.objects.filter(cluster=cluster, starts_at__gte=start, starts_at__lt=end).delete()
    unseen = unseen_in(around.gaps, until, start, end)
    found = offers_of(cluster, start, end)
    params: dict[str, Any] = {
        **given,
        "cluster": cluster.pk,
        "start": start,
        "end": end,
        **columns(
            _offer_rows(found), *(f"offer_{one}" for one in ("node", "resource", "at", "physical", "usable"))
        ),
        **columns(
            [row for gap in unseen for row in ((gap.start, 1), (gap.end, -1))], "unseen_at", "unseen_change"
        ),
        **columns(
            _out_rows(found, between(unseen, start, end), end),
            *(f"out_{one}" for one in ("node", "resource", "bucket", "low", "high", "units")),
        ),
    }
    with connection.cursor() as cursor:
        cursor.execute(sql.ADD_SUPPLY, params)
        rows = int(cursor.rowcount)
        cursor.execute(sql.ADD_OUT_OF_USE, params)
        return rows + int(cursor.rowcount)


def drop_old_supply(*, now: datetime) -> int:
    """Forget what nodes had before pods of that time are forgotten; what holds since then stays."""
    return forget_steps(SupplySeen, key=("cluster_id", "node", "resource"), amount="physical", now=now)


def unseen_in(
    gaps: Mapping[str, Sequence[Stretch]], until: Mapping[str, datetime], start: datetime, end: datetime
) -> list[Stretch]:
    """When nodes, pods, or claims where there are any, could not be seen: in each case nobody knows what was idle."""
    kinds = [kind for kind in ("Node", "Pod", "ResourceClaim") if kind in until]
    past = [Stretch(until[kind], end) for kind in kinds if until[kind] < end]
    return merged([*past, *(gap for kind in kinds for gap in gaps.get(kind, ()))], start, end)


def offers_of(cluster: Cluster, start: datetime, end: datetime) -> Offers:
    """What holds within [start, end); the first of each from `start` on where it was known before."""
    found: defaultdict[tuple[str, str], list[Offer]] = defaultdict(list)
    rows = SupplySeen.objects.filter(cluster=cluster, seen_from__lt=end).order_by("seen_from", "pk")
    for node, resource, at, physical, out in rows.values_list(
        "node", "resource", "seen_from", "physical", "out_of_use"
    ).iterator(chunk_size=5000):
        own = found[node, resource]
        offer = Offer(max(at, start), physical, {bucket: Decimal(units) for bucket, units in out.items()})
        if own and own[-1].at >= offer.at:
            own[-1] = offer
        else:
            own.append(offer)
    return found


def _offer_rows(found: Offers) -> list[tuple[Any, ...]]:
    return [(*key, one.at, one.physical, one.usable) for key, own in found.items() for one in own]


def _out_rows(found: Offers, seen: Sequence[Stretch], end: datetime) -> list[tuple[Any, ...]]:
    """Units out of use while they could be seen."""
    return [
        (*key, bucket, max(low, part.start), min(high, part.end), units)
        for key, own in found.items()
        for low, high, bucket, units in _out_of_use(own, end)
        for part in seen
        if part.start < high and part.end > low
    ]


def _out_of_use(offers: Sequence[Offer], end: datetime) -> Iterator[tuple[datetime, datetime, str, Decimal]]:
    ends = [*(one.at for one in offers[1:]), end]
    for one, high in zip(offers, ends, strict=True):
        for bucket, units in one.out_of_use.items():
            if units and one.at < high:
                yield one.at, high, bucket, units
