"""What the fleet has: pools, their waterfall from physical to allocatable, and what is promised and held of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.api.base import ListView, Reading
from apps.api.fields import DecimalText, Text
from apps.api.pagination import Key, Page, page_of_rows
from apps.api.schema import documented
from apps.capacity.notes import readable
from apps.capacity.rows import PoolRow, Totals
from apps.capacity.selectors import capacity_report
from apps.fleet.filters import ClusterForm
from apps.observations.models import Source

CAPACITY_SOURCES = (
    Source.NODES.value,
    Source.PODS.value,
    Source.DEVICES.value,
    Source.KUEUE.value,
    Source.VOLCANO.value,
)


class BucketsField(serializers.DictField):
    """{bucket: whole cards}; every card out of use is in exactly one."""

    child = serializers.IntegerField()


class AmountsSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A row's numbers in one measure, whose `unit` is named ("byte" of framebuffer for memory). held + free +
    stranded = allocatable. Null: not known, or not to be said in this measure: units of several kinds are not added
    up, memory of time slices is not divided."""

    unit = Text()
    physical = DecimalText(allow_null=True)
    allocatable = DecimalText(allow_null=True)
    held_bound = DecimalText(allow_null=True)
    free = DecimalText(allow_null=True)
    stranded = DecimalText(allow_null=True)
    held_reserved = DecimalText(allow_null=True)
    held_admitted = DecimalText(allow_null=True)
    nominal = DecimalText(allow_null=True)
    ceiling = DecimalText(allow_null=True)
    guarantee = DecimalText(allow_null=True)
    deserved = DecimalText(allow_null=True)
    capability = DecimalText(allow_null=True)


class MeasuresSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """The same row as units of its one kind, as GPU-equivalents and as memory."""

    units = AmountsSerializer(read_only=True)
    equivalents = AmountsSerializer(read_only=True)
    memory = AmountsSerializer(read_only=True)


@extend_schema_field(
    {
        "type": "object",
        "properties": {"compute": {"type": "integer"}, "memory": {"type": "integer"}},
        "required": ["compute", "memory"],
    }
)
class SlicesField(serializers.Field):  # type: ignore[type-arg]
    """MIG slices of the row's cards that no instance covers: part of the physical cards, in no unit."""

    def to_representation(self, value: tuple[int, int]) -> dict[str, int]:
        compute, memory = value
        return {"compute": compute, "memory": memory}


class UnitSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """One schedulable resource of a pool or node, in its own units. `held_bound` and `free` null: pods were never
    read; `held_reserved`, `nominal` and `ceiling` null: not said (a node's never are: queues promise pools)."""

    resource = Text()
    profile = Text()
    unit = Text()
    physical = DecimalText()
    allocatable = DecimalText()
    held_bound = DecimalText(allow_null=True)
    held_reserved = DecimalText(allow_null=True)
    free = DecimalText(allow_null=True)
    stranded = DecimalText(allow_null=True)
    over_held = DecimalText(allow_null=True)
    held_admitted = DecimalText(allow_null=True)
    nominal = DecimalText(allow_null=True)
    ceiling = DecimalText(allow_null=True)
    guarantee = DecimalText(allow_null=True)
    deserved = DecimalText(allow_null=True)
    capability = DecimalText(allow_null=True)
    gpu_equivalents_per_unit = DecimalText(source="equivalents")
    memory_bytes_per_unit = serializers.IntegerField(source="memory_bytes", read_only=True, allow_null=True)


class PoolSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`*_devices` and `device_buckets` count whole cards and add up to `physical_devices`; the other numbers are in
    `unit`. `held_bound`: by pods on nodes, `over_held` what of it lies on units out of use; `stranded`: not held, but
    the node has no CPU, memory or room for a pod left; `held_reserved`: by quota reservations, `held_admitted` the
    part of it whose checks have passed; `guarantee`, `deserved`, `capability`: Volcano's. Null: not collected, or
    not said (of `held_reserved` also: it lies in flavors over several pools, of which none can claim it).
    `mode_sentence` says what a unit is and is not; `amounts` the same in each measure."""

    cluster = Text(source="cluster.slug")
    vendor = Text()
    model = Text()
    model_label = Text()
    sharing_mode = Text()
    unit = Text()
    nodes = serializers.IntegerField(read_only=True)
    physical_devices = serializers.IntegerField(read_only=True)
    device_buckets = BucketsField(source="buckets", read_only=True)
    allocatable_devices = serializers.IntegerField(read_only=True)
    physical = DecimalText(source="physical_units")
    allocatable = DecimalText()
    held_bound = DecimalText(allow_null=True)
    held_reserved = DecimalText(allow_null=True)
    free = DecimalText(allow_null=True)
    stranded = DecimalText(allow_null=True)
    over_held = DecimalText(allow_null=True)
    held_admitted = DecimalText(allow_null=True)
    nominal = DecimalText(allow_null=True)
    ceiling = DecimalText(allow_null=True)
    guarantee = DecimalText(allow_null=True)
    deserved = DecimalText(allow_null=True)
    capability = DecimalText(allow_null=True)
    allocation_ratio = DecimalText(allow_null=True)
    is_estimated = serializers.BooleanField(source="estimated", read_only=True)
    mode_sentence = Text()
    uncovered_slices = SlicesField(source="stranded_slices", read_only=True)
    amounts = MeasuresSerializer(read_only=True)
    units = UnitSerializer(many=True, read_only=True)


class CapacityTotalsSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Over all pools of all pages: cards as whole cards, the rest in GPU-equivalents. Held and free leave out the
    clusters in `without_pods` and compare with `allocatable_of_read_gpu_equivalents`, reserved those in
    `without_quota`; null: nothing of the kind was read anywhere."""

    pools = serializers.IntegerField(read_only=True)
    nodes = serializers.IntegerField(read_only=True)
    physical_devices = serializers.IntegerField(read_only=True)
    device_buckets = BucketsField(source="buckets", read_only=True)
    allocatable_devices = serializers.IntegerField(read_only=True)
    allocatable_gpu_equivalents = DecimalText(source="allocatable")
    allocatable_of_read_gpu_equivalents = DecimalText(source="allocatable_of_read")
    held_bound_gpu_equivalents = DecimalText(source="held_bound", allow_null=True)
    held_reserved_gpu_equivalents = DecimalText(source="held_reserved", allow_null=True)
    free_gpu_equivalents = DecimalText(source="free", allow_null=True)
    stranded_gpu_equivalents = DecimalText(source="stranded", allow_null=True)
    over_held_gpu_equivalents = DecimalText(source="over_held", allow_null=True)
    held_admitted_gpu_equivalents = DecimalText(source="held_admitted", allow_null=True)
    nominal_gpu_equivalents = DecimalText(source="nominal", allow_null=True)
    ceiling_gpu_equivalents = DecimalText(source="ceiling", allow_null=True)
    without_pods = serializers.SerializerMethodField(help_text="Clusters whose pods were never read.")
    without_quota = serializers.SerializerMethodField(
        help_text="Clusters where Kueue or Volcano is installed, as far as known, and was never read."
    )

    def get_without_pods(self, totals: Totals) -> list[str]:
        return [cluster.slug for cluster in totals.without_pods]

    def get_without_quota(self, totals: Totals) -> list[str]:
        return [cluster.slug for cluster in totals.without_quota]


class RefSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """An object that a note is about."""

    kind = Text()
    namespace = Text()
    name = Text()


class NoteSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Something that needs a look: `code` is stable, `text` a sentence in the language of the request; `refs` the
    objects that cause it, queues and jobs only for readers who see every team's."""

    code = Text()
    cluster = Text(source="cluster.slug")
    text = Text()
    objects = serializers.ListField(child=Text(), read_only=True)
    refs = RefSerializer(many=True, read_only=True)


@documented(operation="capacity", summary="Pools: physical, allocatable, promised and held")
class CapacityView(ListView):
    route = "capacity"
    item = PoolSerializer
    filter_class = ClusterForm
    needs = CAPACITY_SOURCES
    key_shape = (int, str, str)
    extra_fields: Mapping[str, Any] = {
        "totals": CapacityTotalsSerializer(read_only=True),
        "left_out_clusters": serializers.ListField(
            child=Text(), read_only=True, help_text="Clusters whose nodes were never read: in no number here."
        ),
        "notes": NoteSerializer(many=True, read_only=True),
    }

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[PoolRow]:
        self.report = capacity_report(now=reading.now, clusters=reading.clusters)
        return page_of_rows(
            self.report.pools,
            key=lambda pool: (pool.cluster.pk, pool.model, pool.sharing_mode),
            after=after,
            size=size,
        )

    def totals(self, reading: Reading) -> Mapping[str, Any]:
        return {
            "totals": CapacityTotalsSerializer(self.report.totals).data,
            "left_out_clusters": [cluster.slug for cluster in self.report.missing],
            "notes": NoteSerializer(
                readable(self.report.notes, every_team=reading.team_ids is None), many=True
            ).data,
        }
