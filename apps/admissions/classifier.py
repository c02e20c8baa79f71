"""Why work does not start, from the cluster's own words. Input: reason token and message; output: `Verdict`.

Pure: no Django, no I/O but the rules read once. Rules are data (rulebook.py). A reason token that is specific decides
the cause; otherwise the message is cut into its parts (parts.py), and the primary one is chosen:

- notes (nested preemption attempts, counters, progress) are never the cause while anything else is said; weak parts
  only when nothing else is said;
- in a node list the part closest to the nodes that would match otherwise: devices before host resources before
  selectors before taints before cordons; when the nodes are known (`NodeFacts`), items about nodes that could not
  serve the request anyway are noise, and a text that hides a wrong label or taint behind full nodes is seen through;
- in a list of ways of which one would do (node groups, NodePools) the mildest;
- in Kueue's text the most severe part within a flavor, the mildest across alternative flavors, the most severe
  across groups and pod sets. Flavors that name a common resource are alternatives of one group; a flavor that is
  refused as a whole (affinity, taint) is an alternative in every group of its pod set.

A text that no rule matches keeps its raw form under the cause "unknown". Invariants: never raises for any text;
time grows linearly with the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from apps.admissions.parts import LONGEST_TEXT, Part, part_of, split, split_error
from apps.admissions.rulebook import UNKNOWN, Rule, RuleBook, rule_book

__all__ = ["Check", "NodeFacts", "Part", "RuleBook", "Verdict", "classify", "rule_book", "split"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The primary part's classification, and every part. `rule` is "unknown" when no rule matched."""

    layer: str
    cause: str
    rule: str
    severity: int
    next_step: str
    primary: Part | None
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class Check:
    """One admission check of a workload: `state` Pending, Ready, Retry or Rejected; `controller` if known."""

    name: str
    state: str
    message: str = ""
    controller: str = ""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Numbers of nodes for one request, each a part of the one before: that carry the devices it asks for, whose
    labels fit its selector and required affinity, whose taints it tolerates, that are ready and not cordoned, and
    that are large enough when they are empty."""

    carrying: int
    matching: int
    tolerated: int
    usable: int
    large: int


def _worst(parts: Sequence[Part]) -> Part:
    return max(parts, key=lambda part: part.severity)


def _mildest(parts: Sequence[Part]) -> Part:
    return min(parts, key=lambda part: part.severity)


def _primary_of_pod_set(parts: Sequence[Part]) -> Part:
    """Most severe within a flavor, mildest across alternative flavors, most severe across groups."""
    flavors: dict[str, list[Part]] = {}
    for part in parts:
        if part.flavor:
            flavors.setdefault(part.flavor, []).append(part)
    whole = [_worst(found) for found in flavors.values() if not any(part.resource for part in found)]
    groups: list[tuple[set[str], list[Part]]] = []
    for found in flavors.values():
        resources = {part.resource for part in found if part.resource}
        if resources:
            joined = [group for group in groups if group[0] & resources]
            groups = [group for group in groups if group not in joined]
            members = [member for group in joined for member in group[1]]
            groups.append((resources.union(*(group[0] for group in joined)), [*members, _worst(found)]))
    if whole and not groups:
        groups = [(set(), [])]
    mildest = [_mildest([*members, *whole]) for _names, members in groups]
    return _worst([*(part for part in parts if not part.flavor), *mildest])


# Items of a node list that speak of one step of NodeFacts.
_MATCHING = frozenset({"node-affinity", "nodegroup"})
_TOLERATED = frozenset({"node-taint"})
_USABLE = frozenset({"node-unschedulable", "node-health"})


def _of_nodes(parts: Sequence[Part], facts: NodeFacts | None) -> Part:
    """The item closest to the nodes that would match otherwise, or what the nodes themselves say."""
    text = min(parts, key=lambda part: (part.order, -(part.nodes or 0)))
    if facts is None or facts.carrying == 0:
        return text
    for step, nodes, names, rule in (
        (facts.matching, facts.carrying, _MATCHING, "node-affinity"),
        (facts.tolerated, facts.matching, _TOLERATED, "node-taint"),
        (facts.usable, facts.tolerated, frozenset[str](), "node-out-of-use"),
        (facts.large, facts.usable, frozenset[str](), "node-too-small"),
    ):
        if step == 0:
            said = next((part for part in parts if part.rule in names), None)
            made = replace(part_of(rule_book().rules[rule], text.text), resource=text.resource)
            return replace(said or made, nodes=nodes)
    noise = _MATCHING | _TOLERATED | _USABLE
    rest = [part for part in parts if part.rule not in noise]
    return min(rest, key=lambda part: (part.order, -(part.nodes or 0))) if rest else text


def _primary(parts: Sequence[Part], facts: NodeFacts | None = None) -> Part | None:
    real = [part for part in parts if not part.is_note]
    strong = [part for part in real if not part.is_weak and part.rule != UNKNOWN.id]
    chosen = strong or [part for part in real if part.is_weak] or real
    if not chosen:
        return _worst(parts) if parts else None
    if len(chosen) == 1 and (facts is None or chosen[0].nodes is None):
        return chosen[0]
    of_nodes = [part for part in chosen if part.nodes is not None and not part.is_choice]
    if of_nodes:
        return _of_nodes(of_nodes, facts)
    choices = [part for part in chosen if part.is_choice]
    if choices:
        return _worst([_mildest(choices), *(part for part in chosen if not part.is_choice)])
    pod_sets: dict[str, list[Part]] = {}
    for part in chosen:
        pod_sets.setdefault(part.pod_set, []).append(part)
    return _worst([_primary_of_pod_set(found) for found in pod_sets.values()])


def _verdict(part: Part, parts: Sequence[Part]) -> Verdict:
    return Verdict(part.layer, part.cause, part.rule, part.severity, part.next_step, part, tuple(parts))


_CHECK = re.compile(r"([^\s:;]{1,253}): (Pending|Retry|Rejected)(?: \(([^()]{0,1000})\))?(?:; |$)")


def _checks_in(message: str) -> tuple[Check, ...]:
    """The checks that a stored message of reserved work names: "budget: Retry (try later); …"."""
    return tuple(Check(*found.groups(default="")) for found in _CHECK.finditer(message[:LONGEST_TEXT]))


def _of_checks(checks: Sequence[Check]) -> Part | None:
    """The worst check that is not ready. A provisioning check means that nodes were asked for."""
    order = {"Rejected": 0, "Retry": 1, "Pending": 2}
    open_checks = sorted((c for c in checks if c.state in order), key=lambda check: order[check.state])
    if not open_checks:
        return None
    check = open_checks[0]
    rules = rule_book().rules
    found = _primary(split(check.message)) if check.message else None
    known = found is not None and found.rule not in (UNKNOWN.id, "check-pending") and not found.is_note
    if found is not None and (found.layer == "provisioning" or known):
        return found
    text = f"{check.name}: {check.message or check.state}"
    if "provisioning" in check.controller:
        return part_of(rules["provisioning-pending"], text)
    rule = {"Rejected": "check-rejected", "Retry": "check-retry", "Pending": "check-pending"}[check.state]
    return part_of(rules[rule], text)


@lru_cache(maxsize=16384)
def classify(
    *,
    state: str = "",
    reason: str = "",
    message: str = "",
    checks: tuple[Check, ...] = (),
    queue_reason: str = "",
    nodes: NodeFacts | None = None,
    over_ceiling: tuple[str, ...] = (),
) -> Verdict:
    """`state` as in Workload.State ("" for pods), `reason` the condition's or event's token, `message` its text,
    `checks` the admission checks of work that holds a reservation, `queue_reason` why its queue is inactive
    ("Stopped", "FlavorNotFound", …): the work's own text says only that it is; `nodes` what is known of the nodes
    that it asks for, None for nothing; `over_ceiling` the resources of which it asks for more than its queue may
    ever have, where the text does not say so."""
    book = rule_book()
    token = book.token(reason)
    parts = split_error(message) if token is not None and token.writer == "Karpenter" else split(message)
    if state == "reserved":
        of_checks = _of_checks(checks or _checks_in(message))
        if of_checks is not None:
            return _verdict(of_checks, [of_checks, *parts])
    if token is not None:
        return _verdict(_of_token(token, parts, reason, message), parts)
    primary = _primary(parts, nodes)
    if primary is None or primary.is_note or primary.rule == UNKNOWN.id:
        hint = book.hint(reason)
        if hint is not None:
            primary = part_of(hint, message.strip() or reason)
    if primary is None:
        rule = UNKNOWN if message.strip() else book.rules["not-evaluated"]
        primary = part_of(rule, message.strip())
    if primary.rule == "queue-inactive" and queue_reason not in ("", "Stopped"):
        primary = part_of(book.rules["queue-broken"], f"{primary.text} ({queue_reason})")
    if primary.rule == "volcano-quota" and (over := _named(over_ceiling, primary.text)):
        primary = replace(part_of(book.rules["volcano-over-ceiling"], primary.text), resource=over)
    return _verdict(primary, parts)


def _named(resources: Sequence[str], text: str) -> str:
    """The first of these resources that the text complains of; older versions name none."""
    complained = {
        item.strip().removeprefix("insufficient ") for item in text.partition(":")[2].split(",")
    } - {""}
    return next((name for name in resources if not complained or name in complained), "")


def _of_token(token: Rule, parts: Sequence[Part], reason: str, message: str) -> Part:
    """The part that agrees with the token, or the token with the whole text."""
    same = [part for part in parts if part.cause == token.cause and not part.is_note]
    return (_primary(same) if same else None) or part_of(token, message.strip() or reason)
