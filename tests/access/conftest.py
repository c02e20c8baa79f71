import pytest

from apps.api.tests.world import World, make_world


@pytest.fixture
def world(db: None) -> World:
    return make_world()
