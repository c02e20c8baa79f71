"""What one unit of a GPU is: sharing modes, unit names, weights in whole GPUs, and short model names.

Input: product names and MIG profiles as labels say them; output: plain values. Weights come from the published
table `data/mig.yaml`, keyed by (model, profile): the same profile name is another part of another card.
Invariant: units of different kinds are never added up, only their GPU-equivalents are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import msgspec
import yaml
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

TABLE = Path(__file__).parent / "data" / "mig.yaml"


class SharingMode(StrEnum):
    """How cards of a node are offered. `partition`: hardware partitions that are not MIG (AMD, Ascend, Neuron cores);
    `vgpu`: split by HAMi or Volcano."""

    EXCLUSIVE = "exclusive"
    MIG = "mig"
    PARTITION = "partition"
    TIME_SLICING = "time_slicing"
    MPS = "mps"
    VGPU = "vgpu"


MODE_LABELS: dict[str, Promise] = {
    SharingMode.EXCLUSIVE: _("whole cards"),
    SharingMode.MIG: _("MIG instances"),
    SharingMode.PARTITION: _("card partitions"),
    SharingMode.TIME_SLICING: _("time slices"),
    SharingMode.MPS: _("MPS clients"),
    SharingMode.VGPU: _("vGPU shares"),
}
MODE_NOTES: dict[str, Promise] = {
    SharingMode.EXCLUSIVE: _("One unit is a whole card."),
    SharingMode.MIG: _("One MIG instance is a hardware partition: own memory, own fault isolation."),
    SharingMode.PARTITION: _("One unit is a fixed part of a card, as its vendor divides it."),
    SharingMode.TIME_SLICING: _("Several slices share one card: no memory or fault isolation."),
    SharingMode.MPS: _(
        "Several clients share one card: memory is limited for each, faults are not isolated."
    ),
    SharingMode.VGPU: _("Several shares of one card, kept apart by software."),
}
UNITS: dict[str, str] = {
    SharingMode.EXCLUSIVE: "card",
    SharingMode.MIG: "mig_instance",
    SharingMode.PARTITION: "card_partition",
    SharingMode.TIME_SLICING: "time_slice",
    SharingMode.MPS: "mps_client",
    SharingMode.VGPU: "vgpu_share",
}
UNIT_LABELS: dict[str, Promise] = {
    "card": _("cards"),
    "mig_instance": _("MIG instances"),
    "card_partition": _("card partitions"),
    "time_slice": _("time slices"),
    "mps_client": _("MPS clients"),
    "vgpu_share": _("vGPU shares"),
    "gpu_equivalent": _("GPU-equivalents"),
    "device": _("devices"),
}


def mode_sentence(mode: str, units_per_card: Fraction | int = 0) -> str:
    """One line, in the active language, that says what a unit of a mode is and is not. `units_per_card`: where it
    is a whole number above 1 the sentence names it."""
    count = int(units_per_card) if units_per_card == int(units_per_card) else 0
    counted = {
        SharingMode.TIME_SLICING: ngettext(
            "%(n)d time slice has one card: no memory or fault isolation.",
            "%(n)d time slices share one card: no memory or fault isolation.",
            count,
        ),
        SharingMode.MPS: ngettext(
            "%(n)d MPS client has one card: memory limited to 1/%(n)d, no fault isolation.",
            "%(n)d MPS clients share one card: memory limited to 1/%(n)d each, no fault isolation.",
            count,
        ),
        SharingMode.VGPU: ngettext(
            "%(n)d vGPU share has one card: limits are kept by software, no fault isolation.",
            "%(n)d vGPU shares split one card: limits are kept by software, no fault isolation.",
            count,
        ),
    }
    if count > 1 and mode in counted:
        return counted[SharingMode(mode)] % {"n": count}
    return str(MODE_NOTES.get(mode, ""))


PARTITIONED = frozenset((SharingMode.MIG, SharingMode.PARTITION))
"""Modes in which a unit is a part of a card in hardware."""


def unit_of(mode: str) -> str:
    """The unit that a sharing mode is counted in."""
    return UNITS[mode]


def mode_label(mode: str) -> str:
    return str(MODE_LABELS.get(mode, mode))


def unit_label(unit: str) -> str:
    return str(UNIT_LABELS.get(unit, unit))


# ---- MIG ------------------------------------------------------------------------------------------------------


class MigModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    match: str
    compute_slices: int
    memory_slices: int
    profiles: dict[str, tuple[int, int]]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    models: tuple[MigModel, ...]


@dataclass(frozen=True, slots=True)
class MigWeight:
    """One instance as parts of its card. `profile`: the table's name of it, which may differ in the size from what
    an exporter says. `known` False: the pair is not in the table, compute follows the profile's name (g/7) and
    `per_card` is what that leaves room for."""

    compute: Fraction
    memory: Fraction | None
    per_card: int
    known: bool
    profile: str = ""


@lru_cache(maxsize=1)
def mig_models() -> tuple[MigModel, ...]:
    """The published weight table, read once."""
    return msgspec.convert(yaml.safe_load(TABLE.read_bytes()), _Table).models


@lru_cache(maxsize=512)
def mig_model(product: str) -> MigModel | None:
    """The table's row for a product name ("NVIDIA-H100-80GB-HBM3", "NVIDIA H100 80GB HBM3")."""
    text = re.sub(r"[\s_]+", "-", product)
    return next((model for model in mig_models() if re.search(model.match, text, re.IGNORECASE)), None)


@lru_cache(maxsize=2048)
def mig_weight(product: str, profile: str) -> MigWeight:
    """Weight of one instance of `profile` ("3g.40gb", also "1g.10gb.me") on a card of `product`."""
    base = profile.split("+")[0]
    base = ".".join(base.split(".")[:2])
    model = mig_model(product)
    total = model.compute_slices if model else 7
    found = re.match(r"(\d+)g", base)
    slices = min(int(found.group(1)), total) if found else 1
    if model and (name := _in_table(model, base)):
        most, memory = model.profiles[name]
        return MigWeight(Fraction(slices, total), Fraction(memory, model.memory_slices), most, True, name)
    return MigWeight(Fraction(slices, total), None, max(1, total // max(1, slices)), False)


def _in_table(model: MigModel, profile: str) -> str:
    """The table's name of a profile: itself, else the one of as many slices whose size is less than a tenth away
    (drivers round a size up or down: 1g.11gb is 1g.12gb); "" when there is none."""
    if profile in model.profiles:
        return profile
    slices, _dot, size = profile.partition(".")
    if not (found := re.fullmatch(r"(\d+)gb", size)):
        return ""
    wanted = int(found.group(1))
    near = [
        (abs(have - wanted), name)
        for name in model.profiles
        if name.startswith(f"{slices}.")
        and 10 * abs((have := int(name.partition(".")[2].removesuffix("gb"))) - wanted) < have
    ]
    return min(near)[1] if near else ""


@dataclass(frozen=True, slots=True)
class PublishedWeight:
    """One row of the weight table: what one instance of a profile is of a card of that model, in whole slices."""

    model: str
    profile: str
    per_card: int
    compute_slices: int
    card_compute_slices: int
    memory_slices: int
    card_memory_slices: int


def published_weights() -> list[PublishedWeight]:
    """The whole table, in its order: from it every GPU-equivalent of a MIG instance can be rebuilt by hand."""
    return [
        PublishedWeight(
            model=model.name,
            profile=profile,
            per_card=most,
            compute_slices=int(profile.partition("g")[0]),
            card_compute_slices=model.compute_slices,
            memory_slices=memory,
            card_memory_slices=model.memory_slices,
        )
        for model in mig_models()
        for profile, (most, memory) in model.profiles.items()
    ]


# ---- names ----------------------------------------------------------------------------------------------------

_SUFFIX = re.compile(r"^(?P<model>.*?)(-MIG-(?P<profile>.+?))?(?P<shared>-SHARED)?$")
_NOISE = re.compile(
    r"nvidia|tesla|amd|instinct|huawei|accelerator|sxm\d*|pcie|hbm\d*e?|oam|server|edition|graphics|gpu", re.I
)


@dataclass(frozen=True, slots=True)
class Product:
    """A product label taken apart: the card's model, the MIG profile of a "single" node ("INVALID" too), and
    whether its units are marked as shared."""

    model: str
    profile: str
    shared: bool


@lru_cache(maxsize=1024)
def split_product(label: str) -> Product:
    """ "NVIDIA-L4-SHARED" → L4, shared; "…-MIG-1g.10gb" → profile 1g.10gb."""
    match = _SUFFIX.match(label)
    if match is None:
        return Product(label, "", False)
    return Product(match["model"], match["profile"] or "", bool(match["shared"]))


@lru_cache(maxsize=1024)
def short_model(model: str) -> str:
    """ "NVIDIA-H100-80GB-HBM3" → "H100 80GB"; "AMD_Instinct_MI300X_OAM" → "MI300X"; GKE's "nvidia-tesla-a100" →
    "A100"; "" stays ""."""
    words = [word for word in re.split(r"[-_\s]+", model) if word]
    kept = [word for word in words if not _NOISE.fullmatch(word)]
    short = " ".join(kept or words)
    return short.upper() if kept and model.startswith("nvidia-") and model.islower() else short


def model_label(model: str) -> str:
    """The short name for showing; says so where no label names the model."""
    return short_model(model) if model else str(_("unknown model"))


def rounded(value: Fraction) -> Decimal:
    """GPU-equivalents for showing and storing: three decimals, rounded once."""
    return (Decimal(value.numerator) / Decimal(value.denominator)).quantize(Decimal("0.001"))


def profile_label(profile: str) -> str:
    """A partition's profile for showing: "MIG 1g.10gb"; other vendors' partitions by their own name ("cpx_nps4")."""
    return f"MIG {profile}" if re.match(r"\d+g\.", profile) else profile
