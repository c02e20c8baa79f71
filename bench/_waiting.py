"""The rollup of waiting work, and the pages that read it, at the size of a large fleet.

Floor of the rollup, in the same run: one COPY of the same state spans into a table with the same indexes. Of the pages: the
same page over 30 days, against a year of rolled-up hours.
"""

from __future__ import annotations

import io
import statistics
from datetime import UTC, datetime, timedelta
from typing import Any

from bench._page import client, measure_page, seconds
from bench._report import Result

WORKLOADS, TEXTS, QUEUES = 50_000, 2_000, 200
REPEATS = 3
BEGIN = datetime(2026, 11, 2, tzinfo=UTC)
HOURS = 6
YEAR_QUEUES = 10
PAGES = ("/admissions/", "/admissions/over-time/")

# Eight spans each, over some hours: waiting for two reasons, a check, running, evicted, and again to the end.
_SPANS = """
INSERT INTO observations_statespan (cluster_id, kind, uid, namespace, name, queue_name, queue, state, reason, message,
  requests, usage, started_at, ended_at)
SELECT %(cluster)s, 'Workload', 'w' || n, 'ns' || n %% 100, 'w' || n, 'main', 'queue-' || n %% %(queues)s,
  s.state, s.reason, CASE WHEN s.state = 'pending' THEN
    'couldn''t assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, '
    || (n * 7 + s.place) %% %(texts)s || ' more needed' ELSE '' END,
  jsonb_build_object('nvidia.com/gpu', (1 + n %% 16)::text, 'cpu', '8'),
  CASE WHEN s.state IN ('reserved', 'admitted') THEN jsonb_build_array(jsonb_build_object(
    'flavor', 'h100', 'resource', 'nvidia.com/gpu', 'quantity', (1 + n %% 16)::text)) ELSE '[]'::jsonb END,
  %(begin)s + make_interval(secs => n %% 7200 + s.place * 1800),
  CASE WHEN s.place < 7 THEN %(begin)s + make_interval(secs => n %% 7200 + (s.place + 1) * 1800) END
FROM generate_series(1, %(workloads)s) n
CROSS JOIN (VALUES (0, 'pending', 'Pending'), (1, 'pending', 'Inadmissible'), (2, 'reserved', ''), (3, 'admitted', ''),
  (4, 'pending', 'Pending'), (5, 'reserved', ''), (6, 'admitted', ''), (7, 'finished', 'Succeeded')
) AS s(place, state, reason)
"""
_WORKLOADS = """
INSERT INTO observations_workload (cluster_id, kind, uid, namespace, name, resource_version, labels, created_at,
  first_seen_at, observed_at, state, reason, message, queue_name, cluster_queue, priority_class, owner_kind, owner_name,
  owner_uid, active, pod_sets, requests, usage, conditions, checks, evictions, queued_at)
SELECT %(cluster)s, 'Workload', 'w' || n, 'ns' || n %% 100, 'w' || n, '', '{}', %(begin)s + make_interval(secs => n %% 7200),
  %(begin)s, %(begin)s + make_interval(secs => n %% 7200 + 12600), 'finished', 'Succeeded', '', 'main', '', '', 'Job',
  'w' || n, 'job-' || n, true, '[{"name": "main", "count": 1}]', '{}', '[]', '{}', '[]', 1, NULL
FROM generate_series(1, %(workloads)s) n
"""
_ROWS = "SELECT * FROM observations_statespan WHERE cluster_id = %s"
_YEAR = """
INSERT INTO usage_blockhour (cluster_id, queue, flavor, layer, cause, reason, resource, step, hour, rules, current, seconds)
SELECT %(cluster)s, 'queue-' || q, '', 'admission', c.cause, 'Pending', r.resource, 'hour', hour, 1, true, 600 + q
FROM generate_series(%(begin)s - interval '365 days', %(begin)s - interval '1 hour', interval '1 hour') hour
CROSS JOIN generate_series(1, %(queues)s) q
CROSS JOIN (VALUES ('quota'), ('topology'), ('held')) c(cause)
CROSS JOIN (VALUES (''), ('nvidia.com/gpu')) r(resource);
INSERT INTO usage_waithour (cluster_id, queue, flavor, size, which, ended, step, hour, ended_in, seconds, count)
SELECT %(cluster)s, 'queue-' || q, 'h100', '8', 'first', 'reserved', 'hour', hour, hour, 60 * (1 + n * q %% 40), 1
FROM generate_series(%(begin)s - interval '365 days', %(begin)s - interval '1 hour', interval '1 hour') hour
CROSS JOIN generate_series(1, %(queues)s) q CROSS JOIN generate_series(1, 3) n
ON CONFLICT DO NOTHING;
INSERT INTO usage_outcomehour (cluster_id, queue, step, hour, what, reason, count)
SELECT %(cluster)s, 'queue-' || q, 'hour', hour, w.what, '', 3
FROM generate_series(%(begin)s - interval '365 days', %(begin)s - interval '1 hour', interval '1 hour') hour
CROSS JOIN generate_series(1, %(queues)s) q
CROSS JOIN (VALUES ('submitted'), ('reserved'), ('succeeded'), ('failed'), ('evicted')) w(what)
"""


def measure_rollup(cluster: Any) -> Result:
    """Seconds of the rollup of all hours of the work ÷ seconds of a COPY of its spans."""
    from django.db import connection

    from apps.usage.admission_rollup import rollup_admissions
    from apps.usage.models import Watermark

    given = {"cluster": cluster.pk, "begin": BEGIN, "workloads": WORKLOADS, "texts": TEXTS, "queues": QUEUES}
    with connection.cursor() as cursor:
        cursor.execute(_SPANS, given)
        cursor.execute(_WORKLOADS, given)
        cursor.execute("ANALYZE observations_statespan, observations_workload")
        cursor.execute("CREATE TABLE IF NOT EXISTS bench_spans (LIKE observations_statespan INCLUDING ALL)")
        cursor.execute("ALTER TABLE bench_spans ALTER COLUMN id DROP IDENTITY IF EXISTS")
        with cursor.copy(f"COPY ({_ROWS}) TO STDOUT", (cluster.pk,)) as out:
            rows = b"".join(bytes(block) for block in out)
    copies, rollups, result = [], [], None
    for _turn in range(REPEATS):
        copies.append(_copy(rows))
        Watermark.objects.filter(cluster=cluster).delete()

        def roll() -> None:
            nonlocal result
            result = rollup_admissions(cluster=cluster, now=BEGIN + timedelta(hours=HOURS))

        rollups.append(seconds(roll))
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE bench_spans")
    copied, rolled = statistics.median(copies), statistics.median(rollups)
    print(
        f"{WORKLOADS * 8:,} spans, {len(rows) / 1e6:.0f} MB: COPY {copied:.2f} s, rollup {rolled:.2f} s"
        f" ({result.rows if result else 0:,} rows)"
    )
    return Result(
        "rollup of 50,000 workloads × 8 / COPY of their spans", rolled / copied, "ratio", 5, "lower"
    )


def _copy(rows: bytes) -> float:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE bench_spans")

        def work() -> None:
            stream = io.BytesIO(rows)
            with cursor.copy("COPY bench_spans FROM STDIN") as into:
                while block := stream.read(1 << 20):
                    into.write(block)

        return seconds(work)


def measure_year(cluster: Any) -> list[Result]:
    """Server time of each page over a year ÷ over 30 days."""
    from django.db import connection

    from apps.usage.admission_reading import REACH, SINCE
    from apps.usage.admission_rollup import sum_tiers
    from apps.usage.models import Watermark

    with connection.cursor() as cursor:
        cursor.execute(_YEAR, {"cluster": cluster.pk, "begin": BEGIN, "queues": YEAR_QUEUES})
    sum_tiers(cluster=cluster, start=BEGIN - timedelta(days=365), end=BEGIN)
    for rollup, at in ((SINCE, BEGIN - timedelta(days=365)), (REACH, BEGIN)):
        Watermark.objects.update_or_create(cluster=cluster, rollup=rollup, defaults={"done_until": at})
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE usage_blockhour, usage_waithour, usage_outcomehour")
    browser = client()
    return [_year_of(browser, page, cluster) for page in PAGES]


def _year_of(browser: Any, page: str, cluster: Any) -> Result:
    took = {}
    for days in (30, 365):
        start = BEGIN - timedelta(days=days)
        url = f"{page}?cluster={cluster.slug}&from={start:%Y-%m-%d}&to={BEGIN:%Y-%m-%d}"
        took[days] = measure_page(browser, url)["page"]
    print(f"{page} over 30 days {took[30] * 1e3:.1f} ms, over a year {took[365] * 1e3:.1f} ms")
    return Result(f"{page} over a year / over 30 days", took[365] / took[30], "ratio", 1.5, "lower")


def measure() -> list[Result]:
    """On clusters of its own, which are removed afterwards."""
    import os

    from django.db import connection

    from apps.fleet.models import Cluster
    from apps.observations.models import StateSpan, Workload

    slug = f"bench-{os.getpid()}"
    work, year = (
        Cluster.objects.create(slug=f"{slug}-{name}", name=name, kubeconfig_path="/nowhere", enabled=True)
        for name in ("work", "year")
    )
    try:
        return [measure_rollup(work), *measure_year(year)]
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS bench_spans")
        for model in (StateSpan, Workload):
            model._default_manager.filter(cluster=work)._raw_delete("default")
        Cluster.objects.filter(pk__in=[work.pk, year.pk]).delete()
