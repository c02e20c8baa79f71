"""Every card of a node as a row: its bucket, who holds it, and what its exporter says. Pure.

Input: a node's waterfalls with how their units are taken, what telemetry saw on the node, the pods that hold
something there; output: `Card`s. Invariants
- per group the rows are its physical cards, and the rows of a bucket are the waterfall's, always: telemetry gives
  cards names and never adds or removes one; what it sees beyond the count is left to the coverage numbers;
- whole cards: the rows that are held, free and stranded are the units that are;
- a pod is named on a card only where somebody says so: the exporter, a claim, or that no other card or pod is left;
  what is only known as one of several says so in `how`;
- a pod that the exporter still names but that holds nothing any more is not a holder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, TypeVar

from apps.capacity.health import BUCKETS, Bucket
from apps.capacity.waterfall import Fall, Share
from apps.core.gpu import PARTITIONED, SharingMode
from apps.fleet.inventory import Device, Group
from apps.fleet.registry import registry

if TYPE_CHECKING:
    from apps.observations.selectors import Sample

ZERO = Decimal(0)
SURE = frozenset(("telemetry", "claim", "only", "one_of"))
"""How a holder is known where the card is held for certain; "perhaps": some of the cards with it are."""
SAID = frozenset(("telemetry", "claim"))
"""Those of them that somebody says, and are not left over."""
SHARED = frozenset((SharingMode.TIME_SLICING, SharingMode.MPS, SharingMode.VGPU))
"""Modes in which several pods are on one card, without partitions of their own."""
PodKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod on a card. `how`: "telemetry" (the exporter names it), "claim" (its ResourceClaim names the card),
    "only" (no other pod or card is possible), "one_of" (the card is held by one of the pods so marked), "perhaps"
    (the pod holds one of the cards so marked). `since`: when the pod came to the node."""

    namespace: str
    pod: str
    team_id: int | None
    how: str
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class HoldingPod:
    """A living pod on the node. `units`: accelerator units by resource, those served by a claim left out; `devices`:
    names of the cards that its claims got; `beyond`: the exporter names it on a card that the node's count does not
    have, so that of no other card it can be told for certain that it is the pod's."""

    namespace: str
    name: str
    team_id: int | None
    units: Mapping[str, Decimal]
    since: datetime | None = None
    devices: frozenset[str] = frozenset()
    beyond: bool = False

    def holder(self, how: str) -> Holder:
        if self.beyond and how not in SAID:
            how = "perhaps"
        return Holder(self.namespace, self.name, self.team_id, how, self.since)


class Sighting(Protocol):
    """As much of a card that telemetry saw as it takes to find its group."""

    @property
    def device(self) -> str: ...
    @property
    def vendor(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def partitioned(self) -> bool: ...


S = TypeVar("S", bound=Sighting)


@dataclass(frozen=True, slots=True)
class Seen:
    """A card that telemetry saw: its newest samples, one per instance, or one for the whole card. `in_turn`: pods that
    the exporter named on it one after the other; those of them that still live share it."""

    device: str
    samples: tuple[Sample, ...]
    in_turn: tuple[PodKey, ...] = ()

    @property
    def whole(self) -> Sample | None:
        return next((sample for sample in self.samples if not sample.instance), None)

    @property
    def instances(self) -> tuple[Sample, ...]:
        return tuple(sample for sample in self.samples if sample.instance)

    @property
    def partitioned(self) -> bool:
        return bool(self.instances)

    @property
    def vendor(self) -> str:
        return next((sample.vendor for sample in self.samples if sample.vendor), "")

    @property
    def model(self) -> str:
        return next((sample.model for sample in self.samples if sample.model), "")

    @property
    def failed(self) -> bool:
        return any(sample.xid for sample in self.samples)

    @property
    def pods(self) -> tuple[PodKey, ...]:
        """The pods that the exporter names, the one on the card or those that share it."""
        found: dict[PodKey, None] = dict.fromkeys(self.in_turn)
        for sample in self.samples:
            if sample.pod:
                found[sample.namespace, sample.pod] = None
            for share in sample.shares:
                found[share.get("namespace") or "", share.get("pod") or ""] = None
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Card:
    """One physical card. `device`: its name, "" where nobody says; `position`: 1… within its group; `origin`: who
    names it, "telemetry", "dra", "register", or "count" for nobody. `bucket` None: usable. `identified` False: the
    count says that so many cards are in the bucket, nobody says which. `state`: "out", "held", "free", "stranded",
    or "unknown" where pods were not read or a shared card may be held or not."""

    group: Group
    group_index: int
    position: int
    device: str
    origin: str
    bucket: Bucket | None
    why: str
    identified: bool
    state: str
    holders: tuple[Holder, ...] = ()
    seen: Seen | None = None
    numa: str = ""
    pcie: str = ""

    @property
    def surely_held(self) -> bool:
        return bool(self.holders) and all(holder.how in SURE for holder in self.holders)


@dataclass(slots=True)
class _Slot:
    """A card while it is being described."""

    index: int
    name: str = ""
    device: Device | None = None
    seen: Seen | None = None
    origin: str = "count"
    bucket: Bucket | None = None
    why: str = ""
    identified: bool = True
    state: str = ""
    holders: list[Holder] = field(default_factory=list)
    claimed: bool = False

    @property
    def held(self) -> bool:
        """Whether somebody says that just this card is held."""
        return bool(self.holders) or self.claimed

    @property
    def usable(self) -> bool:
        return self.bucket is None


def lay_cards(
    falls: Sequence[Fall],
    shares: Sequence[Sequence[Share]] | None,
    seen: Iterable[Seen],
    pods: Sequence[HoldingPod],
    claimed: Collection[str] = (),
) -> list[Card]:
    """The cards of one node, group by group. `shares`: how each group's units are taken, as waterfall.shares makes
    them; None: pods were never read; `claimed`: names of the cards that claims hold, whether or not a pod is known."""
    seen = list(seen)
    placed = place(falls, seen)
    pods = _marked_beyond(pods, seen, placed)
    slots = [_slots(item.group, found) for item, found in zip(falls, placed, strict=True)]
    for slot in (slot for found in slots for slot in found):
        slot.claimed = bool(slot.name) and slot.name in claimed
    for item, found in zip(falls, slots, strict=True):
        _lay_buckets(item, found)
    if shares is None:
        _unread(slots)
    else:
        left = {(pod.namespace, pod.name): dict(pod.units) for pod in pods}
        for item, found in zip(falls, slots, strict=True):
            _name_holders(item, found, pods, left)
        whole = [n for n, item in enumerate(falls) if item.group.mode is SharingMode.EXCLUSIVE]
        _fill_whole([(falls[n], shares[n], slots[n]) for n in whole], pods, left)
        for n, item in enumerate(falls):
            if n not in whole:
                _fill_shared(item, shares[n], slots[n], pods)
    return [
        _card(item.group, n, slot)
        for n, (item, found) in enumerate(zip(falls, slots, strict=True))
        for slot in found
    ]


# ---- which card telemetry speaks of ---------------------------------------------------------------------------


def place(falls: Sequence[Fall], seen: Iterable[S]) -> list[list[S]]:
    """Telemetry's cards by group: the best match first, never more than a group has cards."""
    placed: list[list[S]] = [[] for _ in falls]
    named = {(device.uuid, index) for index, found in enumerate(falls) for device in found.group.devices}
    wanted = sorted(
        (rank, item.device, index, item)
        for item in seen
        for index, found in enumerate(falls)
        if (rank := 0 if (item.device, index) in named else _rank(found.group, item)) is not None
    )
    done: set[str] = set()
    for _best, device, index, item in wanted:
        if device not in done and len(placed[index]) < falls[index].group.cards:
            placed[index].append(item)
            done.add(device)
    return placed


def _marked_beyond(
    pods: Iterable[HoldingPod], seen: Iterable[Seen], placed: Iterable[Sequence[Seen]]
) -> list[HoldingPod]:
    counted = {item.device for found in placed for item in found}
    beyond = {key for item in seen if item.device not in counted for key in item.pods}
    return [replace(pod, beyond=True) if (pod.namespace, pod.name) in beyond else pod for pod in pods]


def _rank(group: Group, seen: Sighting) -> int | None:
    """How well a sampled card fits a group that does not list it, 1 best; None: not at all."""
    return _fit(group.vendor, group.model, group.mode, seen.vendor, seen.model, seen.partitioned)


@lru_cache(maxsize=1024)
def _fit(
    vendor: str, model: str, mode: SharingMode, seen_vendor: str, seen_model: str, split: bool
) -> int | None:
    if seen_vendor in ("", vendor):
        same_mode = split is (mode in PARTITIONED)
        return 1 + (not same_mode) + 2 * (plain_model(model) != plain_model(seen_model))
    # A splitter of cards is not the vendor that the exporter names, and its own monitor names the splitter.
    monitor = registry().vendors.get(seen_vendor)
    return 5 if mode is SharingMode.VGPU or (monitor and not monitor.has_devices) else None


@lru_cache(maxsize=1024)
def plain_model(name: str) -> str:
    """A model's name as labels and exporters both could write it."""
    letters = "".join(letter for letter in name.lower() if letter.isalnum())
    return letters.removeprefix("nvidia")


def _slots(group: Group, placed: Sequence[Seen]) -> list[_Slot]:
    """The group's cards: those with a name first."""
    by_name = {item.device: item for item in placed}
    origin = "dra" if group.origin == "dra" else "register"
    slots = [
        _Slot(0, device.uuid, device, by_name.pop(device.uuid, None), origin) for device in group.devices
    ]
    slots += [_Slot(0, name, None, item, "telemetry") for name, item in sorted(by_name.items())]
    slots = slots[: group.cards]
    slots += [_Slot(0) for _ in range(group.cards - len(slots))]
    for index, slot in enumerate(slots):
        slot.index = index
    return slots


# ---- buckets --------------------------------------------------------------------------------------------------


def _lay_buckets(item: Fall, slots: list[_Slot]) -> None:
    """Give each bucket its number of cards; which ones, as far as anybody says."""
    for bucket in BUCKETS:
        count = item.buckets.get(bucket, 0)
        why = item.evidence.get(bucket, "")
        left = [slot for slot in slots if slot.usable]
        if bucket is Bucket.DEVICE_UNHEALTHY:
            said = [slot for slot in left if slot.device and not slot.device.healthy][:count]
            for slot in said:
                slot.bucket, slot.why = bucket, (slot.device.why if slot.device else "") or why
            count -= len(said)
            left = [slot for slot in left if slot.usable]
        if not count:
            continue
        unseen = [slot for slot in left if slot.seen is None]
        # A card that nobody sees any more while all others are seen is the lost one.
        sure = len(left) == count or (
            bucket is Bucket.LOST and len(unseen) == count and len(left) > len(unseen)
        )
        for slot in sorted(left, key=_likely(bucket))[:count]:
            slot.bucket, slot.why, slot.identified = bucket, why, sure


def _likely(bucket: Bucket) -> Callable[[_Slot], tuple[bool, bool, int]]:
    """The order in which cards are taken for a bucket whose cards nobody names."""
    if bucket is Bucket.PLATFORM_RESERVE:
        return lambda slot: (bool(slot.seen and slot.seen.pods), False, -slot.index)
    return lambda slot: (not (slot.seen and slot.seen.failed), slot.seen is not None, -slot.index)


# ---- holders --------------------------------------------------------------------------------------------------


def _unread(slots: Iterable[list[_Slot]]) -> None:
    """Nobody knows what is held; what the exporter names is shown."""
    for slot in (slot for found in slots for slot in found):
        slot.state = "unknown"
        if slot.seen:
            slot.holders = [Holder(namespace, pod, None, "telemetry") for namespace, pod in slot.seen.pods]


def _resources(item: Fall) -> list[str]:
    return [found.unit.resource for found in item.units]


def _name_holders(
    item: Fall, slots: Iterable[_Slot], pods: Sequence[HoldingPod], left: dict[PodKey, dict[str, Decimal]]
) -> None:
    """Pods that a claim or the exporter names on a card. A whole card is one unit of what its pod asked for, so
    that no pod is named on more cards than it holds."""
    resources = _resources(item)
    whole = item.group.mode is SharingMode.EXCLUSIVE
    by_name = {(pod.namespace, pod.name): pod for pod in pods}
    for slot in slots:
        claiming = [pod for pod in pods if slot.name and slot.name in pod.devices]
        slot.holders = [pod.holder("claim") for pod in claiming]
        for key in slot.seen.pods if slot.seen else ():
            named = by_name.get(key)
            if named is None or named in claiming or (whole and slot.holders):
                continue
            resource = next((name for name in resources if left[key].get(name, ZERO) > 0), None)
            if resource is None:
                continue
            if whole:
                left[key][resource] -= 1
            slot.holders.append(named.holder("telemetry"))


_Whole = tuple[Fall, Sequence[Share], list[_Slot]]


def _fill_whole(
    groups: Sequence[_Whole], pods: Sequence[HoldingPod], left: dict[PodKey, dict[str, Decimal]]
) -> None:
    """Whole cards: as many are held, on usable cards and beyond them, as units are. Groups that offer the same
    resource are filled together, as a request names no group."""
    for resource in dict.fromkeys(name for item, _shares, _slots_ in groups for name in _resources(item)):
        offering = [
            (share, [slot for slot in slots if not slot.state])
            for item, shares, slots in groups
            for found, share in zip(item.units, shares, strict=True)
            if found.unit.resource == resource
        ]
        candidates = [pod for pod in pods if left[pod.namespace, pod.name].get(resource, ZERO) > 0]
        usable = [slot for _share, slots in offering for slot in slots if slot.usable]
        out = [slot for _share, slots in offering for slot in slots if not slot.usable]
        stranded = any(share.stranded for share, _slots_ in offering)
        held = math.ceil(sum((share.held for share, _slots_ in offering), ZERO))
        over = math.ceil(sum((share.over for share, _slots_ in offering), ZERO))
        for slot in usable:
            slot.state = "held" if slot.held else ""
        open_ = [slot for slot in usable if not slot.state]
        _spread(open_, held - (len(usable) - len(open_)), candidates)
        for slot in usable:
            slot.state = slot.state or ("stranded" if stranded else "free")
        bare = [slot for slot in out if not slot.held]
        _spread(bare, over - (len(out) - len(bare)), candidates)
        for slot in out:
            slot.state = "out"
    for _item, _shares, slots in groups:
        for slot in slots:
            slot.state = slot.state or ("free" if slot.usable else "out")


def _spread(slots: Sequence[_Slot], held: int, candidates: Sequence[HoldingPod]) -> None:
    """Lay `held` cards, of which nobody says which they are, on the first of these."""
    if held <= 0:
        return
    sure = held >= len(slots)
    how = "perhaps" if not sure else "only" if len(candidates) == 1 else "one_of"
    for slot in slots[:held]:
        slot.state = "held"
        slot.holders = [pod.holder(how) for pod in candidates]


def _fill_shared(item: Fall, shares: Sequence[Share], slots: list[_Slot], pods: Sequence[HoldingPod]) -> None:
    """Cards of several units: held where a pod is named; of the others so many for certain as the units need at
    least, and so many perhaps as there are pods that nobody named."""
    resources = _resources(item)
    named = {(holder.namespace, holder.pod) for slot in slots for holder in slot.holders}
    others = [
        pod
        for pod in pods
        if (pod.namespace, pod.name) not in named and any(pod.units.get(name, ZERO) > 0 for name in resources)
    ]
    if len(slots) == 1:
        slots[0].holders += [pod.holder("only") for pod in others]
        others = []
    bare = [slot for slot in slots if slot.usable and not slot.held]
    surely = max(0, _least_cards(item, shares) - sum(slot.held for slot in slots if slot.usable))
    units = sum((pod.units.get(name, ZERO) for pod in others for name in resources), ZERO)
    perhaps = min(len(bare), math.ceil(units)) if others else 0
    surely = min(surely, perhaps)
    stranded = any(share.stranded for share in shares)
    for slot in slots:
        slot.state = "out" if not slot.usable else "held" if slot.held else ""
    sure_which = surely == len(bare)
    for index, slot in enumerate(bare[:perhaps]):
        slot.state = "held" if index < surely else "unknown"
        how = "perhaps" if not sure_which else "only" if len(others) == 1 else "one_of"
        slot.holders = [pod.holder(how) for pod in others]
    for slot in slots:
        slot.state = slot.state or ("stranded" if stranded else "free")


def _least_cards(item: Fall, shares: Sequence[Share]) -> int:
    """The fewest usable cards that the held units can be on."""
    parts = (
        found.unit.equivalents * Fraction(share.held) for found, share in zip(item.units, shares, strict=True)
    )
    return math.ceil(sum(parts, Fraction(0)))


def _card(group: Group, index: int, slot: _Slot) -> Card:
    return Card(
        group=group,
        group_index=index,
        position=slot.index + 1,
        device=slot.name,
        origin=slot.origin,
        bucket=slot.bucket,
        why=slot.why,
        identified=slot.identified,
        state=slot.state,
        holders=tuple(slot.holders),
        seen=slot.seen,
        numa=slot.device.numa if slot.device else "",
        pcie=slot.device.pcie if slot.device else "",
    )


def hide_others(holders: Iterable[Holder], shown: Callable[[Holder], bool]) -> tuple[Holder, ...]:
    """Holders for a reader who may not see whose pods the others are."""
    return tuple(
        holder if shown(holder) else replace(holder, namespace="", pod="", team_id=None) for holder in holders
    )
