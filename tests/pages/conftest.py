from __future__ import annotations

import pytest

from apps.api.tests.world import World, make_world
from tests.changes.conftest import desk

__all__ = ["desk", "world"]


@pytest.fixture
def world(db: None) -> World:
    return make_world()
