"""What one unit of a row is, as REST tells it."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.api.fields import Text


class KindSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Of rows with a `resource` and a `unit`. Null: not known."""

    resource = Text()
    model = serializers.SerializerMethodField()
    sharing_mode = serializers.SerializerMethodField()
    profile = serializers.SerializerMethodField()
    weight = serializers.SerializerMethodField(
        help_text="Whole cards per unit, an exact fraction such as 1/7."
    )

    def get_model(self, row: Any) -> str | None:
        return row.unit.model or None

    def get_sharing_mode(self, row: Any) -> str | None:
        return row.unit.sharing_mode or None

    def get_profile(self, row: Any) -> str | None:
        return row.unit.profile or None

    def get_weight(self, row: Any) -> str | None:
        weight = row.unit.equivalents
        return None if weight is None else f"{weight.numerator}/{weight.denominator}"
