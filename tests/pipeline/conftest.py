"""One pipeline for the whole folder: starting it costs more than any test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpuportal.launcher.testing import temporary_folder
from simcluster.testing import Running, running

from .plant import Plant, build, stop


@pytest.fixture(scope="package")
def sim() -> Iterator[Running]:
    """A scenario that stands still, so that every change is the test's own."""
    with running(scenario=True, days=0.5) as made:
        yield made


@pytest.fixture(scope="package")
def plant(sim: Running) -> Iterator[Plant]:
    with temporary_folder() as folder:
        made = build(folder, sim)
        try:
            yield made
        finally:
            stop(made)


@pytest.fixture(autouse=True)
def _healthy_cluster(sim: Running) -> Iterator[None]:
    yield
    sim.faults.clear()
