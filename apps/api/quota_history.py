"""How quota and use of one (queue, flavor, resource) were over an hour, day, week, month or year.

Every parameter but `window` and `flavor` is required. A queue of other teams is not found."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import forms
from django.http import Http404
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.api.base import DetailView, Reading
from apps.api.fields import DecimalText, Instant, Text
from apps.api.quotas import QUOTA_SOURCES
from apps.api.schema import documented
from apps.quotas.history import has_history, quota_series
from apps.quotas.history_steps import NUMBERS, WINDOWS, SeriesPoint

KINDS = ("ClusterQueue", "Cohort", "VolcanoQueue")
_LABELS = {
    "hour": _("an hour"),
    "day": _("a day"),
    "week": _("a week"),
    "month": _("a month"),
    "year": _("a year"),
}


class QuotaHistoryForm(forms.Form):
    cluster = forms.SlugField(label=_("Cluster"))
    kind = forms.ChoiceField(label=_("Kind"), choices=[(kind, kind) for kind in KINDS])
    queue = forms.CharField(label=_("Queue"), max_length=253)
    flavor = forms.CharField(label=_("Flavor"), max_length=253, required=False)
    resource = forms.CharField(label=_("Resource"), max_length=253)
    window = forms.ChoiceField(
        label=_("Window"), choices=[(name, _LABELS[name]) for name in WINDOWS], required=False
    )

    def __init__(self, data: Mapping[str, Any], *, now: datetime, team_ids: list[int] | None = None) -> None:
        super().__init__(data)


class NumbersSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Null is not observed or not said, never zero."""

    def get_fields(self) -> dict[str, Any]:
        return {name: DecimalText(allow_null=True) for name in NUMBERS}


class StepSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """One step, from `at` on: time-weighted mean and maximum of what was observed of it."""

    at = Instant()
    mean = NumbersSerializer(read_only=True)
    max = NumbersSerializer(read_only=True)
    is_observed = serializers.SerializerMethodField()

    def get_is_observed(self, point: SeriesPoint) -> bool:
        return point.observed > 0


class QuotaHistorySerializer(serializers.Serializer):  # type: ignore[type-arg]
    cluster = Text()
    kind = Text()
    queue = Text()
    flavor = Text()
    resource = Text()
    window = Text()
    step_seconds = serializers.IntegerField(read_only=True)
    steps = serializers.SerializerMethodField()

    @extend_schema_field(StepSerializer(many=True))
    def get_steps(self, found: dict[str, Any]) -> Any:
        return StepSerializer(found["steps"], many=True).data


@documented(operation="quota_history", summary="Quota and use of one queue over time")
class QuotaHistoryView(DetailView):
    route = "quota-history"
    item = QuotaHistorySerializer
    filter_class = QuotaHistoryForm
    needs = QUOTA_SOURCES

    def find(self, reading: Reading, **kwargs: str) -> dict[str, Any]:
        asked = reading.form.cleaned_data
        cluster = next((c for c in reading.clusters if c.slug == asked["cluster"]), None)
        if cluster is None or not has_history(
            cluster=cluster,
            kind=asked["kind"],
            queue=asked["queue"],
            team_ids=reading.team_ids,
            now=reading.now,
        ):
            raise Http404
        window = asked["window"] or "day"
        key = {name: asked[name] for name in ("kind", "queue", "flavor", "resource")}
        steps = quota_series(cluster=cluster, window=window, now=reading.now, **key)
        seconds = int(WINDOWS[window].step.total_seconds())
        return {"cluster": cluster.slug, **key, "window": window, "step_seconds": seconds, "steps": steps}
