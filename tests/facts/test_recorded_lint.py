"""What the lint says of the recorded clusters, listed by hand from the objects before it was run.

Cohort research: only team-a-cq lists a100, only team-b-cq h100-spot, so nobody can borrow either; h100 goes round. team-b
may borrow 8: 8 + 8 = 16, all that reaches research (16), which is just not too much; team-c 0 + 8, team-a 8 + 8 < 4 + 16.
Volcano's eng guarantees 16 ≥ 8 + 4, deserves 40 = 24 + 16 + 0 cards and 400 = 200 + 200 + 0 cpu; no capability below
it is above 56 cards or 800 cpu.
"""

from __future__ import annotations

import pytest

from apps.findings.selectors import findings
from apps.observations.models import ClusterObject
from apps.quotas.lint import lint
from apps.quotas.lint_loading import lint_facts
from apps.quotas.lint_model import Problem
from apps.quotas.snapshot import load_snapshot

from .recorded import collected
from .test_recorded_quotas import AT, KUEUE, VOLCANO

pytestmark = pytest.mark.django_db
CHECKS = ("AdmissionCheck", "kueue/admissionchecks.json")


def linted(slug: str, files: list[tuple[str, str]]) -> list[Problem]:
    cluster = collected(slug, files, at=AT)
    return lint(lint_facts(load_snapshot(now=AT, clusters=[cluster]), cluster))


def told(found: list[Problem]) -> list[tuple[str, str, str]]:
    return [(item.code, item.cause, item.main.name) for item in found]


def test_kueue() -> None:
    found = linted("kueue", [*KUEUE, CHECKS])
    assert told(found) == [
        ("never_admits", "flavor_missing", "broken-cq"),
        ("never_admits", "check_inactive", "checked-dead-cq"),
        ("never_admits", "stopped", "drain-cq"),
        ("never_admits", "stopped", "hold-cq"),
        ("local_queue_nowhere", "", "ghost"),
        ("lendable_unreachable", "queue", "team-a-cq"),
        ("lendable_unreachable", "queue", "team-b-cq"),
    ]
    assert [{flavor for flavor, _resource in item.cells} for item in found[-2:]] == [{"a100"}, {"h100-spot"}]


@pytest.mark.parametrize("run", ["capacity", "proportion"])
def test_volcano(run: str) -> None:
    files = [(kind, file.replace("volcano-capacity", f"volcano-{run}")) for kind, file in VOLCANO]
    assert told(linted("volcano", files)) == [
        ("never_admits", "stopped", "dormant"),
        ("never_admits", "stopped", "production"),
    ]


def test_each_matter_is_told_once() -> None:
    """What Kueue says of its queues and what lint finds are one finding, with Kueue's time."""
    cluster = collected("kueue", [*KUEUE, CHECKS], at=AT)
    found = [item for item in findings(now=AT, clusters=[cluster]) if item.target == "queue"]
    assert len({item.key for item in found}) == len(found)
    about = [item for item in found if item.objects[0].name == "broken-cq"]
    assert [(item.code, item.since is not None) for item in about] == [("never_admits", True)]
    everything = findings(now=AT, clusters=[cluster])
    named = [item.code for item in everything if any(ref.name == "h200" for ref in item.objects)]
    assert named == ["never_admits"]


def test_namespaces_are_judged_once_they_are_read() -> None:
    """team-c's label is "c" and no namespace has it; the others are served."""
    cluster = collected("kueue", [*KUEUE, CHECKS], at=AT)
    for name, labels in (("team-a", {"team": "a"}), ("team-b", {"team": "b"}), ("lab", {})):
        ClusterObject.objects.create(
            cluster=cluster,
            kind="Namespace",
            name=name,
            uid=name,
            labels=labels,
            first_seen_at=AT,
            observed_at=AT,
        )
    found = lint(lint_facts(load_snapshot(now=AT, clusters=[cluster]), cluster))
    assert [item.main.name for item in found if item.cause == "no_namespace"] == ["team-c-cq"]
