"""DCGM exporter series as Prometheus answers them → rows of observations.DeviceSample.

Input: series by metric name, instant vectors or matrices; output: one row per (device, MIG instance, time).
Rules, each because installations differ:
- a node is named by a target label, Hostname or hostname; a device by UUID, uuid or gpu_uuid;
- who uses it stands in exported_pod when the scrape does not honour labels, else in pod, where the exporter
  itself must not be taken for the user; decided per scrape job;
- a shared card may come once per pod: the row keeps the value of the card's own series, else the largest, and
  names the pod only when there is one;
- utilisation is the first of SM_ACTIVE, GR_ENGINE_ACTIVE, GPU_UTIL that the exporter gives, with its source;
  GPU_UTIL means nothing on a MIG instance;
- board power is repeated on every MIG instance: only one row per card and time carries it;
- blank values (NaN, infinite, sentinels, out of range) are dropped and reported. Absent stays None, never 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from .base import Row

UTILISATION = {
    "DCGM_FI_PROF_SM_ACTIVE": ("sm_active", 1),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("gr_engine_active", 1),
    "DCGM_FI_DEV_GPU_UTIL": ("gpu_util", 100),
}
"""Metric → (source, divisor), the best first."""

USED, FREE, RESERVED, TOTAL = (f"DCGM_FI_DEV_FB_{name}" for name in ("USED", "FREE", "RESERVED", "TOTAL"))
POWER = "DCGM_FI_DEV_POWER_USAGE"
XID = "DCGM_FI_DEV_XID_ERRORS"
UP = "up"

METRICS: tuple[str, ...] = (*UTILISATION, USED, FREE, RESERVED, TOTAL, POWER, XID)
QUERY = '{__name__=~"' + "|".join(METRICS) + '"}'
"""One query for everything this module reads."""
TARGETS_QUERY = 'up{job=~".*dcgm.*"}'
"""The exporters themselves: their pods, put under "up", are never taken for users of a device."""

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
)

_MEBIBYTE = 1 << 20
_LARGEST = 1e15
_LIMITS = {name: 1.0001 * divisor for name, (_source, divisor) in UTILISATION.items()} | {
    "DCGM_FI_DEV_GPU_UTIL": 100.0
}


class Problem(NamedTuple):
    """Values that were not taken, or series that could not be placed: how often, and the first."""

    metric: str
    reason: str
    times: int
    example: str


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
    owner: _Owner


@dataclass(slots=True)
class _Cell:
    """What is known of one (device, instance) at one time."""

    node: str = ""
    model: str = ""
    owners: set[_Owner] = field(default_factory=set)
    # metric → (value, whether it is the card's own series)
    values: dict[str, tuple[float, bool]] = field(default_factory=dict)


class _Problems:
    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._first: dict[tuple[str, str], str] = {}

    def note(self, metric: str, reason: str, example: str) -> None:
        self._counts[metric, reason] += 1
        self._first.setdefault((metric, reason), example)

    def listed(self) -> list[Problem]:
        return [Problem(*key, count, self._first[key]) for key, count in self._counts.items()]


def _first(labels: Mapping[str, str], *names: str) -> str:
    for name in names:
        if found := labels.get(name):
            return found
    return ""


class _Attribution:
    """Who uses a device, read from a series' labels in the way its scrape job writes them."""

    def __init__(self, series: Iterable[Mapping[str, str]], targets: Iterable[Mapping[str, str]]) -> None:
        self._exported = {labels.get("job", "") for labels in series if labels.get("exported_pod")}
        self._targets = {(t.get("namespace", ""), t["pod"]) for t in targets if t.get("pod")}

    def owner(self, labels: Mapping[str, str]) -> _Owner:
        if labels.get("job", "") in self._exported:
            return _Owner(labels.get("exported_namespace", ""), labels.get("exported_pod", ""))
        owner = _Owner(_first(labels, "namespace", "pod_namespace"), _first(labels, "pod", "pod_name"))
        return _NOBODY if not owner.pod or self.is_exporter(owner) else owner

    def is_exporter(self, owner: _Owner) -> bool:
        return tuple(owner) in self._targets or "dcgm-exporter" in owner.pod

    def read(self, labels: Mapping[str, str]) -> _Labels | None:
        device = _first(labels, "UUID", "uuid", "gpu_uuid")
        if not device:
            return None
        node = next(
            (
                labels[name]
                for name in ("node", "kubernetes_node", "Hostname", "hostname")
                if labels.get(name) and labels[name] not in ("localhost", labels.get("pod"))
            ),
            "",
        )
        return _Labels(
            device,
            labels.get("GPU_I_ID", ""),
            node,
            _first(labels, "modelName", "model_name"),
            self.owner(labels),
        )


def group_by_metric(series: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The answer to QUERY by metric name."""
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
    known = {name: series_by_metric.get(name, ()) for name in METRICS}
    attribution = _Attribution(
        (_labels(one) for series in known.values() for one in series),
        (_labels(one) for one in series_by_metric.get(UP, ())),
    )
    cells: dict[datetime, dict[tuple[str, str], _Cell]] = {}
    times: dict[float, datetime] = {}
    for metric, series in known.items():
        for one in series:
            labels = attribution.read(_labels(one))
            if labels is None:
                problems.note(metric, "no device UUID", str(_labels(one))[:200])
                continue
            for stamp, text in _points(one):
                at = sampled_at or times.get(stamp) or times.setdefault(stamp, _time(stamp))
                value = _usable(metric, text, labels.device, problems)
                _put(cells.setdefault(at, {}), labels, metric, value)
    rows = [row for at, found in sorted(cells.items()) for row in _rows(at, found)]
    return Samples(rows, COLUMNS, problems.listed())


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


def _usable(metric: str, text: Any, device: str, problems: _Problems) -> float | None:
    try:
        value = float(text)
    except (TypeError, ValueError):
        problems.note(metric, "not a number", f"{device}: {str(text)[:60]}")
        return None
    if not math.isfinite(value):
        problems.note(metric, "NaN" if math.isnan(value) else "infinite", f"{device}: {text}")
    elif value < 0 or value > _LIMITS.get(metric, _LARGEST) or value > _LARGEST:
        problems.note(metric, "out of range", f"{device}: {text}")
    else:
        return value
    return None


def _put(found: dict[tuple[str, str], _Cell], labels: _Labels, metric: str, value: float | None) -> None:
    key = (labels.device, labels.instance)
    cell = found.get(key)
    if cell is None:
        cell = found[key] = _Cell()
    cell.node = cell.node or labels.node
    cell.model = cell.model or labels.model
    own = not labels.owner.pod
    if not own:
        cell.owners.add(labels.owner)
    if value is None:
        return
    before = cell.values.get(metric)
    # The card's own series beats the copies per pod; among equals the largest.
    if before is None or (own, value) > (before[1], before[0]):
        cell.values[metric] = (value, own)


def _rows(at: datetime, found: Mapping[tuple[str, str], _Cell]) -> Iterator[Row]:
    power: dict[str, float] = {}
    for (device, _instance), cell in found.items():
        if watts := cell.values.get(POWER):
            power[device] = max(power.get(device, 0.0), watts[0])
    for (device, instance), cell in sorted(found.items()):
        ratio, source = _utilisation(cell, instance)
        used, total = _memory(cell)
        watts_now = power.pop(device, None)
        namespace, pod = _owner(cell.owners)
        xid = cell.values.get(XID)
        yield (
            at,
            device,
            instance,
            cell.node,
            cell.model,
            namespace,
            pod,
            ratio,
            source,
            used,
            total,
            None if watts_now is None else Decimal(f"{watts_now:.2f}"),
            None if xid is None else int(xid[0]),
        )


def _owner(owners: set[_Owner]) -> _Owner:
    """The one pod of a device; of several only the namespace, when they share it."""
    if len(owners) == 1:
        return next(iter(owners))
    namespaces = {owner.namespace for owner in owners}
    return _Owner(namespaces.pop(), "") if len(namespaces) == 1 else _NOBODY


def _utilisation(cell: _Cell, instance: str) -> tuple[Decimal | None, str]:
    for metric, (source, divisor) in UTILISATION.items():
        if instance and divisor == 100:
            continue
        if found := cell.values.get(metric):
            return Decimal(f"{min(found[0] / divisor, 1.0):.4f}"), source
    return None, ""


def _memory(cell: _Cell) -> tuple[int | None, int | None]:
    """(used, total) in bytes. There is no total by default: it is used + free + reserved."""
    used, free = cell.values.get(USED), cell.values.get(FREE)
    total = cell.values.get(TOTAL)
    in_bytes = None if used is None else round(used[0] * _MEBIBYTE)
    if total is not None:
        return in_bytes, round(total[0] * _MEBIBYTE)
    if used is None or free is None:
        return in_bytes, None
    reserved = cell.values.get(RESERVED, (0.0, True))
    return in_bytes, round((used[0] + free[0] + reserved[0]) * _MEBIBYTE)
