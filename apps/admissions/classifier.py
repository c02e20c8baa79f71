"""Why work does not start, from the cluster's own words. Input: reason token and message; output: `Verdict`.

Pure: no Django, no I/O but the rules file read once. Rules are data (data/rules.yaml). A reason token that is
specific decides the cause; otherwise the message is cut into its parts, each part is matched, and the primary
one is chosen:

- notes (nested preemption attempts, counters) are never the cause; weak parts only when nothing else is said;
- in a node list the part closest to the nodes that would match otherwise: devices before host resources before
  selectors before taints before cordons;
- in Kueue's text the most severe part within a flavor, the mildest across alternative flavors, the most severe
  across groups and pod sets. Flavors that name a common resource are alternatives of one group; a flavor that is
  refused as a whole (affinity, taint) is an alternative in every group of its pod set.

A text that no rule matches keeps its raw form under the cause "unknown". Invariants: never raises for any text;
time grows linearly with the text (placeholders are bounded character classes, a part starts only after a
separator).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path

import yaml

from apps.core.quantity import QuantityError, parse_quantity

RULES_FILE = Path(__file__).parent / "data" / "rules.yaml"
LONGEST_TEXT = 32 * 1024

_DNS = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?"
_RESOURCE = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,315}[A-Za-z0-9])?"
_QUANTITY = r"-?[0-9](?:[0-9A-Za-z.]{0,30}[0-9A-Za-z])?"
PLACEHOLDERS: dict[str, str] = {
    "resource": _RESOURCE,
    "device": r"(?=[A-Za-z0-9._/-]{0,300}(?:gpu|mig-|npu|mlu|dcu|Ascend))" + _RESOURCE,
    "flavor": _DNS,
    "flavor_other": _DNS,
    "needed": _QUANTITY,
    "asked": _QUANTITY,
    "asked_before": _QUANTITY,
    "ceiling": _QUANTITY,
    "number": r"[0-9]{1,12}",
    "name": r"[^\s,;:]{1,320}",
    "quoted": r"\"[^\"]{0,320}\"",
    "taint": r"\{[^{}]{0,600}\}",
    "taint_health": r"\{node\.kubernetes\.io/(?!unschedulable)[^{}]{0,600}\}",
    "things": r"(?:pod|slice)\(s\)",
    "counts": r"[0-9]{1,9} [A-Za-z]{1,30}(?:, [0-9]{1,9} [A-Za-z]{1,30}){0,20}",
    "text": r"[^;]{0,4000}",
}
_CAPTURED = frozenset({"resource", "device", "flavor", "needed", "ceiling"})

# What may stand before a part. The node list's count belongs to its part, see _node_items.
_POD_SET = re.compile(r"(?:couldn't|failed to) assign flavors to pod set ([^\s:]{1,253}): ")
_NODE_LIST = re.compile(
    r"(?:Origin reason is [^\s:]{1,320}: )?(In hyperNode [^\s:]{1,253}: )?"
    r"0/([0-9]{1,9}) nodes (?:are )?(?:un)?available: "
)
_COUNT = re.compile(r"([0-9]{1,9}) ")
_SEPARATOR = re.compile(r"[,;.:] +|\n+")
_ITEM_END = re.compile(r", |\. *$|\. (?=[a-zA-Z])|; |\n|$")


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of the rules file, its patterns compiled elsewhere."""

    id: str
    layer: str
    cause: str
    severity: int
    next_step: str
    order: int
    is_note: bool
    is_weak: bool


@dataclass(frozen=True, slots=True)
class Part:
    """One reason named in a message. `needed`: units of `resource` that are missing; `ceiling`: the most that can
    ever be given; `nodes`: how many nodes say so; `is_note`: it explains, but never is the cause."""

    rule: str
    layer: str
    cause: str
    severity: int
    next_step: str
    text: str
    pod_set: str = ""
    flavor: str = ""
    resource: str = ""
    needed: Decimal | None = None
    ceiling: Decimal | None = None
    nodes: int | None = None
    order: int = 0
    is_note: bool = False
    is_weak: bool = False


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


_UNKNOWN = Rule("unknown", "admission", "unknown", 0, "read-message", 1000, False, False)


def _expression(template: str) -> str:
    """A template as a regular expression; the first use of a captured placeholder is a group of its name."""
    made: list[str] = []
    used: set[str] = set()
    for piece in re.split(r"(\{[a-z_]+\})", template):
        name = piece[1:-1]
        if piece.startswith("{") and name in PLACEHOLDERS:
            group = "resource" if name == "device" else name
            wanted = name in _CAPTURED and group not in used
            used.add(group)
            made.append(f"(?P<{group}>{PLACEHOLDERS[name]})" if wanted else f"(?:{PLACEHOLDERS[name]})")
        else:
            made.append(re.escape(piece))
    return "".join(made)


class RuleBook:
    """The compiled rules. A pattern is looked up by its first literal characters, so that a part is tried against
    the few rules that can begin like it."""

    def __init__(self, path: Path = RULES_FILE) -> None:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        self.version = int(data["version"])
        self.rules: dict[str, Rule] = {}
        self.by_token: dict[str, Rule] = {}
        self._texts: dict[str, list[tuple[re.Pattern[str], Rule]]] = {}
        self._items: dict[str, list[tuple[re.Pattern[str], Rule]]] = {}
        for entry in data["rules"]:
            layer, cause, severity, step = entry["is"]
            rule = Rule(
                entry["id"],
                layer,
                cause,
                severity,
                step,
                entry.get("order", 0),
                entry.get("note", False),
                entry.get("weak", False),
            )
            self.rules[rule.id] = rule
            self.by_token.update(dict.fromkeys(entry.get("tokens", ()), rule))
            _index(self._texts, entry.get("patterns", ()), rule)
            _index(self._items, entry.get("nodes", ()), rule)

    def text_at(self, text: str, start: int) -> tuple[re.Match[str], Rule] | None:
        return _first_match(self._texts, text, start)

    def item_at(self, text: str, start: int) -> tuple[re.Match[str], Rule] | None:
        return _first_match(self._items, text, start)


_KEY = 3


def _index(
    table: dict[str, list[tuple[re.Pattern[str], Rule]]], templates: Iterable[str], rule: Rule
) -> None:
    for template in templates:
        key = "" if "{" in template[:_KEY] else template[:_KEY]
        table.setdefault(key, []).append((re.compile(_expression(template)), rule))


def _first_match(
    table: dict[str, list[tuple[re.Pattern[str], Rule]]], text: str, start: int
) -> tuple[re.Match[str], Rule] | None:
    for key in (text[start : start + _KEY], ""):
        for pattern, rule in table.get(key, ()):
            match = pattern.match(text, start)
            if match is not None:
                return match, rule
    return None


@lru_cache(maxsize=1)
def rule_book() -> RuleBook:
    return RuleBook()


def _quantity(text: str | None) -> Decimal | None:
    if not text:
        return None
    try:
        return parse_quantity(text)
    except QuantityError:
        return None


def _part(rule: Rule, text: str, match: re.Match[str] | None = None, pod_set: str = "") -> Part:
    found = match.groupdict() if match is not None else {}
    return Part(
        rule=rule.id,
        layer=rule.layer,
        cause=rule.cause,
        severity=rule.severity,
        next_step=rule.next_step,
        text=text,
        pod_set=pod_set,
        flavor=found.get("flavor") or "",
        resource=found.get("resource") or "",
        needed=_quantity(found.get("needed")),
        ceiling=_quantity(found.get("ceiling")),
        order=rule.order,
        is_note=rule.is_note,
        is_weak=rule.is_weak,
    )


def _node_items(text: str, start: int, hyper_node: bool) -> tuple[list[Part], int]:
    """The items of a node list that starts at `start`, and where it ends."""
    parts: list[Part] = []
    position = start
    while position < len(text):
        count = _COUNT.match(text, position)
        begin = count.end() if count else position
        found = rule_book().item_at(text, begin) or (None if count else rule_book().text_at(text, begin))
        end = found[0].end() if found else begin
        stop = _ITEM_END.search(text, end)
        item_end = stop.start() if stop else len(text)
        rule, match = (found[1], found[0]) if found and not text[end:item_end].strip() else (_UNKNOWN, None)
        part = replace(_part(rule, text[position:item_end], match), nodes=int(count[1]) if count else None)
        if hyper_node and part.cause == "capacity":
            part = replace(part, layer="placement", cause="topology", next_step="fix-topology")
        if part.text.strip():
            parts.append(part)
        position = stop.end() if stop else len(text)
        if stop is None or stop.group() != ", ":
            break
    return parts, position


def split(message: str) -> list[Part]:
    """Every part of a message, in its order; text that no rule knows becomes "unknown" parts."""
    text = message[:LONGEST_TEXT].replace("’", "'").replace("‘", "'")
    parts: list[Part] = []
    pod_set, position, unknown_from, after_nodes = "", 0, 0, False

    def keep_unknown(until: int) -> None:
        raw = text[unknown_from:until].strip(" ,;.:\n")
        if raw:
            parts.append(replace(_part(_UNKNOWN, raw, None, pod_set), is_note=after_nodes))

    while position < len(text):
        header = _POD_SET.match(text, position)
        nodes = None if header else _NODE_LIST.match(text, position)
        found = None if header or nodes else rule_book().text_at(text, position)
        if header or nodes or found:
            keep_unknown(position)
        if header:
            pod_set, position, after_nodes = header[1], header.end(), False
        elif nodes:
            items, position = _node_items(text, nodes.end(), nodes[1] is not None)
            parts.extend(replace(item, is_note=True) if after_nodes else item for item in items)
            after_nodes = True
        elif found:
            part = _part(found[1], found[0].group(), found[0], pod_set)
            parts.append(replace(part, is_note=True) if after_nodes else part)
            position = found[0].end()
        if header or nodes or found:
            separator = _SEPARATOR.match(text, position)
            position = unknown_from = separator.end() if separator else position
            if separator is None and found is not None and position < len(text):
                position = _next_start(text, position)
        else:
            position = _next_start(text, position)
    keep_unknown(len(text))
    return parts


def _next_start(text: str, position: int) -> int:
    separator = _SEPARATOR.search(text, position)
    return separator.end() if separator else len(text)


def _worst(parts: Sequence[Part]) -> Part:
    return max(parts, key=lambda part: part.severity)


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
    mildest = [min([*members, *whole], key=lambda part: part.severity) for _names, members in groups]
    return _worst([*(part for part in parts if not part.flavor), *mildest])


def _primary(parts: Sequence[Part]) -> Part | None:
    real = [part for part in parts if not part.is_note]
    strong = [part for part in real if not part.is_weak and part.rule != _UNKNOWN.id]
    chosen = strong or [part for part in real if part.is_weak] or real
    if not chosen:
        return None
    of_nodes = [part for part in chosen if part.nodes is not None]
    if of_nodes:
        return min(of_nodes, key=lambda part: (part.order, -(part.nodes or 0)))
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
    if found is not None and found.layer == "provisioning":
        return found
    text = f"{check.name}: {check.message or check.state}"
    if "provisioning" in check.controller:
        return _part(rules["provisioning-pending"], text)
    rule = {"Rejected": "check-rejected", "Retry": "check-retry", "Pending": "check-pending"}[check.state]
    return _part(rules[rule], text)


@lru_cache(maxsize=16384)
def classify(
    *,
    state: str = "",
    reason: str = "",
    message: str = "",
    checks: tuple[Check, ...] = (),
    queue_reason: str = "",
) -> Verdict:
    """`state` as in Workload.State ("" for pods), `reason` the condition's token, `message` its text, `checks` the
    admission checks of work that holds a reservation, `queue_reason` why its queue is inactive ("Stopped",
    "FlavorNotFound", …): the work's own text says only that it is."""
    parts = split(message)
    if state == "reserved":
        of_checks = _of_checks(checks or _checks_in(message))
        if of_checks is not None:
            return _verdict(of_checks, [of_checks, *parts])
    token = rule_book().by_token.get(reason)
    primary = _primary(parts)
    if token is not None:
        same = [part for part in parts if part.cause == token.cause and not part.is_note]
        chosen = _primary(same) if same else None
        return _verdict(chosen or _part(token, message.strip() or reason), parts)
    if primary is None:
        rule = _UNKNOWN if message.strip() else rule_book().rules["not-evaluated"]
        primary = _part(rule, message.strip())
    if primary.rule == "queue-inactive" and queue_reason not in ("", "Stopped"):
        primary = _part(rule_book().rules["queue-broken"], f"{primary.text} ({queue_reason})")
    return _verdict(primary, parts)
