"""The software of accelerator nodes: which versions are in use, who runs them, and which nodes differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from apps.api.base import ListView, Reading
from apps.api.fields import Text
from apps.api.pagination import Key, Page, page_of_rows
from apps.api.schema import documented
from apps.capacity.filters import StackForm
from apps.capacity.stack import StackRow
from apps.capacity.stack_labels import component_label
from apps.capacity.stack_selectors import stack_report
from apps.observations.models import Source

STACK_SOURCES = (Source.NODES.value, Source.DEVICES.value)


class StackSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """One version of one component in one cluster. `version` null: these nodes do not say. `outliers`: those of
    `nodes` that run another version than most nodes of their model; `of_nodes` null: the operator chooses this
    component for the whole cluster. `said_by`: "label", "node", "dra", "telemetry", "operator"."""

    cluster = Text(source="cluster.slug")
    component = Text()
    component_label = serializers.SerializerMethodField()
    version = Text(allow_null=True)
    nodes = serializers.ListField(child=Text(), read_only=True)
    of_nodes = serializers.IntegerField(source="of", allow_null=True, read_only=True)
    outliers = serializers.ListField(child=Text(), read_only=True)
    models = serializers.ListField(child=Text(), read_only=True)
    said_by = serializers.ListField(source="sources", child=Text(), read_only=True)

    def get_component_label(self, row: StackRow) -> str:
        return component_label(row.component)


class SkewSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Kubelets of a cluster that are `minor_versions` apart."""

    cluster = Text(source="cluster.slug")
    oldest = Text()
    newest = Text()
    minor_versions = serializers.IntegerField(source="minors", read_only=True)


@documented(operation="stack", summary="Versions of the nodes' software, with outliers")
class StackView(ListView):
    route = "stack"
    item = StackSerializer
    filter_class = StackForm
    needs = STACK_SOURCES
    key_shape = (int, str, str)
    extra_fields: Mapping[str, Any] = {"kubelet_skews": SkewSerializer(many=True, read_only=True)}

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[StackRow]:
        self.report = stack_report(now=reading.now, clusters=reading.clusters)
        return page_of_rows(
            reading.form.narrowed_rows(self.report.rows),
            key=lambda row: (row.cluster.pk, row.component, row.version or ""),
            after=after,
            size=size,
        )

    def totals(self, reading: Reading) -> Mapping[str, Any]:
        return {"kubelet_skews": SkewSerializer(self.report.skews, many=True).data}
