"""A spec in words: what is written, what a left-out field means, and values that we do not know."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from apps.quotas.policy_words import (
    checks_text,
    cluster_queue_policy,
    cohort_policy,
    selector_text,
    share_text,
    volcano_policy,
)
from apps.quotas.volcano_plugin import QueuePlugin


def words(spec: dict[str, Any]) -> dict[str, str]:
    return {policy.code: policy.text for policy in cluster_queue_policy(spec)}


def test_an_empty_spec_reads_as_kueues_defaults() -> None:
    assert words({}) == {
        "strategy": "In order, but work that fits passes work that does not: a large workload can wait long.",
        "stop_policy": "Not stopped.",
        "within_cluster_queue": "Work of this queue never displaces other work of this queue.",
        "reclaim_within_cohort": "What others borrow from it comes back only when their work ends.",
        "borrow_within_cohort": "Never displaces work of others in order to borrow.",
        "when_can_borrow": "Takes the first flavor that fits, even if it has to borrow for it.",
        "when_can_preempt": "Tries every flavor before it displaces other work.",
        "namespace_selector": "No namespace: the selector is not set, so no work can enter.",
        "checks": "None: work is admitted as soon as its quota is reserved.",
        "fair_weight": "1: its share of what is borrowed counts divided by this.",
    }


@pytest.mark.parametrize(
    ("spec", "code", "said"),
    [
        ({"strategy": "StrictFIFO"}, "strategy", "nothing behind it is tried"),
        ({"stop_policy": "HoldAndDrain"}, "stop_policy", "running work is evicted"),
        ({"stop_policy": "Hold"}, "stop_policy", "running work goes on"),
        (
            {"preemption": {"within_cluster_queue": "LowerPriority"}},
            "within_cluster_queue",
            "of lower priority",
        ),
        (
            {"preemption": {"within_cluster_queue": "LowerOrNewerEqualPriority"}},
            "within_cluster_queue",
            "of equal priority that came later",
        ),
        ({"preemption": {"reclaim_within_cohort": "Any"}}, "reclaim_within_cohort", "whatever its priority"),
        (
            {
                "preemption": {
                    "borrow_within_cohort": {"policy": "LowerPriority", "max_priority_threshold": 0}
                }
            },
            "borrow_within_cohort",
            "only work of priority 0 or less",
        ),
        (
            {
                "preemption": {
                    "borrow_within_cohort": {"policy": "LowerPriority", "max_priority_threshold": None}
                }
            },
            "borrow_within_cohort",
            "even if it has to borrow.",
        ),
        ({"fungibility": {"when_can_borrow": "Borrow"}}, "when_can_borrow", "Takes the first flavor"),
        ({"fungibility": {"when_can_borrow": "TryNextFlavor"}}, "when_can_borrow", "before it borrows"),
        (
            {"fungibility": {"when_can_preempt": "Preempt"}},
            "when_can_preempt",
            "before it tries the next one",
        ),
        (
            {"fungibility": {"preference": "PreemptionOverBorrowing"}},
            "preference",
            "rather displaces work than borrows",
        ),
        ({"fair_weight": "0"}, "fair_weight", "infinitely greedy"),
        ({"strategy": "SomethingNew"}, "strategy", "SomethingNew"),
    ],
)
def test_each_choice_has_its_words(spec: dict[str, Any], code: str, said: str) -> None:
    assert said in words(spec)[code]


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        (None, "No namespace"),
        ({}, "Every namespace."),
        ({"matchLabels": {"team": "ml", "env": "prod"}}, "Namespaces with env = prod, team = ml."),
        (
            {
                "matchExpressions": [
                    {"key": "team", "operator": "In", "values": ["a", "b"]},
                    {"key": "old", "operator": "DoesNotExist"},
                ]
            },
            "Namespaces with team in (a, b), old not set.",
        ),
        (
            {"matchExpressions": [{"key": "k", "operator": "New", "values": [1]}]},
            "Namespaces with k New (1).",
        ),
    ],
)
def test_namespaces_in_words(selector: Any, said: str) -> None:
    assert selector_text(selector).startswith(said)


def test_checks_name_the_flavors_that_they_are_for() -> None:
    checks = [{"name": "prov", "flavors": ["spot"]}, {"name": "budget", "flavors": []}]
    assert checks_text(checks) == "After quota is reserved, these must agree: prov (only spot), budget."


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (None, "Not defined"),
        (Decimal(0), "0: it borrows nothing."),
        (Decimal("Infinity"), "∞: it borrows with fair weight 0"),
        (Decimal("108.108"), "108.108 ‰: "),
        (Decimal(1000), "1000 ‰: "),
    ],
)
def test_a_weighted_share_has_a_unit(share: Decimal | None, said: str) -> None:
    assert share_text(share).startswith(said)


def test_volcano_says_which_plugin_decides() -> None:
    spec = {"weight": 3, "reclaimable": False, "dequeue": "fifo", "priority": 5}
    by_plugin = {
        plugin: {policy.code: policy.text for policy in volcano_policy(spec, plugin=QueuePlugin(plugin))}
        for plugin in ("proportion", "capacity", "")
    }
    assert "moves with demand" in by_plugin["proportion"]["plugin"]
    assert "as configured" in by_plugin["capacity"]["plugin"]
    assert "not known" in by_plugin[""]["plugin"]
    assert by_plugin["capacity"]["weight"] == "3, which the capacity plugin does not use."
    assert by_plugin["proportion"]["weight"].startswith("3: ")
    assert "may not take back" in by_plugin[""]["reclaimable"]
    assert "stuck first workload" in by_plugin[""]["dequeue"]
    assert [policy.value for policy in volcano_policy({}, plugin=QueuePlugin(""))] == ["", "", "", "", ""]


def test_a_cohort_has_a_weight_only() -> None:
    assert [policy.code for policy in cohort_policy({"fair_weight": "0.5"})] == ["fair_weight"]
