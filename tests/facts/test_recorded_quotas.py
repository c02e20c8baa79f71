"""Quota rows of the recorded clusters, with numbers worked out by hand from the same objects.

Cohort research (own quota: 4 h100) lies in org (none of its own). h100 in research, by Kueue's rule: team-a-cq has
8 and lends at most 4, so 4 stay at home; team-b-cq 8; team-c-cq 0. Subtree: 4 + (8 − 4) + 8 + 0 = 16. Held: team-a 12,
of which 12 − 4 = 8 reach the cohort, team-b 8: 16 of 16, nothing left. Kueue's own message on a-too-big names the
same ceilings: 24 for a100, 16 for h100.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal as D
from typing import Any

import pytest
from django.utils import translation

from apps.accounts.models import Team
from apps.fleet.models import Cluster, TeamBinding
from apps.observations.models import ClusterObject, Workload
from apps.quotas.rows import QuotaRow, TeamSummary
from apps.quotas.selectors import queue_forest, quota_rows, team_summaries
from apps.quotas.sentences import describe

from .recorded import collected

AT = datetime(2026, 12, 2, 3, 5, tzinfo=UTC)
KUEUE = [
    ("Node", "kueue/nodes.json"),
    ("ClusterQueue", "kueue/clusterqueues.json"),
    ("Cohort", "kueue/cohorts.json"),
    ("LocalQueue", "kueue/localqueues.json"),
    ("ResourceFlavor", "kueue/resourceflavors.json"),
    ("Workload", "kueue/workloads.json"),
]
VOLCANO = [
    ("Node", "volcano-capacity/nodes.json"),
    ("VolcanoQueue", "volcano-capacity/queues.json"),
    ("PodGroup", "volcano-capacity/podgroups.json"),
    ("Pod", "volcano-capacity/pods.json"),
]
GPU = "nvidia.com/gpu"
Kind = TeamBinding.Kind

pytestmark = pytest.mark.django_db


@pytest.fixture
def kueue() -> Cluster:
    return collected("kueue", KUEUE, at=AT)


@pytest.fixture
def volcano() -> Cluster:
    return collected("volcano", VOLCANO, at=AT)


def accelerators() -> dict[tuple[str, str, str], QuotaRow]:
    rows = [row for row in quota_rows(now=AT) if row.accelerator]
    return {(row.queue, row.flavor, row.resource): row for row in rows}


def said(row: QuotaRow) -> tuple[int | None, ...]:
    """(nominal, reserved, admitted, borrowed, lent, available, ceiling, over)"""
    numbers = (
        row.nominal,
        row.reserved,
        row.admitted,
        row.borrowed,
        row.lent,
        row.available,
        row.ceiling,
        row.over,
    )
    return tuple(None if number is None else int(number) for number in numbers)


# (queue, flavor, resource): nominal, reserved, admitted, borrowed, lent, available, ceiling, over
EXPECTED = {
    ("amd-cq", "mi300x", "amd.com/gpu"): (8, 8, 8, 0, 0, 0, 8, 0),
    ("broken-cq", "h200", GPU): (8, 0, 0, 0, 0, 8, 8, 0),
    ("checked-cq", "a100", GPU): (8, 3, 1, 0, 0, 5, 8, 0),  # 2 wait for their check with the quota reserved
    ("checked-dead-cq", "a100", GPU): (8, 0, 0, 0, 0, 8, 8, 0),
    ("drain-cq", "a100", GPU): (8, 0, 0, 0, 0, 8, 8, 0),
    ("hold-cq", "a100", GPU): (8, 0, 0, 0, 0, 8, 8, 0),
    ("infer-cq", "l4-shared", GPU): (16, 12, 12, 0, 0, 4, 16, 0),
    ("mig-cq", "mig-mixed", "nvidia.com/mig-1g.10gb"): (28, 28, 28, 0, 0, 0, 28, 0),
    ("mig-cq", "mig-mixed", "nvidia.com/mig-3g.40gb"): (10, 8, 8, 0, 0, 2, 10, 0),
    ("tas-cq", "h100-tas", GPU): (40, 6, 6, 0, 0, 34, 40, 0),
    # ceiling min(4 + 16, 8 + 8); 12 − 8 borrowed, from the cohort's own 4
    ("team-a-cq", "h100", GPU): (8, 12, 12, 4, 0, 0, 16, 0),
    ("team-a-cq", "a100", GPU): (24, 19, 19, 0, 0, 5, 24, 0),
    ("team-b-cq", "h100", GPU): (8, 8, 8, 0, 0, 0, 16, 0),  # min(16, 8 + 8)
    ("team-b-cq", "h100-spot", GPU): (8, 0, 0, 0, 0, 8, 8, 0),
    ("team-c-cq", "h100", GPU): (0, 0, 0, 0, 0, 0, 8, 0),  # min(16, 0 + 8)
}


def test_every_accelerator_row_by_hand(kueue: Cluster) -> None:
    rows = accelerators()
    assert {key: said(row) for key, row in rows.items()} == EXPECTED


def test_our_count_agrees_with_every_queue_status(kueue: Cluster) -> None:
    rows = quota_rows(now=AT)
    assert [row.queue for row in rows if row.mismatch] == []
    assert all(row.status_reserved is not None for row in rows)


def test_cpu_and_memory_are_kept_after_the_accelerators(kueue: Cluster) -> None:
    rows = [row for row in quota_rows(now=AT) if row.queue == "team-a-cq"]
    assert [(row.resource, row.flavor) for row in rows] == [
        (GPU, "h100"), (GPU, "a100"),
        ("cpu", "h100"), ("memory", "h100"), ("cpu", "a100"), ("memory", "a100"),
    ]  # fmt: skip
    cpu, memory = rows[2], rows[3]
    assert (cpu.accelerator, cpu.unit, cpu.nominal, cpu.reserved) == (False, "", D(400), D(8))
    assert (memory.nominal, memory.reserved) == (D(4 * 2**40), D(64 * 2**30))


def test_units_follow_the_nodes_that_a_flavor_reaches(kueue: Cluster) -> None:
    found = {key[1]: (row.unit, row.model_label) for key, row in accelerators().items()}
    assert found == {
        "mi300x": ("card", "MI300X"),
        "h200": ("device", ""),  # no node carries it
        "a100": ("card", "A100 80GB"),
        "l4-shared": ("time_slice", "L4"),
        "mig-mixed": ("mig_instance", "H100 80GB"),
        "h100-tas": ("card", "H100 80GB"),
        "h100": ("card", "H100 80GB"),
        "h100-spot": ("card", "H100 80GB"),
    }


# (queue): (asked, pieces of work) of the queue's accelerator, and its flavor that counts them
WAITING = {
    "amd-cq": ("mi300x", 4, 1),
    "broken-cq": ("h200", 1, 1),
    "checked-dead-cq": ("a100", 1, 1),
    "drain-cq": ("a100", 1, 1),
    "hold-cq": ("a100", 1, 1),
    "infer-cq": (
        "l4-shared",
        6 + 1 + 1 + 1,
        4,
    ),  # head, behind it, plain pod; one behind a stopped LocalQueue
    "mig-cq": ("mig-mixed", 1, 1),  # lab-mig-uncovered asks for a profile that the queue does not offer
    "tas-cq": ("h100-tas", 1 + 12, 2),
    "team-a-cq": ("h100", 2 + 64 + 1, 3),  # a-no-flavor, a-too-big, and lab-wrong-ns from namespace lab
    "team-b-cq": ("h100", 16 + 8 + 8 + 8, 4),  # two pending, spot-untolerated, urgent
    "team-c-cq": ("h100", 4 + 8, 2),
}


def test_waiting_work_counts_once_on_the_first_flavor(kueue: Cluster) -> None:
    rows = [row for row in accelerators().values() if row.waiting]
    assert {row.queue: (row.flavor, int(row.pending), row.waiting) for row in rows} == WAITING
    second = accelerators()["team-a-cq", "a100", GPU]
    assert (second.pending, second.waiting, second.pending_on) == (D(0), 0, "h100")


def test_stopped_and_broken_queues_say_why(kueue: Cluster) -> None:
    rows = accelerators()
    inactive = {key[0]: (row.stopped, row.reason) for key, row in rows.items() if not row.active}
    assert inactive == {
        "broken-cq": (False, "FlavorNotFound"),
        "checked-dead-cq": (False, "AdmissionCheckInactive"),
        "drain-cq": (True, "Stopped"),
        "hold-cq": (True, "Stopped"),
    }
    broken = rows["broken-cq", "h200", GPU]
    assert broken.message == "Can't admit new workloads: references missing ResourceFlavor(s): h200."
    assert broken.notes == ("There is no ResourceFlavor of this name.",)


def test_the_row_in_words(kueue: Cluster) -> None:
    with translation.override("en"):
        rows = {key: describe(row) for key, row in accelerators().items()}
    assert rows["team-a-cq", "h100", GPU] == (
        "Uses 12 of 8 H100 80GB. 4 of these are borrowed from cohort research. "
        "May grow to 16 while others leave them idle. 3 jobs wait for 67 more."
    )
    assert rows["mig-cq", "mig-mixed", "nvidia.com/mig-1g.10gb"] == (
        "Uses 28 of 28 MIG 1g.10gb of H100 80GB. It is at its ceiling. 1 job waits for 1 more."
    )
    assert rows["infer-cq", "l4-shared", GPU] == "Uses 12 of 16 time slices of L4. 4 jobs wait for 9 more."
    assert rows["drain-cq", "a100", GPU].endswith("The queue is stopped: it admits nothing new.")


def test_forest_has_the_cohorts_with_plain_sums(kueue: Cluster) -> None:
    roots = {node.name: node for node in queue_forest(now=AT)}
    assert set(roots) == {
        "org", "amd-cq", "broken-cq", "checked-cq", "checked-dead-cq", "drain-cq", "hold-cq", "infer-cq", "mig-cq", "tas-cq",
    }  # fmt: skip
    (research,) = roots["org"].children
    assert [node.name for node in research.children] == ["team-a-cq", "team-b-cq", "team-c-cq"]
    h100 = next(row for row in research.rows if (row.flavor, row.resource) == ("h100", GPU))
    # nominal 8 + 8 + 0 + 4 of its own; held 12 + 8; the rule leaves 0 available of a lendable 16, and team-a keeps 4
    assert (h100.nominal, h100.reserved, h100.available, h100.ceiling) == (D(20), D(20), D(0), D(20))
    assert research.waiting == 3 + 4 + 2
    # team-a borrows 4 of what research could lend, 16 + 24 + 8 over its flavors: 4000 / 48
    assert research.children[0].weighted_share == D("83.333")
    assert not research.implicit


@pytest.fixture
def teams(kueue: Cluster) -> dict[str, Team]:
    found = {slug: Team.objects.create(slug=slug, name=slug) for slug in ("a", "b", "lab", "idle")}
    bindings = [
        ("a", Kind.NAMESPACE, "", "team-a"),
        ("b", Kind.CLUSTER_QUEUE, "", "team-b-cq"),
        ("lab", Kind.NAMESPACE, "", "lab"),
    ]
    for slug, kind, namespace, name in bindings:
        TeamBinding.objects.create(
            team=found[slug],
            cluster=kueue,
            kind=kind,
            namespace=namespace,
            name=name,
            valid_from=AT - timedelta(days=1),
        )
    return found


def test_a_team_sees_the_queues_that_it_owns_or_that_its_local_queues_lead_to(teams: dict[str, Team]) -> None:
    def queues(slug: str) -> list[str]:
        return sorted({row.queue for row in quota_rows(now=AT, team_ids=[teams[slug].pk])})

    assert queues("a") == [
        "broken-cq", "checked-cq", "checked-dead-cq", "drain-cq", "hold-cq", "tas-cq", "team-a-cq",
    ]  # fmt: skip
    assert queues("b") == ["team-b-cq"]
    assert queues("lab") == ["amd-cq", "mig-cq", "team-a-cq"]
    assert queues("idle") == []


def test_a_team_sees_its_cohorts_but_no_other_queue(teams: dict[str, Team]) -> None:
    (org,) = queue_forest(now=AT, team_ids=[teams["b"].pk])
    (research,) = org.children
    assert [node.name for node in research.children] == ["team-b-cq"]
    h100 = next(row for row in research.rows if (row.flavor, row.resource) == ("h100", GPU))
    assert h100.reserved == D(20)


def lines(summary: TeamSummary) -> dict[str, tuple[int | None, ...]]:
    return {
        line.unit_label: tuple(
            None if number is None else int(number)
            for number in (
                line.used,
                line.nominal,
                line.borrowed,
                line.ceiling,
                line.waiting_units,
                line.waiting,
            )
        )
        for line in summary.lines
    }


def test_team_lines_per_unit_kind(teams: dict[str, Team]) -> None:
    with translation.override("en"):
        found = {summary.team_id: summary for summary in team_summaries(now=AT)}
    assert set(found) == {teams[slug].pk for slug in ("a", "b", "lab")}
    # b: h100 8 + spot 8; held 8; ceilings 16 + 8; four jobs wait for 40
    assert lines(found[teams["b"].pk]) == {"cards": (8, 16, 0, 24, 40, 4)}
    # lab: 8 MI300X, and team-a-cq's 8 + 24 that it shares: nominal 40, borrowed 4, ceiling 8 + 16 + 24; waits for
    # 4 MI300X and 1 GPU. MIG profiles are kinds of their own. One job asks for 7g.80gb, which no queue offers.
    assert lines(found[teams["lab"].pk]) == {
        "cards": (8, 40, 4, 48, 5, 2),
        "MIG 1g.10gb": (28, 28, 0, 28, 0, 0),
        "MIG 3g.40gb": (8, 10, 0, 10, 0, 0),
        "MIG 7g.80gb": (0, None, None, None, 1, 1),
    }
    cards = next(line for line in found[teams["lab"].pk].lines if line.unit == "card")
    assert cards.shared
    # a: 12 h100 + 19 a100 + 3 checked + 6 tas held by its namespace
    assert lines(found[teams["a"].pk])["cards"][0] == 40


def test_flavor_taken_off_the_spec_while_work_holds_it(kueue: Cluster) -> None:
    queue = ClusterObject.objects.get(kind="ClusterQueue", name="team-a-cq")
    queue.spec["resource_groups"][0]["flavors"] = [
        flavor for flavor in queue.spec["resource_groups"][0]["flavors"] if flavor["name"] != "a100"
    ]
    queue.save()
    row = accelerators()["team-a-cq", "a100", GPU]
    assert (row.listed, row.nominal, row.reserved, row.over) == (False, None, D(19), D(19))
    with translation.override("en"):
        assert describe(row).startswith(
            "Still holds 19 A100 80GB in a flavor that the queue no longer lists."
        )


def test_quota_lowered_below_use_is_over_and_never_hidden(kueue: Cluster) -> None:
    queue = ClusterObject.objects.get(kind="ClusterQueue", name="infer-cq")
    queue.spec["resource_groups"][0]["flavors"][0]["resources"][2]["nominal"] = "10"
    queue.save()
    row = accelerators()["infer-cq", "l4-shared", GPU]
    assert said(row) == (10, 12, 12, 0, 0, -2, 10, 2)
    assert "It is over its ceiling by 2" in describe(row)


def test_status_that_disagrees_is_noted_and_our_count_shown(kueue: Cluster) -> None:
    work = Workload.objects.filter(cluster_queue="infer-cq").exclude(usage=[])[0]
    gone = sum(int(cell["quantity"]) for cell in work.usage if cell["resource"] == GPU)
    work.usage = []
    work.save()
    row = accelerators()["infer-cq", "l4-shared", GPU]
    assert (row.reserved, row.status_reserved, row.mismatch) == (D(12 - gone), D(12), True)


def test_self_parent_cohort_is_said_and_does_not_hang(kueue: Cluster) -> None:
    research = ClusterObject.objects.get(kind="Cohort", name="research")
    research.spec["parent"] = "research"
    research.save()
    roots = {node.name: node for node in queue_forest(now=AT)}
    assert roots["research"].in_cycle
    assert [node.name for node in roots["org"].children] == []
    row = accelerators()["team-c-cq", "h100", GPU]
    assert (row.active, row.reason) == (False, "HasCycle")


def test_queries_do_not_grow_with_clusters_or_queues(
    kueue: Cluster, volcano: Cluster, django_assert_max_num_queries: Any
) -> None:
    for read in (quota_rows, queue_forest, team_summaries):
        with django_assert_max_num_queries(15):
            read(now=AT)


# (queue): deserved, held, running, available, ceiling; from pods on nodes and PodGroups let in
VOLCANO_EXPECTED = {
    "dormant": (2, 0, 0, None, None),
    "eng": (40, 44, 39, 12, 56),  # its children's 28 + 12 + 4; 56 − 44
    "production": (24, 28, 24, 12, 40),  # orphan-group is let in with 4; min(40 − 28, 56 − 44)
    "research": (16, 12, 11, 12, 24),  # wrong-model is let in with 1
    "scratch": (0, 4, 4, 0, 4),  # minResources says 2, its pods hold 4
    "vgpu": (8, 4, 0, 12, 16),
    "root": (50, 48, 39, None, None),  # its children: 40 + 8 + 2
}


def test_volcano_counts_from_pods_and_groups(volcano: Cluster) -> None:
    rows = {row.queue: row for row in quota_rows(now=AT) if row.resource == GPU}
    found = {
        name: tuple(
            None if n is None else int(n)
            for n in (row.nominal, row.reserved, row.admitted, row.available, row.ceiling)
        )
        for name, row in rows.items()
    }
    assert found == VOLCANO_EXPECTED
    assert [name for name, row in rows.items() if row.mismatch] == []  # the scheduler's own allocated agrees
    assert {name for name, row in rows.items() if row.is_parent} == {"root", "eng"}
    assert (rows["production"].stopped, rows["production"].reason) == (True, "Closing")
    waiting = {name: (int(row.pending), row.waiting) for name, row in rows.items() if row.waiting}
    assert waiting == {
        "production": (72, 1), "research": (32 + 1, 2), "scratch": (4, 1), "vgpu": (96, 1),
        "eng": (109, 4), "root": (205, 5),
    }  # fmt: skip


def test_volcano_team_counts_leaves_once(volcano: Cluster) -> None:
    team = Team.objects.create(slug="eng", name="eng")
    for name in ("eng", "production", "research"):
        TeamBinding.objects.create(
            team=team, cluster=volcano, kind=Kind.VOLCANO_QUEUE, name=name, valid_from=AT
        )
    (summary,) = team_summaries(now=AT, team_ids=[team.pk])
    # deserved 24 + 16 of the leaves, not the parent's 40 again; held 28 + 12; the mixed fleet leaves the unit open
    assert lines(summary)["devices"][:2] == (40, 40)
