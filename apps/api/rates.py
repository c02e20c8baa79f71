"""Published rates. Every role reads them: they stand beside every charge anyway."""

from __future__ import annotations

from rest_framework import serializers

from apps.api.base import ListView, Reading
from apps.api.fields import DecimalText, Instant, Text
from apps.api.pagination import Key, Page, page_of_ids
from apps.api.schema import documented
from apps.chargeback.models import Rate
from apps.chargeback.selectors import rates


class RateSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Price of one unit-hour, in force from `valid_from` until a later rate for the same thing and currency."""

    id = serializers.IntegerField(read_only=True)
    cluster = serializers.SerializerMethodField(help_text="null: any cluster")
    flavor = serializers.SerializerMethodField(help_text="null: any flavor")
    resource = Text()
    currency = Text()
    price_per_unit_hour = DecimalText(source="price_per_hour")
    valid_from = Instant()

    def get_cluster(self, rate: Rate) -> str | None:
        return rate.cluster.slug if rate.cluster else None

    def get_flavor(self, rate: Rate) -> str | None:
        return rate.flavor or None


@documented(operation="rates", summary="Published rates")
class RatesView(ListView):
    route = "rates"
    item = RateSerializer

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[Rate]:
        return page_of_ids(rates(), after=after, size=size)
