"""Cards: every physical card, whether it can be used and why not, who holds it, and what its exporter says."""

from __future__ import annotations

from itertools import islice
from typing import Any

from rest_framework import serializers

from apps.api.base import ListView, Reading
from apps.api.fields import DecimalText, Instant, Text
from apps.api.pagination import Key, Page
from apps.api.quotas import team_slugs
from apps.api.schema import documented
from apps.capacity.card_filters import CardForm
from apps.capacity.card_labels import attribution_sentence, holder_sentence
from apps.capacity.carding import Holder
from apps.capacity.cards import CardRow, iter_cards, without_others
from apps.observations.models import Source

NEEDS = (Source.NODES.value, Source.PODS.value, Source.DEVICES.value, Source.DCGM.value)


class HolderSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A pod on a card. `how`: "telemetry" (the exporter names it), "claim" (its ResourceClaim does), "only" (no other
    is possible), "one_of" (one of the pods so marked holds the card), "perhaps" (it holds one of the cards so
    marked). Names are "" where the pod is another team's."""

    namespace = Text()
    pod = Text()
    team = serializers.SerializerMethodField()
    how = Text()

    def get_team(self, holder: Holder) -> str | None:
        slugs: dict[int | None, str] = self.context["slugs"]
        return slugs.get(holder.team_id)


class IdleSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Why a held card counts as idle: its highest utilisation in `samples` of `expected_samples` of the last half
    hour, and the part of its memory that was taken all the time."""

    highest_ratio = DecimalText()
    samples = serializers.IntegerField(read_only=True)
    expected_samples = serializers.IntegerField(source="expected", read_only=True)
    since = Instant()
    memory_ratio = DecimalText(allow_null=True)
    is_memory_held = serializers.BooleanField(source="memory_held", read_only=True)


class ShareSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A pod of a shared card; `utilisation_ratio` is null unless it was measured for this pod."""

    namespace = Text()
    pod = Text()
    utilisation_ratio = Text(source="ratio", allow_null=True)


class CardInstanceSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A partition of a card."""

    instance = Text()
    profile = Text()
    holders = HolderSerializer(many=True, read_only=True)
    utilisation_ratio = DecimalText(allow_null=True)
    utilisation_source = Text()
    memory_used_bytes = serializers.IntegerField(allow_null=True, read_only=True)
    memory_total_bytes = serializers.IntegerField(allow_null=True, read_only=True)
    idle = IdleSerializer(allow_null=True, read_only=True)


class CardSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """One physical card; `position` counts within its group on the node, `device` is "" where nobody names it.
    `bucket` is "" while the card is usable; with `is_identified` false so many cards are in the bucket, and nobody
    says which. `idle` is null where the card works, is not held, or is not known well enough."""

    cluster = Text(source="cluster.slug")
    node = Text()
    vendor = Text()
    model = Text()
    model_label = Text()
    sharing_mode = Text()
    group = serializers.IntegerField(read_only=True)
    position = serializers.IntegerField(read_only=True)
    device = Text()
    origin = Text()
    bucket = Text()
    bucket_label = Text()
    reason = Text(source="why")
    is_identified = serializers.BooleanField(source="identified", read_only=True)
    state = Text()
    holders = HolderSerializer(many=True, read_only=True)
    holders_note = serializers.SerializerMethodField()
    instances = CardInstanceSerializer(many=True, read_only=True)
    utilisation_ratio = DecimalText(allow_null=True)
    utilisation_source = Text()
    attribution = Text()
    attribution_note = serializers.SerializerMethodField()
    shares = ShareSerializer(many=True, read_only=True)
    memory_used_bytes = serializers.IntegerField(allow_null=True, read_only=True)
    memory_total_bytes = serializers.IntegerField(allow_null=True, read_only=True)
    power_watts = DecimalText(allow_null=True)
    xid = serializers.IntegerField(allow_null=True, read_only=True)
    driver = Text()
    sampled_at = Instant(allow_null=True)
    idle = IdleSerializer(allow_null=True, read_only=True)
    numa = Text()
    pcie_root = Text(source="pcie")

    def get_holders_note(self, row: CardRow) -> str:
        return holder_sentence(row)

    def get_attribution_note(self, row: CardRow) -> str:
        return attribution_sentence(row)


@documented(
    operation="devices", summary="Cards: their state and why, who holds them, what their exporter says"
)
class DevicesView(ListView):
    route = "devices"
    item = CardSerializer
    filter_class = CardForm
    needs = NEEDS
    key_shape = (int, str, int, int)

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[CardRow]:
        """Nodes are laid out only as far as the page reaches."""
        start = None if after is None else (int(after[0]), str(after[1]))
        rows = iter_cards(now=reading.now, clusters=reading.clusters, after=start, **reading.form.wanted())
        left = (row for row in reading.form.narrowed(rows) if after is None or row.key > after)
        taken = list(islice(left, size + 1))
        shown = without_others(taken[:size], reading.team_ids)
        return Page(shown, shown[-1].key if len(taken) > size else None)

    def context(self, reading: Reading) -> dict[str, Any]:
        return {"reading": reading, "slugs": team_slugs(reading)}
