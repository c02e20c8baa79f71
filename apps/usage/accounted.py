"""Which resources time is accounted for. Pure. Input: a resource's name; output: whether it is an accelerator, one that no
vendor file knows among them: it has no price and is not lost."""

from __future__ import annotations

from apps.fleet.registry import is_device
from apps.fleet.unregistered import looks_like_accelerator


def is_held(resource: str) -> bool:
    """Whether time of it is accounted for."""
    return is_device(resource) or looks_like_accelerator(resource)
