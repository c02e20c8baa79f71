"""Template filters for words of the upper apps; `portal` has those that need nothing above core."""

from __future__ import annotations

from django import template
from django.utils.safestring import SafeString

from apps.admissions.labels import layer_label
from apps.capacity.labels import bucket_label
from apps.console.team_rows import cause_tag
from apps.observations.models import Workload

register = template.Library()


@register.filter
def bucket(name: str) -> str:
    return bucket_label(name)


@register.filter
def layer(name: str) -> str:
    return layer_label(name)


@register.filter
def cause(name: str) -> SafeString:
    return cause_tag(name)


@register.filter
def state(name: str) -> str:
    """A workload's state in words; one we do not know reads as it is."""
    return str(dict(Workload.State.choices).get(name, name))
