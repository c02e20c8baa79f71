"""Rate cards in Django's admin. A published one stays as it is: a new price is a new rate card with a later start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.accounts.admin import FinanceOrPlatformAdmin
from apps.accounts.models import User
from apps.chargeback.models import RatePrice, RateVersion
from apps.chargeback.rate_cards import publish

if TYPE_CHECKING:
    VersionAdmin = admin.ModelAdmin[RateVersion]
    PriceInline = admin.TabularInline[RatePrice, RateVersion]
else:
    VersionAdmin, PriceInline = admin.ModelAdmin, admin.TabularInline


def _is_published(version: RateVersion | None) -> bool:
    return version is not None and version.state == RateVersion.State.PUBLISHED


class Prices(FinanceOrPlatformAdmin, PriceInline):
    model = RatePrice
    extra = 3

    def has_add_permission(self, request: HttpRequest, obj: RateVersion | None = None) -> bool:
        return super().has_add_permission(request) and not _is_published(obj)

    def has_change_permission(self, request: HttpRequest, obj: RateVersion | None = None) -> bool:
        return super().has_change_permission(request, obj) and not _is_published(obj)

    def has_delete_permission(self, request: HttpRequest, obj: RateVersion | None = None) -> bool:
        return super().has_delete_permission(request, obj) and not _is_published(obj)


@admin.register(RateVersion)
class RateVersionAdmin(FinanceOrPlatformAdmin, VersionAdmin):
    list_display = ("valid_from", "currency", "state", "idle", "published_at", "published_by", "note")
    list_filter = ("state", "currency")
    date_hierarchy = "valid_from"
    readonly_fields = ("state", "published_at", "published_by")
    inlines = (Prices,)
    actions = ("publish_these",)

    def has_change_permission(self, request: HttpRequest, obj: RateVersion | None = None) -> bool:
        return super().has_change_permission(request, obj) and not _is_published(obj)

    def has_delete_permission(self, request: HttpRequest, obj: RateVersion | None = None) -> bool:
        return super().has_delete_permission(request, obj) and not _is_published(obj)

    @admin.action(description=_("Publish these rate cards"), permissions=["change"])
    def publish_these(self, request: HttpRequest, chosen: QuerySet[RateVersion]) -> None:
        assert isinstance(request.user, User)  # noqa: S101 -- the site lets nobody else in
        for version in chosen.order_by("valid_from", "pk"):
            try:
                publish(version.pk, by=request.user, now=timezone.now())
            except ValidationError as error:
                for said in error.messages:
                    self.message_user(request, f"{version}: {said}", messages.ERROR)
            else:
                text = _("%(card)s is published.") % {"card": version}
                self.message_user(request, text, messages.SUCCESS)
