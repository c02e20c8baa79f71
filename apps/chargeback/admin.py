"""Rates in Django's admin. A rate that has started stays as it is: a new price is a new rate with a later start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin
from django.http import HttpRequest
from django.utils import timezone

from apps.accounts.admin import FinanceOrPlatformAdmin
from apps.chargeback.models import Rate

if TYPE_CHECKING:
    RateModelAdmin = admin.ModelAdmin[Rate]
else:
    RateModelAdmin = admin.ModelAdmin


@admin.register(Rate)
class RateAdmin(FinanceOrPlatformAdmin, RateModelAdmin):
    list_display = ("resource", "flavor", "cluster", "price_per_hour", "currency", "valid_from")
    list_filter = ("resource", "currency", "cluster")
    search_fields = ("flavor", "resource")
    date_hierarchy = "valid_from"

    def has_change_permission(self, request: HttpRequest, obj: Rate | None = None) -> bool:
        return super().has_change_permission(request, obj) and not _has_started(obj)

    def has_delete_permission(self, request: HttpRequest, obj: Rate | None = None) -> bool:
        return super().has_delete_permission(request, obj) and not _has_started(obj)


def _has_started(rate: Rate | None) -> bool:
    return rate is not None and rate.valid_from <= timezone.now()
