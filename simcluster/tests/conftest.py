"""A scenario of three days that stands still, shared by the tests that only read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from simcluster.testing import Running, running
from simcluster.tests.libraries import config


@pytest.fixture(scope="module")
def demo() -> Iterator[Running]:
    with running(scenario=True, days=3, seed=5) as sim:
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
