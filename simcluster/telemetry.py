"""What the exporters would have said of every card and partition, at any time since the epoch.

Input: who used a device when (`begin`, `end`, `outage`, `xid`); output: series of values at given times, computed
when asked and not stored. Invariants: a value depends on the device, the pods' profile and the time only, so the same
question always gets the same answer; a device of a node whose exporter is down has no value at all; what means
something on whole cards only does not exist on a partition; what is said of a board stands on every instance of it.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import cos, pi
from typing import Literal, NamedTuple

from simcluster.exporters import BOARD, DCGM, Exporter, Metric

Sharing = Literal["one", "none", "flips", "copies", "processes"]
"""How the exporter names the pods of a shared device: the last that came; none, since it does not know the resource;
now this, now that one; a copy of each series per pod (KUBERNETES_VIRTUAL_GPUS); the same with true parts of
utilisation and memory beside the card's own series."""
SCRAPE_SECONDS = 30
_FELL_OFF_THE_BUS, _LAST_SEEN_SECONDS = 79, 120


@dataclass(frozen=True, slots=True)
class Profile:
    """How a pod uses its devices. kind: "steady" (training), "daily" (serving), "bursts" (a notebook), "idle"."""

    kind: str = "steady"
    mean: float = 0.8
    spread: float = 0.12
    memory: float = 0.75


class User(NamedTuple):
    """A pod on a device; its parts (0…1) of what the device does, and the labels that its series carry beside."""

    namespace: str
    pod: str
    activity: float = 1.0
    memory: float = 1.0
    labels: tuple[tuple[str, str], ...] = ()


class Use(NamedTuple):
    """A stretch of one device's time with the same pods on it; idle stretches are not stored."""

    start: float
    users: tuple[User, ...]
    profile: Profile
    salt: int
    energy: float


@dataclass(slots=True)
class Instance:
    """One card, or one partition of it, with its exporter's labels. `lacks`: metrics that this installation does not
    give; `blank`: metrics for which it prints the sentinel of an unsupported value."""

    labels: dict[str, str]
    node: str
    memory_mib: int
    idle_watts: float
    max_watts: float
    part: bool
    salt: int
    card: Card
    exporter: Exporter = DCGM
    lacks: frozenset[str] = frozenset()
    blank: frozenset[str] = frozenset()
    sharing: Sharing = "one"
    uses: list[Use] = field(default_factory=list)
    ends: list[float | None] = field(default_factory=list)
    relabelled: tuple[float, dict[str, str]] | None = None
    """From this time on these labels are different: series end and others begin."""

    def labels_at(self, at: float) -> dict[str, str]:
        if self.relabelled is None or at < self.relabelled[0]:
            return self.labels
        return self.labels | self.relabelled[1]

    def gives(self, metric: Metric) -> bool:
        """Whether the exporter has the metric for this instance."""
        if metric.name in self.lacks or (self.part and metric.whole_only):
            return False
        elsewhere = self.exporter.board_on_first and self.card.instances[0] is not self
        return not elsewhere or metric.what in ("used", "free", "total")


@dataclass(slots=True)
class Card:
    """What the instances of a card share."""

    uuid: str
    instances: list[Instance] = field(default_factory=list)
    xids: list[tuple[float, int]] = field(default_factory=list)
    gone_at: float | None = None
    """From then on the driver does not find it: it fell off the bus."""


class View(NamedTuple):
    """A part of a run as one series shows it: of the device (user None) or of a pod; `parts`: the pod's own share of
    utilisation and memory instead of the device's values, and of nothing else."""

    user: User | None
    steps: tuple[tuple[int, int], ...]
    parts: bool = False


def _mixed(step: int, salt: int) -> int:
    """A number of 0…1023 that looks random."""
    value = ((step + salt) * 0x9E3779B1) & 0xFFFFFFFF
    value ^= value >> 15
    return ((value * 0x85EBCA6B) & 0xFFFFFFFF) >> 22


def day_curve(at: float) -> float:
    """0…1: how busy people are at a time of the (UTC) day, highest at 13 h."""
    return 0.5 + 0.5 * cos(((at % 86400) / 86400 - 13 / 24) * 2 * pi)


def _steady(profile: Profile, at: float, salt: int) -> int:
    noise = (_mixed(int(at) // SCRAPE_SECONDS, salt) - 512) / 512
    if _mixed(int(at) // 300, salt + 7) < 24:  # a checkpoint, or data that did not come
        return int(1000 * profile.mean * 0.25)
    return max(0, min(1000, int(1000 * (profile.mean + profile.spread * noise))))


def _daily(profile: Profile, at: float, salt: int) -> int:
    noise = (_mixed(int(at) // SCRAPE_SECONDS, salt) - 512) / 512
    level = profile.mean * (0.35 + 0.65 * day_curve(at))
    return max(0, min(1000, int(1000 * (level + profile.spread * noise * level))))


def _bursts(profile: Profile, at: float, salt: int) -> int:
    if _mixed(int(at) // 900, salt) > 140:
        return 0
    return _steady(profile, at, salt)


_ACTIVITY: dict[str, Callable[[Profile, float, int], int]] = {
    "steady": _steady,
    "daily": _daily,
    "bursts": _bursts,
    "idle": lambda _profile, at, salt: _mixed(int(at) // SCRAPE_SECONDS, salt) % 9,
}
"""Idle is noise of less than a hundredth, as it is measured on real cards."""
_MEAN_FACTOR = {"steady": 0.95, "daily": 0.68, "bursts": 0.13, "idle": 0.0}


class Run(NamedTuple):
    """Steps [first, last) of a time axis during which one pod (or nobody: use None) had an instance."""

    first: int
    last: int
    use: Use | None


class Telemetry:
    """All devices of a cluster. Written by the simulation, read by the APIs; takes its own lock."""

    def __init__(self, epoch: float = 0.0) -> None:
        self.epoch = epoch
        self.instances: list[Instance] = []
        self.targets: dict[tuple[str, str], Exporter] = {}
        """By node and job."""
        self.outages: dict[str, list[tuple[float, float | None]]] = {}
        self.lock = threading.RLock()

    # ---- writing ------------------------------------------------------------------------------------------
    def add(self, instance: Instance) -> None:
        with self.lock:
            self.instances.append(instance)
            instance.card.instances.append(instance)
            self.targets.setdefault((instance.node, instance.exporter.job), instance.exporter)

    def begin(
        self, instance: Instance, at: float, users: tuple[User, ...], profile: Profile, salt: int
    ) -> None:
        """Pods start to use a device; a use that is still open ends."""
        with self.lock:
            self.end(instance, at)
            energy = self._energy(instance, at)
            instance.uses.append(Use(at, users, profile, salt, energy))
            instance.ends.append(None)

    def end(self, instance: Instance, at: float) -> None:
        with self.lock:
            if instance.ends and instance.ends[-1] is None:
                instance.ends[-1] = at

    def outage(self, node: str, at: float) -> None:
        with self.lock:
            self.outages.setdefault(node, []).append((at, None))

    def recovery(self, node: str, at: float) -> None:
        with self.lock:
            found = self.outages.get(node)
            if found and found[-1][1] is None:
                found[-1] = (found[-1][0], at)

    def relabel(self, instance: Instance, at: float, labels: dict[str, str]) -> None:
        with self.lock:
            instance.relabelled = (at, labels)

    def xid(self, card: Card, at: float, code: int) -> None:
        with self.lock:
            card.xids.append((at, code))
            if code == _FELL_OFF_THE_BUS:
                card.gone_at = at + _LAST_SEEN_SECONDS

    # ---- reading ------------------------------------------------------------------------------------------
    def up(self, node: str, at: float) -> bool:
        """Whether the node's exporter answers."""
        return not any(s <= at and (e is None or at < e) for s, e in self.outages.get(node, ()))

    def runs(self, instance: Instance, times: Sequence[float]) -> Iterator[Run]:
        """The time axis cut where the user or the labels of the instance change, without the node's outages."""
        gone = self._index(times, instance.card.gone_at, 0, len(times))
        for run in self._user_runs(instance, times):
            if run.first >= gone:
                return
            run = run._replace(last=min(run.last, gone))
            cut = run.first
            if instance.relabelled is not None:
                cut = self._index(times, instance.relabelled[0], run.first, run.last)
            if run.first < cut < run.last:
                yield run._replace(last=cut)
                yield run._replace(first=cut)
            else:
                yield run

    def _user_runs(self, instance: Instance, times: Sequence[float]) -> Iterator[Run]:
        for first, last in self._up_ranges(instance.node, times):
            at = first
            uses, ends = instance.uses, instance.ends
            index = bisect_right(uses, times[first], key=lambda use: use.start) - 1
            while at < last:
                if index >= 0 and (ends[index] is None or times[at] < (ends[index] or 0)):
                    stop = self._index(times, ends[index], at, last)
                    yield Run(at, stop, uses[index])
                else:
                    following = uses[index + 1].start if index + 1 < len(uses) else None
                    stop = self._index(times, following, at, last)
                    if stop > at:
                        yield Run(at, stop, None)
                    index += 1
                    at = stop
                    continue
                at = stop
                if at < last and index + 1 < len(uses) and uses[index + 1].start <= times[at]:
                    index += 1
                    while index + 1 < len(uses) and uses[index + 1].start <= times[at]:
                        index += 1

    def _up_ranges(self, node: str, times: Sequence[float]) -> Iterator[tuple[int, int]]:
        first = 0
        for start, end in self.outages.get(node, ()):
            down = self._index(times, start, first, len(times))
            if down > first:
                yield first, down
            first = self._index(times, end, down, len(times))
        if first < len(times):
            yield first, len(times)

    @staticmethod
    def _index(times: Sequence[float], limit: float | None, first: int, last: int) -> int:
        """The first step at or after a time."""
        if limit is None:
            return last
        low, high = first, last
        while low < high:
            middle = (low + high) // 2
            if times[middle] < limit:
                low = middle + 1
            else:
                high = middle
        return low

    def activity(self, use: Use | None, times: Sequence[float], run: Run) -> list[int]:
        """Thousandths of full activity at each step of a run."""
        if use is None:
            return [0] * (run.last - run.first)
        profile, salt = use.profile, use.salt
        level = _ACTIVITY[profile.kind]
        return [level(profile, times[step], salt) for step in range(run.first, run.last)]

    def views(self, instance: Instance, run: Run, times: Sequence[float]) -> Iterator[View]:
        """The series in which a run shows, by how the exporter names the pods of a shared device."""
        whole = ((run.first, run.last),)
        users = run.use.users if run.use else ()
        if instance.sharing == "none":
            yield View(None, whole)
        elif len(users) < 2 and instance.sharing != "processes":
            yield View(users[0] if users else None, whole)
        elif instance.sharing == "flips":
            yield from self._flips(instance, run, users, times)
        elif instance.sharing == "one":
            yield View(users[-1], whole)
        else:
            parts = instance.sharing == "processes"
            if parts:
                yield View(None, whole)
            for user in users:
                yield View(user, whole, parts)

    @staticmethod
    def _flips(
        instance: Instance, run: Run, users: tuple[User, ...], times: Sequence[float]
    ) -> Iterator[View]:
        """The order in which the exporter asks the kubelet is random: at each scrape another pod may be last."""
        steps: list[list[tuple[int, int]]] = [[] for _ in users]
        for step in range(run.first, run.last):
            mine = steps[_mixed(int(times[step]) // SCRAPE_SECONDS, instance.salt) % len(users)]
            if mine and mine[-1][1] == step:
                mine[-1] = (mine[-1][0], step + 1)
            else:
                mine.append((step, step + 1))
        for user, found in zip(users, steps, strict=True):
            if found:
                yield View(user, tuple(found))

    def texts(
        self,
        metric: Metric,
        instance: Instance,
        run: Run,
        times: Sequence[float],
        activity: list[int],
        user: User | None = None,
    ) -> list[str] | None:
        """The values of one metric over a run as Prometheus would print them; None when there is none. With a user:
        this pod's part of utilisation and memory, which is all that is known of it."""
        if not instance.gives(metric):
            return None
        if user is not None:
            return self._parts(metric, instance, run.use, activity, user)
        if metric.name in instance.blank:
            return [_BLANK] * len(activity)
        if metric.what in _LEVELS:
            table = _LEVELS[metric.what]
            return [table[level] for level in activity]
        if metric.what in ("used", "free", "reserved", "total"):
            return [_plain(self._memory(metric, instance, run.use) * metric.scale)] * len(activity)
        if metric.what == "health":
            return ["1"] * len(activity)
        if metric.what == "xid":
            return [self._xid(instance.card, times[step]) for step in range(run.first, run.last)]
        if metric.what == "energy":
            steps = range(run.first, run.last)
            return [f"{self._energy(instance, times[step]) * metric.scale:.0f}" for step in steps]
        if instance.part and metric.what in BOARD:
            activity = [self._board(instance.card, times[step]) for step in range(run.first, run.last)]
        idle, span = instance.idle_watts, instance.max_watts - instance.idle_watts
        if metric.what == "power":
            return [f"{(idle + span * level / 1000) * metric.scale:.3f}" for level in activity]
        return [str(31 + instance.salt % 5 + level * 38 // 1000) for level in activity]

    def _parts(
        self, metric: Metric, instance: Instance, use: Use | None, activity: list[int], user: User
    ) -> list[str] | None:
        if metric.what == "percent":
            return [PERCENT[int(level * user.activity)] for level in activity]
        if metric.what == "used":
            return [str(int(self._memory(metric, instance, use) * user.memory))] * len(activity)
        return None

    @staticmethod
    def _memory(metric: Metric, instance: Instance, use: Use | None) -> int:
        """MiB. Only NVIDIA's driver keeps a part for itself that is neither used nor free."""
        if metric.what == "total":
            return instance.memory_mib
        reserved = max(20, instance.memory_mib // 140) if instance.exporter is DCGM else 0
        usable = instance.memory_mib - reserved
        used = 4 if use is None else int(usable * use.profile.memory)
        return {"used": used, "free": usable - used, "reserved": reserved}[metric.what]

    @staticmethod
    def _xid(card: Card, at: float) -> str:
        index = bisect_right(card.xids, at, key=lambda pair: pair[0]) - 1
        return "0" if index < 0 else str(card.xids[index][1])

    def use_at(self, instance: Instance, at: float) -> Use | None:
        index = bisect_right(instance.uses, at, key=lambda use: use.start) - 1
        if index < 0:
            return None
        end = instance.ends[index]
        return instance.uses[index] if end is None or at < end else None

    def _board(self, card: Card, at: float) -> int:
        """How busy the whole card is: the mean of its instances."""
        total = 0
        for instance in card.instances:
            use = self.use_at(instance, at)
            if use is not None:
                total += _ACTIVITY[use.profile.kind](use.profile, at, use.salt)
        return total // max(1, len(card.instances))

    def _energy(self, instance: Instance, at: float) -> float:
        """mJ since the epoch: idle power all the time, and the mean of each use while it lasted."""
        base = instance.idle_watts * (at - self.epoch) * 1000
        index = bisect_right(instance.uses, at, key=lambda use: use.start) - 1
        if index < 0:
            return base
        use, end = instance.uses[index], instance.ends[index]
        until = at if end is None else min(at, end)
        span = (instance.max_watts - instance.idle_watts) * use.profile.mean * _MEAN_FACTOR[use.profile.kind]
        idle_before = instance.idle_watts * (use.start - self.epoch) * 1000
        return base + (use.energy - idle_before) + span * (until - use.start) * 1000


_BLANK = "9223372036854775794"
"""What older exporters print for a value that the card does not give."""
RATIO = tuple(f"{level / 1000:.3f}" for level in range(1001))
PERCENT = tuple(str(level // 10) for level in range(1001))
_LEVELS: dict[str, tuple[str, ...]] = {
    "ratio": RATIO,
    "percent": PERCENT,
    "sm_ratio": tuple(RATIO[level * 9 // 10] for level in range(1001)),
    "sm_percent": tuple(PERCENT[level * 6 // 10] for level in range(1001)),
}


@lru_cache(maxsize=4096)
def _plain(value: float) -> str:
    return f"{value:.0f}"


@lru_cache(maxsize=64)
def axis(start: float, end: float, step: float) -> tuple[float, ...]:
    """The times of a range query, both ends included."""
    count = int((end - start) / step + 1e-9) + 1
    return tuple(start + index * step for index in range(count))
