"""Cards that a split by software registers in an annotation of its node: HAMi and Volcano's vGPU. Pure.

Input: the annotation; output: cards by UUID with their split, memory, model, health and NUMA node, and the group that
they make. One unit is 1/split of a card, in compute and in memory: what a pod gets of it, it asks for by itself.
Forms, told apart by their fields:
  HAMi      uuid,split,MiB,cores,type,numa,health[,index,mode]:…      or a JSON list of {id, count, devmem, …}
  Volcano   uuid,split,MiB,type,health[,mode]:…
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from apps.core.gpu import SharingMode
from apps.fleet.inventory.facts import VendorFacts
from apps.fleet.inventory.groups import Device, Group

MIB = 2**20
USUAL_SPLIT = 10  # HAMi's and Volcano's default, where no register can be read
_HEALTH = frozenset(("true", "false"))


@dataclass(frozen=True, slots=True)
class Card:
    uuid: str
    split: int
    memory_bytes: int | None
    kind: str
    healthy: bool
    numa: str


def register_text(facts: VendorFacts) -> str:
    """The first register that the node carries, "" when none."""
    return next((text for name in facts.vendor.annotations if (text := facts.annotations.get(name))), "")


def read_register(text: str) -> list[Card]:
    """Its cards; none where it cannot be read."""
    if not text.lstrip().startswith("["):
        entries = (entry.split(",") for entry in text.split(":"))
        return [card for parts in entries if (card := _from_parts([part.strip() for part in parts]))]
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return [_from_object(entry) for entry in found if isinstance(entry, dict)]


def _from_parts(parts: list[str]) -> Card | None:
    if len(parts) < 5 or not parts[1].isdigit():
        return None
    if parts[4].lower() in _HEALTH:  # Volcano
        kind, health, numa = parts[3], parts[4], ""
    elif len(parts) >= 7:
        kind, health, numa = parts[4], parts[6], parts[5]
    else:
        return None
    return Card(parts[0], max(1, int(parts[1])), _memory(parts[2]), kind, health.lower() != "false", numa)


def _from_object(entry: dict[str, Any]) -> Card:
    split, numa = _memory(entry.get("count"), 1), entry.get("numa")
    return Card(
        str(entry.get("id") or ""),
        split or 1,
        _memory(entry.get("devmem")),
        str(entry.get("type") or ""),
        entry.get("health") is not False,
        "" if numa is None else str(numa),
    )


def _memory(value: Any, unit: int = MIB) -> int | None:
    """A count of MiB in bytes; None where it is none."""
    text = str(value)
    return int(text) * unit or None if text.isascii() and text.isdigit() else None


def outlived(facts: VendorFacts, cards: list[Card], resource: str) -> bool:
    """Whether the node offers its cards whole again: the split is gone, its annotation is not."""
    total, shares = facts.capacity.get(resource, facts.total), sum(card.split for card in cards)
    return not facts.down and 0 < total <= len(cards) < shares


def register_group(facts: VendorFacts, model: str, cards: list[Card], resource: str) -> list[Group]:
    """The group of `resource` by its register; with an unreadable one, cards by the usual split."""
    if not cards:
        facts.codes.append("register_unreadable")
    total = facts.capacity.get(resource, facts.total)
    shares = sum(card.split for card in cards)
    count = len(cards) or math.ceil(total / USUAL_SPLIT)
    if not count:
        return []
    part = Fraction(count, max(shares, math.ceil(total))) if cards else Fraction(1, USUAL_SPLIT)
    memories = {card.memory_bytes for card in cards}
    card_memory = memories.pop() if len(memories) == 1 else None
    unit = facts.unit(
        resource,
        "",
        part,
        memory=None if card_memory is None else math.floor(card_memory * part),
        memory_equivalents=part,
        at_least=max(total, Decimal(shares)) if facts.down else total,
    )
    kinds = sorted({card.kind for card in cards if card.kind})
    if len(kinds) > 1:
        facts.codes.append("mixed_models")
        model = " + ".join(kinds)
    return [
        Group(
            facts.vendor.vendor,
            model or (kinds[0] if kinds else ""),
            SharingMode.VGPU,
            count,
            (unit,),
            unhealthy_cards=sum(not card.healthy for card in cards) if cards else None,
            plugin_down=facts.down,
            estimated=not cards,
            codes=facts.said(),
            devices=tuple(_device(card) for card in cards if card.uuid),
            card_memory_bytes=card_memory,
        )
    ]


def _device(card: Card) -> Device:
    return Device(card.uuid, card.healthy, "" if card.healthy else "the register says unhealthy", card.numa)
