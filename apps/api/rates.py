"""Published rate cards with their prices. Every role reads them: they stand beside every charge anyway. A card holds from
`valid_from` until the next published one."""

from __future__ import annotations

from rest_framework import serializers

from apps.api.base import ListView, Reading
from apps.api.fields import DecimalText, Instant, Text
from apps.api.pagination import Key, Page, page_of_ids
from apps.api.schema import documented
from apps.chargeback.models import RatePrice, RateVersion
from apps.chargeback.rate_cards import published

BASES = RatePrice.Basis.values
"""What is priced: reserved quota, bound pods, nominal quota, idle capacity."""


class PriceSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Of one unit-hour, or of one hour of a whole card's worth (`per`). null: of any. The closest price wins: the
    cluster's own, then its group's, then any cluster's, and of these model with mode and profile, model with mode, model
    alone."""

    id = serializers.IntegerField(read_only=True)
    basis = serializers.ChoiceField(choices=BASES, read_only=True)
    cluster = Text(source="cluster.slug", default=None, allow_null=True)
    group = serializers.SerializerMethodField()
    model = Text()
    sharing_mode = serializers.SerializerMethodField()
    profile = serializers.SerializerMethodField()
    per = serializers.ChoiceField(choices=RatePrice.Per.values, read_only=True)
    price_per_hour = DecimalText(source="amount")

    def get_group(self, price: RatePrice) -> str | None:
        return price.group or None

    def get_sharing_mode(self, price: RatePrice) -> str | None:
        return price.sharing_mode or None

    def get_profile(self, price: RatePrice) -> str | None:
        return price.profile or None


class RateGroupClusterSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A cluster, and the group by which the card's prices call it."""

    group = Text()
    cluster = Text(source="cluster.slug")


class RateSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A rate card. `borrowed_factor` and `priority_factors` {priority class: factor} multiply each other."""

    id = serializers.IntegerField(read_only=True)
    valid_from = Instant()
    currency = Text()
    borrowed_factor = DecimalText()
    priority_factors = serializers.DictField(child=serializers.CharField(), read_only=True)
    idle = serializers.ChoiceField(choices=RateVersion.Idle.values, read_only=True)
    note = Text()
    published_at = Instant()
    groups = RateGroupClusterSerializer(many=True, read_only=True, source="group_clusters.all")
    prices = PriceSerializer(many=True, read_only=True, source="prices.all")


@documented(operation="rates", summary="Published rate cards")
class RatesView(ListView):
    route = "rates"
    item = RateSerializer

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[RateVersion]:
        return page_of_ids(published(), after=after, size=size)
