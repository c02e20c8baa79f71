"""Accelerator nodes, one row per device model and sharing mode, and one node with what runs on it."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.api.base import DetailView, ListView, Reading
from apps.api.capacity import BucketsField, MeasuresSerializer, SlicesField, UnitSerializer
from apps.api.devices import CardSerializer
from apps.api.fields import Amounts, DecimalText, Instant, Text
from apps.api.pagination import Key, Page, page_of_rows
from apps.api.quotas import team_slugs
from apps.api.schema import documented
from apps.capacity.cards import card_rows, without_others
from apps.capacity.filters import NodeForm
from apps.capacity.rows import NodeDetail, NodePod, NodeRow
from apps.capacity.selectors import node_detail, node_rows
from apps.capacity.stack_selectors import node_stack
from apps.observations.models import Source

NODE_SOURCES = (Source.NODES.value, Source.PODS.value, Source.DEVICES.value)


class ReasonSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Why cards are out of use."""

    bucket = Text()
    label = Text()  # type: ignore[assignment]
    devices = serializers.IntegerField(read_only=True)
    text = Text()


class NodeSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`*_devices` and `device_buckets` count whole cards; the other numbers are in `unit`. `held_bound`, `free` and
    `stranded` are null where pods were never read. `cards_seen_at`: when telemetry, silent now, saw the cards last
    that are counted, else null; `origin`: "plugin" or "dra", who advertises the cards;
    `capacity_type`: "spot", "on-demand", "reserved", "" where no label says; `mode_sentence`, `amounts`,
    `uncovered_slices`: as for a pool; `notes`: what is odd about the node."""

    cluster = Text(source="cluster.slug")
    name = Text(source="node")
    uid = Text()
    vendor = Text()
    model = Text()
    model_label = Text()
    sharing_mode = Text()
    unit = Text()
    physical_devices = serializers.IntegerField(read_only=True)
    device_buckets = BucketsField(source="buckets", read_only=True)
    allocatable_devices = serializers.IntegerField(read_only=True)
    physical = DecimalText(source="physical_units")
    allocatable = DecimalText()
    held_bound = DecimalText(allow_null=True)
    free = DecimalText(allow_null=True)
    stranded = DecimalText(allow_null=True)
    over_held = DecimalText(allow_null=True)
    is_estimated = serializers.BooleanField(source="estimated", read_only=True)
    cards_seen_at = Instant(allow_null=True)
    origin = Text()
    capacity_type = Text()
    mode_sentence = Text()
    uncovered_slices = SlicesField(source="stranded_slices", read_only=True)
    amounts = MeasuresSerializer(read_only=True)
    notes = serializers.ListField(child=Text(), read_only=True)
    units = UnitSerializer(many=True, read_only=True)
    reasons = ReasonSerializer(many=True, read_only=True)
    flavors = serializers.ListField(child=Text(), read_only=True)
    observed_at = Instant()


class NodePodSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A pod that asks for accelerators; `is_holding` is false once it is over."""

    uid = Text()
    namespace = Text()
    name = Text()
    phase = Text()
    team = serializers.SerializerMethodField()
    asked = Amounts(source="requests")
    queue_name = Text()
    bound_at = Instant(allow_null=True)
    is_holding = serializers.BooleanField(source="held", read_only=True)

    def get_team(self, pod: NodePod) -> str | None:
        slugs: dict[int | None, str] = self.context["slugs"]
        return slugs.get(pod.team_id)


class SoftwareSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """One component of a node, named as in /stack/; `said_by`: "label", "node", "dra" or "telemetry"."""

    component = Text()
    version = Text()
    said_by = Text(source="source")


class NodeDetailSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`devices`: the node's cards, as in /devices/. `pods`: those of the reader's teams; `pods_of_others` counts the
    rest, null where pods were never read."""

    cluster = Text(source="cluster.slug")
    name = Text(source="node.name")
    uid = Text(source="node.uid")
    labels = serializers.DictField(source="node.labels", child=Text(), read_only=True)
    is_unschedulable = serializers.BooleanField(source="node.unschedulable", read_only=True)
    rows = NodeSerializer(many=True, read_only=True)
    software = serializers.SerializerMethodField()
    devices = serializers.SerializerMethodField()
    pods = serializers.SerializerMethodField()
    pods_of_others = serializers.SerializerMethodField()

    @extend_schema_field(SoftwareSerializer(many=True))
    def get_software(self, detail: NodeDetail) -> list[dict[str, Any]]:
        now = self.context["reading"].now
        versions = node_stack(now=now, cluster=detail.cluster, node=detail.node)
        known = [row for row in versions if row.version is not None]
        found: list[dict[str, Any]] = SoftwareSerializer(known, many=True).data  # type: ignore[assignment]
        return found

    @extend_schema_field(CardSerializer(many=True))
    def get_devices(self, detail: NodeDetail) -> list[dict[str, Any]]:
        reading: Reading = self.context["reading"]
        rows = card_rows(now=reading.now, clusters=[detail.cluster], node=detail.node.name)
        shown = without_others(rows, reading.team_ids)
        found: list[dict[str, Any]] = CardSerializer(shown, many=True, context=self.context).data  # type: ignore[assignment]
        return found

    @extend_schema_field(NodePodSerializer(many=True))
    def get_pods(self, detail: NodeDetail) -> list[dict[str, Any]]:
        shown = [pod for pod in detail.pods if self._shows(pod)]
        found: list[dict[str, Any]] = NodePodSerializer(shown, many=True, context=self.context).data  # type: ignore[assignment]
        return found

    def get_pods_of_others(self, detail: NodeDetail) -> int | None:
        return sum(not self._shows(pod) for pod in detail.pods) if detail.pods_read else None

    def _shows(self, pod: NodePod) -> bool:
        team_ids = self.context["reading"].team_ids
        return team_ids is None or pod.team_id in team_ids


@documented(operation="nodes", summary="Accelerator nodes, one row per model and sharing mode")
class NodesView(ListView):
    route = "nodes"
    item = NodeSerializer
    filter_class = NodeForm
    needs = NODE_SOURCES
    key_shape = (int, str, str, str)

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[NodeRow]:
        return page_of_rows(
            reading.form.narrowed(node_rows(now=reading.now, clusters=reading.clusters)),
            key=lambda row: (row.cluster.pk, row.node, row.model, row.sharing_mode),
            after=after,
            size=size,
        )


@documented(operation="node", summary="One node and what runs on it")
class NodeView(DetailView):
    route = "nodes"
    item = NodeDetailSerializer
    needs = (*NODE_SOURCES, Source.DCGM.value)

    def find(self, reading: Reading, **kwargs: str) -> NodeDetail:
        cluster = next((c for c in reading.clusters if c.slug == kwargs["cluster"]), None)
        found = node_detail(now=reading.now, name=kwargs["name"], cluster=cluster) if cluster else None
        if found is None:
            raise Http404
        return found

    def context(self, reading: Reading) -> dict[str, Any]:
        return {"reading": reading, "slugs": team_slugs(reading)}
