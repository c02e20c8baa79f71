"""What was held and what of it did something, by any keys: cluster, team, cost centre, kind of work, queue, flavor, priority
class and whether it was borrowed (`group_by`, default team), by hour, UTC day or billing month (`step`), each row of one kind
of unit: resource, model, sharing mode, profile and `cards_per_unit`. Kinds are never added up; GPU-hours are what may be.

A key is null where rows are not grouped by it (see `group_by` of the answer) and where there is none. A measure is null in
every row where it is not told by one of the keys that are grouped or narrowed by: `notes` says which. What was not measured
is null, never 0. As `format=csv` all rows in one file. Finished hours one by one, for copies: `usage/hours`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from rest_framework import serializers
from rest_framework.request import Request

from apps.api.base import ListView, Reading
from apps.api.fields import DecimalText, Instant, Text, instant_or_none
from apps.api.pagination import NO_CURSOR, Key, Page, PageForm, page_of_ids
from apps.api.problems import BadRequest, Fault
from apps.api.schema import documented
from apps.chargeback.month_bounds import month_bounds
from apps.core.csv import csv_response
from apps.core.windows import Window
from apps.fleet.filters import ClusterForm
from apps.fleet.models import Cluster
from apps.observations.models import Source
from apps.usage.feed import finished_hours, finished_until
from apps.usage.filters import UsageForm
from apps.usage.models import UsageHour
from apps.usage.reports import (
    KEYS,
    MOST_ROWS,
    PLACE_LENGTH,
    TOLD_BY,
    Place,
    Question,
    Row,
    TooManyRows,
    cards_per_device,
    gpu_hours,
    is_place,
    report,
)
from apps.usage.selectors import computed_until, use_done_until

QUOTA_SOURCES = (Source.KUEUE.value, Source.VOLCANO.value)
USAGE_SOURCES = (*QUOTA_SOURCES, Source.PODS.value, Source.DCGM.value)


class WindowSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """[start, end) in whole hours: what was asked for, widened to what the rollups hold."""

    start = Instant()
    end = Instant()


class UntoldSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Why `measure` is null in every row: `keys` do not tell it."""

    measure = serializers.ChoiceField(choices=list(TOLD_BY), read_only=True)
    keys = serializers.ListField(child=Text(), read_only=True)
    detail = Text()


class UsageSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`reserved`: quota; of it `bridged` (nobody could look, and it was there before and after), beside it `left_out` (nobody
    saw it, and it is not charged). `bound`: pods on nodes. `nominal`: promised, with `nominal=true`. `measured`: time of
    cards or instances whose utilisation was measured, `busy` that times the utilisation, `held_idle` the rest of it. A unit-second is
    one unit for a second (8 GPUs for 10 minutes = 4800), exact; GPU-hours are hours of whole cards, to nine digits, null
    where nobody knows how many cards a unit is."""

    start = Instant()
    end = Instant()
    cluster = Text(allow_null=True)
    team = Text(
        allow_null=True, help_text="null: no team owned it, or shared cards whose parts nobody tells."
    )
    cost_centre = Text(allow_null=True)
    kind = Text(allow_null=True)
    queue = Text(allow_null=True)
    flavor = Text(allow_null=True)
    priority_class = Text(allow_null=True)
    borrowed = serializers.BooleanField(read_only=True, allow_null=True)
    resource = Text()
    model = Text(allow_null=True)
    sharing_mode = Text(allow_null=True)
    profile = Text(allow_null=True)
    cards_per_unit = Text(allow_null=True, help_text='An exact fraction such as "1/7".')
    reserved_unit_seconds = DecimalText()
    bridged_unit_seconds = DecimalText()
    left_out_unit_seconds = DecimalText()
    bound_unit_seconds = DecimalText(allow_null=True)
    nominal_unit_seconds = DecimalText(allow_null=True)
    measured_seconds = DecimalText(allow_null=True)
    busy_seconds = DecimalText(allow_null=True)
    held_idle_seconds = DecimalText(allow_null=True)
    memory_gib_seconds = DecimalText(allow_null=True)
    energy_joules = DecimalText(allow_null=True)
    reserved_gpu_hours = DecimalText(allow_null=True)
    bridged_gpu_hours = DecimalText(allow_null=True)
    left_out_gpu_hours = DecimalText(allow_null=True)
    bound_gpu_hours = DecimalText(allow_null=True)
    nominal_gpu_hours = DecimalText(allow_null=True)
    measured_gpu_hours = DecimalText(allow_null=True)
    busy_gpu_hours = DecimalText(allow_null=True)
    held_idle_gpu_hours = DecimalText(allow_null=True)


def told(row: Row) -> dict[str, Any]:
    """A row by the names of UsageSerializer, in their order."""
    unit, of_device = row.unit, cards_per_device(row.unit)
    held = {name: getattr(row, name) for name in ("reserved", "bridged", "left_out", "bound", "nominal")}
    measured = {name: getattr(row, name) for name in ("measured", "busy", "held_idle")}
    return {
        **{name: getattr(row, name) for name in ("start", "end", *KEYS)},
        "resource": row.resource,
        "model": unit.model or None,
        "sharing_mode": unit.sharing_mode or None,
        "profile": unit.profile or None,
        "cards_per_unit": None if unit.equivalents is None else str(unit.equivalents),
        **{f"{name}_unit_seconds": value for name, value in held.items()},
        **{f"{name}_seconds": value for name, value in measured.items()},
        "memory_gib_seconds": row.memory_gib_seconds,
        "energy_joules": row.energy_joules,
        **{f"{name}_gpu_hours": gpu_hours(value, unit.equivalents) for name, value in held.items()},
        **{f"{name}_gpu_hours": gpu_hours(value, of_device) for name, value in measured.items()},
    }


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


class UsagePageForm(PageForm):
    def clean_cursor(self) -> Key | None:
        key = super().clean_cursor()
        if key is not None and not is_place(tuple(map(str, key))):
            raise ValidationError(NO_CURSOR, "cursor")
        return key


@documented(operation="usage", summary="What was held and used, by any keys", also=("text/csv",))
class UsageView(ListView):
    route = "usage"
    item = UsageSerializer
    filter_class = UsageForm
    page_form = UsagePageForm
    needs = USAGE_SOURCES
    key_shape = (str,) * PLACE_LENGTH
    extra_fields: Mapping[str, Any] = {
        "window": WindowSerializer(read_only=True),
        "group_by": serializers.ListField(child=Text(), read_only=True),
        "complete_until": Instant(
            allow_null=True, help_text="Hours from here on are not finished; null: a cluster has none yet."
        ),
        "measured_until": Instant(
            allow_null=True, help_text="How far what was measured is computed; null: nothing is measured."
        ),
        "notes": UntoldSerializer(many=True, read_only=True),
    }

    def get(self, request: Request) -> Any:
        if request.query_params.get("format") != "csv":
            return super().get(request)
        reading = self.read(request)
        rows = [told(row) for row in rows_of(question_of(reading))]
        header = tuple(UsageSerializer().fields)
        return csv_response("usage", [header, *([row[name] for name in header] for row in rows)])

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[dict[str, Any]]:
        place = None if after is None else tuple(map(str, after))
        rows = rows_of(question_of(reading), after=place, most=size + 1)
        return Page([told(row) for row in rows[:size]], rows[size - 1].place if len(rows) > size else None)

    def totals(self, reading: Reading) -> Mapping[str, Any]:
        question = question_of(reading)
        used = use_done_until()
        clusters = [cluster.pk for cluster in reading.clusters]
        return {
            "window": window_of(question.window),
            "group_by": [name for name in KEYS if name in question.keys],
            "complete_until": instant_or_none(computed_until(reading.clusters)),
            "measured_until": instant_or_none(min((used[pk] for pk in clusters if pk in used), default=None)),
            "notes": [note(measure, keys) for measure, keys in question.untold.items()],
        }


def question_of(reading: Reading) -> Question:
    question: Question = reading.form.question(month_bounds)
    return question


def rows_of(question: Question, *, after: Place | None = None, most: int = MOST_ROWS) -> list[Row]:
    try:
        return report(question, after=after, most=most)
    except TooManyRows as error:
        text = _(
            "%(found)s rows are more than %(most)s: take a coarser step, fewer keys or a shorter window."
        )
        fault = Fault("step", "too_many_rows", text % {"found": error.found, "most": MOST_ROWS})
        raise BadRequest([fault]) from error


def note(measure: str, keys: list[str]) -> dict[str, Any]:
    text = _("%(measure)s is not told by: %(keys)s.") % {"measure": measure, "keys": ", ".join(keys)}
    return {"measure": measure, "keys": keys, "detail": text}


class FeedForm(ClusterForm):
    """Finished hours of one cluster from a sequence number on."""

    after_seq = forms.IntegerField(
        label=gettext_lazy("After sequence number"),
        required=False,
        min_value=0,
        max_value=2**63 - 1,
        help_text=gettext_lazy("Rows with a higher `seq` only: give the highest one that you have."),
    )

    cluster = forms.CharField(label=gettext_lazy("Cluster"), max_length=60)

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
    needs = QUOTA_SOURCES
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
        return {"finished_until": instant_or_none(self.until)}
