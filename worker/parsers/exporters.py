"""Series of device exporters as Prometheus answers them → rows of observations.DeviceSample.

Input: series by metric name, instant vectors or matrices; output: one row per (device, instance, time). What a
metric means, its scale and the labels that name a device, a node and a workload come from the device registry.
Rules, each because installations differ:
- a node is named by a target label, else as the exporter names it, never by the exporter's own pod; a device by a
  name that is unique in the world, else by its node and its position there;
- who uses it stands in exported_pod when the scrape does not honour labels, else in pod, where the exporter itself
  must not be taken for the user; decided per scrape job and label;
- a shared card may come once per pod: the row keeps the value of the card's own series, else the largest; `_use`
  says what that tells of the pods;
- utilisation is the first rung of the registry's ladder that the device has, with its source; what means something
  on whole cards only is not taken from a card that is partitioned;
- board power is repeated on every instance: only one row per card and time carries it;
- a series that leaves the device's name out has the one that others of the same answer give its position;
- what is no measurement is dropped and reported: what the vendor's exporter prints for "not available" as blank,
  anything else (NaN, infinite, out of range) as a fault. Absent stays None, never 0.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from apps.fleet.registry import registry
from apps.fleet.vendors import Metric, Vendor

from .base import Row, to_json

UP = "up"
COLUMNS = (
    "sampled_at",
    "device",
    "instance",
    "node_name",
    "model",
    "namespace",
    "pod",
    "utilisation_ratio",
    "utilisation_source",
    "memory_used_bytes",
    "memory_total_bytes",
    "power_watts",
    "xid",
    "vendor",
    "profile",
    "driver",
    "attribution",
    "shares",
)

_READ = frozenset(
    ("utilisation", "memory_used", "memory_free", "memory_reserved", "memory_total", "power", "xid")
)
_LARGEST = 1e15
_LIMITS = {"utilisation": 1.0001, "power": 1e6, "xid": float(2**31 - 1)}
"""The largest scaled value that is a measurement; a gauge that says more is blank."""
_NODE_LABELS = ("node", "kubernetes_node", "exported_node")
_LONGEST_NAME = 128
BLANK = "blank"


class _Known(NamedTuple):
    """A metric that is read, with its vendor and its place in the registry's order."""

    vendor: Vendor
    metric: Metric
    rank: int


@lru_cache(maxsize=1)
def metrics() -> Mapping[str, _Known]:
    """Every metric that this module reads, by name."""
    found = registry()
    return {
        name: _Known(found.vendors[vendor], metric, rank)
        for rank, (name, (vendor, metric)) in enumerate(found.metrics.items())
        if metric.means in _READ
    }


@lru_cache(maxsize=16)
def _named(means: str, *, whole: bool) -> tuple[str, ...]:
    """The metrics of one meaning that say something of a whole card, or of a part of one: the best first."""
    return tuple(
        name
        for name, known in metrics().items()
        if known.metric.means == means and (whole or not known.metric.whole_only)
    )


@lru_cache(maxsize=64)
def _node_labels(vendor: str) -> tuple[str, ...]:
    """Labels that name a node: the target's before the exporter's own."""
    return tuple(dict.fromkeys((*_NODE_LABELS, *registry().vendors[vendor].identity.node)))


@lru_cache(maxsize=1)
def queries() -> tuple[str, ...]:
    """Selectors of everything that is read: one for all names that are vendors' own, one more for each set of labels
    that has to tell a vendor's plainly named metrics from other software's."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {(): []}
    for name, known in metrics().items():
        groups.setdefault(tuple(sorted(known.metric.where.items())), []).append(name)
    return tuple(_selector(names, where) for where, names in groups.items())


def _selector(names: Sequence[str], labels: Iterable[tuple[str, str]] = ()) -> str:
    matchers = [f'__name__=~"{"|".join(names)}"', *(f'{label}="{value}"' for label, value in labels)]
    return "{" + ",".join(matchers) + "}"


def targets_query(series: Iterable[Mapping[str, Any]]) -> str:
    """The selector of the exporters themselves: the `up` of the jobs that the series come from. "" without a job."""
    jobs = sorted({job for one in series if (job := _labels(one).get("job", ""))})
    if not jobs:
        return ""
    # Escaped twice, for the regular expression and for the quoted text around it.
    words = "|".join(re.escape(job) for job in jobs)
    quoted = words.replace("\\", "\\\\").replace('"', '\\"')
    return f'{UP}{{job=~"{quoted}"}}'


class Problem(NamedTuple):
    """Values that were not taken, or series that could not be placed: how often, and the first. `blank`: the
    exporter says that it has no value, which is no fault."""

    metric: str
    reason: str
    times: int
    example: str

    @property
    def blank(self) -> bool:
        return self.reason == BLANK


@dataclass(frozen=True, slots=True)
class Samples:
    """`rows` in the order of `columns`."""

    rows: list[Row]
    columns: tuple[str, ...]
    problems: list[Problem]


class _Owner(NamedTuple):
    namespace: str
    pod: str


_NOBODY = _Owner("", "")


class _Labels(NamedTuple):
    device: str
    instance: str
    node: str
    model: str
    profile: str
    driver: str
    owner: _Owner
    shared: bool


@dataclass(slots=True)
class _Cell:
    """What is known of one (device, instance) at one time: per metric the largest value of the device's own series,
    and of each pod's."""

    vendor: str
    rank: int
    node: str = ""
    model: str = ""
    profile: str = ""
    driver: str = ""
    shared: bool = False
    owners: set[_Owner] = field(default_factory=set)
    own: dict[str, float] = field(default_factory=dict)
    parts: dict[str, dict[_Owner, float]] = field(default_factory=dict)

    def value(self, name: str) -> float | None:
        """The device's own value, else the largest of the copies per pod."""
        if name in self.own:
            return self.own[name]
        return max(self.parts[name].values()) if name in self.parts else None

    def best(self, means: str, *, whole: bool = True) -> float | None:
        """The first metric of this meaning that the device has and that means something on it."""
        return next((v for name in _named(means, whole=whole) if (v := self.value(name)) is not None), None)


_Cells = dict[tuple[str, str], _Cell]


class _Problems:
    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._first: dict[tuple[str, str], str] = {}

    def note(self, metric: str, reason: str, example: str) -> None:
        self._counts[metric, reason] += 1
        self._first.setdefault((metric, reason), example)

    def listed(self) -> list[Problem]:
        return [Problem(*key, count, self._first[key]) for key, count in self._counts.items()]


def _first(labels: Mapping[str, str], names: Iterable[str]) -> str:
    for name in names:
        if found := labels.get(name):
            return found
    return ""


class _Reader:
    """Reads labels in the way the scrape job of a series writes them."""

    def __init__(
        self, series: Sequence[tuple[Vendor, Mapping[str, str]]], targets: Iterable[Mapping[str, str]]
    ) -> None:
        self._series = series
        self._named: dict[str, Mapping[tuple[str, str, str], str]] = {}
        self._exported = {
            (labels.get("job", ""), name[len("exported_") :])
            for _vendor, labels in series
            for name, text in labels.items()
            if text and name.startswith("exported_")
        }
        self._targets = {(t.get("job", ""), t.get("instance", "")): t for t in targets}

    def _said(self, labels: Mapping[str, str], names: Iterable[str]) -> str:
        """The first of the exporter's own labels that is set; a label that the target has too is exported_…"""
        job = labels.get("job", "")
        for name in names:
            if found := labels.get(f"exported_{name}" if (job, name) in self._exported else name):
                return found
        return ""

    def _target(self, labels: Mapping[str, str]) -> Mapping[str, str]:
        return self._targets.get((labels.get("job", ""), labels.get("instance", "")), {})

    def owner(self, labels: Mapping[str, str], vendor: Vendor) -> _Owner:
        pod = self._said(labels, vendor.workload.pod)
        if not pod or any(part in pod for part in vendor.workload.exporter_pods):
            return _NOBODY
        owner = _Owner(self._said(labels, vendor.workload.namespace), pod)
        target = self._target(labels)
        return _NOBODY if owner == (target.get("namespace"), target.get("pod")) else owner

    def node(self, labels: Mapping[str, str], vendor: Vendor) -> str:
        target = self._target(labels)
        for name in _node_labels(vendor.vendor):
            place = labels.get(name)
            if place and place not in ("localhost", labels.get("pod"), target.get("pod")):
                return place
        return _first(target, _NODE_LABELS)

    def read(self, labels: Mapping[str, str], vendor: Vendor) -> _Labels | None:
        identity, node = vendor.identity, self.node(labels, vendor)
        device = _first(labels, identity.device)
        if not device:
            position = self._position(labels, vendor)
            if position is None:
                return None
            device = self._names(vendor).get(position, "") or _composed(*position)
        instance = identity.instance_of(labels)
        return _Labels(
            device,
            instance,
            node,
            _first(labels, identity.model),
            _first(labels, identity.profile) if instance else "",
            _first(labels, identity.driver),
            self.owner(labels, vendor),
            bool(_first(labels, vendor.workload.share)),
        )

    def _position(self, labels: Mapping[str, str], vendor: Vendor) -> tuple[str, str, str] | None:
        """(vendor, node or target, position there) of the series' device, None where it does not say."""
        place = self.node(labels, vendor) or labels.get("instance", "")
        position = _first(labels, vendor.identity.position)
        return (vendor.vendor, place, position) if position and place else None

    def _names(self, vendor: Vendor) -> Mapping[tuple[str, str, str], str]:
        """The one name that the vendor's series give the device of a position; looked up when one first has none."""
        if vendor.vendor not in self._named:
            found: dict[tuple[str, str, str], set[str]] = {}
            for other, labels in self._series if vendor.identity.device else ():
                name = _first(labels, vendor.identity.device) if other is vendor else ""
                if name and (position := self._position(labels, vendor)):
                    found.setdefault(position, set()).add(name)
            self._named[vendor.vendor] = {
                position: next(iter(names)) for position, names in found.items() if len(names) == 1
            }
        return self._named[vendor.vendor]


def _composed(vendor: str, place: str, position: str) -> str:
    """The name of a device that has none of its own: where it is."""
    if len(name := f"{vendor}:{place}/{position}") <= _LONGEST_NAME:
        return name
    return f"{vendor}:{hashlib.sha256(place.encode()).hexdigest()[:40]}/{position}"[:_LONGEST_NAME]


def group_by_metric(series: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The answers to `queries` and `targets_query` by metric name."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for one in series:
        found.setdefault(_labels(one).get("__name__", ""), []).append(one)
    return found


def _labels(series: Mapping[str, Any]) -> Mapping[str, str]:
    found = series.get("metric")
    return found if isinstance(found, dict) else {}


def samples(
    series_by_metric: Mapping[str, Sequence[Mapping[str, Any]]], sampled_at: datetime | None = None
) -> Samples:
    """Rows of all devices. `sampled_at` is the time of an instant query; a matrix brings its own times."""
    problems = _Problems()
    read = {name: _meant(known, series_by_metric.get(name, ())) for name, known in metrics().items()}
    reader = _Reader(
        [(metrics()[name].vendor, _labels(one)) for name, series in read.items() for one in series],
        (_labels(one) for one in series_by_metric.get(UP, ())),
    )
    cells: dict[datetime, _Cells] = {}
    times: dict[float, datetime] = {}
    for name, series in read.items():
        known = metrics()[name]
        for one in series:
            labels = reader.read(_labels(one), known.vendor)
            if labels is None:
                problems.note(name, "no label names the device", str(_labels(one))[:200])
                continue
            for stamp, text in _points(one):
                at = sampled_at or times.get(stamp) or times.setdefault(stamp, _time(stamp))
                value = _usable(known, name, text, labels.device, problems)
                _put(cells.setdefault(at, {}), labels, known, name, value)
    rows = [row for at, found in sorted(cells.items()) for row in _rows(at, found)]
    return Samples(rows, COLUMNS, problems.listed())


def _meant(known: _Known, series: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The series that are this vendor's: a plain name may be other software's as well."""
    where = known.metric.where.items()
    return [one for one in series if all(_labels(one).get(label) == value for label, value in where)]


def _points(series: Mapping[str, Any]) -> Iterator[tuple[float, Any]]:
    """(time, text) of each value; what is no such pair is left out."""
    points = series.get("values")
    if points is None:
        points = [series.get("value")]
    for point in points if isinstance(points, list) else ():
        if isinstance(point, (list, tuple)) and len(point) == 2 and isinstance(point[0], (int, float)):
            yield point[0], point[1]


def _time(stamp: float) -> datetime:
    return datetime.fromtimestamp(stamp, tz=UTC)


def _usable(known: _Known, name: str, text: Any, device: str, problems: _Problems) -> float | None:
    """The scaled value, None with a note for what is no measurement."""
    vendor, metric = known.vendor, known.metric
    try:
        value = float(text)
    except (TypeError, ValueError):
        problems.note(name, "not a number", f"{device}: {str(text)[:60]}")
        return None
    scaled = value * metric.scale
    if vendor.is_blank(value):
        problems.note(name, BLANK, f"{device}: {text}")
    elif not math.isfinite(value):
        problems.note(name, "NaN" if math.isnan(value) else "infinite", f"{device}: {text}")
    elif value < 0 or value > _LARGEST or scaled > _LIMITS.get(metric.means, _LARGEST):
        problems.note(name, "out of range", f"{device}: {text}")
    else:
        return scaled
    return None


def _put(found: _Cells, labels: _Labels, known: _Known, name: str, value: float | None) -> None:
    key = (labels.device, labels.instance)
    cell = found.get(key)
    if cell is None:
        cell = found[key] = _Cell(known.vendor.vendor, known.rank)
    if known.rank < cell.rank:
        cell.vendor, cell.rank = known.vendor.vendor, known.rank
    cell.node = cell.node or labels.node
    cell.model = cell.model or labels.model
    cell.profile = cell.profile or labels.profile
    cell.driver = cell.driver or labels.driver
    cell.shared = cell.shared or labels.shared
    owner = labels.owner
    if owner.pod:
        cell.owners.add(owner)
    if value is None:
        return
    if owner.pod:
        parts = cell.parts.setdefault(name, {})
        parts[owner] = max(value, parts.get(owner, 0.0))
    else:
        cell.own[name] = max(value, cell.own.get(name, 0.0))


def _rows(at: datetime, found: _Cells) -> Iterator[Row]:
    power: dict[str, float] = {}
    partitioned = {device for device, instance in found if instance}
    for (device, _instance), cell in found.items():
        if (watts := cell.best("power")) is not None:
            power[device] = max(power.get(device, 0.0), watts)
    for (device, instance), cell in sorted(found.items()):
        whole = device not in partitioned
        ratio, source = _utilisation(cell, whole=whole)
        used, total = _memory(cell, whole=whole)
        watts_now = power.pop(device, None)
        use = _use(cell, whole=whole)
        xid = cell.best("xid")
        yield (
            at,
            device,
            instance,
            cell.node,
            cell.model,
            use.owner.namespace,
            use.owner.pod,
            ratio,
            source,
            used,
            total,
            None if watts_now is None else Decimal(f"{watts_now:.2f}"),
            None if xid is None else int(xid),
            cell.vendor,
            cell.profile,
            cell.driver,
            use.attribution,
            to_json(use.shares),
        )


def _ratio(value: float) -> Decimal:
    return Decimal(f"{min(value, 1.0):.4f}")


def _utilisation(cell: _Cell, *, whole: bool) -> tuple[Decimal | None, str]:
    for name in _named("utilisation", whole=whole):
        if (value := cell.value(name)) is not None:
            return _ratio(value), metrics()[name].metric.source
    return None, ""


def _memory(cell: _Cell, *, whole: bool) -> tuple[int | None, int | None]:
    """(used, total) in bytes. Where the exporter gives no total it is used + free + reserved."""
    used, free, reserved, total = (
        cell.best(f"memory_{part}", whole=whole) for part in ("used", "free", "reserved", "total")
    )
    if total is None and used is not None and free is not None:
        total = used + free + (reserved or 0.0)
    return None if used is None else round(used), None if total is None else round(total)


# ---- what the labels tell of pods -----------------------------------------------------------------------------


class _Use(NamedTuple):
    """The columns namespace and pod, attribution, and shares of DeviceSample."""

    owner: _Owner = _NOBODY
    attribution: str = ""
    shares: tuple[Mapping[str, str | None], ...] = ()


def _use(cell: _Cell, *, whole: bool) -> _Use:
    """Who uses the device: the one pod, or its pods with what was measured for each.

    Several pods on one device at one time are told apart only where their values are their own: beside a series of
    the device itself, or under a share label. Equal values are copies of the device's; without a share label,
    values that differ are the leavings of a label that went from pod to pod."""
    if not cell.owners:
        return _Use()
    if len(cell.owners) == 1:
        return _Use(next(iter(cell.owners)), "whole")
    measured = _measured(cell, whole=whole)
    if measured is not None:
        attribution = "per_process"
    elif cell.shared or _repeated(cell):
        attribution = "copies"
    else:
        attribution = "flips"
    shares = tuple(
        {
            "namespace": owner.namespace,
            "pod": owner.pod,
            "ratio": str(_ratio(measured[owner])) if measured and owner in measured else None,
        }
        for owner in sorted(cell.owners)
    )
    return _Use(_NOBODY, attribution, shares)


def _measured(cell: _Cell, *, whole: bool) -> Mapping[_Owner, float] | None:
    """Utilisation per pod where it was measured per pod, empty where only memory was; None: nothing was."""
    for name in _named("utilisation", whole=whole):
        if _is_per_pod(cell, name):
            return cell.parts[name]
    return {} if any(_is_per_pod(cell, name) for name in _named("memory_used", whole=whole)) else None


def _is_per_pod(cell: _Cell, name: str) -> bool:
    values = set(cell.parts.get(name, {}).values())
    if not values:
        return False
    own = cell.own.get(name)
    return len(values) > 1 and cell.shared if own is None else values != {own}


def _repeated(cell: _Cell) -> bool:
    """Whether some metric came for several pods, and every such one with the same value."""
    several = [set(parts.values()) for parts in cell.parts.values() if len(parts) > 1]
    return bool(several) and all(len(values) == 1 for values in several)
