"""Every format string of every writer, filled with real-looking values, has the class that stands beside it.

The classes were written down by hand, from the tables of the references; corpus/*.yaml holds {says, is: "layer cause
rule", reason, version}. Every wording, token and hint of the rules has to occur, so that no rule is untried."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from apps.admissions.classifier import classify, rule_book
from apps.admissions.labels import verdict_sentence

CORPUS = Path(__file__).parent / "corpus"
ROWS: list[dict[str, Any]] = [
    row for path in sorted(CORPUS.glob("*.yaml")) for row in yaml.safe_load(path.read_text())
]
TEXTS = [row["says"].replace("’", "'") for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['says'][:60]}|{row.get('reason', '')}")
def test_each_text_has_its_class(row: dict[str, Any]) -> None:
    verdict = classify(reason=row.get("reason", ""), message=row["says"])
    assert f"{verdict.layer} {verdict.cause} {verdict.rule}" == row["is"]
    assert verdict_sentence(verdict)


def test_every_wording_of_the_rules_is_tried() -> None:
    untried = [
        f"{pattern.rule.id}: {pattern.template}"
        for pattern in rule_book().patterns
        if not any(re.search(pattern.expression, text) for text in TEXTS)
    ]
    assert untried == []


def test_every_reason_of_the_rules_is_tried() -> None:
    reasons = {row.get("reason", "") for row in ROWS}
    bare = {reason.removeprefix("EvictedDueTo") for reason in reasons}
    assert rule_book().reasons - reasons - bare == set()


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (
            "pod didn't trigger scale-up: 3 node(s) had untolerated taint(s), 2 max node group size reached",
            "2 node groups are at their limit",
        ),
        # No number stands in it: the text itself.
        (
            "pod didn't trigger scale-up: max total nodes in cluster reached",
            "max total nodes in cluster reached",
        ),
        (
            "Failed to schedule pod, no instance type has enough resources, requirements=karpenter.sh/nodepool In"
            ' [gpu], resources={"nvidia.com/gpu":"16"}; did not tolerate taint (taint=a=b:NoSchedule)',
            "no machine of node pool gpu is large enough",
        ),
        (
            "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices"
            " nvidia.com/gpu, which is unexpected",
            "the node's nvidia.com/gpu are unhealthy",
        ),
        ("Pod was rejected: Predicate NodeAffinity failed", "Predicate NodeAffinity failed"),
    ],
)
def test_sentences_say_what_the_numbers_mean(message: str, sentence: str) -> None:
    assert verdict_sentence(classify(message=message)) == sentence
