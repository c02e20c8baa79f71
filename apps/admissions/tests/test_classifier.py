"""The classifier: how the primary part is chosen, what the nodes add, and texts nobody expects. The wordings of each
writer are in test_corpus.py."""

from __future__ import annotations

import time
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.admissions.classifier import Check, classify, rule_book, split
from apps.admissions.labels import (
    CAUSE_LABELS,
    CAUSE_MEANINGS,
    LAYER_LABELS,
    RULE_SENTENCES,
    next_step,
    part_sentence,
    verdict_sentence,
)
from apps.admissions.tests.test_corpus import ROWS

SET = "couldn't assign flavors to pod set main: "

PREEMPTION = (
    " no new claims to deallocate, preemption: 0/24 nodes are available: 2 No preemption victims found for"
    " incoming pod, 22 Preemption is not helpful for scheduling."
)
LIST = "0/24 nodes are available: "


@pytest.mark.parametrize(
    ("token", "cause"),
    [
        ("NoMatchingFlavor", "model"),
        ("WaitingForQuota", "quota"),
        ("ExceedsMaxQuota", "quota"),
        ("TopologyPlacementFailed", "topology"),
        ("WaitingForPreemptedWorkloads", "transient"),
        ("Misconfigured", "configuration"),
        ("Suspended", "held"),
        ("PendingEvaluation", "transient"),
        ("WaitingForPodsReady", "transient"),
        ("AdmissionGated", "held"),
        ("OnHold", "held"),
        ("Deactivated", "held"),
        ("DeactivatedDueToRequeuingLimitExceeded", "startup"),
        ("UnexpectedAdmissionError", "device"),
    ],
)
def test_a_granular_token_decides_before_the_text(token: str, cause: str) -> None:
    bare = classify(state="pending", reason=token, message="some text of a later version")
    assert bare.cause == cause
    assert [part.text for part in bare.parts] == ["some text of a later version"]
    text = (
        SET
        + "flavor a100 doesn't match node affinity, insufficient unused quota for gpu in flavor b, 1 more needed"
    )
    assert classify(reason=token, message=text).cause == cause


def test_the_part_that_agrees_with_the_token_is_primary() -> None:
    text = (
        SET
        + "flavor a100 doesn't match node affinity, insufficient unused quota for nvidia.com/gpu in flavor h100, 3 more needed"
    )
    verdict = classify(reason="WaitingForQuota", message=text)
    assert verdict.primary is not None
    assert (verdict.primary.needed, verdict.primary.flavor) == (Decimal(3), "h100")


def unused(resource: str, flavor: str, needed: int = 1) -> str:
    return f"insufficient unused quota for {resource} in flavor {flavor}, {needed} more needed"


def over(resource: str, flavor: str) -> str:
    return (
        f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests (0) +"
        " current podset request (9) > maximum capacity (8)"
    )


@pytest.mark.parametrize(
    ("message", "rule", "flavor"),
    [
        # Alternative flavors of one group: the mildest counts.
        (f"{SET}{over('gpu', 'a')}, {unused('gpu', 'b')}", "quota-unused", "b"),
        (f"{SET}flavor a doesn't match node affinity, {over('gpu', 'b')}", "exceeds-max", "b"),
        # Within a flavor the most severe.
        (f"{SET}{over('gpu', 'a')}, {unused('cpu', 'a')}", "exceeds-max", "a"),
        # Two groups, named by disjoint resources: the most severe.
        (f"{SET}{unused('cpu', 'default')}, {over('gpu', 'a')}", "exceeds-max", "a"),
        # Groups join when a flavor names resources of both.
        (
            f"{SET}{over('gpu', 'a')}, {unused('cpu', 'b')}, {unused('gpu', 'c')}, {unused('cpu', 'c')}",
            "quota-unused",
            "b",
        ),
        # A resource that the queue lacks is a group of its own.
        (f"{SET}{unused('cpu', 'a')}, resource gpu unavailable in ClusterQueue", "resource-not-covered", ""),
        # Several pod sets: the most severe.
        (
            f"{SET}{unused('gpu', 'a')}; couldn't assign flavors to pod set ps: {over('gpu', 'b')}",
            "exceeds-max",
            "b",
        ),
        # Suffixes about preemption are never the cause.
        (f"{SET}{unused('gpu', 'a')}. Pending the preemption of 2 workload(s)", "quota-unused", "a"),
        (f"{SET}{unused('gpu', 'a')}. Preempting 2 workload(s) failed, will retry.", "quota-unused", "a"),
        ("failed to assign flavors to pod set main: flavor x not found", "flavor-missing", "x"),
    ],
)
def test_the_primary_of_a_composite_message(message: str, rule: str, flavor: str) -> None:
    primary = classify(reason="Pending", message=message).primary
    assert primary is not None
    assert (primary.rule, primary.flavor) == (rule, flavor)


def test_every_part_is_kept_with_its_numbers() -> None:
    parts = split(
        f"{SET}{unused('nvidia.com/gpu', 'h100', 12)}; couldn't assign flavors to pod set workers:"
        f" {over('memory', 'cpu-only')}, what is this. Pending the preemption of 3 workload(s)"
    )
    assert [(p.pod_set, p.rule, p.resource, p.needed, p.ceiling) for p in parts] == [
        ("main", "quota-unused", "nvidia.com/gpu", Decimal(12), None),
        ("workers", "exceeds-max", "memory", None, Decimal(8)),
        ("workers", "unknown", "", None, None),
        ("workers", "preemption-pending", "", None, None),
    ]
    assert parts[2].text == "what is this"


def test_node_counts_are_read_and_nested_preemption_is_a_note() -> None:
    parts = split(
        LIST + "4 Insufficient nvidia.com/gpu, 20 node(s) had untolerated taint {a: b}." + PREEMPTION
    )
    assert [(p.rule, p.nodes, p.is_note) for p in parts] == [
        ("insufficient-device", 4, False),
        ("node-taint", 20, False),
        ("preemption-note", None, True),
        ("preemption-note", 2, True),
        ("preemption-note", 22, True),
    ]


def test_a_message_cut_at_1024_characters_keeps_what_is_readable() -> None:
    text = (SET + ", ".join(unused("nvidia.com/gpu", f"flavor-{i}", i) for i in range(1, 40)))[:1020] + " ..."
    verdict = classify(reason="Pending", message=text)
    assert verdict.cause == "quota"
    assert len([part for part in verdict.parts if part.rule == "quota-unused"]) == 12
    assert verdict.parts[-1].rule == "unknown"


def test_unknown_text_keeps_its_raw_form() -> None:
    verdict = classify(state="pending", reason="Pending", message="the moon is in the wrong phase, sorry")
    assert (verdict.cause, verdict.rule) == ("unknown", "unknown")
    assert verdict.primary is not None
    assert verdict.primary.text == "the moon is in the wrong phase, sorry"
    assert verdict_sentence(verdict) == "the moon is in the wrong phase, sorry"


def test_work_without_a_statement_is_not_evaluated_yet() -> None:
    verdict = classify(state="pending")
    assert (verdict.cause, verdict.rule) == ("transient", "not-evaluated")
    assert verdict_sentence(verdict) == "no reason given yet"


@pytest.mark.parametrize(
    ("checks", "cause", "rule"),
    [
        ((Check("budget", "Pending"),), "held", "check-pending"),
        ((Check("budget", "Ready"), Check("audit", "Retry", "later")), "held", "check-retry"),
        (
            (Check("nodes", "Pending", "", "kueue.x-k8s.io/provisioning-request"),),
            "scale_up",
            "provisioning-pending",
        ),
        ((Check("nodes", "Retry", "Retrying after failure: no stock"),), "scale_up", "provisioning-retry"),
        ((Check("a", "Pending"), Check("b", "Rejected", "no money")), "held", "check-rejected"),
    ],
)
def test_open_checks_explain_reserved_work(checks: tuple[Check, ...], cause: str, rule: str) -> None:
    verdict = classify(state="reserved", reason="UnsatisfiedAdmissionChecks", checks=checks)
    assert (verdict.cause, verdict.rule) == (cause, rule)


def test_checks_are_read_from_stored_text_too() -> None:
    verdict = classify(
        state="reserved",
        reason="UnsatisfiedAdmissionChecks",
        message="nodes: Retry (Retrying after failure: no stock); budget: Pending",
    )
    assert (verdict.cause, verdict.rule) == ("scale_up", "provisioning-retry")


def test_an_inactive_queue_is_held_or_broken_by_its_own_condition() -> None:
    text = "ClusterQueue team-a is inactive"
    assert classify(message=text, queue_reason="Stopped").cause == "held"
    broken = classify(message=text, queue_reason="FlavorNotFound")
    assert (broken.cause, broken.rule) == ("configuration", "queue-broken")
    assert verdict_sentence(broken) == "ClusterQueue team-a is inactive (FlavorNotFound)"


@pytest.mark.parametrize(
    ("text", "over", "rule", "sentence"),
    [
        ("queue resource quota insufficient: insufficient cpu, insufficient gpu", ("gpu",), "volcano-over-ceiling", "asks for more gpu than the queue can ever give"),
        ("queue resource quota insufficient", ("gpu",), "volcano-over-ceiling", "asks for more gpu than the queue can ever give"),
        # What it complains of may come free, whatever else is over.
        ("queue resource quota insufficient: insufficient cpu", ("gpu",), "volcano-quota", "queue resource quota insufficient: insufficient cpu"),
        ("queue resource quota insufficient: insufficient gpu", (), "volcano-quota", "queue resource quota insufficient: insufficient gpu"),
        ("resource in cluster is overused: overused gpu", ("gpu",), "volcano-overused", "resource in cluster is overused: overused gpu"),
    ],
)  # fmt: skip
def test_a_ceiling_that_the_text_does_not_tell(
    text: str, over: tuple[str, ...], rule: str, sentence: str
) -> None:
    verdict = classify(state="pending", reason="Unschedulable", message=text, over_ceiling=over)
    assert (verdict.cause in ("quota", "capacity"), verdict.rule) == (True, rule)
    assert verdict_sentence(verdict) == sentence


def test_sentences_are_filled_with_the_numbers() -> None:
    verdict = classify(message=SET + unused("nvidia.com/gpu", "h100", 12))
    assert verdict_sentence(verdict) == "needs 12 more nvidia.com/gpu in flavor h100"
    assert next_step(verdict) == "Wait for running work to end, or ask for more quota."
    old = split(SET + "insufficient quota for cpu in flavor spot in ClusterQueue")[0]
    assert part_sentence(old) == "asks for more cpu than flavor spot can ever give"


def test_the_rules_are_complete() -> None:
    book = rule_book()
    assert book.version == 2
    for rule in book.rules.values():
        assert rule.cause in CAUSE_LABELS, rule.id
        assert rule.layer in LAYER_LABELS, rule.id
    assert set(CAUSE_MEANINGS) == set(CAUSE_LABELS)
    assert set(RULE_SENTENCES) <= set(book.rules)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=80),
            st.sampled_from([row["says"] for row in ROWS]),
            st.sampled_from([", ", "; ", ". ", ": ", "{", "}", '"', SET, LIST, PREEMPTION, "\x00", "\ud800"]),
        ),
        max_size=12,
    ),
    st.sampled_from(["", "pending", "reserved", "deactivated"]),
    st.sampled_from(["Pending", "LaunchFailed", "NotTriggerScaleUp", "OutOf", "EvictedDueTo", ""]),
)
def test_no_text_raises(pieces: list[str], state: str, reason: str) -> None:
    message = "".join(pieces)
    verdict = classify(state=state, reason=reason, message=message)
    assert verdict.cause in CAUSE_LABELS
    assert verdict_sentence(verdict)


@pytest.mark.parametrize(
    "piece",
    [
        ", ",
        "{,",
        "1 ",
        '"',
        "Insufficient ",
        "untolerated taint {",
        LIST,
        SET,
        "a: Retry (",
        "invalid affinity",
        "0/1 ",
        "}",
        "; ",
        "0/3 nodes are available: 0/3 ",
        "pod didn't trigger scale-up: ",
        'pod didn\'t trigger scale-up: 1 exceeded quota: "a", resources: a, ',
        "Failed to schedule pod, ",
        'Failed to schedule pod, {"a":',
        "NodePool=",
        "Allocate failed due to ",
        "Previously: ",
        'pods "',
        "(1 ",
    ],
)
@pytest.mark.parametrize("reason", ["Pending", "LaunchFailed"])
def test_time_grows_linearly(piece: str, reason: str) -> None:
    def seconds(length: int) -> float:
        text = (piece * (length // len(piece) + 1))[:length]
        assert rule_book().rules
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            classify.__wrapped__(state="reserved", reason=reason, message=text)
            best = min(best, time.perf_counter() - start)
        return best

    short, long = seconds(2_500), seconds(10_000)
    # 4 times the text; 10 leaves room for noise and is far from the 16 of a quadratic.
    assert long < max(10 * short, 0.05)
