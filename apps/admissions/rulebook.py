"""The rules of the classifier. Input: data/rules/*.yaml and data/next_steps.yaml; output: `RuleBook`, compiled once.

One file per writer of texts (Kueue, kube-scheduler, …). A rule of it has
  id        stable name, shown in the interface
  layer     admission | placement | provisioning | device
  cause     one of CAUSES
  severity  0…100, the larger the worse: orders the parts of one message
  next      id of a text in data/next_steps.yaml
  tokens    condition or event reasons that decide by themselves; "OutOf*" stands for all that begin so
  hints     reasons that decide only when the text says nothing
  patterns  the text of one statement
  nodes     an item of "0/N nodes are available: …", without its count
  groups    an item of "pod didn't trigger scale-up: …", without its count
  pools     a phrase anywhere in Karpenter's error for one NodePool
  order     for `nodes`: the smaller, the closer to the nodes that would match otherwise
  note      true: explains, is never the cause while anything else is said
  weak      true: is the cause only when the message says nothing else
A pattern is a text, or {text, since, until}: the versions of the writer in which it has this wording.
{placeholders} stand in PLACEHOLDERS, everything else is literal.

Invariants: pure; a broken rule stops the load with what is wrong, where, and what to do; placeholders are bounded, so
that a match takes time linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).parent / "data"
RULES_DIR = DATA / "rules"
STEPS_FILE = DATA / "next_steps.yaml"
LANGUAGES = ("en", "zh-hans")
LAYERS = ("admission", "placement", "provisioning", "device")
CAUSES = (
    "quota", "model", "topology", "capacity", "scale_up", "device", "startup", "configuration", "held", "transient",
)  # fmt: skip

_DNS = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?"
_RESOURCE = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,315}[A-Za-z0-9])?"
_QUANTITY = r"-?[0-9](?:[0-9A-Za-z.]{0,30}[0-9A-Za-z])?"
PLACEHOLDERS: dict[str, str] = {
    "resource": _RESOURCE,
    "device": r"(?=[A-Za-z0-9._/-]{0,300}(?:gpu|mig-|npu|mlu|dcu|Ascend))" + _RESOURCE,
    "resources": r"[A-Za-z][A-Za-z0-9._/-]{0,315}(?:, [A-Za-z][A-Za-z0-9._/-]{0,315}){0,50}",
    "flavor": _DNS,
    "flavor_other": _DNS,
    "needed": _QUANTITY,
    "asked": _QUANTITY,
    "asked_before": _QUANTITY,
    "ceiling": _QUANTITY,
    "number": r"[0-9]{1,12}",
    "name": r"[^\s,;:]{1,320}",
    "word": r"\S{1,400}",
    "quoted": r"\"[^\"]{0,320}\"",
    "taint": r"\{[^{}]{0,600}\}",
    "taint_health": r"\{node\.kubernetes\.io/(?!unschedulable)[^{}]{0,600}\}",
    "things": r"(?:pod|slice)\(s\)",
    "counts": r"[0-9]{1,9} [A-Za-z]{1,30}(?:, [0-9]{1,9} [A-Za-z]{1,30}){0,20}",
    "brackets": r"[^\[\]]{0,2000}",
    "parentheses": r"[^()]{0,1000}",
    "item": r"[^,;\n]{0,400}",
    "text": r"[^;]{0,4000}",
    "rest": r"(?s:.){0,8000}",
}
CAPTURED = frozenset({"resource", "device", "flavor", "needed", "ceiling"})

# One template for wordings that differ in their beginning.
_VARIANTS = {
    "{allocate}": (
        "Allocate failed due to ",
        "Pod Allocate failed due to ",
        "Update plugin resources failed due to ",
    )
}
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")
_TABLES = ("patterns", "nodes", "groups", "pools")
_NEEDED = {"id": str, "layer": str, "cause": str, "severity": int, "next": str}
_ALLOWED = {
    **_NEEDED, "tokens": list, "hints": list, "order": int, "note": bool, "weak": bool, **dict.fromkeys(_TABLES, list),
}  # fmt: skip


class RulesError(ValueError):
    """A rule that cannot be used: where it stands, what is wrong, what to do."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `writer`: who writes the texts."""

    id: str
    writer: str
    layer: str
    cause: str
    severity: int
    next_step: str
    order: int = 0
    is_note: bool = False
    is_weak: bool = False


@dataclass(frozen=True, slots=True)
class Pattern:
    """One wording of a rule: `template` as written, `since` and `until` as versions of the writer, "" for open."""

    rule: Rule
    table: str
    template: str
    expression: str
    since: str = ""
    until: str = ""


UNKNOWN = Rule("unknown", "", "admission", "unknown", 0, "read-message", order=1000)


def expression(template: str) -> str:
    """A template as a regular expression; the first use of a captured placeholder is a group of its name."""
    made: list[str] = []
    used: set[str] = set()
    for piece in re.split(r"(\{[a-z_]+\})", template):
        name = piece[1:-1]
        if piece.startswith("{") and name in PLACEHOLDERS:
            group = "resource" if name == "device" else name
            wanted = name in CAPTURED and group not in used
            used.add(group)
            made.append(f"(?P<{group}>{PLACEHOLDERS[name]})" if wanted else f"(?:{PLACEHOLDERS[name]})")
        else:
            made.append(re.escape(piece))
    return "".join(made)


# A table is asked with the first _KEY characters of a statement, then with as many more as its patterns have literally.
_KEY, _LONGEST = 3, 28
_Bucket = dict[str, list[tuple[re.Pattern[str], Rule]]]
_Table = dict[str, list[tuple[int, _Bucket]]]
Found = tuple[re.Match[str], Rule]


class RuleBook:
    """The compiled rules. A pattern is looked up by its first literal characters, so that a statement is tried against
    the few patterns that can begin like it; of these, the one with the most literal text comes first."""

    def __init__(self, folder: Path = RULES_DIR, steps_file: Path = STEPS_FILE) -> None:
        self.version = _version(folder / "version.yaml")
        self.next_steps = _next_steps(steps_file)
        self.rules: dict[str, Rule] = {}
        self.patterns: list[Pattern] = []
        self._tokens: dict[str, Rule] = {}
        self._hints: dict[str, Rule] = {}
        self._prefixes: list[tuple[str, Rule]] = []
        for path in sorted(folder.glob("*.yaml")):
            if path.name != "version.yaml":
                self._read(path)
        self._tables: dict[str, _Table] = {name: self._table(name) for name in _TABLES if name != "pools"}
        self._pools = [pattern for pattern in self.patterns if pattern.table == "pools"]
        self._pools.sort(key=lambda pattern: -_literal_length(pattern.template))
        # A book without pools has an expression that never matches.
        alternatives = "|".join(f"(?P<p{i}>{found.expression})" for i, found in enumerate(self._pools))
        self._pool = re.compile(rf"(?<![A-Za-z])(?:{alternatives or '(?!)'})")

    def token(self, reason: str) -> Rule | None:
        """The rule of a reason that decides by itself; an eviction event's reason holds the condition's."""
        bare = reason.removeprefix("EvictedDueTo")
        found = self._tokens.get(reason) or self._tokens.get(bare)
        if found is None and reason.startswith(tuple(prefix for prefix, _rule in self._prefixes)):
            found = next((rule for prefix, rule in self._prefixes if reason.startswith(prefix)), None)
        return found

    def hint(self, reason: str) -> Rule | None:
        return self._hints.get(reason) or self._hints.get(reason.removeprefix("EvictedDueTo"))

    @property
    def reasons(self) -> set[str]:
        """Every reason that a rule names in full."""
        return {*self._tokens, *self._hints}

    def text_at(self, text: str, start: int) -> Found | None:
        return _first_match(self._tables["patterns"], text, start)

    def node_item_at(self, text: str, start: int) -> Found | None:
        return _first_match(self._tables["nodes"], text, start)

    def group_item_at(self, text: str, start: int) -> Found | None:
        return _first_match(self._tables["groups"], text, start)

    def pools_in(self, text: str, start: int, end: int) -> Iterator[Found]:
        """Every phrase of Karpenter in text[start:end]."""
        for match in self._pool.finditer(text, start, end):
            yield match, self._pools[int((match.lastgroup or "p0")[1:])].rule

    def _table(self, name: str) -> _Table:
        made: dict[str, dict[int, _Bucket]] = {}
        wanted = [pattern for pattern in self.patterns if pattern.table == name]
        for pattern in sorted(wanted, key=lambda pattern: -_literal_length(pattern.template)):
            begins = pattern.template.split("{", 1)[0][:_LONGEST]
            length = len(begins) if len(begins) >= _KEY else 0
            bucket = made.setdefault(begins[:_KEY] if length else "", {}).setdefault(length, {})
            bucket.setdefault(begins if length else "", []).append(
                (re.compile(pattern.expression), pattern.rule)
            )
        return {key: sorted(found.items(), reverse=True) for key, found in made.items()}

    def _read(self, path: Path) -> None:
        data = _yaml(path)
        if (
            not isinstance(data, dict)
            or set(data) != {"writer", "rules"}
            or not isinstance(data["rules"], list)
        ):
            raise RulesError(
                f"{path.name}: expected `writer: NAME` and `rules: [...]`; see the head of rulebook.py"
            )
        for number, entry in enumerate(data["rules"], start=1):
            named = entry.get("id") if isinstance(entry, dict) else None
            where = f"{path.name}, rule {number} ({named or 'no id'})"
            self._add(entry, str(data["writer"]), where)

    def _add(self, entry: Any, writer: str, where: str) -> None:
        rule = _rule(entry, writer, where, self.next_steps)
        if rule.id in self.rules or rule.id == UNKNOWN.id:
            raise RulesError(f"{where}: the id is taken; give it another name")
        self.rules[rule.id] = rule
        for name, into in (("tokens", self._tokens), ("hints", self._hints)):
            for token in entry.get(name, ()):
                taken = token in self._tokens or token in self._hints
                if not isinstance(token, str) or not token or taken:
                    raise RulesError(f"{where}: {name} has {token!r} empty or twice; one reason has one rule")
                if token.endswith("*"):
                    self._prefixes.append((token[:-1], rule))
                else:
                    into[token] = rule
        for table in _TABLES:
            for pattern in entry.get(table, ()):
                self.patterns.extend(_patterns(pattern, rule, table, where))


def _yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise RulesError(f"{path.name}: cannot be read ({error}); correct the YAML") from error


def _version(path: Path) -> int:
    data = _yaml(path)
    version = data.get("version") if isinstance(data, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise RulesError(
            f"{path.name}: `version` is {version!r}; write a whole number, one more at every change"
        )
    return version


def _next_steps(path: Path) -> dict[str, dict[str, str]]:
    data = _yaml(path)
    if not isinstance(data, dict):
        raise RulesError(f"{path.name}: expected a text in {' and '.join(LANGUAGES)} for each id")
    for step, texts in data.items():
        lacking = [name for name in LANGUAGES if not isinstance(texts, dict) or not texts.get(name)]
        if lacking:
            raise RulesError(f"{path.name}, {step}: no text in {', '.join(lacking)}; write one")
    return {str(step): {str(name): str(text) for name, text in texts.items()} for step, texts in data.items()}


def _rule(entry: Any, writer: str, where: str, steps: Mapping[str, Any]) -> Rule:
    if not isinstance(entry, dict):
        raise RulesError(f"{where}: expected a mapping with at least {', '.join(_NEEDED)}")
    if missing := [name for name in _NEEDED if name not in entry]:
        raise RulesError(f"{where}: {', '.join(missing)} missing; write it")
    for name, value in entry.items():
        if name not in _ALLOWED:
            raise RulesError(f"{where}: {name!r} is not a key; there are {', '.join(_ALLOWED)}")
        if type(value) is not _ALLOWED[name]:
            raise RulesError(f"{where}: {name} is {value!r}; expected {_ALLOWED[name].__name__}")
    for name, allowed in (("layer", LAYERS), ("cause", CAUSES), ("next", tuple(steps))):
        if entry[name] not in allowed:
            raise RulesError(f"{where}: {name} is {entry[name]!r}; choose one of {', '.join(allowed)}")
    if not 0 <= entry["severity"] <= 100:
        raise RulesError(f"{where}: severity is {entry['severity']}; choose 0 to 100")
    return Rule(
        id=entry["id"],
        writer=writer,
        layer=entry["layer"],
        cause=entry["cause"],
        severity=entry["severity"],
        next_step=entry["next"],
        order=entry.get("order", 0),
        is_note=entry.get("note", False),
        is_weak=entry.get("weak", False),
    )


def _patterns(entry: Any, rule: Rule, table: str, where: str) -> Iterable[Pattern]:
    found = entry if isinstance(entry, dict) else {"text": entry}
    template = found.get("text")
    if not isinstance(template, str) or not template or set(found) - {"text", "since", "until"}:
        raise RulesError(
            f"{where}: a pattern of {table} is {entry!r}; write a text, or {{text, since, until}}"
        )
    for name in ("since", "until"):
        if name in found and (not isinstance(found[name], str) or not _VERSION.fullmatch(found[name])):
            raise RulesError(f'{where}: {name} of {template!r} is {found[name]!r}; write "1.34", in quotes')
    if set(template) <= set("{} ") or re.fullmatch(r"\{[a-z_]+\}.{0,2}", template):
        raise RulesError(
            f"{where}: {template!r} says nothing by itself; put literal text beside the placeholder"
        )
    names = {name for name in re.findall(r"\{([a-z_]+)\}", template) if f"{{{name}}}" not in _VARIANTS}
    if unknown := names - set(PLACEHOLDERS):
        raise RulesError(
            f"{where}: no placeholder {', '.join(sorted(unknown))}; there are {', '.join(PLACEHOLDERS)}"
        )
    for written in _spelled_out(template):
        yield Pattern(
            rule, table, written, expression(written), found.get("since", ""), found.get("until", "")
        )


def _spelled_out(template: str) -> Sequence[str]:
    for name, beginnings in _VARIANTS.items():
        if template.startswith(name):
            return [beginning + template.removeprefix(name) for beginning in beginnings]
    return [template]


def _literal_length(template: str) -> int:
    return len(re.sub(r"\{[a-z_]+\}", "", template))


def _first_match(table: _Table, text: str, start: int) -> Found | None:
    for key in (text[start : start + _KEY], ""):
        for length, bucket in table.get(key, ()):
            for pattern, rule in bucket.get(text[start : start + length], ()):
                match = pattern.match(text, start)
                if match is not None:
                    return match, rule
    return None


@lru_cache(maxsize=1)
def rule_book() -> RuleBook:
    return RuleBook()
