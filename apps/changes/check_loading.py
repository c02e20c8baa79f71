"""What a check is given, from what was observed. Input: the clock, a cluster, edits, the edited objects as they are
live; output: `CheckInput` for `checks.run`.

Invariants: an object that was read live counts as it is live, every other as it was last observed; what is held and by
whom is summed from the same rows, so that a queue's teams add up to it; a flavor that reaches no node is left out of
`allocatable` (nodes may be brought up for it). A constant number of queries beside the snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

import msgspec
from django.db import connection

from apps.changes.checks_model import CheckInput
from apps.changes.edits import Edit, ObjectKey
from apps.changes.planning import parent_of
from apps.changes.specs import ObjectSeen, object_seen
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject
from apps.quotas.held import POD_GROUP, held_by_queue
from apps.quotas.snapshot import Snapshot, load_snapshot

ZERO = Decimal(0)
TREE_KINDS = ("ClusterQueue", "Cohort", "VolcanoQueue")
Amounts = dict[tuple[str, str], Decimal]
Sums = dict[tuple[str, str], Amounts]
_REACHED = """
SELECT f.name, a.key, sum(a.value::numeric)
FROM jsonb_to_recordset(%(flavors)s::jsonb) AS f(name text, labels jsonb)
JOIN observations_node n ON n.labels @> f.labels
CROSS JOIN LATERAL jsonb_each_text(n.allocatable) a
WHERE n.cluster_id = %(cluster)s AND n.gone_at IS NULL
GROUP BY 1, 2
"""


def load_check(
    *, now: datetime, cluster: Cluster, edits: Sequence[Edit], seen: Iterable[ObjectSeen]
) -> CheckInput:
    """`seen`: the edited objects that exist, as the API server has just served them."""
    snapshot = load_snapshot(now=now, clusters=[cluster])
    objects = _observed(cluster)
    live = {one.key: one for one in seen}
    named = {(edit.kind, edit.name) for edit in edits}
    # What is named and was not found live is gone, whatever was observed before.
    objects = {
        key: one for key, one in objects.items() if key in live or (key[0], key[2]) not in named
    } | live
    held, by_team = _held(snapshot, cluster, objects)
    return CheckInput(
        edits=tuple(edits),
        objects=objects,
        flavors=frozenset(snapshot.views[cluster.pk].objects["ResourceFlavor"]),
        held=held,
        held_by_team=by_team,
        allocatable=_allocatable(snapshot, cluster),
    )


def _observed(cluster: Cluster) -> dict[ObjectKey, ObjectSeen]:
    """Whole trees. Rows from before objects were kept as served say nothing until they are read again."""
    rows = list(
        ClusterObject.objects.filter(cluster=cluster, kind__in=TREE_KINDS, gone_at=None)
        .exclude(raw={})
        .values_list("kind", "resource_version", "raw")
    )
    found: dict[ObjectKey, ObjectSeen] = {}
    for kind, version, raw in rows:
        one = replace(object_seen(kind, "", raw), resource_version=version)
        found[one.key] = one
    return found


# ---- what is held ---------------------------------------------------------------------------------------------------


def _held(
    snapshot: Snapshot, cluster: Cluster, objects: Mapping[ObjectKey, ObjectSeen]
) -> tuple[Sums, dict[tuple[str, str], dict[int, Amounts]]]:
    """(per queue, per queue and team); a Volcano queue's with what the queues below it hold, a LocalQueue's under
    "namespace/name"."""
    held: Sums = defaultdict(dict)
    by_team: dict[tuple[str, str], dict[int, Amounts]] = defaultdict(lambda: defaultdict(dict))
    above = _volcano_paths(objects)
    for row in held_by_queue(cluster_ids=[cluster.pk]):
        volcano = row.kind == POD_GROUP
        team = snapshot.bindings.team_id_for(
            cluster.pk,
            namespace=row.namespace,
            queue_name=row.queue_name,
            queue=row.queue,
            volcano=volcano,
        )
        if volcano:
            keys = [("VolcanoQueue", name) for name in above.get(row.queue, (row.queue,))]
        else:
            keys = [("ClusterQueue", row.queue), ("LocalQueue", f"{row.namespace}/{row.queue_name}")]
        for key in keys:
            _add(held[key], (row.flavor, row.resource), row.reserved)
            _add(by_team[key][team or 0], (row.flavor, row.resource), row.reserved)
    for queue, claimed in snapshot.views[cluster.pk].volcano.claimed.items():
        for resource, value in claimed.items():
            for name in above.get(queue, (queue,)):
                _add(held["VolcanoQueue", name], ("", resource), value)
    return dict(held), {name: dict(teams) for name, teams in by_team.items()}


def _add(sums: Amounts, cell: tuple[str, str], value: Decimal) -> None:
    sums[cell] = sums.get(cell, ZERO) + value


def _volcano_paths(objects: Mapping[ObjectKey, ObjectSeen]) -> dict[str, tuple[str, ...]]:
    """A queue and those above it, each once; a circle ends the way up."""
    parents = {
        key[2]: parent_of(key[0], one.spec) for key, one in objects.items() if key[0] == "VolcanoQueue"
    }
    found: dict[str, tuple[str, ...]] = {}
    for name in parents:
        path: list[str] = []
        here = name
        while here and here not in path:
            path.append(here)
            here = parents.get(here, "")
        found[name] = tuple(path)
    return found


# ---- what there is --------------------------------------------------------------------------------------------------


def _allocatable(snapshot: Snapshot, cluster: Cluster) -> dict[str, dict[str, Decimal]]:
    """Per flavor what all nodes that carry its labels can give, in use or not; "" is the whole cluster, as Volcano
    counts. Nodes out of use count."""
    flavors = [
        {"name": name, "labels": item.spec.get("node_labels") or {}}
        for name, item in snapshot.views[cluster.pk].objects["ResourceFlavor"].items()
    ]
    flavors.append({"name": "", "labels": {}})
    found: dict[str, dict[str, Decimal]] = defaultdict(dict)
    with connection.cursor() as cursor:
        parameters: dict[str, str | int] = {
            "flavors": msgspec.json.encode(flavors).decode(),
            "cluster": cluster.pk,
        }
        cursor.execute(_REACHED, parameters)
        for flavor, resource, amount in cursor.fetchall():
            found[flavor][resource] = amount
    return dict(found)
