"""Migrations of one app form one line, and `max_migration.txt` names its end: two branches that both add one
conflict in that file instead of on the server."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.apps import apps
from django.db.migrations.loader import MigrationLoader

ROOT = Path(__file__).resolve().parents[2]
OURS = sorted(
    config.label
    for config in apps.get_app_configs()
    if Path(config.path).is_relative_to(ROOT / "apps") and Path(config.path, "migrations").is_dir()
)


def test_there_are_apps_with_migrations() -> None:
    assert {"accounts", "fleet", "observations"} <= set(OURS)


@pytest.mark.parametrize("label", OURS)
def test_migrations_are_linear_and_end_where_the_file_says(label: str) -> None:
    loader = MigrationLoader(None)
    leaves = loader.graph.leaf_nodes(label)
    assert len(leaves) == 1
    chain = [name for app, name in loader.graph.forwards_plan(leaves[0]) if app == label]
    assert len(chain) == sum(app == label for app, _name in loader.disk_migrations)
    assert chain == sorted(chain), "names in the order of their numbers"
    recorded = Path(apps.get_app_config(label).path, "migrations", "max_migration.txt").read_text().strip()
    assert recorded == chain[-1]
