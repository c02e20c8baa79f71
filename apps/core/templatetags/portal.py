"""Template tags for values, times and bars. All drawing is SVG with attributes: the CSP allows no inline style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from apps.core import formats, gpu

register = template.Library()
Number = Decimal | int | float


@register.simple_tag
def value(
    number: Any,
    *,
    unit: str = "",
    age: int | None = None,
    missing: Sequence[str] = (),
    places: int = 1,
) -> SafeString:
    """A value in one of the five states, see `formats.show_value`."""
    return formats.show_value(number, unit=unit, age_seconds=age, missing=missing, places=places)


@register.filter
def number(amount: Number | None) -> str:
    """A number inside a sentence; only for values that are known."""
    return formats.NOT_APPLICABLE if amount is None else formats.number_text(amount)


@register.filter
def duration(seconds: Number | None) -> str:
    return formats.NOT_APPLICABLE if seconds is None else formats.duration_text(seconds)


@register.filter
def percent(ratio: Number | None) -> str:
    return formats.NOT_APPLICABLE if ratio is None else formats.percent_text(ratio)


@register.filter
def filesize(size: int | None) -> str:
    return formats.NOT_APPLICABLE if size is None else formats.bytes_text(size)


@register.filter
def resource(name: str) -> str:
    return formats.resource_text(name)


@register.filter
def minus(amount: Decimal) -> Decimal:
    return -amount


@register.filter
def sharing(mode: str) -> str:
    """A sharing mode in words."""
    return gpu.mode_label(mode)


@register.filter
def unit(name: str) -> str:
    return gpu.unit_label(name)


@register.filter
def share_of(part: Number | None, whole: Number) -> str:
    """For SVG attributes: "42.00%"."""
    return share(part or 0, whole)


@register.filter
def quantities(asked: Mapping[str, Decimal]) -> str:
    return formats.quantities_text(asked)


@register.filter
def since(at: datetime | None) -> str:
    """How long ago, as a duration."""
    return (
        formats.NOT_APPLICABLE if at is None else formats.duration_text((timezone.now() - at).total_seconds())
    )


@register.filter
def moment(at: datetime | None, beside: datetime | None = None) -> str | SafeString:
    """An instant in the display zone, with its machine-readable form. `beside`: the other end of a span."""
    if at is None:
        return formats.NOT_APPLICABLE
    return format_html('<time datetime="{}">{}</time>', at.isoformat(), formats.time_text(at, beside=beside))


def share(part: Number, whole: Number) -> str:
    """`part` of `whole` as an SVG percentage within 0 … 100."""
    if not whole:
        return "0%"
    return f"{min(max(float(part) / float(whole), 0.0), 1.0) * 100:.2f}%"


@register.simple_tag
def segments(
    parts: Sequence[tuple[str, Number]],
    *,
    scale: Number,
    label: str,
    thin: bool = False,
    marks: Sequence[tuple[str, Number]] = (),
) -> SafeString:
    """A stacked bar: `parts` are (class, amount) from left to right, `scale` the amount of the full width; `marks`
    are (class, amount) of vertical lines over it."""
    shapes, left = [], 0.0
    for name, amount in parts:
        width = float(amount)
        if width > 0:
            x, wide = share(left, scale), share(width, scale)
            shapes.append(f'<rect x="{x}" y="0" width="{wide}" height="100%" class="{escape(name)}"/>')
            left += width
    lines = [
        f'<rect x="{share(at, scale)}" y="0" width="2" height="100%" class="{escape(name)}"/>'
        for name, at in marks
    ]
    kind = "bar thin" if thin else "bar"
    drawn = mark_safe("".join([*shapes, *lines]))  # noqa: S308 -- numbers, and names that were escaped
    return format_html(
        '<svg class="{}" role="img" aria-label="{}"><title>{}</title>{}</svg>', kind, label, label, drawn
    )


@register.simple_tag
def quota_bar(used: Number | None, nominal: Number | None, ceiling: Number | None) -> SafeString:
    """Use against quota: filled up to `used` (amber past nominal), a line at nominal, full width = ceiling.
    Without a ceiling the width is the larger of use and nominal. Unknown use is said in words."""
    if used is None:
        return formats.show_value(None)
    ends = [
        Decimal(str(n)) for n in (used, nominal, ceiling) if n is not None and Decimal(str(n)).is_finite()
    ]
    scale = max([*ends, Decimal(1)])
    line = Decimal(str(nominal)) if nominal is not None else None
    within = min(Decimal(str(used)), line) if line is not None else Decimal(str(used))
    over = Decimal(str(used)) - within
    mark = (
        ""
        if line is None
        else format_html('<rect x="{}" y="0" width="2" height="20" class="mark"/>', share(line, scale))
    )
    label = _("%(used)s used of %(nominal)s nominal, ceiling %(ceiling)s") % {
        "used": formats.number_text(used),
        "nominal": formats.NOT_APPLICABLE if nominal is None else formats.number_text(nominal),
        "ceiling": _("no limit") if ceiling is None else formats.number_text(ceiling),
    }
    return format_html(
        '<svg class="quotabar" role="img" aria-label="{}"><title>{}</title>'
        '<rect x="0" y="4" width="100%" height="12" rx="3" class="f-free"/>'
        '<rect x="0" y="4" width="{}" height="12" rx="3" class="f-held"/>'
        '<rect x="{}" y="4" width="{}" height="12" class="f-borrowed"/>{}</svg>',
        label,
        label,
        share(within, scale),
        share(within, scale),
        share(over, scale),
        mark,
    )
