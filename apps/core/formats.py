"""How values read on a page. Input: plain values; output: text or safe HTML in the active language.

Invariant: a value that is not known never reads as 0. The five states (value, zero, not collected, stale,
partial) come from `show_value` alone, so that they look and read the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from html import escape
from typing import Any

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

MINUTE, HOUR, DAY = 60, 3600, 86400
NOT_APPLICABLE = "–"
_SHORT_RESOURCES = {"nvidia.com/gpu": "GPU", "amd.com/gpu": "AMD GPU"}
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def number_text(value: Decimal | int | float, *, places: int = 1) -> str:
    """Grouped by thousands in every language, at most `places` decimals, no trailing zeros."""
    if isinstance(value, int):
        return f"{value:,}"
    amount = Decimal(str(value)) if isinstance(value, float) else value
    if not amount.is_finite():
        return "∞" if amount.is_infinite() else NOT_APPLICABLE
    rounded = amount.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
    text = f"{rounded:,f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def duration_text(seconds: float | int | Decimal) -> str:
    """ "3 h 12 m": the two largest units, whole seconds below a minute."""
    total = max(0, int(seconds))
    days, rest = divmod(total, DAY)
    hours, rest = divmod(rest, HOUR)
    minutes, left = divmod(rest, MINUTE)
    if days:
        return _("%(days)d d %(hours)d h") % {"days": days, "hours": hours}
    if hours:
        return _("%(hours)d h %(minutes)02d m") % {"hours": hours, "minutes": minutes}
    if minutes:
        return _("%(minutes)d m") % {"minutes": minutes}
    return _("%(seconds)d s") % {"seconds": left}


def time_text(at: datetime, *, now: datetime | None = None, beside: datetime | None = None) -> str:
    """In the display zone, 24 h, the zone named; the date unless it is today's. `beside`: the other end of a span,
    of which both have their date or neither."""
    local = timezone.localtime(at)
    today = timezone.localtime(now or timezone.now()).date()
    days = {local.date(), timezone.localtime(beside or at).date()}
    return local.strftime("%H:%M:%S %Z" if days == {today} else "%Y-%m-%d %H:%M %Z")


def percent_text(ratio: Decimal | float) -> str:
    return f"{number_text(Decimal(str(ratio)) * 100, places=0)} %"


def money_text(amount: Decimal) -> str:
    """With the digits that it has, grouped by thousands."""
    return f"{amount:,f}"


def bytes_text(size: int) -> str:
    amount, unit = Decimal(size), 0
    while amount >= 1024 and unit < len(_BYTES) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{number_text(amount, places=0 if amount >= 10 else 1)} {_BYTES[unit]}"


def resource_text(resource: str) -> str:
    """The name without its vendor's domain; where that says too little, a usual short name."""
    return _SHORT_RESOURCES.get(resource, resource.rpartition("/")[2])


def quantities_text(asked: Mapping[str, Decimal]) -> str:
    """ "64 × GPU, 8 × mig-1g.10gb"; kinds of units are listed, never added up."""
    parts = [f"{number_text(amount)} × {resource_text(name)}" for name, amount in asked.items() if amount]
    return ", ".join(parts) or NOT_APPLICABLE


def listed(parts: Iterable[str]) -> str:
    """Words one after the other, set apart as the active language does."""
    return _(", ").join(parts)


def listed_apart(parts: Iterable[str]) -> str:
    """Like `listed`, for parts that may hold commas of their own."""
    return _("; ").join(parts)


def labelled(name: str, text: str) -> str:
    """What a text is about, and the text."""
    return _("%(name)s: %(text)s") % {"name": name, "text": text}


def show_value(
    value: Any,
    *,
    unit: str = "",
    age_seconds: int | None = None,
    missing: Sequence[str] = (),
    places: int = 1,
) -> SafeString:
    """The five states. `age_seconds`: how old a stale value is (None: fresh); `missing`: what it leaves out."""
    if value is None:
        return format_html('<span class="v v-absent">{}</span>', _("not collected"))
    is_number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    text = number_text(value, places=places) if is_number else str(value)
    text = f"{text} {unit}" if unit else text
    kind = "v-zero" if is_number and value == 0 else ""
    shown = mark_safe(f'<span class="v {kind}">{escape(text)}</span>')  # noqa: S308 -- escaped here
    if missing:
        return format_html("{} {}", shown, show_missing(missing))
    if age_seconds is not None:
        note = _("%(age)s old") % {"age": duration_text(age_seconds)}
        return format_html('{} <span class="v-stale">{}</span>', shown, note)
    return shown


def show_missing(names: Sequence[str]) -> SafeString:
    """What a value that stands in a sentence leaves out, in the look of `show_value`."""
    note = _("without %(names)s") % {"names": ", ".join(names)}
    return format_html('<span class="v-partial">{}</span>', note)
