"""Beside which input a fault stands: every path that the checks of a change can name."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from apps.quotas.tree import Cell, QuotaNode
from apps.quotas.what_if_form import Target, cell_rows
from apps.quotas.what_if_places import PlacedFault, as_on_the_page, in_words, input_id, place

GPU = "nvidia.com/gpu"
TARGET = Target("Cohort", QuotaNode("ml", "Cohort", None, {("h100", GPU): Cell(Decimal(8))}), None)
EDIT: dict[str, Any] = {
    "kind": "Cohort",
    "name": "ml",
    "set": {
        "quotas": [
            {"flavor": "h100", "resource": GPU, "nominal": "x"},
            {"flavor": "", "resource": GPU, "nominal": "2"},
            {"flavor": "a100", "resource": "", "nominal": "-1"},
        ],
        "remove": [{"flavor": "h100"}],
    },
}
LISTED: dict[str, Any] = {"kind": "ClusterQueue", "name": "other", "set": {"quotas": "x"}}
JOB: dict[str, Any] = {"kind": "Workload", "action": "add", "pod_sets": [{"requests": {GPU: "x", "cpu": ""}}]}
WORK: dict[str, Any] = {"kind": "Workload", "action": "priority", "uid": "u", "priority": "x"}
CHANGES = [LISTED, EDIT, JOB, WORK]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("changes.1.set.cohort", "parent"),
        ("changes.1.set.parent", "parent"),
        ("changes.1.set.fair_weight", "fair_weight"),
        ("changes.1.set.stop_policy", "stop_policy"),
        ("changes.1.set.preemption.within_cluster_queue", "within_cluster_queue"),
        ("changes.1.set.preemption.borrow_within_cohort", "borrow_within_cohort"),
        ("changes.1.set.preemption.borrow_within_cohort.policy", "borrow_within_cohort"),
        ("changes.1.set.preemption.borrow_within_cohort.max_priority_threshold", "max_priority_threshold"),
        ("changes.1.set.fungibility.preference", "preference"),
        ("changes.1.set.quotas.0.nominal", f"nominal:h100:{GPU}"),
        ("changes.1.set.quotas.0.lending_limit", f"lending_limit:h100:{GPU}"),
        ("changes.1.set.quotas.0", f"nominal:h100:{GPU}"),  # given twice
        ("changes.1.set.quotas.0.flavor", f"nominal:h100:{GPU}"),  # in another group
        ("changes.1.set.quotas.1.flavor", "new_flavor"),
        ("changes.1.set.quotas.2.resource", "new_resource"),
        ("changes.1.set.quotas.2.nominal", "new_nominal"),
        ("changes.1.set.remove.0", "remove:h100"),
        ("changes.1.set", "parent"),  # limits that are there and would need a cohort
        ("changes.2.queue", "job_queue"),
        ("changes.2.local_queue", "job_queue"),
        ("changes.2.priority", "job_priority"),
        ("changes.2.pod_sets.0.count", "job_pods"),
        (f"changes.2.pod_sets.0.requests.{GPU}", "job_amount"),
        ("changes.2.pod_sets.0.requests.cpu", "job_also"),
        ("changes.2.pod_sets.0.requests.", "job_also"),  # a part without a name
        ("changes.3.uid", "work"),
        ("changes.3.priority", "work_priority"),
    ],
)
def test_what_is_on_the_form_is_said_at_its_input(path: str, name: str) -> None:
    found = place(path, CHANGES, given=[LISTED], target=TARGET, job_resource=GPU)
    assert found == (name, input_id(name))


@pytest.mark.parametrize(
    ("path", "anchor"),
    [
        ("changes.0.set.quotas", "tried-0"),
        ("changes.1.name", "h-choose"),  # the form has no input for it
        ("changes", ""),
        ("changes.9.kind", ""),
    ],
)
def test_what_came_with_the_address_is_said_at_its_line(path: str, anchor: str) -> None:
    assert place(path, CHANGES, given=[LISTED], target=TARGET, job_resource=GPU) == ("", anchor)


def test_a_job_of_the_address_is_a_line_and_the_edited_queue_of_the_address_is_on_the_form() -> None:
    assert place("changes.2.queue", CHANGES, given=CHANGES, target=TARGET, job_resource="") == ("", "tried-2")
    assert place("changes.1.set.parent", CHANGES, given=CHANGES, target=TARGET, job_resource="") == (
        "parent",
        "i-parent",
    )


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"set": 3}, "changes.0.set"),
        ({"set": {"quotas": 3}}, "changes.0.set.quotas"),
        ({"set": {"quotas": [3]}}, "changes.0.set.quotas.0"),
        ({"set": {"remove": [3]}}, "changes.0.set.remove.0"),
        ({}, "changes.0.set"),
    ],
)
def test_an_address_of_any_shape_has_a_place(change: dict[str, Any], path: str) -> None:
    broken = [{"kind": "Cohort", "name": "ml", **change}]
    assert place(path, broken, given=broken, target=TARGET, job_resource="")[1] in ("h-choose", "i-parent")


def test_ids_hold_no_blank_and_differ_where_names_do() -> None:
    names = [f"nominal:h 100:{GPU}", f"nominal:h%20100:{GPU}", "nominal:h\t100:x", "new_flavor"]
    ids = [input_id(name) for name in names]
    assert len({*ids}) == len(names)
    assert not any(char.isspace() for found in ids for char in found)


def test_a_resource_with_dots_is_one_word() -> None:
    assert in_words(f"changes.2.pod_sets.0.requests.{GPU}", CHANGES) == GPU
    assert in_words("changes.1.set.quotas.0.nominal", CHANGES) == f"ml, h100 {GPU}, nominal"


def test_faults_are_listed_as_their_inputs_stand_on_the_page() -> None:
    stand = ["", f"nominal:h100:{GPU}", f"lending_limit:h100:{GPU}", "new_flavor", "parent", "preference"]
    stand += ["remove:h100", "job_queue", "work"]
    faults = [PlacedFault(name, "", "", "") for name in reversed(stand)]
    assert [fault.name for fault in as_on_the_page(faults, cell_rows(TARGET, ()))] == stand
