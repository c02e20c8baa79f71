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
from django.db.models import Prefetch, QuerySet
from django.utils.translation import gettext as _

from apps.accounts.models import User
from apps.chargeback.factors import factor_faults
from apps.chargeback.models import BillingPeriod, RatePrice, RateVersion
from apps.chargeback.tariff import Per, Price, Tariff, Version


def published() -> QuerySet[RateVersion]:
    """Rate cards that price something, with their prices."""
    prices = Prefetch("prices", RatePrice.objects.select_related("cluster").order_by("pk"))
    return RateVersion.objects.filter(state=RateVersion.State.PUBLISHED).prefetch_related(prices)


def load_tariff() -> Tariff:
    """Two queries."""
    prices: defaultdict[int, list[Price]] = defaultdict(list)
    for row in RatePrice.objects.filter(version__state=RateVersion.State.PUBLISHED).order_by("pk"):
        prices[row.version_id].append(
            Price(
                id=row.pk,
                basis=row.basis,
                model=row.model,
                amount=row.amount,
                per=Per(row.per),
                cluster_id=row.cluster_id,
                sharing_mode=row.sharing_mode,
                profile=row.profile,
            )
        )
    return Tariff(
        Version(
            id=row.pk,
            valid_from=row.valid_from,
            currency=row.currency,
            prices=tuple(prices[row.pk]),
            borrowed_factor=row.borrowed_factor,
            priority_factors={name: Decimal(value) for name, value in row.priority_factors.items()},
            idle=row.idle,
        )
        for row in RateVersion.objects.filter(state=RateVersion.State.PUBLISHED)
    )


def currencies_of(start: datetime) -> set[str]:
    """Of the rate card in force then, and of those that take over later. One query."""
    rows = RateVersion.objects.filter(state=RateVersion.State.PUBLISHED).order_by("valid_from")
    cards = list(rows.values_list("valid_from", "currency"))
    in_force = [currency for valid_from, currency in cards if valid_from <= start][-1:]
    return {*in_force, *(currency for valid_from, currency in cards if valid_from > start)}


def draft(
    *, valid_from: datetime, currency: str, prices: Iterable[Mapping[str, Any]], **more: Any
) -> RateVersion:
    """A rate card that is not published yet. `prices`: columns of RatePrice, `amount` per hour; `more`: of RateVersion."""
    version = RateVersion.objects.create(valid_from=valid_from, currency=currency, **more)
    for price in prices:  # one by one: each lands in the trail
        RatePrice.objects.create(version=version, **price)
    return version


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
