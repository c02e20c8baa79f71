"""Where the numbers come from: every source of every collected cluster, its last pull and what went wrong.

Old numbers concern everybody, so every role reads this; the raw text of an error may name hosts and paths and is
for platform admins."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.api.base import ListView, Reading, SourceStateSerializer
from apps.api.fields import DecimalText, Instant, Text
from apps.api.pagination import Key, Page, page_of_rows
from apps.api.schema import documented
from apps.capacity.coverage import ClusterCoverage, coverage
from apps.fleet.filters import ClusterForm
from apps.observations.models import Source
from apps.observations.selectors import SourceStatus


class RunSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """One pull. `mode`: list, watch, mixed or query."""

    started_at = Instant()
    ended_at = Instant()
    outcome = Text()
    mode = Text()
    objects_seen = serializers.IntegerField(read_only=True)
    rows_written = serializers.IntegerField(read_only=True)
    rows_gone = serializers.IntegerField(read_only=True)
    bytes_read = serializers.IntegerField(read_only=True)


class CoverageSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Cards of the API against cards of telemetry. `unseen`: counted and not seen; `beyond`: seen and not counted,
    `unplaced` of them on nodes that the API does not know."""

    counted_cards = serializers.IntegerField(source="counted", read_only=True)
    seen_cards = serializers.IntegerField(source="seen", read_only=True)
    matched_cards = serializers.IntegerField(source="matched", read_only=True)
    covered_ratio = DecimalText(source="ratio", allow_null=True)
    unseen_cards = serializers.IntegerField(source="unseen", read_only=True)
    beyond_cards = serializers.IntegerField(source="beyond", read_only=True)
    unplaced_cards = serializers.IntegerField(source="unplaced", read_only=True)
    nodes_without_any = serializers.IntegerField(source="dark_nodes", read_only=True)


class SourceSerializer(SourceStateSerializer):
    """`sentence` and `action` say in words what the last pull met and what to do about it; "" when it was good.
    `coverage` belongs to telemetry ("dcgm") and is null for every other source, and where nothing was read yet."""

    last_run_at = Instant(allow_null=True)
    error_kind = Text()
    sentence = serializers.SerializerMethodField()
    action = serializers.SerializerMethodField()
    error = serializers.SerializerMethodField(help_text="Raw text, for platform admins; null for others.")
    failures_in_a_row = serializers.IntegerField(source="failures", read_only=True)
    quarantined_objects = serializers.IntegerField(source="quarantined", read_only=True)
    last_run = RunSerializer(source="run", allow_null=True, read_only=True)
    coverage = serializers.SerializerMethodField()

    def get_sentence(self, status: SourceStatus) -> str:
        return status.sentence

    def get_action(self, status: SourceStatus) -> str:
        return status.action

    def get_error(self, status: SourceStatus) -> str | None:
        return status.error if self.context["reading"].user.is_platform_admin else None

    @extend_schema_field(CoverageSerializer(allow_null=True))
    def get_coverage(self, status: SourceStatus) -> dict[str, Any] | None:
        found: ClusterCoverage | None = self.context["coverage"].get(status.cluster.pk)
        if status.source != Source.DCGM or found is None:
            return None
        shown: dict[str, Any] = CoverageSerializer(found).data
        return shown


@documented(operation="sources", summary="Every source's last pull, age and error")
class SourcesView(ListView):
    route = "sources"
    item = SourceSerializer
    filter_class = ClusterForm
    needs = tuple(Source.values)
    key_shape = (int, str)

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[SourceStatus]:
        return page_of_rows(
            reading.freshness.statuses,
            key=lambda status: (status.cluster.pk, status.source),
            after=after,
            size=size,
        )

    def context(self, reading: Reading) -> dict[str, Any]:
        found = coverage(now=reading.now, clusters=reading.clusters)
        return {"reading": reading, "coverage": {row.cluster.pk: row for row in found}}
