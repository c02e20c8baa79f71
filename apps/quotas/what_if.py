"""What if: a proposed change of quota or work against a cluster as it was last read. Nothing is written anywhere.

Input: the clock, a cluster, checked changes, the teams of the reader (None: all); output: `Answer`, or `ChangeError`.
Invariants
- Only the cohort trees that the change touches are settled: no admission changes another tree.
- The engine runs in the web process, so it is bounded: MOST_WORK pieces of work in these trees (else TooMuch), and
  MOST_CYCLES cycles or MOST_SECONDS each for before and after, at whose end the answer says that it was cut.
- A reader restricted to teams may name own queues and own work only (other names are unknown), is told of own work
  and queues by name and of everything else in sums per tree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import monotonic

from apps.fleet.models import Cluster
from apps.quotas.engine.model import Outcome, Situation, Work
from apps.quotas.engine.settle import settle
from apps.quotas.situation import Scene, load_scene
from apps.quotas.tree import Key, QuotaTree
from apps.quotas.what_if_apply import Applied, ChangeNote, Names, apply_changes, focused, with_activity
from apps.quotas.what_if_change import Change
from apps.quotas.what_if_diff import Comparison, compare, narrowed

MOST_WORK = 20_000
MOST_CYCLES = 20_000
MOST_SECONDS = 5.0


class TooMuch(Exception):
    """More work in the touched trees than the web process settles."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} workloads")
        self.count = count


@dataclass(frozen=True, slots=True)
class Answer:
    """`gaps`: codes of what plays a part and is not modelled. `workloads`, `queues`: how many are in the touched trees.
    `team_of`: who owns a piece of work."""

    cluster: Cluster
    comparison: Comparison
    notes: tuple[ChangeNote, ...]
    added: frozenset[str]
    gaps: tuple[str, ...]
    workloads: int
    queues: int
    team_of: Callable[[Work], int | None]


def try_changes(scene: Scene, changes: Sequence[Change], *, team_ids: Collection[int] | None) -> Answer:
    """Raises ChangeError and TooMuch."""
    names = allowed_names(scene, team_ids)
    present = with_activity(scene.situation, scene.beyond)
    applied = apply_changes(present, changes, names=names, beyond=scene.beyond, now=scene.now.timestamp())
    before, after = focused(present, applied.situation, applied.touched)
    if len(after.work) > MOST_WORK:
        raise TooMuch(len(after.work))
    found = compare(
        before, after, (_settled(before), _settled(after)), touched=applied.touched, team_of=scene.team_of
    )
    if team_ids is not None:
        found = _for_teams(found, scene, names, applied, team_ids)
    return Answer(
        cluster=scene.cluster,
        comparison=found,
        notes=applied.notes,
        added=applied.added,
        gaps=_gaps(scene, found),
        workloads=len(after.work),
        queues=len(after.queues),
        team_of=scene.team_of,
    )


def what_if(
    *, now: datetime, cluster: Cluster, changes: Sequence[Change], team_ids: Collection[int] | None
) -> Answer:
    return try_changes(load_scene(now=now, cluster=cluster), changes, team_ids=team_ids)


def _settled(situation: Situation) -> Outcome:
    until = monotonic() + MOST_SECONDS
    return settle(situation, max_cycles=MOST_CYCLES, enough=lambda: monotonic() > until)


def _gaps(scene: Scene, found: Comparison) -> tuple[str, ...]:
    own = {"time"}
    if scene.guessed:
        own.add("pod_set_flavors")
    if not scene.selectors_known:
        own.add("namespaces")
    return tuple(sorted(found.gaps | own))


# ---- who may name and see what ---------------------------------------------------------------------------------


def allowed_names(scene: Scene, team_ids: Collection[int] | None) -> Names:
    if team_ids is None:
        return Names(local_queues=scene.local_queues)
    teams = set(team_ids)
    queues = {name for name, owners in scene.teams.items() if not teams.isdisjoint(owners)}
    return Names(
        local_queues={
            (namespace, name): target
            for (namespace, name), target in scene.local_queues.items()
            if scene.bindings.team_id_for(
                scene.cluster.pk, namespace=namespace, queue_name=name, queue=target[0], volcano=False
            )
            in teams
        },
        queues=queues,
        cohorts=_above(scene.situation, queues),
        work={work.uid for work in scene.situation.work if scene.team_of(work) in teams},
    )


def _above(situation: Situation, queues: Collection[str]) -> set[str]:
    """The cohorts on the way up from these queues."""
    parents: dict[Key, str | None] = {
        (node.kind, node.name): node.parent
        for node in [*(queue.node for queue in situation.queues), *situation.cohorts]
    }
    found: set[str] = set()
    for queue in queues:
        name = parents.get(("ClusterQueue", queue))
        while name and name not in found:
            found.add(name)
            name = parents.get(("Cohort", name))
    return found


def _for_teams(
    found: Comparison, scene: Scene, names: Names, applied: Applied, team_ids: Collection[int]
) -> Comparison:
    teams, queues, cohorts = set(team_ids), names.queues or set(), set(names.cohorts or ())
    tree = QuotaTree([*(queue.node for queue in applied.situation.queues), *applied.situation.cohorts])

    def owns(work: Work) -> bool:
        return work.uid in applied.added or scene.team_of(work) in teams

    def root_of(queue: str) -> str:
        if ("ClusterQueue", queue) not in tree:
            return ""
        name = tree.root_of("ClusterQueue", queue)[1]
        return name if name in cohorts else ""

    return narrowed(found, queues=queues, cohorts=cohorts, owns=owns, team_ids=teams, root_of=root_of)
