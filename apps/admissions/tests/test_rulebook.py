"""A broken rule stops the load, and says what, where and what to do; the version follows the rules."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from apps.admissions.labels import CAUSE_LABELS, LAYER_LABELS
from apps.admissions.rulebook import CAUSES, LAYERS, RULES_DIR, STEPS_FILE, RuleBook, RulesError

GOOD = """
- id: full
  layer: admission
  cause: quota
  severity: 40
  next: wait-quota
  tokens: [Full]
  patterns: ["{resource} is full", {text: "full: {resource}", until: "1.4"}]
"""


def book(tmp_path: Path, rules: str, version: str = "version: 3") -> RuleBook:
    (tmp_path / "version.yaml").write_text(version)
    (tmp_path / "some.yaml").write_text("writer: Some\nrules:" + rules)
    return RuleBook(tmp_path, STEPS_FILE)


def test_a_good_rule_is_read(tmp_path: Path) -> None:
    found = book(tmp_path, GOOD)
    assert found.version == 3
    assert [(p.template, p.since, p.until) for p in found.patterns] == [
        ("{resource} is full", "", ""),
        ("full: {resource}", "", "1.4"),
    ]
    match = found.text_at("cpu is full", 0)
    assert match is not None
    assert (match[1].id, match[1].writer, match[0]["resource"]) == ("full", "Some", "cpu")
    assert found.token("EvictedDueToFull") is found.rules["full"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("cause: quota", "cause: money"),
            "some.yaml, rule 1 (full): cause is 'money'; choose one of quota, ",
        ),
        (("layer: admission", "layer: top"), "layer is 'top'; choose one of admission, "),
        (("next: wait-quota", "next: pray"), "next is 'pray'; choose one of wait-quota, "),
        (("severity: 40", "severity: 101"), "severity is 101; choose 0 to 100"),
        (("severity: 40", "severity: high"), "severity is 'high'; expected int"),
        (("  severity: 40\n", ""), "severity missing; write it"),
        (("severity: 40", "severity: 40\n  colour: red"), "'colour' is not a key; there are id, "),
        (("{resource} is full", "{thing} is full"), "no placeholder thing; there are resource, "),
        (("{resource} is full", "{rest}"), "says nothing by itself"),
        (('until: "1.4"', "until: 1.4"), "until of 'full: {resource}' is 1.4; write \"1.34\", in quotes"),
        (('until: "1.4"', 'before: "1.4"'), "a pattern of patterns is"),
        (("tokens: [Full]", "tokens: [Full, Full]"), "tokens has 'Full' empty or twice"),
        (("- id: full", "- id: unknown"), "the id is taken"),
        (("- id: full", "- name: full"), "rule 1 (no id): id missing; write it"),
    ],
)
def test_a_broken_rule_says_what_and_where(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    with pytest.raises(RulesError) as error:
        book(tmp_path, GOOD.replace(*change))
    assert said in str(error.value)
    assert "some.yaml" in str(error.value)


def test_the_same_id_twice(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match=r"rule 2 \(full\): the id is taken"):
        book(tmp_path, GOOD + GOOD.replace("Full", "Fuller"))


@pytest.mark.parametrize("version", ["", "version: x", "version: 0", "version: true", "{"])
def test_a_version_is_a_whole_number(tmp_path: Path, version: str) -> None:
    with pytest.raises(RulesError, match=r"version\.yaml"):
        book(tmp_path, GOOD, version)


def test_every_next_step_has_every_language(tmp_path: Path) -> None:
    steps = tmp_path / "steps.yaml"
    steps.write_text("wait:\n  en: Wait.\n")
    with pytest.raises(RulesError, match=r"steps\.yaml, wait: no text in zh-hans; write one"):
        RuleBook(RULES_DIR, steps)


def test_the_words_of_the_rules_have_labels() -> None:
    assert {*CAUSES, "unknown"} == set(CAUSE_LABELS)
    assert set(LAYERS) == set(LAYER_LABELS)
    used = {rule.next_step for rule in RuleBook().rules.values()} | {"read-message"}
    assert used == set(RuleBook().next_steps)


def test_the_version_is_raised_with_the_rules() -> None:
    """Stored history names the version that it was classified by: two different sets of rules never share one."""
    said = (RULES_DIR / "version.yaml").read_text()
    rules = b"".join(
        path.read_bytes() for path in sorted(RULES_DIR.glob("*.yaml")) if path.name != "version.yaml"
    )
    digest = hashlib.sha256(rules).hexdigest()[:16]
    assert f"digest: {digest}" in said, f"raise `version` in version.yaml and write `digest: {digest}`"
