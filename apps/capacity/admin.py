"""The platform's reserves in the admin site: made, looked at with what they take now, ended; never rewritten.

Here and not beside their model because only this app knows how many cards a reserve takes.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.accounts.admin import PlatformAdminOnly
from apps.accounts.models import User
from apps.capacity.facts import cards_taken
from apps.capacity.reading import rule_of
from apps.core.gpu import MODE_LABELS
from apps.fleet.models import Reserve
from apps.fleet.services import reserve_close, reserve_open

if TYPE_CHECKING:
    ModelForm = forms.ModelForm[Reserve]
    ReserveModelAdmin = admin.ModelAdmin[Reserve]
else:
    ModelForm = forms.ModelForm
    ReserveModelAdmin = admin.ModelAdmin

PREVIEW = "_preview"
_WHAT = ("cluster", "selector", "model", "sharing_mode", "devices", "reason", "valid_from")


def taken_text(reserve: Reserve, *, now: datetime, replaces: int | None = None) -> str:
    """How much it selects and takes, in words."""
    selected, taken = cards_taken(now=now, rule=rule_of(reserve), cluster=reserve.cluster, without=replaces)
    text = ngettext(
        "Takes %(taken)d of %(selected)d usable card that it selects.",
        "Takes %(taken)d of %(selected)d usable cards that it selects.",
        selected,
    )
    return text % {"taken": taken, "selected": selected}


class ReserveForm(ModelForm):
    """A new reserve, or the end of a stored one. With the preview button nothing is stored: `preview` says what it
    would take."""

    sharing_mode = forms.ChoiceField(
        label=_("Sharing mode"), required=False, choices=[("", _("every mode")), *MODE_LABELS.items()]
    )
    replaces = forms.ModelChoiceField(
        label=_("Takes the place of"),
        queryset=Reserve.objects.none(),
        required=False,
        help_text=_("This reserve ends when the new one starts."),
    )
    preview = ""

    class Meta:
        model = Reserve
        fields = (*_WHAT, "valid_to", "replaces")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "replaces" in self.fields:
            living = Reserve.objects.exclude(valid_to__lte=timezone.now()).select_related("cluster")
            self.fields["replaces"].queryset = living  # type: ignore[attr-defined]

    def is_valid(self) -> bool:
        valid = super().is_valid()
        if valid and PREVIEW in self.data:
            replaced = self.cleaned_data.get("replaces")
            self.preview = taken_text(
                self.instance, now=timezone.now(), replaces=replaced.pk if replaced else None
            )
            return False
        return valid

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        stored = Reserve.objects.filter(pk=self.instance.pk).first() if self.instance.pk else None
        if stored and stored.valid_to is not None and stored.valid_to <= timezone.now():
            raise ValidationError(_("This reserve is over."), code="over")
        return cleaned


@admin.register(Reserve)
class ReserveAdmin(PlatformAdminOnly, ReserveModelAdmin):
    form = ReserveForm
    change_form_template = "admin/fleet/reserve/change_form.html"
    list_display = (
        "cluster", "cards", "model", "sharing_mode", "selector", "reason", "valid_from", "valid_to", "created_by",
    )  # fmt: skip
    list_filter = ("cluster", "sharing_mode")
    list_select_related = ("cluster", "created_by")
    search_fields = ("selector", "model", "reason")
    date_hierarchy = "valid_from"
    actions = ("end_now",)

    @admin.display(description=_("cards"), ordering="devices")
    def cards(self, reserve: Reserve) -> str:
        return gettext("all") if reserve.devices is None else str(reserve.devices)

    @admin.display(description=_("now"))
    def takes_now(self, reserve: Reserve) -> str:
        now = timezone.now()
        if reserve.valid_to is not None and reserve.valid_to <= now:
            return gettext("This reserve is over.")
        return taken_text(reserve, now=now)

    def get_fields(self, request: HttpRequest, obj: Reserve | None = None) -> tuple[str, ...]:
        if obj is None:
            return (*_WHAT, "valid_to", "replaces")
        return (*_WHAT, "valid_to", "takes_now", "created_by", "ended_by")

    def get_readonly_fields(self, request: HttpRequest, obj: Reserve | None = None) -> tuple[str, ...]:
        return () if obj is None else (*_WHAT, "takes_now", "created_by", "ended_by")

    def save_model(self, request: HttpRequest, obj: Reserve, form: ReserveForm, change: bool) -> None:
        by = _user(request)
        if change:
            reserve_close(reserve=obj, at=obj.valid_to, by=by)
            return
        replaced: Reserve | None = form.cleaned_data.get("replaces")
        before = None if replaced is None else replaced.valid_to
        reserve_open(reserve=obj, by=by, replaces=replaced)
        if replaced is not None:
            replaced.refresh_from_db()
            self.log_change(request, replaced, _end_message(before, replaced.valid_to))

    def construct_change_message(
        self, request: HttpRequest, form: forms.Form, formsets: Any, add: bool = False
    ) -> Any:
        """Old and new values, where Django would only name the fields."""
        reserve: Reserve = form.instance  # type: ignore[attr-defined]
        return (
            _added_message(reserve) if add else _end_message(form.initial.get("valid_to"), reserve.valid_to)
        )

    def has_delete_permission(self, request: HttpRequest, obj: Reserve | None = None) -> bool:
        """Only one that has not begun: what was kept back stays known."""
        return obj is not None and obj.valid_from > timezone.now() and self.allowed(request)

    @admin.action(description=_("End the chosen reserves now"))
    def end_now(self, request: HttpRequest, queryset: QuerySet[Reserve]) -> None:
        now, ended = timezone.now(), 0
        for reserve in queryset.exclude(valid_to__lte=now).order_by("pk"):
            before = reserve.valid_to
            try:
                reserve_close(reserve=reserve, at=now, by=_user(request))
            except ValidationError as error:
                self.message_user(request, f"{reserve}: {' '.join(error.messages)}", messages.ERROR)
                continue
            self.log_change(request, reserve, _end_message(before, now))
            ended += 1
        text = ngettext("%(count)d reserve ended.", "%(count)d reserves ended.", ended)
        self.message_user(request, text % {"count": ended})


def _user(request: HttpRequest) -> User | None:
    return request.user if isinstance(request.user, User) else None


def _instant(value: datetime | None) -> str:
    return "—" if value is None else timezone.localtime(value).isoformat(sep=" ", timespec="seconds")


def _end_message(before: datetime | None, after: datetime | None) -> list[dict[str, Any]]:
    return [{"changed": {"fields": [f"valid to: {_instant(before)} → {_instant(after)}"]}}]


def _added_message(reserve: Reserve) -> list[dict[str, Any]]:
    values = [
        f"{name}={_instant(value) if isinstance(value, datetime) else value}"
        for name in (*_WHAT, "valid_to")
        if (value := getattr(reserve, name)) not in (None, "")
    ]
    return [{"added": {"name": "platform reserve", "object": ", ".join(values)}}]
