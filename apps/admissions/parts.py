"""A message cut into its parts. Input: a cluster's own text; output: `Part`s in the order of the text.

Grammars, besides plain statements one after another:
- Kueue: "couldn't assign flavors to pod set P: r, r; couldn't …"
- kube-scheduler and Volcano: "0/N nodes are (un)available: n reason, m reason. preemption: 0/N …" (what follows the
  first list explains, and is never a cause)
- Cluster Autoscaler: "pod didn't trigger scale-up: n reason, m reason" over node groups, of which one would do
- Karpenter: "Failed to schedule pod, error; error" over NodePools, of which one would do

Invariants: pure; never raises; time grows linearly with the text (a statement starts only after a separator, and its
pattern is bounded).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from apps.admissions.rulebook import UNKNOWN, Found, Rule, rule_book
from apps.core.quantity import QuantityError, parse_quantity

LONGEST_TEXT = 32 * 1024

# What stands before a statement without being one.
_LEAD = re.compile(
    r"Pod was rejected: |Previously: (?=[A-Z])|\(combined from similar events\): |Can't admit new workloads: "
    r"|PodGroup \S{1,320} unschedul(?:e|able), ?reason: |Internal error occurred: "
    r"|[a-z]{1,40}(?:\.[a-z.]{1,80})? \"[^\"]{1,253}\" is forbidden: "
    r"|[A-Za-z0-9.-]{1,63}: (?=Reset to Pending after)"
)
_POD_SET = re.compile(r"(?:couldn't|failed to) assign flavors to pod set ([^\s:]{1,253}): ")
_NODE_LIST = re.compile(
    r"(?:Origin reason is [^\s:]{1,320}: )?(In hyperNode [^\s:]{1,253}: )?"
    r"0/([0-9]{1,9}) nodes (?:are )?(?:un)?available: "
)
_SCALE_UP = re.compile(r"pod didn't trigger scale-up(?: \(it wouldn't fit if a new node is added\))?(?:: ?)?")
_POOLS = re.compile(r"(?:Failed to|[Cc]ould not) schedule pod, |NodeClaim \S{1,253} event: ")
_POOL_END = re.compile(r"\{[^{}]{0,4000}\}|; ")
_POOL_NAME = re.compile(
    r"NodePool=\"?([A-Za-z0-9._-]{1,253})|(?:nodepool|provisioner):? \"([^\"]{1,253})\""
    r"|karpenter\.sh/nodepool In \[([^\]\s]{1,253})\]"
)
_COUNT = re.compile(r"([0-9]{1,9}) ")
_SEPARATOR = re.compile(r"[,;.:] +|\n+")
_ITEM_END = re.compile(r", |\. *$|\. (?=[a-zA-Z])|; |\n|$")
_Lookup = Callable[[str, int], Found | None]
_NOTHING: Mapping[str, str | None] = {}


@dataclass(frozen=True, slots=True)
class Part:
    """One reason named in a message. `needed`: units of `resource` that are missing; `ceiling`: the most that can
    ever be given; `nodes`: how many nodes (in a scale-up list: node groups) say so; `flavor`: the flavor or NodePool;
    `is_note`: it explains, but never is the cause; `is_choice`: one of several ways, of which one would do."""

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
    is_choice: bool = False


def _quantity(text: str | None) -> Decimal | None:
    if not text:
        return None
    try:
        return parse_quantity(text)
    except QuantityError:
        return None


def part_of(
    rule: Rule,
    text: str,
    match: re.Match[str] | None = None,
    *,
    pod_set: str = "",
    flavor: str = "",
    nodes: int | None = None,
    is_note: bool = False,
    is_choice: bool = False,
) -> Part:
    """The rule applied to this text, with the numbers that its match captured."""
    found = match.groupdict() if match is not None and match.re.groups else _NOTHING
    return Part(
        rule.id,
        rule.layer,
        rule.cause,
        rule.severity,
        rule.next_step,
        text,
        pod_set,
        flavor or found.get("flavor") or "",
        found.get("resource") or "",
        _quantity(found.get("needed")),
        _quantity(found.get("ceiling")),
        nodes,
        rule.order,
        rule.is_note or is_note,
        rule.is_weak,
        is_choice,
    )


def _items(
    text: str, start: int, lookup: _Lookup, *, is_note: bool = False, is_choice: bool = False
) -> tuple[list[Part], int]:
    """The counted items of a list that starts at `start`, and where it ends."""
    parts: list[Part] = []
    position = start
    while position < len(text):
        count = _COUNT.match(text, position)
        begin = count.end() if count else position
        found = lookup(text, begin) or (None if count else rule_book().text_at(text, begin))
        end = found[0].end() if found else begin
        stop = _ITEM_END.search(text, end)
        item_end = stop.start() if stop else len(text)
        known = found if found is not None and not text[end:item_end].strip() else None
        said = text[position:item_end]
        if said.strip():
            parts.append(
                part_of(
                    known[1] if known else UNKNOWN,
                    said,
                    known[0] if known else None,
                    nodes=int(count[1]) if count else None,
                    is_note=is_note,
                    is_choice=is_choice and known is not None,
                )
            )
        position = stop.end() if stop else len(text)
        if stop is None or stop.group() != ", ":
            break
    return parts, position


def _in_hyper_node(part: Part) -> Part:
    """Too few free within one domain: the domain is the limit, not the cluster."""
    if part.cause != "capacity":
        return part
    return replace(part, layer="placement", cause="topology", next_step="fix-topology")


def _pool_parts(text: str, start: int) -> list[Part]:
    """Karpenter's errors, one or more phrases for each NodePool."""
    ends: list[tuple[int, int]] = []
    begin = start
    for stop in _POOL_END.finditer(text, start):
        if stop.group() == "; ":
            ends.append((begin, stop.start()))
            begin = stop.end()
    ends.append((begin, len(text)))
    parts: list[Part] = []
    for low, high in ends:
        if text[low:high].strip():
            parts.append(_pool_part(text, low, high))
    return parts


def _pool_part(text: str, low: int, high: int) -> Part:
    """What one NodePool says: its strong phrases before its weak ones, of these the worst."""
    rules = [rule for _match, rule in rule_book().pools_in(text, low, high)]
    strong = [rule for rule in rules if not rule.is_weak]
    chosen = max(strong or rules, key=lambda rule: rule.severity, default=None)
    said = text[low:high].strip()
    if chosen is None:
        return part_of(UNKNOWN, said)
    name = _POOL_NAME.search(text, low, high)
    pool = next(filter(None, name.groups()), "") if name else ""
    return part_of(chosen, said, flavor=pool, is_choice=True)


class _Cut:
    """The state of cutting one message."""

    def __init__(self, message: str) -> None:
        self.text = message[:LONGEST_TEXT].replace("’", "'").replace("‘", "'")
        self.parts: list[Part] = []
        self.pod_set = ""
        self.position = 0
        self.unknown_from = 0
        self.after_nodes = False

    def run(self) -> list[Part]:
        while self.position < len(self.text):
            if not (self._lead() or self._list() or self._statement()):
                self.position = self._next_start()
        self._keep_unknown(len(self.text))
        return self.parts

    def _keep_unknown(self, until: int) -> None:
        if self.unknown_from < until:
            raw = self.text[self.unknown_from : until].strip(" ,;.:\n")
            if raw:
                self.parts.append(part_of(UNKNOWN, raw, pod_set=self.pod_set, is_note=self.after_nodes))

    def _next_start(self) -> int:
        separator = _SEPARATOR.search(self.text, self.position)
        return separator.end() if separator else len(self.text)

    def _past(self, end: int) -> None:
        separator = _SEPARATOR.match(self.text, end)
        self.position = self.unknown_from = separator.end() if separator else end

    def _lead(self) -> bool:
        pod_set = _POD_SET.match(self.text, self.position)
        found = pod_set or _LEAD.match(self.text, self.position)
        if found is None:
            return False
        self._keep_unknown(self.position)
        if pod_set:
            self.pod_set, self.after_nodes = pod_set[1], False
        self.position = self.unknown_from = found.end()
        return True

    def _list(self) -> bool:
        text, first = self.text, self.text[self.position]
        if first in "0OI" and (nodes := _NODE_LIST.match(text, self.position)):
            self._keep_unknown(self.position)
            items, end = _items(text, nodes.end(), rule_book().node_item_at, is_note=self.after_nodes)
            self.parts.extend(map(_in_hyper_node, items) if nodes[1] is not None else items)
            self.after_nodes = True
        elif first == "p" and (groups := _SCALE_UP.match(text, self.position)):
            self._keep_unknown(self.position)
            items, end = _items(text, groups.end(), rule_book().group_item_at, is_choice=True)
            whole = rule_book().rules["scale-up-refused"]
            self.parts.append(part_of(whole, groups.group().rstrip(": ")))
            self.parts.extend(items)
        elif first in "FCcN" and (pools := _POOLS.match(text, self.position)):
            self._keep_unknown(self.position)
            self.parts.extend(_pool_parts(text, pools.end()))
            end = len(text)
        else:
            return False
        self._past(end)
        return True

    def _statement(self) -> bool:
        found = rule_book().text_at(self.text, self.position)
        if found is None:
            return False
        match, rule = found
        self._keep_unknown(self.position)
        self.parts.append(part_of(rule, match.group(), match, pod_set=self.pod_set, is_note=self.after_nodes))
        end = match.end()
        self._past(end)
        if self.position == end < len(self.text):
            self.position = self._next_start()
        return True


def split(message: str) -> list[Part]:
    """Every part of a message, in its order; text that no rule knows becomes "unknown" parts."""
    return _Cut(message).run()


def split_error(message: str) -> list[Part]:
    """The same of an error of Karpenter without its usual beginning, as in a condition."""
    cut = _Cut(message)
    return _pool_parts(cut.text, 0)
