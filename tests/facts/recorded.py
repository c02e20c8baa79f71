"""Recorded lists as a collected cluster: the parsers read them, the writers store them, the selectors answer."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from apps.fleet.models import Cluster
from apps.observations import models
from apps.observations.services import Target, apply_changes, apply_list, event_target
from apps.observations.staging import Change
from worker.parsers.kinds import KINDS, decode_list, page_rows

DATA = Path(__file__).resolve().parents[1] / "data"


@functools.lru_cache(maxsize=64)
def rows_of(kind: str, file: str) -> tuple[tuple[Any, ...], ...]:
    found = KINDS[kind]
    page = decode_list(found, found.versions[0], (DATA / file).read_bytes())
    rows, bad = page_rows(found, page)
    assert not bad, f"{file}: {bad[:1]}"
    return tuple(rows)


def collected(slug: str, files: Iterable[tuple[str, str]], *, at: datetime) -> Cluster:
    """A cluster that holds what the files say, all of it first seen at `at`."""
    cluster = Cluster.objects.create(slug=slug, name=slug, kubeconfig_path="/nowhere")
    for kind_name, file in files:
        kind = KINDS[kind_name]
        rows = rows_of(kind_name, file)
        if kind.model == "Event":
            changes = [Change(at, False, row) for row in rows]
            apply_changes(cluster_id=cluster.pk, target=event_target(kind.columns), changes=changes)
        else:
            target = Target(getattr(models, kind.model), kind.name, kind.columns)
            _written, rejected = apply_list(cluster_id=cluster.pk, target=target, rows=rows, now=at)
            assert not rejected
    return cluster
