"""Rate cards and budgets in Django's admin. A published card stays as it is: a new price is a new card with a later start.
Messages about budgets are there to be looked at, and to be tried again when they were given up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.accounts.admin import FinanceOrPlatformAdmin
from apps.accounts.models import User
from apps.chargeback.budgets import check
from apps.chargeback.form_fields import FactorsField, PercentsField
from apps.chargeback.models import PRICE_KEY, Budget, BudgetNotice, RateGroupCluster, RatePrice, RateVersion
from apps.chargeback.periods import Month
from apps.chargeback.rate_cards import draft_like, publish

if TYPE_CHECKING:
    VersionAdmin = admin.ModelAdmin[RateVersion]
    PriceInline = admin.TabularInline[RatePrice, RateVersion]
    GroupInline = admin.TabularInline[RateGroupCluster, RateVersion]
    VersionForm = forms.ModelForm[RateVersion]
    BudgetForm = forms.ModelForm[Budget]
    PriceForm = forms.ModelForm[RatePrice]
    BudgetModelAdmin = admin.ModelAdmin[Budget]
    NoticeModelAdmin = admin.ModelAdmin[BudgetNotice]
else:
    VersionAdmin = admin.ModelAdmin
    PriceInline = GroupInline = admin.TabularInline
    VersionForm = BudgetForm = PriceForm = forms.ModelForm
    BudgetModelAdmin = NoticeModelAdmin = admin.ModelAdmin


def _is_published(version: RateVersion | None) -> bool:
    return version is not None and version.state == RateVersion.State.PUBLISHED


class WhileDraft(FinanceOrPlatformAdmin):
    """A rate card and its parts are edited as long as it is a draft."""

    def has_add_permission(self, request: HttpRequest, obj: RateVersion | None = None) -> bool:
        return super().has_add_permission(request) and not _is_published(obj)

    def has_change_permission(self, request: HttpRequest, obj: RateVersion | None = None) -> bool:
        return super().has_change_permission(request, obj) and not _is_published(obj)

    def has_delete_permission(self, request: HttpRequest, obj: RateVersion | None = None) -> bool:
        return super().has_delete_permission(request, obj) and not _is_published(obj)


class PricesOnce(forms.BaseInlineFormSet):  # type: ignore[type-arg]
    """Prices of the same are told before the database could only refuse the whole card: Django compares new rows on a page
    only where nothing is empty."""

    def clean(self) -> None:
        super().clean()
        seen = set()
        for form in self.forms:
            row = form.cleaned_data if form.is_valid() else {}
            if not row or row.get("DELETE"):
                continue
            key = tuple(row[name] for name in PRICE_KEY)
            if key in seen:
                form.add_error(
                    None,
                    _(
                        "There is another price of the same: basis, cluster or group, model, sharing mode and profile."
                    ),
                )
            seen.add(key)


class Groups(WhileDraft, GroupInline):
    model = RateGroupCluster
    extra = 2


def _text(size: int) -> forms.TextInput:
    return forms.TextInput(attrs={"size": size})


class RatePriceForm(PriceForm):
    """Eight fields stand beside each other, so each is as wide as what is written in it."""

    class Meta:
        model = RatePrice
        fields = "__all__"
        widgets: ClassVar[dict[str, forms.Widget]] = {
            "group": _text(8),
            "model": _text(18),
            "sharing_mode": _text(8),
            "profile": _text(8),
            "amount": forms.TextInput(attrs={"size": 9, "inputmode": "decimal"}),
        }


class Prices(WhileDraft, PriceInline):
    model = RatePrice
    form = RatePriceForm

    class Media:
        css: ClassVar[dict[str, tuple[str, ...]]] = {"all": ("admin-forms.css",)}

    formset = PricesOnce
    extra = 3


class RateVersionForm(VersionForm):
    priority_factors = FactorsField()

    class Meta:
        model = RateVersion
        fields = "__all__"


@admin.register(RateVersion)
class RateVersionAdmin(WhileDraft, VersionAdmin):
    form = RateVersionForm
    list_display = ("valid_from", "currency", "state", "idle", "published_at", "published_by", "note")
    list_filter = ("state", "currency")
    date_hierarchy = "valid_from"
    readonly_fields = ("state", "published_at", "published_by")
    inlines = (Groups, Prices)
    actions = ("publish_these", "draft_like_these")

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

    @admin.action(description=_("Make drafts like these, from next month on"), permissions=["add"])
    def draft_like_these(self, request: HttpRequest, chosen: QuerySet[RateVersion]) -> None:
        start = Month.of(timezone.now(), settings.BILLING_ZONE).end
        for version in chosen.order_by("valid_from", "pk"):
            made = draft_like(version.pk, valid_from=start)
            text = _("%(card)s is made: edit it, then publish it.") % {"card": made}
            self.message_user(request, text, messages.SUCCESS)


class TeamBudgetForm(BudgetForm):
    percents = PercentsField()

    class Meta:
        model = Budget
        fields = ("team", "from_month", "until_month", "amount", "currency", "percents", "forecast_percent")
        help_texts: ClassVar[dict[str, Any]] = {
            "from_month": _("Such as 2026-03. It holds until a later budget of the team begins."),
            "until_month": _("The last month of it; empty: it goes on."),
            "forecast_percent": _(
                "Tell when the month will have cost so much of the budget at the present pace; empty: never."
            ),
        }

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        try:
            check(Budget(**cleaned))
        except ValidationError as error:
            for name, faults in error.message_dict.items():
                if name not in self.errors:
                    self.add_error(name, faults)
        return cleaned


@admin.register(Budget)
class BudgetAdmin(FinanceOrPlatformAdmin, BudgetModelAdmin):
    form = TeamBudgetForm
    list_display = (
        "team",
        "from_month",
        "until_month",
        "amount",
        "currency",
        "percents",
        "forecast_percent",
    )
    list_filter = ("team", "currency")
    list_select_related = ("team",)


@admin.register(BudgetNotice)
class BudgetNoticeAdmin(FinanceOrPlatformAdmin, NoticeModelAdmin):
    list_display = (
        "event_id",
        "channel",
        "target",
        "created_at",
        "attempts",
        "sent_at",
        "next_try_at",
        "failure",
    )
    list_filter = ("channel", ("sent_at", admin.EmptyFieldListFilter))
    date_hierarchy = "created_at"
    actions = ("try_again",)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.action(description=_("Send again what nobody took"), permissions=["view"])
    def try_again(self, request: HttpRequest, chosen: QuerySet[BudgetNotice]) -> None:
        chosen.filter(sent_at__isnull=True).update(next_try_at=timezone.now())
