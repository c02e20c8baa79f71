"""Where the months of a window begin and end. Input: a window; output: bounds in order that cover it.

Of a month with a billing period these are the stored bounds, which stay when the zone is set anew; before and after those
periods they are the zone's."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings

from apps.chargeback.models import BillingPeriod
from apps.chargeback.periods import months
from apps.core.windows import Window


def month_bounds(window: Window) -> list[datetime]:
    rows = BillingPeriod.objects.filter(ends_at__gt=window.start, starts_at__lt=window.end)
    kept = list(rows.values_list("starts_at", "ends_at"))
    edges = {edge for bounds in kept for edge in bounds}
    for month in months(window.start, window.end, settings.BILLING_ZONE):
        bounds = (month.start, month.end)
        edges.update(edge for edge in bounds if not any(low < edge < high for low, high in kept))
    first = max(edge for edge in edges if edge <= window.start)
    last = min(edge for edge in edges if edge >= window.end)
    return sorted(edge for edge in edges if first <= edge <= last)
