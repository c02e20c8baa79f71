"""What a change does to whole trees of a situation: which queues admit nothing, and which trees it can move. Input and
output: Situations. Pure.

Invariants: a circle of cohorts is a tree whose root is its first member by name; nobody's admission changes another tree.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from apps.quotas.engine.model import Queue, Situation
from apps.quotas.tree import Key


def _parents(situation: Situation) -> dict[Key, Key | None]:
    nodes = [queue.node for queue in situation.queues] + list(situation.cohorts)
    return {(node.kind, node.name): ("Cohort", node.parent) if node.parent else None for node in nodes}


def _top(parents: Mapping[Key, Key | None], key: Key) -> tuple[Key, bool]:
    """(root, whether the way up is a circle); of a circle its first member by name."""
    path: list[Key] = [key]
    while (above := parents.get(path[-1])) is not None:
        if above in path:
            return min(path[path.index(above) :]), True
        path.append(above)
    return path[-1], False


def with_activity(situation: Situation, beyond: Mapping[str, str]) -> Situation:
    """Every queue with why it admits nothing: stopped, a flavor without an object, a circle above, or `beyond`."""
    parents = _parents(situation)
    circles: dict[Key | None, bool] = {None: False}

    def why(queue: Queue) -> str:
        if queue.node.stopped:
            return "Stopped"
        if any(flavor not in situation.flavors for group in queue.groups for flavor in group.flavors):
            return "FlavorNotFound"
        above = parents["ClusterQueue", queue.name]
        if above not in circles and above is not None:
            circles[above] = _top(parents, above)[1]
        return "HasCycle" if circles[above] else beyond.get(queue.name, "")

    return replace(situation, queues=tuple(replace(queue, inactive=why(queue)) for queue in situation.queues))


def focused(before: Situation, after: Situation, touched: Collection[Key]) -> tuple[Situation, Situation]:
    """Both situations with only the trees that hold what was touched: nobody's admission changes another tree."""
    roots = {_top(_parents(situation), key)[0] for situation in (before, after) for key in touched}
    names: set[str] = set()
    for situation in (before, after):
        parents = _parents(situation)
        names |= {q.name for q in situation.queues if _top(parents, ("ClusterQueue", q.name))[0] in roots}
    return _only(before, names, roots), _only(after, names, roots)


def _only(situation: Situation, names: Collection[str], roots: Collection[Key]) -> Situation:
    parents = _parents(situation)
    return replace(
        situation,
        queues=tuple(queue for queue in situation.queues if queue.name in names),
        cohorts=tuple(node for node in situation.cohorts if _top(parents, ("Cohort", node.name))[0] in roots),
        work=tuple(work for work in situation.work if work.queue in names),
    )
