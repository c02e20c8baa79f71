"""Queues and cohorts with their place in the tree. Flat: `parent` names the node above, in the same cluster."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.api.base import ListView, Reading
from apps.api.fields import DecimalText, Text
from apps.api.pagination import Key, Page, page_of_rows
from apps.api.quotas import QUOTA_SOURCES, QuotaSerializer, team_slugs, visible_slugs
from apps.api.schema import documented
from apps.quotas.filters import QueueFilterForm
from apps.quotas.rows import QueueNode
from apps.quotas.selectors import queue_forest


class QueueSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`quotas`: what the filter leaves of them. `is_implicit`: a cohort that only queues name. `weighted_share`: "Infinity" when weight is 0 and it borrows."""

    cluster = Text(source="cluster.slug")
    system = Text()
    kind = Text()
    name = Text()
    parent = Text(help_text='"" for a root')  # type: ignore[assignment]
    teams = serializers.SerializerMethodField()
    is_active = serializers.BooleanField(source="active", read_only=True)
    is_stopped = serializers.BooleanField(source="stopped", read_only=True)
    is_implicit = serializers.BooleanField(source="implicit", read_only=True)
    is_in_cycle = serializers.BooleanField(source="in_cycle", read_only=True)
    reason = Text()
    message = Text()
    waiting_workloads = serializers.IntegerField(source="waiting", read_only=True)
    weighted_share = DecimalText(allow_null=True)
    quotas = QuotaSerializer(source="rows", many=True, read_only=True)

    def get_teams(self, node: QueueNode) -> list[str]:
        return visible_slugs(node.team_ids, self.context["slugs"])


@documented(operation="queues", summary="Queues and cohorts with their place in the tree")
class QueuesView(ListView):
    route = "queues"
    item = QueueSerializer
    filter_class = QueueFilterForm
    needs = QUOTA_SOURCES
    key_shape = (int, str, str, str)

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[QueueNode]:
        forest = queue_forest(
            now=reading.now, clusters=reading.clusters, team_ids=reading.form.narrowed_team_ids()
        )
        return page_of_rows(
            [node for _depth, node in reading.form.narrowed_nodes(forest)],
            key=lambda node: (node.cluster.pk, node.system, node.kind, node.name),
            after=after,
            size=size,
        )

    def context(self, reading: Reading) -> dict[str, Any]:
        return {"reading": reading, "slugs": team_slugs(reading)}
