"""Cards of a vendor without special rules, and of one whose split keeps a register. Pure.

Devices are cards, partitions make cards by the vendor's table (`partitions`), and a count label below capacity
means that each card is offered several times. What one partition or share has of the memory no label says.
"""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

from apps.core.gpu import SharingMode, split_product
from apps.fleet.inventory.facts import VendorFacts
from apps.fleet.inventory.groups import Group
from apps.fleet.inventory.register import outlived, read_register, register_group, register_text
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
    labels = facts.vendor.labels
    known = classify_resource(resource)
    profile = (
        (known.profile if known else "") or facts.label(labels.profile) or facts.label(labels.partitioning)
    )
    per_card, count = facts.vendor.partitions.get(profile, 1), facts.count
    mode = SharingMode.PARTITION if per_card > 1 or (known and known.profile) else SharingMode.EXCLUSIVE
    if mode is SharingMode.EXCLUSIVE and count and total > count and total % count == 0:
        mode, per_card = SharingMode.TIME_SLICING, int(total / count)
    whole, assumed = mode is SharingMode.EXCLUSIVE, bool(known and known.same_as)
    memory = facts.memory(labels.memory) if mode is not SharingMode.PARTITION else None
    part = Fraction(1, per_card)
    model = _model(facts)
    unit = facts.unit(
        resource,
        "" if mode is not SharingMode.PARTITION else profile,
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
        estimated=mode is SharingMode.PARTITION and (assumed or profile not in facts.vendor.partitions),
        codes=facts.said(),
        card_memory_bytes=memory,
    )


def _labelled(facts: VendorFacts) -> list[Group]:
    """Nothing is offered and nothing remembered, but labels count cards."""
    if not facts.count:
        return []
    return [_group(facts, _resource(facts), Decimal(facts.count))]


def _resource(facts: VendorFacts) -> str:
    """What the node offers or offered of this vendor, else what the vendor offers first."""
    offered = sorted(facts.capacity, key=lambda name: (not facts.capacity[name], name))
    usual = (entry.examples[0] for entry in facts.vendor.resources if entry.unit in COUNTED)
    return next(itertools.chain(offered, usual))


def registered(facts: VendorFacts) -> list[Group]:
    """By the register where the node carries one, else shares by the usual split and everything else as it comes."""
    resource, text = _resource(facts), register_text(facts)
    known, cards = classify_resource(resource), read_register(text)
    if (text and not outlived(facts, cards, resource)) or (known and known.unit == "share"):
        model = split_product(facts.model).model or facts.vendor.default_model
        return register_group(facts, model, cards, resource)
    return plain(facts)
