"""What an inventory is made of. Pure values.

Invariants: units of different kinds are never added up, only their GPU-equivalents or their memory are; None is
"not divided" or "not said", never zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from apps.core.gpu import SharingMode

ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Unit:
    """One schedulable resource of a group. `equivalents`: whole cards per unit, by compute; `memory_equivalents`:
    by memory, None where it is not divided (time slices) or not known; `memory_bytes` per unit, None likewise."""

    resource: str
    profile: str
    capacity: Decimal
    allocatable: Decimal
    equivalents: Fraction
    memory_bytes: int | None = None
    memory_equivalents: Fraction | None = None

    @property
    def missing(self) -> Decimal:
        """Units that the plugin counts but does not offer: unhealthy."""
        return self.capacity - self.allocatable


@dataclass(frozen=True, slots=True)
class Device:
    """A card known by name. `healthy` False: its register or a taint says so, in the words of `why`."""

    uuid: str
    healthy: bool = True
    why: str = ""
    numa: str = ""
    pcie: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Cards of one model in one mode. `lost`: cards that the labels know and the plugin does not; `plugin_down`:
    the plugin offers nothing, `cards` and units are those last known. `codes`: what is odd, for notes.
    `origin`: who says so, the device plugin or a DRA driver; `devices`: the cards that are known by name (UUIDs of a
    register annotation or of ResourceSlices), as far as any are. `card_memory_bytes`: framebuffer of one card;
    `stranded_compute`, `stranded_memory`: MIG slices of these cards that no instance covers, of
    `compute_slices` and `memory_slices` per card (0: not partitioned, or not known)."""

    vendor: str
    model: str
    mode: SharingMode
    cards: int
    units: tuple[Unit, ...]
    lost: int = 0
    unhealthy_cards: int | None = None
    plugin_down: bool = False
    uninitialised: bool = False
    estimated: bool = False
    codes: tuple[str, ...] = ()
    origin: str = "plugin"
    devices: tuple[Device, ...] = ()
    card_memory_bytes: int | None = None
    compute_slices: int = 0
    memory_slices: int = 0
    stranded_compute: int = 0
    stranded_memory: int = 0

    @property
    def units_per_card(self) -> Fraction:
        """Physical units on one present card; 0 where nothing is offered."""
        present = self.cards - self.lost
        return (
            Fraction(sum((unit.capacity for unit in self.units), ZERO)) / present
            if present > 0
            else Fraction(0)
        )
