"""One row in one measure: its numbers, how they read, and its bar. Input: pool or node rows; output: text and SVG.

A measure is "units" (of the row's one kind; GPU-equivalents where it has several), "equivalents" or "memory".
Everything that a table shows of a row comes from `amounts_of`, so that numbers and bars are always in one measure.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from html import escape

from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_lazy as _

from apps.capacity.rows import MEASURES, Amounts, NodeRow, PoolRow
from apps.console.links import with_query
from apps.core.formats import NOT_APPLICABLE, bytes_text, number_text, show_value
from apps.core.gpu import mode_label, unit_label
from apps.core.templatetags.portal import segments

ZERO = Decimal(0)
BYTES = "byte"
MEASURE_LABELS: dict[str, Promise] = {
    "units": _("Units"),
    "equivalents": _("GPU-equivalents"),
    "memory": _("Memory"),
}
# Why cards are out of use, in three shades: somebody has to repair it, it passes or was chosen, it is kept back.
_BROKEN = frozenset({"lost", "node_not_ready", "plugin_down", "device_unhealthy"})
_RESERVED = frozenset({"platform_reserve"})
SHADES = ("f-broken", "f-away", "f-reserve")


def measure_of(request: HttpRequest) -> str:
    """`?measure=`; anything else than a measure reads as units."""
    wanted = request.GET.get("measure", "")
    return wanted if wanted in MEASURES else "units"


def measure_links(request: HttpRequest) -> list[tuple[Promise, str, bool]]:
    """(label, address, is the present one): the same page in each measure."""
    chosen = measure_of(request)
    return [
        (MEASURE_LABELS[name], with_query(request, measure="" if name == "units" else name), name == chosen)
        for name in MEASURES
    ]


def shade_of(bucket: str) -> str:
    if bucket in _BROKEN:
        return "f-broken"
    return "f-reserve" if bucket in _RESERVED else "f-away"


def shaded(buckets: Mapping[str, int | Decimal]) -> list[tuple[str, Decimal]]:
    """(class, amount) of what is out of use, one per shade."""
    sums = dict.fromkeys(SHADES, ZERO)
    for bucket, n in buckets.items():
        sums[shade_of(bucket)] += n
    return list(sums.items())


def amounts_of(row: PoolRow | NodeRow, measure: str) -> Amounts:
    """The row's numbers. In units a row of several kinds is read as GPU-equivalents, which `unit` then says."""
    if measure == "units" and row.unit == "gpu_equivalent":
        return row.amounts["equivalents"]
    return row.amounts[measure]


def amount_text(amount: Decimal, unit: str) -> str:
    return bytes_text(int(amount)) if unit == BYTES else number_text(amount)


def show_amount(amount: Decimal | None, unit: str) -> SafeString | str:
    """None reads "not collected"."""
    if amount is None or not amount:
        return show_value(amount)
    return amount_text(amount, unit)


def unit_text(unit: str) -> str:
    return gettext("GPU memory") if unit == BYTES else unit_label(unit)


def capacity_bar(row: PoolRow | NodeRow, measure: str) -> SafeString | str:
    """Held, stranded, free and out of use on the scale of what is there; a line for what is committed, a fainter
    one for its ceiling. In words where the measure has no number, or nobody knows what is held."""
    return _bar(amounts_of(row, measure), tuple(row.buckets.items()), get_language())


@lru_cache(maxsize=4096)
def _bar(found: Amounts, buckets: tuple[tuple[str, int], ...], language: str | None) -> SafeString | str:
    """Drawn once for rows with the same numbers, in one language: thousands of nodes are few of them."""
    if found.physical is None or found.allocatable is None:
        return show_value(None)
    known = found.held_bound is not None and found.free is not None
    usable = (
        [
            ("f-held", found.held_bound or ZERO),
            ("f-stranded", found.stranded or ZERO),
            ("f-free", found.free or ZERO),
        ]
        if known
        else [("f-unknown-use", found.allocatable)]
    )
    # What exists beside the units (slices that no instance covers) is in no unit and not drawn.
    out = max(ZERO, found.physical - found.allocatable)
    cards = sum(n for _bucket, n in buckets)
    parts = [*usable, *((shade, out * n / cards) for shade, n in shaded(dict(buckets)) if cards)]
    ends = [found.physical, found.allocatable + out, found.nominal or ZERO]
    widest = max(*ends, Decimal(1))
    ceiling = found.ceiling if found.ceiling is not None and found.ceiling.is_finite() else None
    # A ceiling may reach far past what exists: the line then stands at the edge.
    scale = min(max(widest, ceiling or ZERO), widest * Decimal("1.25"))
    marks = [] if ceiling is None or ceiling == found.nominal else [("mark-ceiling", min(ceiling, scale))]
    marks += [] if found.nominal is None else [("mark", found.nominal)]
    return segments(parts, scale=scale, label=_bar_label(found, out), marks=marks, thin=True)


def _bar_label(found: Amounts, out: Decimal) -> str:
    # Of memory that is known but not divided nobody can say what is held.
    unknown = NOT_APPLICABLE if found.unit == BYTES else _words(get_language(), "unknown")

    def text(amount: Decimal | None) -> str:
        return unknown if amount is None else amount_text(amount, found.unit)

    sentence = _words(get_language(), "bar" if found.nominal is None else "committed")
    return sentence % {
        "held": text(found.held_bound),
        "free": text(found.free),
        "stranded": text(found.stranded),
        "out": text(out),
        "nominal": text(found.nominal),
    }


@lru_cache(maxsize=32)
def _words(language: str | None, name: str) -> str:
    """A table asks for the same few sentences once per row; `language` is the active one."""
    if name == "unknown":
        return gettext("not collected")
    if name == "bar":
        return gettext("%(held)s held, %(free)s free, %(stranded)s stranded, %(out)s out of use")
    return gettext(
        "%(held)s held, %(free)s free, %(stranded)s stranded, %(out)s out of use; %(nominal)s committed"
    )


@lru_cache(maxsize=64)
def mode_text(language: str | None, mode: str) -> str:
    """A sharing mode in the active language."""
    return mode_label(mode)


def linked(text: SafeString | str, url: str) -> SafeString | str:
    if not url:
        return text
    return mark_safe(f'<a href="{escape(url)}">{conditional_escape(text)}</a>')  # noqa: S308 -- escaped here
