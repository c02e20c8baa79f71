"""Ingestion: 5,000 pods and 50,000 workloads in 1,000 ClusterQueues, from a real HTTP API into PostgreSQL.

Floors, all in this run: the `kubernetes` client's own models (timed on a sample and scaled per object), a bare
msgspec decode into the same structs, and downloading plus decoding the same bytes. The pulls run in fresh
processes like a worker's, one per source side by side, so that their peak memory is the pull's own (the larger
one counts). Each figure is a median of repeats.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench._report import Result, report

PODS, WORKLOADS, QUEUES = 5_000, 50_000, 1_000
MODEL_SAMPLE = 500
REPEATS = 3
SOURCES = ("pods", "kueue")


def django_setup() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuportal.settings")
    import django

    django.setup()


def seconds(work: Callable[[], object]) -> float:
    gc.collect()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def median(work: Callable[[], object], repeats: int = REPEATS) -> float:
    return statistics.median(seconds(work) for _ in range(repeats))


class Served:
    """The cluster's process."""

    def __init__(self, process: subprocess.Popen[str], kubeconfig: str) -> None:
        self.process, self.kubeconfig = process, kubeconfig

    def change(self, percent: float) -> int:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{percent}\n")
        self.process.stdin.flush()
        return int(json.loads(self.process.stdout.readline())["changed"])


@contextmanager
def served() -> Iterator[Served]:
    command = [sys.executable, "-m", "bench._served", str(PODS), str(WORKLOADS), str(QUEUES)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        yield Served(process, json.loads(process.stdout.readline())["kubeconfig"])
        process.stdin.close()


# ---- what is measured in processes of their own -----------------------------------------------------------------


def pages(kubeconfig: str, names: tuple[str, ...]) -> dict[str, list[bytes]]:
    from worker.clients.kube import client_for
    from worker.parsers.kinds import KINDS

    client = client_for(kubeconfig)
    return {name: list(client.list_pages(KINDS[name].path(KINDS[name].versions[0]))) for name in names}


def measure_parse(kubeconfig: str) -> dict[str, float]:
    """Per-object time of the models, and both decodes of the same pages of pods and workloads."""
    import msgspec
    from kubernetes import client as kubernetes_client

    from worker.parsers.decode import ListOf
    from worker.parsers.kinds import KINDS, decode_list

    bodies = pages(kubeconfig, ("Pod", "Workload"))
    decoders = {name: msgspec.json.Decoder(ListOf[KINDS[name].struct]) for name in bodies}  # type: ignore[name-defined]

    def bare() -> None:
        for name, raws in bodies.items():
            for raw in raws:
                decoders[name].decode(raw)

    def ours(names: tuple[str, ...] = ("Pod", "Workload")) -> None:
        for name in names:
            kind = KINDS[name]
            for raw in bodies[name]:
                decode_list(kind, kind.versions[0], raw)

    class Answer:
        def __init__(self, data: bytes) -> None:
            self.data = data.decode()

    models = kubernetes_client.ApiClient()
    sample = bodies["Pod"][0]
    assert len(json.loads(sample)["items"]) == MODEL_SAMPLE
    modelled = seconds(lambda: models.deserialize(Answer(sample).data, "V1PodList", "application/json"))
    return {
        "models": modelled / MODEL_SAMPLE * PODS,
        "pods": median(lambda: ours(("Pod",))),
        "bare": median(bare, 5),
        "ours": median(ours, 5),
        "bytes": sum(len(raw) for raws in bodies.values() for raw in raws),
    }


def measure_floor(kubeconfig: str) -> dict[str, float]:
    """Downloading and decoding, page by page, every list that a first pull reads."""
    from worker.clients.kube import client_for
    from worker.parsers.kinds import KINDS, decode_list, kinds_of

    client = client_for(kubeconfig)

    def read() -> None:
        for kind in (kind for source in SOURCES for kind in kinds_of(source)):
            for raw in client.list_pages(kind.path(kind.versions[0])):
                decode_list(KINDS[kind.name], kind.versions[0], raw)

    return {"floor": median(read)}


def work_on(source: str) -> None:
    """A worker of one source: each cluster's slug on stdin is pulled and answered with rows and peak memory."""
    from django.utils import timezone

    from apps.fleet.models import Cluster
    from worker.collectors.run import collect_source

    print("{}", flush=True)
    for line in sys.stdin:
        cluster = Cluster.objects.get(slug=line.strip())
        result = collect_source(cluster=cluster, source=source, now=timezone.now(), seconds=600)
        assert result.outcome == "ok", result
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"rows": result.rows_written + result.rows_gone, "peak_mib": peak}), flush=True)


class Workers:
    """One fresh worker process per source, as Celery runs them: side by side."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "bench.ingest", "--worker"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.processes = [subprocess.Popen([*command, source], **pipes) for source in SOURCES]
        self.peak_mib = 0.0
        self._answers()

    def _answers(self) -> list[dict[str, float]]:
        found = [json.loads(process.stdout.readline() or "null") for process in self.processes]
        if None in found:
            raise SystemExit("bench ingest: a worker ended without an answer")
        return found

    def pull(self, slug: str) -> tuple[float, int]:
        """Seconds until every source is pulled, and rows written."""
        started = time.perf_counter()
        for process in self.processes:
            process.stdin.write(f"{slug}\n")
            process.stdin.flush()
        answers = self._answers()
        took = time.perf_counter() - started
        self.peak_mib = max(self.peak_mib, *(answer["peak_mib"] for answer in answers))
        return took, int(sum(answer["rows"] for answer in answers))

    def end(self) -> None:
        for process in self.processes:
            process.stdin.close()
            process.wait(timeout=30)


def measure_pulls(served_cluster: Served) -> dict[str, float]:
    """First pulls, pulls without changes, pulls after 1 % changed."""
    from apps.fleet.models import Cluster

    workers = Workers()
    # A first pull needs a cluster that nothing is known of: each repeat is one more cluster.
    slugs = [f"bench-{os.getpid()}-{turn}" for turn in range(REPEATS)]
    Cluster.objects.bulk_create(
        Cluster(slug=slug, name="Bench", kubeconfig_path=served_cluster.kubeconfig) for slug in slugs
    )
    try:
        first = [workers.pull(slug) for slug in slugs]
        unchanged = [workers.pull(slugs[0]) for _ in range(REPEATS)]
        changed = []
        for _ in range(REPEATS):
            served_cluster.change(1)
            changed.append(workers.pull(slugs[0]))
    finally:
        workers.end()
        Cluster.objects.filter(slug__in=slugs).delete()
    return {
        "first": statistics.median(took for took, _rows in first),
        "first_rows": first[0][1],
        "unchanged": statistics.median(took for took, _rows in unchanged),
        "unchanged_rows": max(rows for _took, rows in unchanged),
        "changed": statistics.median(took for took, _rows in changed),
        "changed_rows": changed[0][1],
        "peak_mib": workers.peak_mib,
    }


MEASURES = {"parse": measure_parse, "floor": measure_floor}


def apart(name: str, kubeconfig: str) -> dict[str, float]:
    """Run one measure in a fresh process."""
    command = [sys.executable, "-m", "bench.ingest", "--measure", name, "--kubeconfig", kubeconfig]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def results_of(parse: dict[str, float], floor: float, pulls: dict[str, float]) -> list[Result]:
    return [
        Result("kubernetes models / our parse, pods", parse["models"] / parse["pods"], "ratio", 50, "higher"),
        Result("our parse / bare msgspec decode", parse["ours"] / parse["bare"], "ratio", 1.5, "lower"),
        Result("first pull / download and decode", pulls["first"] / floor, "ratio", 4, "lower"),
        Result(
            "pull after 1 % changed / first pull", pulls["changed"] / pulls["first"], "ratio", 0.04, "lower"
        ),
        Result("rows written by an unchanged pull", pulls["unchanged_rows"], "rows", 0, "lower"),
        Result("peak memory of the worker", pulls["peak_mib"], "MiB", 300 * 1e6 / 2**20, "lower"),
    ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", action="store_true")
    options.add_argument("--measure", choices=sorted(MEASURES), help=argparse.SUPPRESS)
    options.add_argument("--kubeconfig", help=argparse.SUPPRESS)
    options.add_argument("--worker", choices=SOURCES, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    django_setup()
    if chosen.worker:
        work_on(chosen.worker)
        return
    if chosen.measure:
        print(json.dumps(MEASURES[chosen.measure](chosen.kubeconfig)), flush=True)
        return
    root = Path(__file__).resolve().parent.parent
    subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], cwd=root, check=True)
    print(f"{PODS:,} pods and {WORKLOADS:,} workloads in {QUEUES:,} ClusterQueues", flush=True)
    with served() as cluster:
        parse = apart("parse", cluster.kubeconfig)
        before = apart("floor", cluster.kubeconfig)["floor"]
        pulls = measure_pulls(cluster)
        floor = statistics.mean((before, apart("floor", cluster.kubeconfig)["floor"]))
    print(
        f"{parse['bytes'] / 1e6:.0f} MB; models {parse['models']:.1f} s for all pods (from {MODEL_SAMPLE}), "
        f"our parse {parse['ours']:.2f} s, bare {parse['bare']:.2f} s; download and decode {floor:.2f} s\n"
        f"first pull {pulls['first']:.2f} s ({pulls['first_rows']:.0f} rows), unchanged "
        f"{pulls['unchanged']:.2f} s, 1 % changed {pulls['changed']:.2f} s ({pulls['changed_rows']:.0f} rows)"
    )
    report("ingest", results_of(parse, floor, pulls), as_json=chosen.json)


if __name__ == "__main__":
    main()
