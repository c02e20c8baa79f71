"""A rate card with a price of promised quota bills it, used or not; one without leaves it out."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from apps.accounts.models import User
from apps.admissions.tests.builders import T0, bind, hours, make_cluster, make_team
from apps.chargeback.ledger import close, keep_periods
from apps.chargeback.models import BillingPeriod, LedgerEntry, RatePrice, RateVersion
from apps.chargeback.rate_cards import publish
from apps.quotas.models import QuotaPoint
from apps.usage.allocation_rollup import rollup_allocation
from apps.usage.models import UnitSeen

D, GPU = Decimal, "nvidia.com/gpu"
LATER = T0 + timedelta(days=32)


def closed_month(settings: object, *, basis: str) -> BillingPeriod:
    """Eight cards promised to the red team for ten hours, of which nobody used any."""
    settings.BILLING_ZONE = "UTC"  # type: ignore[attr-defined]
    cluster = make_cluster()
    bind(make_team("red"), cluster, "qa")
    UnitSeen.objects.create(
        cluster=cluster, basis="reserved", on="h100", resource=GPU, model="H100", weight_over=1,
        weight_under=1, seen_from=T0,
    )  # fmt: skip
    for at, nominal in ((0, D(8)), (10, None)):
        QuotaPoint.objects.create(
            cluster=cluster, at=hours(at), kind="ClusterQueue", queue="qa", flavor="h100", resource=GPU,
            nominal=nominal, ended=nominal is None,
        )  # fmt: skip
    version = RateVersion.objects.create(valid_from=T0, currency="EUR", borrowed_factor=D(2))
    RatePrice.objects.create(version=version, basis=basis, model="H100", amount=D("1.5"))
    publish(version.pk, by=User.objects.create(username="finance-lead", role=User.Role.FINANCE), now=LATER)
    rollup_allocation(cluster=cluster, now=LATER)
    return close(keep_periods(LATER)[0].pk, by=None, reason="", now=LATER)


@pytest.mark.django_db
def test_what_was_promised_is_billed(settings: object) -> None:
    period = closed_month(settings, basis="nominal")
    assert period.totals == {"EUR": "120"}
    lines = LedgerEntry.objects.filter(period=period).order_by("starts_at")
    assert [(line.starts_at, line.unit_seconds, line.amount) for line in lines] == [
        (hours(hour), D(8 * 3600), D(12)) for hour in range(10)
    ]
    assert {(line.basis, line.queue, line.team and line.team.slug) for line in lines} == {
        ("nominal", "qa", "red")
    }


@pytest.mark.django_db
def test_without_a_price_of_it_nothing_is(settings: object) -> None:
    assert closed_month(settings, basis="reserved").totals == {}
    assert not LedgerEntry.objects.exists()
