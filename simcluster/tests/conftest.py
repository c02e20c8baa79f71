"""A scenario of three days that stands still, shared by the tests that only read it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from simcluster.testing import Running, running
from simcluster.tests.libraries import config

AFTERNOON = datetime(2026, 12, 1, 14, tzinfo=UTC).timestamp()


@pytest.fixture(scope="module")
def demo() -> Iterator[Running]:
    """A simulation of three days that ends at the same time of day whenever the tests run: what lies where depends
    on it."""
    ahead = AFTERNOON - time.time()
    with running(scenario=True, days=3, seed=5, clock=lambda: time.time() + ahead) as sim:
        yield sim


@pytest.fixture(scope="module")
def api(demo: Running) -> Any:
    return config.new_client_from_config(str(demo.kubeconfig))


@pytest.fixture
def empty() -> Iterator[Running]:
    """No objects; tests put their own in."""
    with running(objects={}) as sim:
        yield sim


@pytest.fixture
def empty_api(empty: Running) -> Any:
    return config.new_client_from_config(str(empty.kubeconfig))
