"""How values are written: decimals as strings of plain digits, times in RFC 3339 with Z, null for what is not known."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers


@extend_schema_field({"type": "string", "format": "decimal"})
class DecimalText(serializers.Field):  # type: ignore[type-arg]
    """A Decimal as text, without exponent or trailing zeros ("8", "0.5"); `keep_scale` leaves money its cents."""

    def __init__(self, *, keep_scale: bool = False, **kwargs: Any) -> None:
        kwargs.setdefault("read_only", True)
        super().__init__(**kwargs)
        self.keep_scale = keep_scale

    def to_representation(self, value: Decimal | int) -> str:
        number = Decimal(value)
        if not number.is_finite():
            return str(number)
        if self.keep_scale:
            return format(number, "f")
        text = format(number, "f")
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text in {"-0", ""} else text


class Instant(serializers.DateTimeField):
    """A time in UTC, whatever zone the pages are shown in."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("read_only", True)
        super().__init__(default_timezone=UTC, **kwargs)


def instant_or_none(at: datetime | None) -> str | None:
    found: str | None = None if at is None else Instant().to_representation(at)
    return found


class Text(serializers.CharField):
    """Text as it is, in the language of the request where it is translated."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("read_only", True)
        super().__init__(**kwargs)


class Amounts(serializers.DictField):
    """{resource: amount}; a resource that is absent was not asked for or not said, which is not zero."""

    child = DecimalText()

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("read_only", True)
        super().__init__(**kwargs)
