"""Changes of quotas on a cluster, from asked for to applied, and whatever comes between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.changes import audit
from apps.changes.models import State
from simcluster.testing import Running
from worker.appliers.work import carry_on

from .yard import Yard, opened, queue_edit

pytestmark = [
    pytest.mark.pipeline,
    pytest.mark.xdist_group("pipeline"),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def yard(sim: Running, tmp_path: Path, transactional_db: None) -> Iterator[Yard]:
    with opened(sim, tmp_path) as made:
        yield made


def test_a_queue_gets_the_quota_that_was_asked_for(yard: Yard) -> None:
    before = yard.nominal("foundation-cq")
    wanted = str(int(before) + 4)
    request = yard.approved(queue_edit("foundation-cq", wanted))
    (step,) = yard.steps(request)
    assert yard.nominal("foundation-cq") == before
    assert carry_on(request.pk) == State.APPLIED
    assert yard.nominal("foundation-cq") == wanted
    (done,) = yard.steps(request)
    assert done.sent_at is not None
    assert done.done_at is not None
    assert done.written_version != step.resource_version
    assert yard.writes.of("ClusterQueue") == 1
    assert audit.verify() is None
