"""What a cluster's ResourceSlices offer and its ResourceClaims hold, counted. Pure.

`count_slices` is the way in (counting.py); model.py says what goes in and comes out. pools.py: which slices count;
reading.py: listed devices by the registry; names.py: what their units are called; cards.py: which listings are one
card, and what it is counted as; held.py: what claims hold; cel.py: as much CEL as device classes use.
"""

from __future__ import annotations

from apps.fleet.dra.counting import count_slices, counted_drivers
from apps.fleet.dra.held import held_by
from apps.fleet.dra.model import (
    Adrift,
    ClaimObject,
    ClassObject,
    DeviceKey,
    DraCard,
    DraDevice,
    DraView,
    Holder,
    NodeDevices,
    PoolKey,
)

__all__ = [
    "Adrift",
    "ClaimObject",
    "ClassObject",
    "DeviceKey",
    "DraCard",
    "DraDevice",
    "DraView",
    "Holder",
    "NodeDevices",
    "PoolKey",
    "count_slices",
    "counted_drivers",
    "held_by",
]
