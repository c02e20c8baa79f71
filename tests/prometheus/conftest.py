"""A real Prometheus that scrapes the simulated cluster's exporter and a page with the odd shapes of real ones.

Three jobs read the same simulated exporter in the ways that installations do; the target labels are those that a
ServiceMonitor adds. Skipped, with how to enable it, only when there is no `prometheus` on the PATH.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

from simcluster.testing import Running, running
from worker.clients.errors import ClientError
from worker.clients.prom import PromClient
from worker.clients.tests.servers import Handler, serving

SHAPES = (Path(__file__).parent / "shapes.txt").read_bytes()
VENDORS = (Path(__file__).parent / "vendors.txt").read_text(encoding="utf-8")
EXPORTER = {"namespace": "gpu-operator", "pod": "nvidia-dcgm-exporter-x7k2p", "container": "exporter"}
OTHER_EXPORTER = {"namespace": "kube-system", "pod": "accelerator-agent-9", "container": "exporter"}


@dataclass(frozen=True, slots=True)
class Scraped:
    """The Prometheus, and the simulated cluster that it scrapes."""

    url: str
    client: PromClient
    sim: Running


def _job(
    name: str, target: str, *, labels: dict[str, str] | None = None, honor: bool = False
) -> dict[str, object]:
    return {
        "job_name": name,
        "honor_labels": honor,
        "static_configs": [{"targets": [target], "labels": labels or {}}],
    }


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait(client: PromClient, query: str, at_least: int) -> None:
    """Until so many series are there; the last answer explains a failure."""
    deadline = time.monotonic() + 60
    last: object = None
    while time.monotonic() < deadline:
        try:
            last = client.instant(query)
            if isinstance(last, list) and len(last) >= at_least:
                return
        except ClientError as error:
            last = error
        time.sleep(0.2)
    raise AssertionError(f"{query}: not {at_least} series: {last}")


@pytest.fixture(scope="session")
def binary() -> str:
    found = shutil.which("prometheus")
    if found is None:
        pytest.skip("no prometheus on the PATH; to enable: apt-get install prometheus")
    return found


@pytest.fixture(scope="session")
def scraped(binary: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    home = tmp_path_factory.mktemp("prometheus")
    with (
        running(scenario=True, days=0.25) as sim,
        serving(_shapes) as shapes,
        serving(_vendors) as vendors,
    ):
        exporter, odd, others = (page.url.removeprefix("http://") for page in (sim, shapes, vendors))
        jobs = [
            _job("dcgm-operator", exporter, labels=EXPORTER),
            _job("dcgm-honoring", exporter, labels=EXPORTER, honor=True),
            _job("dcgm-plain", exporter),
            _job("dcgm-shapes", odd),
            _job("other-vendors", others, labels={**OTHER_EXPORTER, "node": "mixed-1"}),
        ]
        config = {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}
        (home / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        port = _free_port()
        log = (home / "log").open("wb")
        process = subprocess.Popen(
            [
                binary,
                f"--config.file={home / 'prometheus.yml'}",
                f"--storage.tsdb.path={home / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--storage.tsdb.retention.time=1h",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        client = PromClient(f"http://127.0.0.1:{port}", 2, 10)
        try:
            _wait(client, "up == 1", len(jobs))
            yield Scraped(client.url, client, sim)
        finally:
            client.close()
            process.terminate()
            process.wait(timeout=20)
            log.close()


def _shapes(handler: Handler) -> None:
    handler.reply(SHAPES, Content_Type="text/plain; version=0.0.4")


def _vendors(handler: Handler) -> None:
    """Ascend's exporter writes its own timestamps, in milliseconds."""
    now = str(int(time.time() * 1000))
    handler.reply(VENDORS.replace("@NOW@", now).encode(), Content_Type="text/plain; version=0.0.4")


def exposition(sim: Running) -> str:
    """What the simulated exporter says right now."""
    with urlopen(f"{sim.url}/metrics", timeout=10) as answer:
        return str(answer.read().decode())
