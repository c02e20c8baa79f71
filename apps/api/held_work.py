"""The work behind the hours of what was held, piece by piece, of one cluster and at most a day."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from apps.api.base import ListView, Reading
from apps.api.fields import DecimalText, Instant, Text
from apps.api.kinds import KindSerializer
from apps.api.pagination import Key, Page, page_of_rows
from apps.api.schema import documented
from apps.api.usage import USAGE_SOURCES, WindowSerializer, window_of
from apps.observations.models import Source
from apps.usage.held_work import HeldWork, held_work, key_of
from apps.usage.idle_filters import HeldWorkForm


class HeldWorkSerializer(KindSerializer):
    """One object held `quantity` units during [start, end). `seen`: "bridged" was there before and after a stretch that nobody
    saw and counts; "left_out" (seen by nobody) and "beyond" (more than the node has) do not. `on`: the flavor, of bound pods
    the node. `name` is null where the object is not kept any more."""

    uid = Text(source="of.uid")
    name = serializers.SerializerMethodField()
    namespace = Text(source="of.place.namespace")
    kind = Text(source="of.place.kind")
    queue = Text(source="of.place.queue")
    team = serializers.SerializerMethodField(help_text="null: of no team")
    cost_centre = Text(source="of.cost_centre")
    on = Text(source="of.on")
    quantity = DecimalText(source="of.quantity")
    start = Instant(source="of.start")
    end = Instant(source="of.end")
    unit_seconds = DecimalText(source="of.unit_seconds")
    borrowed = serializers.BooleanField(source="of.borrowed", read_only=True)
    priority_class = Text(source="of.priority_class")
    seen = serializers.ChoiceField(
        source="of.seen", choices=["observed", "bridged", "left_out", "beyond"], read_only=True
    )

    def get_name(self, row: HeldWork) -> str | None:
        return row.name or None

    def get_team(self, row: HeldWork) -> str | None:
        return row.team or None


@documented(operation="usage-work", summary="The work behind the hours of what was held")
class HeldWorkView(ListView):
    route = "usage-work"
    item = HeldWorkSerializer
    filter_class = HeldWorkForm
    needs = (*USAGE_SOURCES, Source.PODS.value)
    key_shape = (str,) * 5
    extra_fields: Mapping[str, Any] = {"window": WindowSerializer(read_only=True)}

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[HeldWork]:
        form = reading.form
        rows = held_work(
            cluster=form.chosen_cluster,
            window=form.time_window,
            now=reading.now,
            basis=form.chosen_basis,
            team_ids=reading.team_ids,
            team=form.cleaned_data["team"],
            queue=form.cleaned_data["queue"],
        )
        return page_of_rows(rows, key=key_of, after=after, size=size)

    def totals(self, reading: Reading) -> Mapping[str, Any]:
        return {"window": window_of(reading.form.time_window)}
