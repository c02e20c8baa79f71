"""Partial admission: the most pods that can be had, between what is asked for and what is the least. Input: pod sets and
an attempt for given counts; output: what the attempt gave for the largest counts that worked, None if none did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from apps.quotas.engine.model import PodSet

T = TypeVar("T")


def largest_that_fits(pod_sets: Sequence[PodSet], attempt: Callable[[tuple[int, ...]], T | None]) -> T | None:
    """All pod sets shrink together, in proportion to what each may lose; found by halving, as if fewer pods fit whenever
    more do."""
    spare = [
        pod_set.count - (pod_set.count if pod_set.min_count is None else pod_set.min_count)
        for pod_set in pod_sets
    ]
    total = sum(spare)
    if total <= 0:
        return None
    best: T | None = None
    best_step = -1
    low, high = 0, total + 1
    while low < high:
        step = (low + high) // 2
        counts = tuple(
            pod_set.count - left * step // total for pod_set, left in zip(pod_sets, spare, strict=True)
        )
        found = attempt(counts)
        if found is None:
            low = step + 1
        else:
            best, best_step, high = found, step, step
    return best if low == best_step else None
