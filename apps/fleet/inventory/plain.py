"""Cards of a vendor without special rules, and of one whose split keeps a register. Pure.

Devices are cards, partitions and fixed shares make cards by the vendor's table (`partitions`), shares without a
register by the usual split, and a count label below capacity means that each card is offered several times. What one
partition or share has of the memory no label says.
"""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

from apps.core.gpu import SharingMode, split_product
from apps.fleet.inventory.facts import VendorFacts
from apps.fleet.inventory.groups import Group
from apps.fleet.inventory.register import USUAL_SPLIT, outlived, read_register, register_group, register_text
from apps.fleet.registry import COUNTED, classify_resource


def plain(facts: VendorFacts) -> list[Group]:
    return [
        _group(facts, resource, total) for resource, total in sorted(facts.capacity.items()) if total
    ] or _labelled(facts)


def _model(facts: VendorFacts) -> str:
    several = facts.keyed_models if not facts.model else []
    if len(several) > 1:
        facts.codes.append("mixed_models")
    found = facts.model or " + ".join(several) or facts.vendor.default_model
    if not found:
        facts.codes.append("no_model")
    return found


def _group(facts: VendorFacts, resource: str, total: Decimal) -> Group:
    mode, profile, per_card, estimated = _split(facts, resource, total)
    whole = mode is SharingMode.EXCLUSIVE
    memory = None if mode is SharingMode.PARTITION else facts.memory(facts.vendor.labels.memory)
    part = Fraction(1, per_card)
    model = _model(facts)
    unit = facts.unit(
        resource,
        profile,
        part,
        memory=memory if whole else None,
        memory_equivalents=part if whole else None,
        at_least=total if facts.down else Decimal(0),
    )
    return Group(
        facts.vendor.vendor,
        model,
        mode,
        math.ceil(total / per_card),
        (unit,),
        plugin_down=facts.down,
        estimated=estimated,
        codes=facts.said(),
        card_memory_bytes=memory,
    )


def _split(facts: VendorFacts, resource: str, total: Decimal) -> tuple[SharingMode, str, int, bool]:
    """How a resource's units are parts of cards: mode, profile, units per card, and whether that is a guess."""
    labels, known = facts.vendor.labels, classify_resource(resource)
    profile = (
        (known.profile if known else "") or facts.label(labels.profile) or facts.label(labels.partitioning)
    )
    per_card, certain = facts.vendor.partitions.get(profile, 1), profile in facts.vendor.partitions
    if known and known.unit == "share":
        if not profile:
            facts.codes.append("register_unreadable")
            per_card = USUAL_SPLIT
        return SharingMode.VGPU, profile, per_card, not certain
    if per_card > 1 or (known and known.profile):
        return SharingMode.PARTITION, profile, per_card, not certain or bool(known and known.same_as)
    count = facts.count
    if count and total > count and total % count == 0:
        return SharingMode.TIME_SLICING, "", int(total / count), False
    return SharingMode.EXCLUSIVE, "", 1, False


def _labelled(facts: VendorFacts) -> list[Group]:
    """Nothing is offered and nothing remembered, but labels count cards."""
    if not facts.count:
        return []
    return [_group(facts, _resource(facts), Decimal(facts.count))]


def _resource(facts: VendorFacts) -> str:
    """What the node offers or offered of this vendor, shares before devices, else what the vendor offers first."""
    offered = sorted(facts.capacity, key=lambda name: (not facts.capacity[name], not _is_share(name), name))
    usual = (entry.examples[0] for entry in facts.vendor.resources if entry.unit in COUNTED)
    return next(itertools.chain(offered, usual))


def _is_share(resource: str) -> bool:
    known = classify_resource(resource)
    return known is not None and known.unit == "share"


def registered(facts: VendorFacts) -> list[Group]:
    """By the register where the node carries one that still holds, which lists all of its cards; else as it comes."""
    resource, text = _resource(facts), register_text(facts)
    cards = read_register(text)
    if text and not outlived(facts, cards, resource):
        model = split_product(facts.model).model or facts.vendor.default_model
        return register_group(facts, model, cards, resource)
    return plain(facts)
