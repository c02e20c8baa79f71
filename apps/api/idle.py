"""What there was of each kind of unit, and what idled in whose hands; from finished hours, for a window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from apps.api.base import WORK, ListView, Reading
from apps.api.fields import Amounts, DecimalText, Instant, Text, instant_or_none
from apps.api.kinds import KindSerializer
from apps.api.pagination import Key, Page, page_of_rows
from apps.api.schema import documented
from apps.api.usage import WindowSerializer, window_of
from apps.core.windows import Bucket
from apps.observations.models import Source
from apps.usage.idle_filters import IdleForm, SupplyForm
from apps.usage.idling import Idling, idling, key_of
from apps.usage.selectors import computed_until
from apps.usage.supply import Supply, supply

HOURS_NEED = (Source.NODES.value, *WORK)
HOURS_FIELDS: Mapping[str, Any] = {
    "window": WindowSerializer(read_only=True),
    "computed_until": Instant(allow_null=True, help_text="null: no hour is computed yet."),
}


def hours_fields(reading: Reading) -> dict[str, Any]:
    """Which whole hours are read, and up to where they are computed for all of the clusters."""
    return {
        "window": window_of(reading.form.time_window.aligned(Bucket.HOUR)),
        "computed_until": instant_or_none(computed_until(reading.clusters)),
    }


class SupplySerializer(KindSerializer):
    """Unit-seconds of one kind on one cluster. `physical` = `allocatable` + `out_of_use` (by bucket) + `unobserved`, and
    `allocatable` = `held` + `idle`. Of `idle` quota was reserved on `idle_reserved` while no pod had it; the rest was free."""

    cluster = serializers.SerializerMethodField()
    physical = DecimalText()
    allocatable = DecimalText()
    held = DecimalText()
    idle = DecimalText()
    idle_reserved = DecimalText()
    idle_free = DecimalText()
    out_of_use = Amounts(help_text="{bucket: unit-seconds}")
    unobserved = DecimalText()
    held_out_of_use = DecimalText(help_text="By pods, on units that cannot be allocated.")
    held_unobserved = DecimalText()
    reserved = DecimalText()
    attributed = DecimalText(help_text="Held by pods of teams.")
    unattributed = DecimalText(help_text="Held by pods of no team.")

    def get_cluster(self, row: Supply) -> str:
        return slugs_of(self.context["reading"])[row.cluster_id]


def slugs_of(reading: Reading) -> dict[int, str]:
    return {cluster.pk: cluster.slug for cluster in reading.clusters}


@documented(operation="supply", summary="What there was of each kind of unit, and what of it was idle")
class SupplyView(ListView):
    route = "supply"
    item = SupplySerializer
    filter_class = SupplyForm
    needs = HOURS_NEED
    key_shape = (str,) * 6
    extra_fields = HOURS_FIELDS

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[Supply]:
        hours, slugs = reading.form.time_window.aligned(Bucket.HOUR), slugs_of(reading)

        def key(row: Supply) -> Key:
            unit = row.unit
            return (
                *(slugs[row.cluster_id], row.resource, unit.model, unit.sharing_mode, unit.profile),
                str(unit.equivalents or ""),
            )

        rows = supply(start=hours.start, end=hours.end, clusters=list(slugs))
        return page_of_rows(rows, key=key, after=after, size=size)

    def totals(self, reading: Reading) -> Mapping[str, Any]:
        return hours_fields(reading)


class IdlingSerializer(KindSerializer):
    """Unit-seconds of one queue's and team's kind of unit; `measured`, `busy` and `held_idle` are seconds of devices.

    `unused`: promised and not reserved by the queue's own work. `unbound`: reserved while no pod had it; null where the
    flavor is over several kinds of cards. `held_idle`: held, measured and not busy; null where nothing was measured."""

    cluster = Text()
    team = serializers.SerializerMethodField(help_text="null: of no team")
    kind = Text(source="whose.kind")
    queue = Text(source="whose.queue")
    nominal_unit_seconds = DecimalText(source="nominal")
    unused_unit_seconds = DecimalText(source="unused")
    reserved_unit_seconds = DecimalText(source="reserved")
    unbound_unit_seconds = DecimalText(source="unbound", allow_null=True)
    bound_unit_seconds = DecimalText(source="bound")
    measured_device_seconds = DecimalText(source="measured")
    busy_device_seconds = DecimalText(source="busy", allow_null=True)
    held_idle_device_seconds = DecimalText(source="held_idle", allow_null=True)
    efficiency = DecimalText(allow_null=True, help_text="Busy / measured, 0…1.")

    def get_team(self, row: Idling) -> str | None:
        return row.team or None


@documented(operation="idle", summary="What idles, by the queue that could end it")
class IdleView(ListView):
    route = "idle"
    item = IdlingSerializer
    filter_class = IdleForm
    needs = HOURS_NEED
    key_shape = (str,) * 9
    extra_fields = HOURS_FIELDS

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[Idling]:
        data = reading.form.cleaned_data
        rows = idling(
            window=reading.form.time_window,
            clusters=reading.clusters,
            team_ids=reading.team_ids,
            team=data["team"],
            queue=data["queue"],
        )
        return page_of_rows(rows, key=key_of, after=after, size=size)

    def totals(self, reading: Reading) -> Mapping[str, Any]:
        return hours_fields(reading)
