"""What goes wrong between two layers, each of which did its own part. Pure.

Input: `Held` (a piece of work as the database tells it: quota, pods, evictions) and `Rejection`s of pods; output:
`Case`s, what is wrong with which work since when, and `NodeFault`s.

Invariants: work that is over has no case; a length that nobody saw is none: lengths end where the source was read last;
of the three kinds that lack pods (none is there, none has a node, a part has one) a piece of work is of one at most.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from apps.admissions.life import Eviction

PLACING_LIMIT = timedelta(minutes=10)
"""Longer than a scheduler needs, and about as long as clouds need for a node."""
REGISTERING_LIMIT = timedelta(minutes=10)
"""How long a node may be Ready before its devices are offered."""
EMPTY_LIMIT = timedelta(minutes=15)
"""How long quota may be held before, or after, there are pods."""
REJECTION_WINDOW = timedelta(hours=1)
REJECTIONS_OF_A_FAULT = 3
LOOP_WINDOW = timedelta(hours=24)
READY_TIMEOUTS = 2
PREEMPTIONS = 3

NO_NODE, PARTLY_PLACED, REJECTED = "no_node", "partly_placed", "rejected"
OTHER_MODEL, NO_PODS = "other_model", "no_pods"
READY_LOOP, PREEMPTED_AGAIN = "ready_loop", "preempted_again"
CODES = (NO_NODE, PARTLY_PLACED, REJECTED, OTHER_MODEL, NO_PODS, READY_LOOP, PREEMPTED_AGAIN)

_PLACING = frozenset({"unplaced", "provisioning"})
_READY_TIMEOUT = "PodsReadyTimeout"
_PREEMPTED = "Preempted"


@dataclass(frozen=True, slots=True)
class Rejection:
    """A pod that a node's kubelet refused after it was placed there."""

    pod_uid: str
    node: str
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A node that work runs on whose model is none of those that its flavors promise."""

    node: str
    model: str
    promised: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pods:
    """A piece of work's pods: those that live, of these the placed and the waiting ones (without gates). `waiting_since`:
    when the oldest that waits was created; `gone_at`: when the last of pods that are all over ended."""

    live: int = 0
    bound: int = 0
    waiting: int = 0
    waiting_since: datetime | None = None
    gone_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """Work and what it holds. `phase` as in LIFE, "" where it is not known; `placing_since`: when the present attempt
    began to be placed; `held_since`: when quota was reserved; `seen_until`: when it was last read well. `shows_pods`:
    whether its pods would be found here, were there any. `said`: what a scale-up said of it."""

    uid: str
    kind: str
    namespace: str
    name: str
    queue_name: str
    queue: str
    phase: str
    seen_until: datetime
    devices: Mapping[str, Decimal] = field(default_factory=dict)
    placing_since: datetime | None = None
    held_since: datetime | None = None
    pods: Pods = field(default_factory=Pods)
    shows_pods: bool = True
    rejections: tuple[Rejection, ...] = ()
    misplaced: tuple[Misplaced, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    said: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """`times`: how many rejections or evictions; `placed` and `waiting`: pods; `nodes`: where, sorted; `by`: the queues
    whose work preempted it, the most frequent first."""

    code: str
    work: Held
    since: datetime
    times: int = 1
    nodes: tuple[str, ...] = ()
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeFault:
    """A node that refused several pods within an hour; `reasons`: sorted."""

    node: str
    count: int
    since: datetime
    reasons: tuple[str, ...]


def cases_of(work: Held, *, now: datetime) -> list[Case]:
    """What is wrong with it, in the order of CODES."""
    if work.phase == "finished":
        return []
    found = [*_of_pods(work), *_rejected(work, now), *_misplaced(work), *_again(work, now)]
    return sorted(found, key=lambda case: CODES.index(case.code))


def _of_pods(work: Held) -> Iterator[Case]:
    if not work.pods.live:
        yield from _without_pods(work)
        return
    if work.phase not in _PLACING or not work.pods.waiting or work.placing_since is None:
        return
    since = max(work.placing_since, work.pods.waiting_since or work.placing_since)
    if work.seen_until - since > PLACING_LIMIT:
        yield Case(PARTLY_PLACED if work.pods.bound else NO_NODE, work, since)


def _without_pods(work: Held) -> Iterator[Case]:
    """Work whose pods nobody ever saw is told only when they would have been seen: LIFE calls it unplaced then."""
    known = work.phase in _PLACING or work.phase == "reserved" or work.pods.gone_at is not None
    if not work.shows_pods or work.held_since is None or not known:
        return
    since = max(work.held_since, work.pods.gone_at or work.held_since)
    if work.seen_until - since > EMPTY_LIMIT:
        yield Case(NO_PODS, work, since)


def _rejected(work: Held, now: datetime) -> Iterator[Case]:
    lately = [each for each in work.rejections if each.at > now - REJECTION_WINDOW]
    if lately:
        nodes = tuple(sorted({each.node for each in lately}))
        yield Case(REJECTED, work, min(each.at for each in lately), times=len(lately), nodes=nodes)


def _misplaced(work: Held) -> Iterator[Case]:
    if work.misplaced:
        nodes = tuple(sorted({each.node for each in work.misplaced}))
        yield Case(OTHER_MODEL, work, work.held_since or work.seen_until, nodes=nodes)


def _again(work: Held, now: datetime) -> Iterator[Case]:
    lately = [each for each in work.evictions if now - LOOP_WINDOW < each.at <= now]
    for code, token, least in (
        (READY_LOOP, _READY_TIMEOUT, READY_TIMEOUTS),
        (PREEMPTED_AGAIN, _PREEMPTED, PREEMPTIONS),
    ):
        mine = [each for each in lately if each.reason.removeprefix("EvictedDueTo") == token]
        if len(mine) >= least:
            yield Case(code, work, min(each.at for each in mine), times=len(mine), by=_preemptors(mine))


def _preemptors(evictions: Sequence[Eviction]) -> tuple[str, ...]:
    found = [each.preemption.preemptor_queue for each in evictions if each.preemption is not None]
    counts = Counter(queue for queue in found if queue)
    return tuple(sorted(counts, key=lambda queue: (-counts[queue], queue)))


def node_faults(rejections: Iterable[Rejection], *, now: datetime) -> list[NodeFault]:
    """Nodes that refused REJECTIONS_OF_A_FAULT pods, of whatever work, within the last hour; by name."""
    by_node: defaultdict[str, dict[str, Rejection]] = defaultdict(dict)
    for each in rejections:
        if each.at > now - REJECTION_WINDOW:
            by_node[each.node][each.pod_uid] = each
    return [
        NodeFault(
            node,
            len(found),
            min(each.at for each in found.values()),
            tuple(sorted({each.reason for each in found.values()})),
        )
        for node, found in sorted(by_node.items())
        if len(found) >= REJECTIONS_OF_A_FAULT
    ]
