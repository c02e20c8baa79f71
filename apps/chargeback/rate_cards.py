"""Published rate cards. Input: rows; output: the `Tariff` that prices use, and drafts that become versions.

Invariants: only published versions price anything; a version is published once, on a full hour, and not before the end of
the last closed period, so that what was billed stays priced as it was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Model, Prefetch, QuerySet
from django.utils.translation import gettext as _

from apps.accounts.models import User
from apps.chargeback.factors import factor_faults
from apps.chargeback.models import PRICE_KEY, BillingPeriod, RateGroupCluster, RatePrice, RateVersion
from apps.chargeback.tariff import Per, Price, Tariff, Version
from apps.fleet.models import Cluster


def published() -> QuerySet[RateVersion]:
    """Rate cards that price something, with their prices and groups of clusters."""
    prices = Prefetch("prices", RatePrice.objects.select_related("cluster").order_by("pk"))
    groups = Prefetch("group_clusters", RateGroupCluster.objects.select_related("cluster"))
    return RateVersion.objects.filter(state=RateVersion.State.PUBLISHED).prefetch_related(prices, groups)


def load_tariff() -> Tariff:
    """Three queries."""
    return Tariff(
        Version(
            id=card.pk,
            valid_from=card.valid_from,
            currency=card.currency,
            prices=tuple(_price(row) for row in card.prices.all()),
            borrowed_factor=card.borrowed_factor,
            priority_factors={name: Decimal(value) for name, value in card.priority_factors.items()},
            idle=card.idle,
            groups={row.cluster_id: row.group for row in card.group_clusters.all()},
        )
        for card in published()
    )


def _price(row: RatePrice) -> Price:
    return Price(
        id=row.pk,
        basis=row.basis,
        model=row.model,
        amount=row.amount,
        per=Per(row.per),
        cluster_id=row.cluster_id,
        sharing_mode=row.sharing_mode,
        profile=row.profile,
        group=row.group,
    )


def currencies_of(start: datetime) -> set[str]:
    """Of the rate card in force then, and of those that take over later. One query."""
    rows = RateVersion.objects.filter(state=RateVersion.State.PUBLISHED).order_by("valid_from")
    cards = list(rows.values_list("valid_from", "currency"))
    in_force = [currency for valid_from, currency in cards if valid_from <= start][-1:]
    return {*in_force, *(currency for valid_from, currency in cards if valid_from > start)}


def draft(
    *,
    valid_from: datetime,
    currency: str,
    prices: Iterable[Mapping[str, Any]],
    groups: Mapping[str, Iterable[Cluster]] | None = None,
    **more: Any,
) -> RateVersion:
    """A rate card that is not published yet. `prices`: columns of RatePrice, `amount` per hour; `groups`: clusters by the
    name that prices call them by; `more`: columns of RateVersion."""
    version = RateVersion.objects.create(valid_from=valid_from, currency=currency, **more)
    for group, clusters in (groups or {}).items():  # one by one: each lands in the trail
        for cluster in clusters:
            RateGroupCluster.objects.create(version=version, group=group, cluster=cluster)
    for price in prices:
        RatePrice.objects.create(version=version, **price)
    return version


def draft_like(version_id: int, *, valid_from: datetime) -> RateVersion:
    """A draft with all that a card says, to change what differs from then on."""
    with transaction.atomic():
        old = RateVersion.objects.get(pk=version_id)
        groups: defaultdict[str, list[Cluster]] = defaultdict(list)
        for grouped in old.group_clusters.select_related("cluster"):
            groups[grouped.group].append(grouped.cluster)
        prices = old.prices.select_related("cluster").order_by("pk")
        return draft(
            valid_from=valid_from,
            prices=[_columns(price, *PRICE_KEY, "per", "amount") for price in prices],
            groups=groups,
            **_columns(old, "currency", "borrowed_factor", "priority_factors", "idle", "note"),
        )


def _columns(row: Model, *names: str) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def publish(version_id: int, *, by: User | None, now: datetime) -> RateVersion:
    """Raises ValidationError with what is in the way."""
    with transaction.atomic():
        version = RateVersion.objects.select_for_update().get(pk=version_id)
        if version.state == RateVersion.State.PUBLISHED:
            return version
        _check(version)
        version.state, version.published_at, version.published_by = RateVersion.State.PUBLISHED, now, by
        version.save()
    return version


def _check(version: RateVersion) -> None:
    if not version.prices.exists():
        raise ValidationError(_("A rate card without a price prices nothing."))
    if (
        version.idle != RateVersion.Idle.PLATFORM
        and not version.prices.filter(basis=RatePrice.Basis.IDLE).exists()
    ):
        raise ValidationError(
            {"idle": _("To share idle capacity out, give it a price: one of the basis idle.")}
        )
    unfilled = version.prices.exclude(group="").exclude(group__in=version.group_clusters.values("group"))
    empty = list(unfilled.order_by("group").values_list("group", flat=True).distinct())
    if empty:
        raise ValidationError(
            _(
                "No cluster is in the group %(groups)s, which has prices: say which are, or take the prices out."
            )
            % {"groups": ", ".join(empty)}
        )
    start = version.valid_from
    if start.minute or start.second or start.microsecond:
        raise ValidationError({"valid_from": _("A rate card starts on a full hour.")})
    closed = BillingPeriod.objects.filter(state=BillingPeriod.State.CLOSED, ends_at__gt=start).last()
    if closed is not None:
        raise ValidationError(
            {
                "valid_from": _("%(month)s is closed: a rate card starts at its end or later.")
                % {"month": closed.month}
            }
        )
    same = RateVersion.objects.filter(state=RateVersion.State.PUBLISHED, valid_from=start)
    if same.exists():
        raise ValidationError({"valid_from": _("Another rate card starts then.")})
    faults = factor_faults(version.priority_factors)
    if faults:
        raise ValidationError({"priority_factors": faults})
