"""Why work does not start, at the size of a large fleet.

Input: generated messages and work; output: ratios. `classify` is measured against a loop of `re.search` over the expressions of
the same rules, both over the same distinct messages in one run, the loop over an even sample of them. The rollup of
waiting work and the pages that read it: see _waiting.py.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections.abc import Callable, Sequence
from functools import partial

from bench import _waiting
from bench._page import ready
from bench._report import Result, report

MESSAGES = 100_000
SAMPLED = 2_000


def _kueue(draw: random.Random) -> str:
    reasons = [
        f"insufficient unused quota for nvidia.com/gpu in flavor {draw.choice(['h100', 'a100', 'l4'])}-{draw.randrange(40)},"
        f" {draw.randrange(1, 512)} more needed"
        for _ in range(draw.randrange(1, 4))
    ]
    if draw.random() < 0.3:
        reasons.append(
            f"untolerated taint {{spot true NoSchedule <nil>}} in flavor spot-{draw.randrange(999)}"
        )
    return f"couldn't assign flavors to pod set main: {', '.join(sorted(reasons))}"


def _scheduler(draw: random.Random) -> str:
    nodes = draw.randrange(20, 5000)
    items = sorted(
        [
            f"{draw.randrange(1, nodes)} Insufficient nvidia.com/gpu",
            f"{draw.randrange(1, nodes)} node(s) didn't match Pod's node affinity/selector",
            f"{draw.randrange(1, nodes)} node(s) had untolerated taint(s)",
        ]
    )
    return (
        f"0/{nodes} nodes are available: {', '.join(items)}. no new claims to deallocate, preemption: 0/{nodes} nodes"
        f" are available: {nodes} Preemption is not helpful for scheduling."
    )


def _volcano(draw: random.Random) -> str:
    tasks = draw.randrange(2, 512)
    return (
        f"{tasks}/{tasks} tasks in gang unschedulable: pod group is not ready, {tasks} Pending, {tasks} minAvailable;"
        f" Pending: {tasks} Unschedulable. Origin reason is train-{draw.randrange(9999)}-w-0: 0/{tasks} nodes are"
        f" unavailable: {tasks} Insufficient nvidia.com/gpu."
    )


def _autoscaler(draw: random.Random) -> str:
    return (
        f"pod didn't trigger scale-up: {draw.randrange(1, 99)} max node group size reached,"
        f" {draw.randrange(1, 999)} node(s) didn't match Pod's node affinity/selector"
    )


def _karpenter(draw: random.Random) -> str:
    pools = [
        f"no instance type has the required offering, requirements=karpenter.sh/nodepool In [pool-{draw.randrange(999)}],"
        f' resources={{"cpu":"{draw.randrange(1, 96)}","nvidia.com/gpu":"8"}}'
        for _ in range(draw.randrange(1, 4))
    ]
    return f"Failed to schedule pod, {'; '.join(pools)}"


def _unknown(draw: random.Random) -> str:
    return f"a later version says, for work {draw.getrandbits(48):x}, what no rule knows: {draw.randrange(9999)} times"


WRITERS: Sequence[tuple[Callable[[random.Random], str], int]] = (
    (_kueue, 45), (_scheduler, 25), (_volcano, 12), (_autoscaler, 8), (_karpenter, 7), (_unknown, 3),
)  # fmt: skip


def messages(count: int = MESSAGES) -> list[str]:
    """`count` distinct messages in the mix of a busy fleet, the same in every run."""
    draw = random.Random(6)
    writers, weights = zip(*WRITERS, strict=True)
    found: dict[str, None] = {}
    while len(found) < count:
        found[draw.choices(writers, weights)[0](draw)] = None
    return list(found)


def measure_classify() -> Result:
    """Seconds a message of the loop ÷ seconds a message of `classify`."""
    from apps.admissions.classifier import classify, rule_book

    texts = messages()
    classify.cache_clear()
    rule_book()
    began = time.perf_counter()
    for text in texts:
        classify(state="pending", reason="Pending", message=text)
    ours = (time.perf_counter() - began) / len(texts)
    expressions = [pattern.expression for pattern in rule_book().patterns]
    sample = texts[:: len(texts) // SAMPLED]
    loop = _loop(sample, [partial(re.search, expression) for expression in expressions])
    compiled = _loop(sample, [re.compile(expression).search for expression in expressions])
    print(
        f"{len(texts)} messages, {len(expressions)} expressions; µs a message: classify {ours * 1e6:.0f}, loop of"
        f" re.search {loop * 1e6:.0f}, of compiled expressions {compiled * 1e6:.0f}"
    )
    return Result("loop of re.search over the same rules ÷ classify", loop / ours, "ratio", 5, "higher")


def _loop(texts: Sequence[str], searches: Sequence[Callable[[str], object]]) -> float:
    """Seconds a message. One message before the clock, for the cache of re."""
    for search in searches:
        search(texts[0])
    began = time.perf_counter()
    for text in texts:
        for search in searches:
            search(text)
    return (time.perf_counter() - began) / len(texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    with ready():
        report("admissions", [measure_classify(), *_waiting.measure()], as_json=as_json)


if __name__ == "__main__":
    main()
