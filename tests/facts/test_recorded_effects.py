"""What a change shows of the queues that it is about, on the recorded clusters, by hand."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from apps.accounts.models import User
from apps.changes.effects import LAST_CALL, note_due, note_effects
from apps.changes.models import ChangeEffect, ChangeRequest, ChangeStep
from apps.changes.selectors import EFFECT_GRACE
from apps.fleet.models import Cluster
from apps.observations.models import SourceState

from .recorded import collected
from .test_recorded_quotas import AT, KUEUE, VOLCANO

pytestmark = pytest.mark.django_db
FILE = Path(__file__).parents[1] / "data" / "changes" / "effects.yaml"
CASES = [
    (system, case["kinds"], case["expected"])
    for system, cases in yaml.safe_load(FILE.read_text()).items()
    for case in cases
]
Row = list[int | None]


def read(cluster: Cluster, at: datetime) -> None:
    """The collectors were there last then."""
    for source in ("kueue", "volcano"):
        SourceState.objects.update_or_create(cluster=cluster, source=source, defaults={"last_ok_at": at})


def a_request(cluster: Cluster, kinds: list[list[str]]) -> ChangeRequest:
    person = User.objects.create(username="admin", role=User.Role.PLATFORM_ADMIN)
    request = ChangeRequest.objects.create(
        cluster=cluster,
        edits=[],
        reason="to see",
        created_by=person,
        created_at=AT,
        applied_at=AT,
        state="applied",
    )
    for position, (kind, namespace, name) in enumerate(kinds):
        ChangeStep.objects.create(
            request=request,
            position=position,
            kind=kind,
            namespace=namespace,
            name=name,
            body=[],
            before={},
            after={},
        )
    return request


def noted(request: ChangeRequest, moment: str) -> dict[str, dict[str, Row]]:
    found: dict[str, dict[str, Row]] = {}
    for effect in request.effects.filter(moment=moment):
        if "gpu" not in effect.resource and effect.resource:
            continue  # the file has accelerators
        numbers: list[Decimal | int | None] = [
            *(effect.nominal, effect.held, effect.borrowed, effect.admitted_workloads),
            *(effect.waiting_workloads, effect.waiting_units),
        ]
        found.setdefault(effect.queue, {})[effect.resource] = [
            None if number is None else int(number) for number in numbers
        ]
    return found


@pytest.mark.parametrize(("system", "kinds", "expected"), CASES, ids=[f"{c[0]}-{c[1][0][2]}" for c in CASES])
def test_what_queues_have_is_noted(system: str, kinds: list[list[str]], expected: dict[str, Any]) -> None:
    cluster = collected(system, KUEUE if system == "kueue" else VOLCANO, at=AT)
    request = a_request(cluster, kinds)
    read(cluster, AT)
    assert note_effects(request, "before", AT)
    assert noted(request, "before") == expected
    assert not note_effects(request, "before", AT)


def test_an_effect_waits_for_the_collectors_and_is_noted_once() -> None:
    cluster = collected("kueue", KUEUE, at=AT)
    request = a_request(cluster, [["ClusterQueue", "", "team-c-cq"]])
    due = AT + timedelta(minutes=15)
    assert note_due(due - timedelta(seconds=1)) == []
    read(cluster, AT)
    assert note_due(due) == []
    read(cluster, due)
    assert note_due(due) == [(request.pk, "15m")]
    assert note_due(due) == []


def test_what_nobody_saw_is_noted_as_unknown_before_it_is_too_late() -> None:
    cluster = collected("kueue", KUEUE, at=AT)
    request = a_request(cluster, [["ClusterQueue", "", "team-c-cq"]])
    read(cluster, AT)
    late = AT + timedelta(minutes=15) + EFFECT_GRACE - LAST_CALL
    assert note_due(late - timedelta(seconds=1)) == []
    assert note_due(late) == [(request.pk, "15m")]
    effect = ChangeEffect.objects.get(request=request, moment="15m")
    assert (effect.queue, effect.held, effect.nominal) == ("team-c-cq", None, None)
