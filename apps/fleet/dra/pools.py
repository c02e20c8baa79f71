"""Which slices of a pool count. Input: specs of the slices that are there and that were there; output: one PoolState
per pool.

Invariants: of a pool, only its newest generation counts, and only when all of its slices are there; until then the
newest complete one that is known, from slices still there or seen before; where none is known, what is listed, which
is a lower bound. All but the first case are `incomplete`. A pool that has no slices left is `down`: its driver
withdrew them, and its devices are those last known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from apps.fleet.dra.model import PoolKey, Spec


@dataclass(frozen=True, slots=True)
class PoolState:
    key: PoolKey
    slices: tuple[Spec, ...]
    incomplete: bool = False
    down: bool = False


def pool_states(live: Iterable[Spec], former: Iterable[Spec] = ()) -> list[PoolState]:
    """`former`: slices that are gone, newest first."""
    there, past = _by_pool(live), _by_pool(former)
    found = [_state(key, slices, past.get(key, ())) for key, slices in there.items()]
    found += [_withdrawn(key, slices) for key, slices in past.items() if key not in there]
    return sorted(found, key=lambda state: state.key)


def _by_pool(slices: Iterable[Spec]) -> dict[PoolKey, list[Spec]]:
    pools: dict[PoolKey, list[Spec]] = defaultdict(list)
    for spec in slices:
        pools[PoolKey(spec["driver"], spec["pool"])].append(spec)
    return pools


def _state(key: PoolKey, live: Sequence[Spec], former: Sequence[Spec]) -> PoolState:
    newest = max(spec["generation"] for spec in live)
    listed = _of(live, newest)
    if len(listed) == _expected(listed):
        return PoolState(key, tuple(listed))
    known = [*live, *former]
    for generation in sorted(
        {spec["generation"] for spec in known if spec["generation"] <= newest}, reverse=True
    ):
        whole = _of(known, generation)
        if len(whole) >= _expected(whole) > 0:
            return PoolState(key, tuple(whole[: _expected(whole)]), incomplete=True)
    return PoolState(key, tuple(listed), incomplete=True)


def _withdrawn(key: PoolKey, former: Sequence[Spec]) -> PoolState:
    last = _of(former, max(spec["generation"] for spec in former))
    return PoolState(key, tuple(last[: _expected(last) or None]), down=True)


def _of(slices: Iterable[Spec], generation: int) -> list[Spec]:
    return [spec for spec in slices if spec["generation"] == generation]


def _expected(slices: Iterable[Spec]) -> int:
    """How many slices their generation has in all."""
    return max((spec["slices"] for spec in slices), default=0)
