"""The words of DRA counting: what goes in, and what comes out. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from apps.fleet.inventory import Group

Spec = Mapping[str, Any]


class PoolKey(NamedTuple):
    driver: str
    pool: str


class DeviceKey(NamedTuple):
    driver: str
    pool: str
    device: str


class Holder(NamedTuple):
    """A pod that reserves a claim."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ClassObject:
    """A DeviceClass as stored (worker/parsers/devices.py says what `spec` holds)."""

    name: str
    created_at: datetime | None
    spec: Spec


@dataclass(frozen=True, slots=True)
class ClaimObject:
    """A ResourceClaim as stored."""

    namespace: str
    name: str
    spec: Spec
    status: Spec


@dataclass(frozen=True, slots=True)
class DraDevice:
    """One listed device: a card, a partition of one, or a card as virtual machines get it ("vfio").

    `node`: "" where several nodes reach it; `tainted`: the taints that keep work away, as text, "" for none;
    `multiple`: may be allocated several times, by `capacity`; `consumes`: (set, counter) → amount that it takes of
    its pool; `resource`: what a unit of it is called; `incomplete`, `down`: see PoolState."""

    key: DeviceKey
    node: str
    vendor: str
    model: str
    kind: str
    type: str
    profile: str
    resource: str
    uuid: str = ""
    parent: str = ""
    pci: str = ""
    numa: str = ""
    pcie: str = ""
    memory_bytes: int | None = None
    tainted: str = ""
    multiple: bool = False
    capacity: Mapping[str, Decimal] = field(default_factory=dict)
    consumes: Mapping[tuple[str, str], Decimal] = field(default_factory=dict)
    incomplete: bool = False
    down: bool = False

    @property
    def is_part(self) -> bool:
        return self.kind == "partition"


@dataclass(frozen=True, slots=True)
class DraCard:
    """One physical card. `group`: its place in NodeDevices.groups; `uuid`: "" when nothing names it; `why`: what
    keeps work away from it, "" for nothing; `units`: the devices that it is counted as (itself, or partitions that
    exist together); `listed`: everything under which it is listed."""

    group: int
    uuid: str
    why: str
    units: tuple[DraDevice, ...]
    listed: tuple[DraDevice, ...]


@dataclass(slots=True)
class NodeDevices:
    """What drivers say of one node.

    `groups`: as those of fleet.inventory, origin "dra"; `held_in`: beside each group, its usable units that claims
    hold, by resource; `held_blocked`: units that claims hold and that a taint keeps from new work, so that they are
    in no usable unit; `held`: all that claims hold; `incomplete`: pools whose numbers are the last good ones, or a
    lower bound; `codes`: "dra_incomplete"; `down_since`: when the drivers of groups that are down withdrew them."""

    groups: list[Group] = field(default_factory=list)
    held_in: list[dict[str, Decimal]] = field(default_factory=list)
    held: dict[str, Decimal] = field(default_factory=dict)
    held_blocked: dict[str, Decimal] = field(default_factory=dict)
    cards: list[DraCard] = field(default_factory=list)
    incomplete: set[PoolKey] = field(default_factory=set)
    codes: list[str] = field(default_factory=list)
    down_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Adrift:
    """What needs a look in a cluster, by name: claims as (namespace, name), drivers with how many devices they list
    (`unregistered`: no vendor file knows them) or cards (`unowned`: no single node has them). Not about single nodes."""

    without_pod: tuple[tuple[str, str], ...] = ()
    orphans: tuple[tuple[str, str], ...] = ()
    unregistered: tuple[tuple[str, int], ...] = ()
    unowned: tuple[tuple[str, int], ...] = ()


@dataclass(slots=True)
class DraView:
    """One cluster. `shared`: devices that no single node owns; `orphans`: claims allocated on devices that no slice
    lists; `admin`: claims with admin access, which hold nothing; `held_without_pod`: allocated on listed devices,
    and nobody reserves them: the devices are taken all the same; `claims`, `holders`: claims that hold a device, and
    the pods that reserve them; `held_by_claim`: (namespace, name) → units by
    (node, resource), the share of a device that several claims use being each claim's own; `unregistered`: drivers
    that the registry does not know → devices."""

    by_node: dict[str, NodeDevices] = field(default_factory=dict)
    shared: NodeDevices = field(default_factory=NodeDevices)
    incomplete: list[PoolKey] = field(default_factory=list)
    held_without_pod: list[ClaimObject] = field(default_factory=list)
    orphans: list[ClaimObject] = field(default_factory=list)
    admin: list[ClaimObject] = field(default_factory=list)
    claims: dict[DeviceKey, list[ClaimObject]] = field(default_factory=dict)
    holders: dict[DeviceKey, list[Holder]] = field(default_factory=dict)
    held_by_claim: dict[tuple[str, str], dict[tuple[str, str], Decimal]] = field(default_factory=dict)
    unregistered: dict[str, int] = field(default_factory=dict)
    devices: dict[DeviceKey, DraDevice] = field(default_factory=dict)

    @property
    def adrift(self) -> Adrift:
        return Adrift(
            without_pod=tuple((claim.namespace, claim.name) for claim in self.held_without_pod),
            orphans=tuple((claim.namespace, claim.name) for claim in self.orphans),
            unregistered=tuple(sorted(self.unregistered.items())),
            unowned=tuple(sorted(Counter(card.listed[0].key.driver for card in self.shared.cards).items())),
        )
