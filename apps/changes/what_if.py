"""What a change request would do to work, per team. Input: the clock, a cluster, edits; output: plain JSON for
`ChangeRequest.report["what_if"]`.

    {"teams": [{"team": id or null, "admitted", "loses", "waits", "moves": counts of work,
       "holds": [{"flavor", "resource", "before", "after"}]}],
     "work": [{"what", "uid", "namespace", "name", "queue", "team"}] (at most MOST_NAMED of each team and kind),
     "volcano": [{"queue", "resource", "teams": [id], "held", "deserved_before", "deserved_after", "most_before",
       "most_after"}],
     "anyway", "whole", "gaps", "workloads", "queues"}
  or {"refused": [{"field", "code", "part"}]} where it cannot be tried, {"too_much": count} where it is too large.

ClusterQueues and Cohorts are settled by the what-if's engine on the cluster as last observed; a stopped LocalQueue tells
its own work; of Volcano's queues only what they deserve and can get at most is known, not which work would run.
Invariants: null is unknown or without a limit, never 0; numbers are decimal text; flavors and resources never added up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.changes.edits import AMOUNTS, ChangeError, Edit, LocalQueueEdit, NodeEdit, VolcanoEdit
from apps.changes.laying import completed
from apps.changes.specs import amount, object_seen
from apps.core.quantity import plain
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, Workload
from apps.quotas.situation import load_scene
from apps.quotas.snapshot import ClusterView, Item, Snapshot, load_snapshot
from apps.quotas.volcano import KIND as VOLCANO
from apps.quotas.volcano import VolcanoCluster
from apps.quotas.what_if import Answer, TooMuch, try_changes

MOST_NAMED = 20
ZERO = Decimal(0)
_ADMITTED = ("starts",)
_LOSES = ("preempted", "drained", "misses", "removed")
Json = dict[str, Any]


@dataclass(slots=True)
class _Team:
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    holds: list[Json] = field(default_factory=list)


def what_if_of(*, now: datetime, cluster: Cluster, edits: Sequence[Edit]) -> Json:
    nodes = [_completed(cluster, edit) for edit in edits if isinstance(edit, NodeEdit)]
    found, snapshot = _empty(), None
    if nodes:
        scene = load_scene(now=now, cluster=cluster)
        snapshot = scene.snapshot
        try:
            found = what_if_json(try_changes(scene, nodes, team_ids=None))
        except ChangeError as error:
            return {
                "refused": [{"field": one.field, "code": one.code, "part": one.part} for one in error.faults]
            }
        except TooMuch as error:
            return {"too_much": error.count}
    snapshot = snapshot or load_snapshot(now=now, clusters=[cluster])
    for edit in edits:
        if isinstance(edit, LocalQueueEdit) and edit.stop_policy != "None":
            _merge(found, _stopped(snapshot, cluster, edit))
    if wanted := [edit for edit in edits if isinstance(edit, VolcanoEdit)]:
        found["volcano"] = volcano_lines(snapshot, cluster, wanted)
    return found


def _empty() -> Json:
    return {
        "teams": [],
        "work": [],
        "volcano": [],
        "anyway": 0,
        "whole": True,
        "gaps": [],
        "workloads": 0,
        "queues": 0,
    }


def _completed(cluster: Cluster, edit: NodeEdit) -> NodeEdit:
    """With the limits that leaving a cohort takes along, as they were last observed."""
    row = ClusterObject.objects.filter(cluster=cluster, kind=edit.kind, name=edit.name, gone_at=None).first()
    return completed(object_seen(edit.kind, "", row.raw).spec, edit) if row and row.raw else edit


def what_if_json(answer: Answer) -> Json:
    """`answer` of an unrestricted what-if."""
    teams: dict[int | None, _Team] = defaultdict(_Team)
    work: list[Json] = []
    for effect in answer.comparison.effects:
        team = answer.team_of(effect.work)
        what = "admitted" if effect.what in _ADMITTED else "loses" if effect.what in _LOSES else "moves"
        teams[team].counts[what] += 1
        if teams[team].counts[what] <= MOST_NAMED:
            said = effect.work
            work.append(_named(effect.what, said.uid, said.namespace, said.name, said.queue, team))
    for line in answer.comparison.waiting:
        teams[answer.team_of(line.work)].counts["waits"] += 1
    for total in answer.comparison.teams:
        teams[total.team_id].holds.append(
            {
                "flavor": total.flavor,
                "resource": total.resource,
                "before": plain(total.before),
                "after": plain(total.after),
            }
        )
    return {
        **_empty(),
        "teams": _team_lines(teams),
        "work": work,
        "anyway": answer.comparison.anyway,
        "whole": answer.comparison.whole,
        "gaps": list(answer.gaps),
        "workloads": answer.workloads,
        "queues": answer.queues,
    }


def _named(what: str, uid: str, namespace: str, name: str, queue: str, team: int | None) -> Json:
    return {"what": what, "uid": uid, "namespace": namespace, "name": name, "queue": queue, "team": team}


def _team_lines(teams: dict[int | None, _Team]) -> list[Json]:
    return [
        {
            "team": team,
            **{name: found.counts.get(name, 0) for name in ("admitted", "loses", "waits", "moves")},
            "holds": found.holds,
        }
        for team, found in sorted(teams.items(), key=lambda one: (one[0] is None, one[0] or 0))
    ]


# ---- a stopped LocalQueue -------------------------------------------------------------------------------------------


def _stopped(snapshot: Snapshot, cluster: Cluster, edit: LocalQueueEdit) -> Json:
    """Work of this LocalQueue that is not switched off: what waits stays waiting; a reservation that is not admitted goes with Hold, everything
    with HoldAndDrain."""
    losing = [Workload.State.RESERVED]
    if edit.stop_policy == "HoldAndDrain":
        losing.append(Workload.State.ADMITTED)
    rows = Workload.objects.filter(
        cluster=cluster,
        kind=Workload.Kind.WORKLOAD,
        gone_at=None,
        active=True,
        namespace=edit.namespace,
        queue_name=edit.name,
    ).order_by("name")
    teams: dict[int | None, _Team] = defaultdict(_Team)
    work: list[Json] = []
    for uid, name, queue, state in rows.values_list("uid", "name", "cluster_queue", "state"):
        team = snapshot.bindings.team_id_for(
            cluster.pk, namespace=edit.namespace, queue_name=edit.name, queue=queue, volcano=False
        )
        if state in losing:
            teams[team].counts["loses"] += 1
            if teams[team].counts["loses"] <= MOST_NAMED:
                work.append(_named("drained", uid, edit.namespace, name, queue, team))
        elif state == Workload.State.PENDING:
            teams[team].counts["waits"] += 1
    return {"teams": _team_lines(teams), "work": work}


def _merge(found: Json, more: Json) -> None:
    lines = {line["team"]: line for line in found["teams"]}
    for line in more["teams"]:
        if line["team"] in lines:
            for name in ("admitted", "loses", "waits", "moves"):
                lines[line["team"]][name] += line[name]
        else:
            found["teams"].append(line)
    found["work"].extend(more["work"])


# ---- Volcano --------------------------------------------------------------------------------------------------------


def volcano_lines(snapshot: Snapshot, cluster: Cluster, edits: Iterable[VolcanoEdit]) -> list[Json]:
    """What queues deserve and can get at most, where an edit changes either."""
    view = snapshot.views[cluster.pk]
    before, after = VolcanoCluster(snapshot, view), VolcanoCluster(snapshot, _edited(view, edits))
    found: list[Json] = []
    for name in before.queues(None):
        old = {row.resource: row for row in before.queue_rows(name)}
        new = {row.resource: row for row in after.queue_rows(name)}
        for resource in sorted(old.keys() | new.keys()):
            was, now = old.get(resource), new.get(resource)
            numbers = [
                getattr(row, part) if row else None for part in ("nominal", "ceiling") for row in (was, now)
            ]
            if numbers[0] == numbers[1] and numbers[2] == numbers[3]:
                continue
            row = now or was
            assert row is not None  # noqa: S101 -- the resource came from one of them
            texts = [None if number is None else plain(number) for number in numbers]
            found.append(
                {
                    "queue": name,
                    "resource": resource,
                    "teams": sorted(view.teams[VOLCANO, name]),
                    "held": plain(row.reserved),
                    "deserved_before": texts[0],
                    "deserved_after": texts[1],
                    "most_before": texts[2],
                    "most_after": texts[3],
                }
            )
    return found


def _edited(view: ClusterView, edits: Iterable[VolcanoEdit]) -> ClusterView:
    queues = dict(view.objects[VOLCANO])
    for edit in edits:
        if edit.name in queues:
            queues[edit.name] = _edited_queue(queues[edit.name], edit)
    return replace(view, objects={**view.objects, VOLCANO: queues}, made=None)


def _edited_queue(item: Item, edit: VolcanoEdit) -> Item:
    spec = dict(item.spec)
    if edit.weight is not None:
        spec["weight"] = edit.weight
    if edit.priority is not None:
        spec["priority"] = edit.priority
    for part in AMOUNTS:
        amounts = dict(spec.get(part) or {})
        for resource, text in edit.amounts.get(part, {}).items():
            value = None if text is None else amount(text)
            if value is None:
                amounts.pop(resource, None)
            else:
                amounts[resource] = plain(value)
        spec[part] = amounts
    return replace(item, spec=spec)
