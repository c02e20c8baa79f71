"""What claims hold. Input: claims and the devices that are listed; output: `Held`.

Invariants: a device is held once, however many pods share its claim; admin access holds nothing; a share counts once
by its id; a claim that nobody reserves holds all the same; a device that is not listed holds nothing, its claim is an
orphan. Results of drivers that are no accelerators' are left alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from apps.fleet.dra.model import ClaimObject, DeviceKey, DraDevice, Holder, Spec

ONE = Fraction(1)


@dataclass(slots=True)
class Held:
    """`shares`: device → what each claim holds of it, as parts of the device; `claims`: those claims.
    Several claims on a device that is not divided by amounts hold equal parts of it."""

    shares: dict[DeviceKey, dict[tuple[str, str], Fraction]] = field(default_factory=dict)
    claims: dict[DeviceKey, list[ClaimObject]] = field(default_factory=dict)
    holders: dict[DeviceKey, list[Holder]] = field(default_factory=dict)
    orphans: list[ClaimObject] = field(default_factory=list)
    without_pod: list[ClaimObject] = field(default_factory=list)
    admin: list[ClaimObject] = field(default_factory=list)


def held_by(
    claims: Iterable[ClaimObject], devices: Mapping[DeviceKey, DraDevice], drivers: Collection[str]
) -> Held:
    """`drivers`: those whose devices are accelerators."""
    found = Held()
    taken: dict[DeviceKey, dict[str, tuple[ClaimObject, Spec]]] = defaultdict(dict)
    for claim in sorted(claims, key=lambda claim: (claim.namespace, claim.name)):
        results = [result for result in claim.status["results"] if result["driver"] in drivers]
        if any(result["admin"] for result in results):
            found.admin.append(claim)
        holding = [result for result in results if not result["admin"]]
        if not holding:
            continue
        keys = [DeviceKey(result["driver"], result["pool"], result["device"]) for result in holding]
        if not claim.status["reserved_for"] and any(key in devices for key in keys):
            found.without_pod.append(claim)
        if any(key not in devices for key in keys):
            found.orphans.append(claim)
        for key, result in zip(keys, holding, strict=True):
            if key in devices:
                taken[key].setdefault(
                    result["share_id"] or f"{claim.namespace}/{claim.name}", (claim, result)
                )
    for key, shares in taken.items():
        found.shares[key] = _parts(devices[key], list(shares.values()))
        found.claims[key] = [claim for claim, _result in shares.values()]
        found.holders[key] = _holders(found.claims[key])
    return found


def _parts(device: DraDevice, shares: list[tuple[ClaimObject, Spec]]) -> dict[tuple[str, str], Fraction]:
    """Each claim's part of a device: by what it consumes where that is said, else equal parts of what is left.
    Together never more than the device."""
    if len(shares) == 1 and not device.multiple:
        claim = shares[0][0]
        return {(claim.namespace, claim.name): ONE}
    consumed = [_consumed(device, result) if device.multiple else None for _claim, result in shares]
    known = sum((part for part in consumed if part is not None), Fraction(0))
    silent = consumed.count(None)
    equal = max(Fraction(0), ONE - known) / silent if silent else Fraction(0)
    parts: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for (claim, _result), part in zip(shares, consumed, strict=True):
        parts[claim.namespace, claim.name] += equal if part is None else part
    over = max(ONE, known)  # shares of a device that has shrunk since
    return {claim: part / over for claim, part in parts.items()}


def _consumed(device: DraDevice, result: Spec) -> Fraction | None:
    """The largest part that a share takes of any of the device's capacities; None when it does not say."""
    parts = [
        Fraction(Decimal(amount)) / Fraction(device.capacity[name])
        for name, amount in result["consumed"].items()
        if device.capacity.get(name)
    ]
    return max(parts, default=None)


def _holders(claims: Iterable[ClaimObject]) -> list[Holder]:
    pods = {
        Holder(claim.namespace, consumer["name"], consumer["uid"])
        for claim in claims
        for consumer in claim.status["reserved_for"]
        if consumer["kind"] == "Pod"
    }
    return sorted(pods)
