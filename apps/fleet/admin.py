"""What platform admins maintain about the fleet. A binding's past is read-only: it is ended, and another opened.
Reserves are in apps/capacity/admin.py, which can say what they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from apps.accounts.admin import PlatformAdminOnly
from apps.fleet.models import Cluster, TeamBinding
from apps.fleet.services import binding_close, binding_save, lock_thing

if TYPE_CHECKING:
    ModelForm = forms.ModelForm[TeamBinding]
    ClusterModelAdmin = admin.ModelAdmin[Cluster]
    BindingModelAdmin = admin.ModelAdmin[TeamBinding]
else:
    ModelForm = forms.ModelForm
    ClusterModelAdmin = BindingModelAdmin = admin.ModelAdmin


class TeamBindingForm(ModelForm):
    """Locks the thing before it checks: the whole request is one transaction, so what is checked is what holds."""

    take_over = forms.BooleanField(
        label=_("Take over"),
        required=False,
        help_text=_("When another team owns this at that time, end its binding at the start of this one."),
    )

    class Meta:
        model = TeamBinding
        fields = ("cluster", "kind", "namespace", "name", "team", "valid_from", "valid_to", "take_over")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        self.instance.takes_over = bool(cleaned.get("take_over"))
        thing = (
            self.instance
            if self.instance.pk
            else TeamBinding(
                **{name: cleaned.get(name) or "" for name in ("kind", "namespace", "name")},
                cluster=cleaned.get("cluster"),
            )
        )
        if thing.cluster_id:
            lock_thing(binding=thing)
        return cleaned


@admin.register(Cluster)
class ClusterAdmin(PlatformAdminOnly, ClusterModelAdmin):
    list_display = ("name", "slug", "enabled", "prometheus_url", "is_demo")
    list_filter = ("enabled",)
    search_fields = ("name", "slug")
    prepopulated_fields: ClassVar[dict[str, Sequence[str]]] = {"slug": ("name",)}

    def has_delete_permission(self, request: HttpRequest, obj: Cluster | None = None) -> bool:
        """A cluster's history hangs on its row: it is switched off, not deleted."""
        return False


@admin.register(TeamBinding)
class TeamBindingAdmin(PlatformAdminOnly, BindingModelAdmin):
    form = TeamBindingForm
    list_display = ("name", "namespace", "kind", "cluster", "team", "valid_from", "valid_to")
    list_filter = ("cluster", "kind", "team")
    list_select_related = ("cluster", "team")
    search_fields = ("name", "namespace", "team__name")
    date_hierarchy = "valid_from"
    actions = ("end_now",)

    def get_readonly_fields(self, request: HttpRequest, obj: TeamBinding | None = None) -> tuple[str, ...]:
        return () if obj is None else ("cluster", "kind", "namespace", "name", "team", "valid_from")

    def get_fields(self, request: HttpRequest, obj: TeamBinding | None = None) -> tuple[str, ...]:
        fields = ("cluster", "kind", "namespace", "name", "team", "valid_from", "valid_to")
        return fields if obj else (*fields, "take_over")

    def save_model(self, request: HttpRequest, obj: TeamBinding, form: ModelForm, change: bool) -> None:
        binding_save(binding=obj, take_over=obj.takes_over)

    def has_delete_permission(self, request: HttpRequest, obj: TeamBinding | None = None) -> bool:
        """Only one that has not begun: usage of the past stays with the team of the past."""
        return obj is not None and obj.valid_from > timezone.now() and self.allowed(request)

    @admin.action(description=_("End the chosen bindings now"))
    def end_now(self, request: HttpRequest, queryset: QuerySet[TeamBinding]) -> None:
        now = timezone.now()
        ended = 0
        for binding in queryset.filter(valid_to__isnull=True).order_by("pk"):
            try:
                binding_close(binding=binding, at=now)
                ended += 1
            except ValidationError as error:
                self.message_user(request, f"{binding}: {' '.join(error.messages)}", messages.ERROR)
        self.message_user(
            request,
            ngettext("%(count)d binding ended.", "%(count)d bindings ended.", ended) % {"count": ended},
        )
