"""Which cards the platform's reserves take. Pure.

Input: the rules in force and the nodes' groups with their usable cards; output: whole cards per group, with the
reasons. Invariants: rules are laid one after the other in the order in which they were made, each over the nodes in
the order of their names; a card is taken once, however many rules select it; nothing is taken that is not usable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from apps.core.gpu import short_model
from apps.core.label_selector import Selector, SelectorError, parse_selector

Place = tuple[str, int]
"""A group of a node: the node's uid, and its index among the node's groups."""


@dataclass(frozen=True)
class Rule:
    """One reserve in force. `cards` None: all that are selected; `model`, `sharing_mode`, `selector` "": any."""

    pk: int
    selector: str
    model: str
    sharing_mode: str
    cards: int | None
    reason: str

    @cached_property
    def _parsed(self) -> Selector | None:
        """None: a text that cannot be read, which selects nothing (the admin form refuses it)."""
        try:
            return parse_selector(self.selector)
        except SelectorError:
            return None

    def selects_node(self, labels: Mapping[str, str]) -> bool:
        return self._parsed is not None and self._parsed.matches(labels)

    def selects_group(self, model: str, sharing_mode: str) -> bool:
        return (not self.model or self.model in (model, short_model(model))) and (
            not self.sharing_mode or self.sharing_mode == sharing_mode
        )


@dataclass(frozen=True, slots=True)
class Usable:
    """A group that a rule can take from. `rules`: the keys of those that select it."""

    place: Place
    cards: int
    rules: frozenset[int]


@dataclass(frozen=True, slots=True)
class Taken:
    """What reserves take of one group, all together."""

    cards: int
    reasons: tuple[str, ...]

    @property
    def text(self) -> str:
        return "; ".join(dict.fromkeys(self.reasons))


def lay(rules: Iterable[Rule], groups: Iterable[Usable]) -> tuple[dict[Place, Taken], dict[int, int]]:
    """What is taken per group, and by each rule. `groups` in the order of their nodes' names."""
    everything = list(groups)
    taken: dict[Place, Taken] = {}
    by_rule: dict[int, int] = {}
    for rule in rules:
        wanted = rule.cards
        by_rule[rule.pk] = 0
        for group in everything:
            if wanted is not None and wanted <= 0:
                break
            if rule.pk not in group.rules:
                continue
            before = taken.get(group.place)
            left = group.cards - (before.cards if before else 0)
            cards = left if wanted is None else min(wanted, left)
            if cards <= 0:
                continue
            reasons = (*(before.reasons if before else ()), rule.reason)
            taken[group.place] = Taken((before.cards if before else 0) + cards, reasons)
            by_rule[rule.pk] += cards
            if wanted is not None:
                wanted -= cards
    return taken, by_rule
