"""One copy of the repository for all tests that run `./portal`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launcher.checkout import Checkout, copy_of_the_repository


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    folder: Path = copy_of_the_repository(tmp_path_factory.mktemp("checkout"))
    made = Checkout(folder)
    yield made
    left = made.processes()
    made.clean()
    assert not left, left
