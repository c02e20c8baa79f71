"""Held quota: sums over a window, and the finished hours one by one for whoever keeps a copy."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _
from rest_framework import serializers

from apps.api.base import ListView, Reading
from apps.api.fields import DecimalText, Instant, Text
from apps.api.pagination import Key, Page, page_of_ids, page_of_rows
from apps.api.schema import documented
from apps.core.windows import Bucket, Window
from apps.fleet.filters import ClusterForm
from apps.fleet.models import Cluster
from apps.observations.models import Source
from apps.usage.feed import finished_hours, finished_until
from apps.usage.filters import UsageForm
from apps.usage.models import UsageHour
from apps.usage.selectors import UsageRow, usage_rows

USAGE_SOURCES = (Source.KUEUE.value, Source.VOLCANO.value)


class WindowSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """[start, end) in whole hours: what was asked for, widened to what the rollups hold."""

    start = Instant()
    end = Instant()


class UsageSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Unit-seconds of `resource`: 8 GPUs for 10 minutes are 4800. Kinds of units are never added up."""

    cluster = Text(source="cluster_slug")
    team = serializers.SerializerMethodField(help_text="null: no team owned it")
    queue = Text()
    flavor = Text()
    resource = Text()
    reserved_unit_seconds = DecimalText()
    admitted_unit_seconds = DecimalText()

    def get_team(self, row: UsageRow) -> str | None:
        return row.team_slug or None


class UsageHourSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`seq` rises with every row of a cluster and never changes."""

    seq = serializers.IntegerField(source="pk", read_only=True)
    cluster = Text(source="cluster.slug")
    team = Text(source="team.slug", allow_null=True, default=None)
    queue = Text()
    flavor = Text()
    resource = Text()
    hour = Instant()
    reserved_unit_seconds = DecimalText()
    admitted_unit_seconds = DecimalText()


def window_of(window: Window) -> dict[str, Any]:
    return dict(WindowSerializer(window).data)


@documented(operation="usage", summary="Held quota per team, queue, flavor and resource over a window")
class UsageView(ListView):
    route = "usage"
    item = UsageSerializer
    filter_class = UsageForm
    needs = USAGE_SOURCES
    key_shape = (int, str, str, str, str)
    extra_fields: Mapping[str, Any] = {"window": WindowSerializer(read_only=True)}

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[UsageRow]:
        form = reading.form
        rows = usage_rows(window=form.time_window, team_ids=reading.team_ids, criteria=form.criteria)
        return page_of_rows(rows, key=usage_key, after=after, size=size)

    def totals(self, reading: Reading) -> Mapping[str, Any]:
        return {"window": window_of(reading.form.time_window.aligned(Bucket.HOUR))}


def usage_key(row: Any) -> Key:
    return (row.cluster_id, row.team_slug, row.queue, row.flavor, row.resource)


class FeedForm(ClusterForm):
    """Finished hours of one cluster from a sequence number on."""

    after_seq = forms.IntegerField(
        label=_("After sequence number"),
        required=False,
        min_value=0,
        max_value=2**63 - 1,
        help_text=_("Rows with a higher `seq` only: give the highest one that you have."),
    )

    cluster = forms.CharField(label=_("Cluster"), max_length=60)

    def clusters(self) -> QuerySet[Cluster]:
        """The history of one that is not collected any more stays."""
        return Cluster.objects.all()


@documented(
    operation="usage-hours",
    summary="Finished hours of one cluster, for incremental copies",
    description="Rows appear once their hour is finished, in the order of `seq`, and never change afterwards. "
    "Remember the highest `seq` and give it as `after_seq` next time: no row is missed and none comes twice. "
    "Hours before `finished_until` are complete.",
)
class UsageHoursView(ListView):
    route = "usage"
    item = UsageHourSerializer
    filter_class = FeedForm
    needs = USAGE_SOURCES
    extra_fields: Mapping[str, Any] = {"finished_until": Instant(allow_null=True)}

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[UsageHour]:
        cluster = Cluster.objects.get(slug=reading.form.cleaned_data["cluster"])
        self.until = finished_until(cluster=cluster)
        rows = finished_hours(
            cluster=cluster,
            until=self.until,
            team_ids=reading.team_ids,
            after_seq=reading.form.cleaned_data["after_seq"] or 0,
        )
        return page_of_ids(rows, after=after, size=size)

    def totals(self, reading: Reading) -> Mapping[str, Any]:
        until = self.until
        return {"finished_until": Instant().to_representation(until.astimezone(UTC)) if until else None}
