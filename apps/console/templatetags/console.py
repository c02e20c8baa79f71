"""Template filters for words of the upper apps; `portal` has those that need nothing above core."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from apps.admissions.labels import layer_label
from apps.capacity.labels import CAPACITY_TYPES, bucket_label
from apps.capacity.stack_labels import source_label
from apps.console.queue_tree import Amounts
from apps.console.queue_tree import amount as line_amount
from apps.console.team_rows import cause_tag
from apps.core.formats import NOT_APPLICABLE, show_missing, show_value
from apps.fleet.models import Cluster
from apps.observations.models import Workload
from apps.quotas.rows import QuotaRow
from apps.quotas.sentences import amount_text, describe, is_bytes, noun_of
from apps.quotas.what_if_places import PlacedFault, input_id

register = template.Library()


@register.filter
def bucket(name: str) -> str:
    return bucket_label(name)


@register.filter
def capacity_type(name: str) -> str:
    """How a node was bought, in words."""
    return str(CAPACITY_TYPES.get(name, name))


@register.filter
def said_by(source: str) -> str:
    """Who names a version, in words."""
    return source_label(source)


@register.simple_tag
def without(clusters: Iterable[Cluster]) -> SafeString:
    """Names the clusters that a number leaves out."""
    return show_missing([cluster.name for cluster in clusters])


@register.filter
def layer(name: str) -> str:
    return layer_label(name)


@register.filter
def cause(name: str) -> SafeString:
    return cause_tag(name)


@register.simple_tag
def amount(row: QuotaRow, name: str) -> str | SafeString:
    """One number of a quota row in its resource's unit; None reads "–": the queue has no such thing."""
    value: Decimal | None = getattr(row, name)
    if value is None:
        return NOT_APPLICABLE
    return amount_text(row.resource, value) if value and is_bytes(row.resource) else show_value(value)


@register.filter
def of_line(value: Decimal | None, line: Amounts) -> SafeString:
    """One number of a line of the queue tree, as its rows write it."""
    return mark_safe(line_amount(line, value))  # noqa: S308 -- a number, escaped where it is written


@register.filter
def noun(row: QuotaRow) -> str:
    """What a quota row counts, in words."""
    return noun_of(row)


@register.filter
def sentence(row: QuotaRow) -> str:
    """A quota row in plain words."""
    return describe(row)


@register.filter
def state(name: str) -> str:
    """A workload's state in words; one we do not know reads as it is."""
    return str(dict(Workload.State.choices).get(name, name))


@register.filter(name="of")
def amount_of(quantity: str, resource: str) -> str:
    """A stored quantity with its unit: "34359738368" of memory is "32 GiB"."""
    return amount_text(resource, Decimal(quantity))


@register.simple_tag
def at_input(faults: Iterable[PlacedFault], name: str) -> SafeString:
    """Attributes of the input of this name: its id, and what ties it to its faults when it has any."""
    own = input_id(name)
    if all(fault.name != name for fault in faults):
        return format_html('name="{}" id="{}"', name, own)
    return format_html('name="{0}" id="{1}" aria-invalid="true" aria-describedby="{1}-fault"', name, own)


@register.simple_tag
def faults_at(faults: Iterable[PlacedFault], name: str) -> SafeString | str:
    """The faults of the input of this name, to stand after it; nothing when it has none."""
    texts = [(fault.text,) for fault in faults if fault.name == name]
    if not texts:
        return ""
    lines = format_html_join(" ", "{}", texts)
    return format_html('<span class="fault" id="{}-fault">{}</span>', input_id(name), lines)
