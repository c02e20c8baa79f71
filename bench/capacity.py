"""Capacity of a large fleet: 5,000 nodes, 40,000 cards, 60,000 pods, in the database.

Floors, all in this run: reading and laying out the whole fleet, an empty page of the same base template with one
query, and, for cards held idle, one COPY of the half hour of device samples that they are judged by, a sample per
device and minute; all in this process. Each figure is a median; what is compared is measured in turn. A change is one
node cordoned or uncordoned, or one pod more, with the marks that a pull moves. Recomputing begins where the frame of
every page has read how its sources stand, and ends with the report and the rows that the page shows.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from bench._fleet import Size, add_pod, change_node, remove_fleet, write_fleet, write_samples
from bench._page import client, get, measure_page, ready, seconds
from bench._report import Result, report

if TYPE_CHECKING:
    pass

FULL_REPEATS, REPEATS = 5, 31
SMALL = Size(nodes=50, pods=600)
SAMPLES = """
COPY (SELECT cluster_id, device, instance, sampled_at, utilisation_ratio, memory_used_bytes, memory_total_bytes, pod
  FROM observations_devicesample WHERE cluster_id = %s AND sampled_at > %s) TO STDOUT
"""


def forget_everything() -> None:
    from apps.capacity.reports import forget
    from apps.capacity.store import STORE
    from apps.quotas.store import STORE as QUOTAS

    STORE.clear()
    QUOTAS.clear()
    forget()


def read(cluster: Any) -> tuple[float, Any]:
    """Seconds for what the page shows of the fleet, report and first rows, and these."""
    from django.utils import timezone

    from apps.capacity.selectors import capacity_and_nodes
    from apps.observations.selectors import source_statuses

    now = timezone.now()
    statuses = source_statuses(now=now, clusters=[cluster])
    gc.collect()
    started = time.perf_counter()
    found, rows = capacity_and_nodes(now=now, clusters=[cluster], statuses=statuses)
    shown = list(rows[:50])
    return time.perf_counter() - started, (found.pools, found.notes, shown)


def measure_recompute(cluster: Any, size: Size) -> dict[str, float]:
    """Full recomputes and recomputes after one change, in turn, checked against each other."""
    from django.utils import timezone

    full, node_changed, pod_changed = [], [], []
    for turn in range(FULL_REPEATS):
        forget_everything()
        full.append(read(cluster)[0])
        for step in range(REPEATS // FULL_REPEATS):
            number = turn * 100 + step
            change_node(cluster, number, at=timezone.now())
            node_changed.append(read(cluster)[0])
            add_pod(cluster, size, turn * 100 + step, at=timezone.now())
            pod_changed.append(read(cluster)[0])
        carried_on = read(cluster)[1]
        forget_everything()
        if carried_on != read(cluster)[1]:
            raise SystemExit("bench capacity: what was carried on differs from what is read anew")
    return {
        "full": statistics.median(full),
        "node": statistics.median(node_changed),
        "pod": statistics.median(pod_changed),
    }


def measure_idle(cluster: Any) -> dict[str, float]:
    """Finding the cards that are held and idle in a fleet in memory, and reading all samples that say so, in turn."""
    from django.db import connection
    from django.utils import timezone

    from apps.capacity.cards import idle_cards
    from apps.capacity.idle import WINDOW

    now = timezone.now()

    def find() -> None:
        if not idle_cards(now=now, clusters=[cluster]):
            raise SystemExit("bench capacity: no card is idle")

    def copy() -> None:
        with connection.cursor() as cursor, cursor.copy(SAMPLES, (cluster.pk, now - WINDOW)) as rows:
            for _block in rows:
                pass

    find()
    idle, scan = zip(*((seconds(find), seconds(copy)) for _ in range(FULL_REPEATS)), strict=True)
    return {"idle": statistics.median(idle), "scan": statistics.median(scan)}


def queries(browser: Any, url: str) -> int:
    """Statements of one page that has nothing in memory yet."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    get(browser, url)
    forget_everything()
    with CaptureQueriesContext(connection) as captured:
        get(browser, url)
    return len(captured)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    with ready():
        measure(as_json=chosen.json)


def measure(*, as_json: bool) -> None:
    from django.db import connection
    from django.utils import timezone

    size, slug = Size(), f"bench-{os.getpid()}"
    print(f"{size.nodes:,} nodes, {size.cards:,} cards, {size.pods:,} pods", flush=True)
    made = []
    try:
        now = timezone.now() - timedelta(minutes=1)
        large, small = write_fleet(slug, size, now=now), write_fleet(f"{slug}-small", SMALL, now=now)
        made = [large, small]
        write_samples(large, size, now=now)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE observations_node, observations_pod, observations_clusterobject")
            cursor.execute("ANALYZE observations_devicesample")
        idle = measure_idle(large)
        took = measure_recompute(large, size)
        browser = client()
        url = f"/capacity/?cluster={large.slug}"
        page = measure_page(browser, url)
        counts = queries(browser, url), queries(browser, f"/capacity/?cluster={small.slug}")
    finally:
        for cluster in made:
            remove_fleet(cluster)
    print(
        f"full {took['full'] * 1e3:.0f} ms, one node {took['node'] * 1e3:.1f} ms, one pod {took['pod'] * 1e3:.1f} ms; "
        f"idle cards {idle['idle'] * 1e3:.0f} ms, their samples by COPY {idle['scan'] * 1e3:.0f} ms; "
        f"page {page['page'] * 1e3:.1f} ms, empty page {page['empty'] * 1e3:.1f} ms; "
        f"queries {counts[0]} of {size.nodes} nodes, {counts[1]} of {SMALL.nodes}"
    )
    report(
        "capacity",
        [
            Result(
                "recompute after one node changed / full", took["node"] / took["full"], "ratio", 0.01, "lower"
            ),
            Result("recompute after one pod came / full", took["pod"] / took["full"], "ratio", 0.01, "lower"),
            Result(
                "/capacity/ / empty page with one query", page["page"] / page["empty"], "ratio", 5, "lower"
            ),
            Result(
                "cards held idle / their samples by COPY", idle["idle"] / idle["scan"], "ratio", 3, "lower"
            ),
            Result("queries at 5,000 nodes less those at 50", counts[0] - counts[1], "count", 0, "lower"),
        ],
        as_json=as_json,
    )


if __name__ == "__main__":
    main()
