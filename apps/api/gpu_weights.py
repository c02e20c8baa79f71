"""The published weights of partitions: the table that every GPU-equivalent is made with. The same for every role."""

from __future__ import annotations

from rest_framework import serializers

from apps.api.base import ListView, Reading
from apps.api.fields import Text
from apps.api.pagination import Key, Page, page_of_rows
from apps.api.schema import documented
from apps.fleet.weights import WeightRow, weight_rows


class GpuWeightSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """One partition is `compute_slices` / `card_compute_slices` of a card, exactly; by memory likewise, null where
    the vendor does not divide memory alike. Units that are not listed: a whole card is 1, a time slice, an MPS
    client and a vGPU share are 1 / units per card."""

    vendor = Text()
    model = serializers.SerializerMethodField(help_text="null: any model of the vendor")
    profile = Text()
    per_card = serializers.IntegerField(read_only=True, help_text="the most on one card")
    compute_slices = serializers.IntegerField(read_only=True)
    card_compute_slices = serializers.IntegerField(read_only=True)
    memory_slices = serializers.IntegerField(read_only=True, allow_null=True)
    card_memory_slices = serializers.IntegerField(read_only=True, allow_null=True)

    def get_model(self, row: WeightRow) -> str | None:
        return row.model or None


@documented(operation="gpu-weights", summary="Weights of partitions in GPU-equivalents")
class GpuWeightsView(ListView):
    route = "gpu-weights"
    item = GpuWeightSerializer
    key_shape = (str, str, str)

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[WeightRow]:
        return page_of_rows(
            weight_rows(), key=lambda row: (row.vendor, row.model, row.profile), after=after, size=size
        )
