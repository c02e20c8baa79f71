"""What kept work from running, over time: hours from the rollups, the work behind them, and what became of work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.api.base import WORK, ListView, Reading
from apps.api.fields import DecimalText, Instant, Text, instant_or_none
from apps.api.pagination import Key, Page, page_of_rows
from apps.api.schema import documented
from apps.api.usage import WindowSerializer, window_of
from apps.usage.admission_filters import BlockedForm, BlockedWorkForm, OutcomeForm
from apps.usage.admission_reading import reading as steps_of
from apps.usage.admission_reading import rolled_up
from apps.usage.blocked import blocked_series
from apps.usage.blocked_work import BlockedWork, blocked_work
from apps.usage.models import OutcomeHour
from apps.usage.outcomes import OutcomeRow, outcome_table

WINDOW_FIELDS: Mapping[str, Any] = {
    "window": WindowSerializer(read_only=True),
    "rolled_up_until": Instant(allow_null=True, help_text="null: nothing is rolled up yet."),
}


def rolled_fields(reading: Reading) -> dict[str, Any]:
    """Which whole steps are read, and how far the rollups are."""
    until = rolled_up(reading.form.criteria).until
    return {
        "window": window_of(steps_of(reading.form.time_window).covered),
        "rolled_up_until": instant_or_none(until),
    }


@dataclass(frozen=True, slots=True)
class HoursRow:
    """Hours of one key in one step; None: not rolled up."""

    start: datetime
    key: str
    label: str
    hours: Decimal | None


class BlockedHoursSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Hours blocked in the step that starts at `start`: of pieces of work, or unit-hours of the device that `resource`
    names. Kinds of devices are never added up. Null where nothing is rolled up."""

    start = Instant()
    key = Text(help_text='Of what the rows are grouped by; "-" is work of no team, "none" no reason token.')
    key_label = Text(source="label")
    hours = DecimalText(allow_null=True)


@documented(operation="admission-failures-hours", summary="Hours that work was kept from running")
class BlockedHoursView(ListView):
    route = "admission-failures-hours"
    item = BlockedHoursSerializer
    filter_class = BlockedForm
    needs = WORK
    key_shape = (str, str)
    extra_fields = WINDOW_FIELDS

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[HoursRow]:
        form = reading.form
        found = blocked_series(
            window=form.time_window, by=form.grouping, team_ids=reading.team_ids, criteria=form.criteria
        )
        rows = [
            HoursRow(bucket.start, key, found.labels[key], found.hours[key][i])
            for i, bucket in enumerate(found.buckets)
            for key in sorted(found.hours)
        ]
        return page_of_rows(rows, key=_hours_key, after=after, size=size)

    def totals(self, reading: Reading) -> Mapping[str, Any]:
        return rolled_fields(reading)


def _hours_key(row: HoursRow) -> Key:
    return (row.start.astimezone(UTC).isoformat(), row.key)


class BlockedWorkSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """How long one piece of work was blocked within the window, and by what, the longest first."""

    uid = Text()
    cluster = Text()
    kind = Text()
    namespace = Text()
    name = Text()
    queue = Text()
    team = serializers.SerializerMethodField(help_text="null: no team owned it")
    hours = DecimalText()
    causes = serializers.ListField(child=Text(), read_only=True)

    def get_team(self, row: BlockedWork) -> str | None:
        return row.team_slug or None


@documented(operation="admission-failures-work", summary="The work behind blocked hours")
class BlockedWorkView(ListView):
    route = "admission-failures-work"
    item = BlockedWorkSerializer
    filter_class = BlockedWorkForm
    needs = WORK
    key_shape = (str, str, str, str, str)
    extra_fields = WINDOW_FIELDS

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[BlockedWork]:
        form = reading.form
        rows = blocked_work(
            now=reading.now, window=form.time_window, team_ids=reading.team_ids, criteria=form.criteria
        )
        return page_of_rows(sorted(rows, key=_work_key), key=_work_key, after=after, size=size)

    def totals(self, reading: Reading) -> Mapping[str, Any]:
        return {**rolled_fields(reading), "window": window_of(reading.form.time_window)}


def _work_key(row: BlockedWork) -> Key:
    return (row.cluster, row.namespace, row.name, row.uid, row.team_slug)


class CountsSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Work by what became of it."""

    def get_fields(self) -> dict[str, Any]:
        return {what: serializers.IntegerField(read_only=True) for what in OutcomeHour.What.values}


class OutcomeSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Rates are shares (0…1) and null of nothing: completion and failure of what ended, retry per submitted piece of work,
    eviction and preemption per quota granted. `not_seen`: evictions that only a counter knows."""

    key = Text()
    key_label = Text(source="label")
    counts = serializers.SerializerMethodField()
    completion = DecimalText(allow_null=True)
    failure = DecimalText(allow_null=True)
    retry = DecimalText(allow_null=True)
    eviction = DecimalText(allow_null=True)
    preemption = DecimalText(allow_null=True)
    not_seen = serializers.IntegerField(read_only=True)

    @extend_schema_field(CountsSerializer)
    def get_counts(self, row: OutcomeRow) -> dict[str, int]:
        return {what: row.count(what) for what in OutcomeHour.What.values}


@documented(operation="admission-failures-outcomes", summary="What became of work")
class OutcomesView(ListView):
    route = "admission-failures-outcomes"
    item = OutcomeSerializer
    filter_class = OutcomeForm
    needs = WORK
    key_shape = (str,)
    extra_fields = WINDOW_FIELDS

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[OutcomeRow]:
        form = reading.form
        rows = outcome_table(
            window=form.time_window, by=form.grouping, team_ids=reading.team_ids, criteria=form.criteria
        )
        return page_of_rows(rows, key=lambda row: (row.key,), after=after, size=size)

    def totals(self, reading: Reading) -> Mapping[str, Any]:
        return rolled_fields(reading)
