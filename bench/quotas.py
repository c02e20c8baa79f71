"""The quota tree of 1,000 ClusterQueues × 8 flavors × 3 resources in three levels, its pages, and the what-if engine.

Full: the tree from specs and usage, and every number of every row of every queue. After one change: the change taken
into the tree (`replace_node`, `add_usage`: the node's way up), and anew every number that it can have moved: of the
changed flavors and resources, in all queues below the same root (a tenth of all); no other number rests on them. A
changed spec is one quota of one flavor, changed usage one workload (a flavor's GPUs, CPU and memory). Both are checked
against a tree built anew. Pages: server time of the page with everything in memory, as of a web process, against an
empty page of the same base with one query, in turn; medians. Bytes: as gzip packs what `/queues/` shows first, and
that with every part that it loads when all is opened. Engine: time until 10,000 waiting workloads in 1,000 queues
are settled, against 1,000 in 100, over the same ratio of n log n of the waiting workloads.
"""

from __future__ import annotations

import argparse
import gzip
import math
import os
import re
import statistics
from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from bench._page import client, get, measure_page, ready, seconds
from bench._report import Result, report

if TYPE_CHECKING:
    from apps.quotas.tree import FlavorResource, Key, QuotaNode, QuotaTree

QUEUES = 1000
FULL_REPEATS, STEPS = 5, 8
ENGINE_REPEATS = 3
SMALL, LARGE = (100, 1_000), (1_000, 10_000)
Numbers = dict[tuple[str, "FlavorResource"], tuple[Decimal, ...]]


# ---- the tree -------------------------------------------------------------------------------------------------


def numbers(tree: QuotaTree, key: Key, cell: FlavorResource) -> tuple[Decimal, ...]:
    """What a row of a queue shows."""
    return (
        tree.usage(*key, cell),
        tree.borrowed(*key, cell),
        tree.lent(*key, cell),
        tree.available(*key, cell),
        tree.potential_available(*key, cell),
        tree.over(*key, cell),
        tree.local_quota(*key, cell),
    )


def every_number(tree: QuotaTree) -> Numbers:
    return {
        (key[1], cell): numbers(tree, key, cell)
        for key in tree
        if key[0] == "ClusterQueue"
        for cell in tree.node(*key).cells
    }


def moved(tree: QuotaTree, queue: str, cells: list[FlavorResource], into: Numbers) -> None:
    """Every number that a change of these cells of one queue can have moved."""
    for key in tree.below(*tree.root_of("ClusterQueue", queue)):
        if key[0] == "ClusterQueue":
            into.update(((key[1], cell), numbers(tree, key, cell)) for cell in cells)


def build(nodes: Iterable[QuotaNode], usage: Any, into: list[Any]) -> None:
    """The tree and all its numbers."""
    from apps.quotas.tree import QuotaTree

    tree = QuotaTree(nodes, usage)
    into.extend((tree, every_number(tree)))


def replace_one(tree: QuotaTree, node: QuotaNode, cell: FlavorResource, kept: Numbers) -> None:
    tree.replace_node(node)
    moved(tree, node.name, [cell], kept)


def hold_more(tree: QuotaTree, queue: str, more: dict[FlavorResource, Decimal], kept: Numbers) -> None:
    tree.add_usage(queue, more)
    moved(tree, queue, list(more), kept)


def measure_tree() -> dict[str, float]:
    """Full recomputes, and recomputes after a changed spec and after changed usage, in turn."""
    from apps.quotas.tree import QuotaTree
    from bench._queues import FLAVORS, GPU, RESOURCES, held, queue_name, quota_nodes

    nodes = {(node.kind, node.name): node for node in quota_nodes(QUEUES)}
    usage = held(QUEUES)
    full, spec, use = [], [], []
    for turn in range(FULL_REPEATS):
        found: list[Any] = []
        full.append(seconds(partial(build, nodes.values(), usage, found)))
        tree, kept = found
        for step in range(STEPS):
            number = (turn * STEPS + step) * 37 % QUEUES
            name, flavor = queue_name(number), FLAVORS[step % len(FLAVORS)]
            node = changed_node(nodes["ClusterQueue", name], (flavor, GPU))
            nodes["ClusterQueue", name] = node
            spec.append(seconds(partial(replace_one, tree, node, (flavor, GPU), kept)))
            more = {(flavor, resource): Decimal(amount) for resource, amount in RESOURCES.items()}
            own = usage.setdefault(name, {})
            own.update((cell, own.get(cell, Decimal(0)) + amount) for cell, amount in more.items())
            use.append(seconds(partial(hold_more, tree, name, more, kept)))
        if kept != every_number(QuotaTree(nodes.values(), usage)):
            raise SystemExit("bench quotas: what was carried on differs from what is computed anew")
    return {
        "full": statistics.median(full),
        "spec": statistics.median(spec),
        "usage": statistics.median(use),
    }


def changed_node(node: Any, cell: FlavorResource) -> Any:
    """The same queue with one unit more of one flavor and resource."""
    from dataclasses import replace

    quota = node.cells[cell]
    return replace(node, cells={**node.cells, cell: replace(quota, nominal=quota.nominal + 1)})


# ---- bytes ----------------------------------------------------------------------------------------------------


def packed(browser: Any, url: str) -> tuple[str, int]:
    answer = browser.get(url, headers={"accept-encoding": "gzip"})
    if answer.status_code != 200:
        raise SystemExit(f"bench quotas: {url} answered {answer.status_code}")
    return gzip.decompress(answer.content).decode(), len(answer.content)


def measure_bytes(browser: Any, url: str) -> tuple[int, int]:
    """(first screen, first screen and everything that it loads when all of it is opened)."""
    body, first = packed(browser, url)
    total, asked = first, set()
    waiting = _closed(body)
    while waiting:
        key = waiting.pop()
        if key in asked:
            continue
        asked.add(key)
        part, size = packed(browser, f"{url}&part={key}")
        total += size
        waiting += _closed(part)
    if len(asked) < QUEUES // 100:
        raise SystemExit("bench quotas: the page opens nothing")
    return first, total


def _closed(body: str) -> list[str]:
    return re.findall(r'aria-expanded="false"[^>]*data-key="([^"]+)"', body)


# ---- the engine -----------------------------------------------------------------------------------------------


def measure_engine() -> dict[str, float]:
    from apps.quotas.engine.settle import settle
    from bench._situations import waiting_situation

    took: dict[str, float] = {}
    for name, size in (("small", SMALL), ("large", LARGE)):
        situation = waiting_situation(*size)
        took[name] = statistics.median(seconds(partial(settle, situation)) for _ in range(ENGINE_REPEATS))
    return took


def growth() -> float:
    """n log n of the large situation over that of the small one, n: waiting workloads."""
    small, large = SMALL[1], LARGE[1]
    return large * math.log(large) / (small * math.log(small))


# ---- all ------------------------------------------------------------------------------------------------------


def measure_pages() -> dict[str, float]:
    from django.db import connection
    from django.utils import timezone

    from bench._queues import remove_queues, write_queues

    written = write_queues(f"bench-{os.getpid()}", QUEUES, now=timezone.now() - timedelta(minutes=1))
    try:
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE observations_clusterobject, observations_workload")
        browser = client()
        queues, team = f"/queues/?cluster={written.cluster.slug}", f"/teams/{written.team.slug}/"
        cold = seconds(lambda: get(browser, queues))
        found = {"cold": cold}
        for name, url in (("queues", queues), ("team", team)):
            took = measure_page(browser, url)
            found[name], found[f"{name}_empty"] = took["page"], took["empty"]
        found["first"], found["total"] = measure_bytes(browser, queues)
    finally:
        remove_queues(written)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    with ready():
        measure(as_json=chosen.json)


def measure(*, as_json: bool) -> None:
    tree, engine, pages = measure_tree(), measure_engine(), measure_pages()
    print(
        f"tree: full {tree['full'] * 1e3:.0f} ms, one quota {tree['spec'] * 1e3:.2f} ms, "
        f"one workload {tree['usage'] * 1e3:.2f} ms\n"
        f"/queues/ {pages['queues'] * 1e3:.1f} ms (first {pages['cold'] * 1e3:.0f} ms), team page "
        f"{pages['team'] * 1e3:.1f} ms, empty page {pages['queues_empty'] * 1e3:.1f} ms\n"
        f"engine: {SMALL[1]:,} in {SMALL[0]:,} queues {engine['small']:.2f} s, "
        f"{LARGE[1]:,} in {LARGE[0]:,} {engine['large']:.2f} s"
    )
    queues, team = pages["queues"] / pages["queues_empty"], pages["team"] / pages["team_empty"]
    grown = engine["large"] / engine["small"] / growth()
    report(
        "quotas",
        [
            Result(
                "tree after one quota changed / full", tree["spec"] / tree["full"], "ratio", 0.02, "lower"
            ),
            Result(
                "tree after one workload came / full", tree["usage"] / tree["full"], "ratio", 0.02, "lower"
            ),
            Result("/queues/ / empty page with one query", queues, "ratio", 5, "lower"),
            Result("a team's page / empty page with one query", team, "ratio", 5, "lower"),
            Result("/queues/, first screen, compressed", pages["first"] / 1e3, "kB", 40, "lower"),
            Result("/queues/ with all it loads, compressed", pages["total"] / 1e3, "kB", 150, "lower"),
            Result("engine's growth / growth of n log n", grown, "ratio", 1, "lower"),
        ],
        as_json=as_json,
    )


if __name__ == "__main__":
    main()
