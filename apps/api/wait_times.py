"""How long work waited for quota: percentiles by queue, team, flavor, size or cluster, first waits and waits after an
eviction apart. A wait counts in the window in which it began."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from apps.api.base import ListView, Reading
from apps.api.blocked import WINDOW_FIELDS, rolled_fields
from apps.api.fields import Text
from apps.api.pagination import Key, Page, page_of_rows
from apps.api.schema import documented
from apps.api.usage import USAGE_SOURCES
from apps.usage.filters import WaitForm
from apps.usage.models import WaitHour
from apps.usage.waits import WaitRow, wait_table


class WaitTimeSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Seconds without backoff and being held. What gave up and what still waits is known to have lasted longer than it
    was seen to and counts so (Kaplan-Meier). A percentile is null where it was not reached: it is more than
    `longest_seconds`."""

    key = Text(
        help_text='Of what the rows are grouped by; "-" is work of no team, "" what has no flavor yet.'
    )
    key_label = Text(source="label")
    which = serializers.ChoiceField(choices=WaitHour.Which.values, read_only=True)
    p50_seconds = serializers.IntegerField(source="p50", read_only=True, allow_null=True)
    p90_seconds = serializers.IntegerField(source="p90", read_only=True, allow_null=True)
    p99_seconds = serializers.IntegerField(source="p99", read_only=True, allow_null=True)
    longest_seconds = serializers.IntegerField(source="longest", read_only=True, allow_null=True)
    count = serializers.IntegerField(read_only=True)
    reserved = serializers.IntegerField(read_only=True, help_text="Ended with quota.")
    gave_up = serializers.IntegerField(
        read_only=True, help_text="Deleted, deactivated or finished without quota."
    )
    still_waiting = serializers.IntegerField(read_only=True)


@documented(operation="wait-times", summary="How long work waited for quota")
class WaitTimesView(ListView):
    route = "wait-times"
    item = WaitTimeSerializer
    filter_class = WaitForm
    needs = USAGE_SOURCES
    key_shape = (str, str)
    extra_fields = WINDOW_FIELDS

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[WaitRow]:
        form = reading.form
        rows = wait_table(
            now=reading.now,
            window=form.time_window,
            by=form.grouping,
            team_ids=reading.team_ids,
            criteria=form.criteria,
        )
        return page_of_rows(form.keep(rows), key=wait_key, after=after, size=size)

    def totals(self, reading: Reading) -> Mapping[str, Any]:
        return rolled_fields(reading)


def wait_key(row: WaitRow) -> Key:
    return (row.key, row.which)
