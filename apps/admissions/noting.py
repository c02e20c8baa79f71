"""Surroundings noted while work waits, so that the past is judged by what it stood in. Input: a cluster as it is now, or
work of the past; output: `SurroundingsNote`s written, and what is known of a piece of work at a time.

Nodes and queues are not kept as they were: who asks later finds other labels, taints and ceilings, and of placed pods not
even what they asked for. So whatever live work is judged by is noted at each look, when it differs from the note before.

Invariants: what was never looked at while it waited has no note, and its text alone decides; a note never goes away while
its work lives, so that no later computation knows less than an earlier one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

from apps.admissions.classifier import NodeFacts
from apps.admissions.life_sources import JOBSET_UID
from apps.admissions.models import SurroundingsNote
from apps.admissions.node_facts import facts_of_steps, steps_of
from apps.admissions.surroundings import Surroundings
from apps.fleet.models import Cluster

# Work `s` whose text is read beside its surroundings.
LOOKED_AROUND = "(s.message LIKE '%%nodes are%%' OR s.message LIKE 'queue resource quota insufficient%%')"

# Pods that a scheduler could not place, and the work that they belong to: of several pods the one that its text names.
_UNPLACED = f"""
WITH waiting AS MATERIALIZED (
  SELECT id, uid, namespace, name, pod_group, ARRAY[uid, owner_uid, labels->>'{JOBSET_UID}'] AS keys,
    jsonb_build_object('requests', requests, 'placement', placement) AS one_pod
  FROM observations_pod
  WHERE cluster_id = %(cluster)s AND gone_at IS NULL AND phase = 'Pending' AND node_name = '' AND devices > 0
    AND deleting_since IS NULL AND scheduling_gates = '[]'
), owners AS (
  SELECT w.uid, p.id FROM waiting p JOIN observations_workload w ON w.cluster_id = %(cluster)s
    AND w.namespace = p.namespace AND w.name = p.pod_group AND p.pod_group <> '' AND w.gone_at IS NULL
  UNION
  SELECT w.uid, p.id FROM (SELECT id, namespace, unnest(keys) AS key FROM waiting) p
  JOIN observations_workload w ON w.cluster_id = %(cluster)s AND w.namespace = p.namespace
    AND w.owner_uid = p.key AND p.key <> '' AND w.gone_at IS NULL
)
SELECT uid, one_pod FROM waiting
UNION ALL
(SELECT DISTINCT ON (o.uid) o.uid, p.one_pod FROM owners o JOIN waiting p USING (id)
JOIN observations_workload w ON w.cluster_id = %(cluster)s AND w.uid = o.uid
ORDER BY o.uid, position(p.name || ': ' IN w.message) > 0 DESC, p.name, p.id)
"""  # noqa: S608 - constants
_GROUPS = """
SELECT uid, queue_name, requests FROM observations_workload
WHERE cluster_id = %(cluster)s AND gone_at IS NULL AND kind = 'PodGroup' AND state = 'pending'
"""
# What says the same as the note before, or as no note, is not written.
_WRITE = """
INSERT INTO admissions_surroundingsnote (cluster_id, uid, noted_at, steps, over_ceiling)
SELECT %(cluster)s, n.uid, %(now)s, n.steps, n.over_ceiling::jsonb
FROM unnest(%(uids)s::text[], %(steps)s::smallint[], %(over)s::text[]) AS n(uid, steps, over_ceiling)
LEFT JOIN LATERAL (
  SELECT o.steps, o.over_ceiling FROM admissions_surroundingsnote o
  WHERE o.cluster_id = %(cluster)s AND o.uid = n.uid ORDER BY o.noted_at DESC LIMIT 1) o ON true
WHERE (n.steps, n.over_ceiling::jsonb) IS DISTINCT FROM (o.steps, coalesce(o.over_ceiling, '[]'))
ON CONFLICT (cluster_id, uid, noted_at) DO NOTHING
"""
# Of work that is over for so long the evidence is not kept, either.
_FORGET = """
DELETE FROM admissions_surroundingsnote n WHERE n.cluster_id = %(cluster)s AND n.noted_at < %(old)s
  AND NOT EXISTS (SELECT FROM observations_workload w WHERE w.cluster_id = n.cluster_id AND w.uid = n.uid)
  AND NOT EXISTS (SELECT FROM observations_pod p WHERE p.cluster_id = n.cluster_id AND p.uid = n.uid)
"""


@dataclass(frozen=True, slots=True)
class Known:
    """What a piece of work stood in during [`start`, `end`); None: without a beginning, or without an end."""

    start: datetime | None
    end: datetime | None
    nodes: NodeFacts | None
    over_ceiling: tuple[str, ...]


UNKNOWN = Known(None, None, None, ())


def note_surroundings(*, cluster: Cluster, now: datetime) -> int:
    """Look at everything that waits in the cluster now; returns the notes written."""
    around = Surroundings([cluster.pk], queues=())
    steps: dict[str, int | None] = {}
    over: dict[str, tuple[str, ...]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_UNPLACED, {"cluster": cluster.pk})
        for uid, one_pod in cursor.fetchall():
            facts = around.nodes_for(cluster.pk, one_pod)
            steps[uid] = None if facts is None else steps_of(facts)
        cursor.execute(_GROUPS, {"cluster": cluster.pk})
        for uid, queue, requests in cursor.fetchall():
            over[uid] = around.over_ceiling(cluster.pk, queue, requests)
        uids = sorted({*steps, *over})
        cursor.execute(
            _FORGET, {"cluster": cluster.pk, "old": now - timedelta(days=settings.GONE_RETENTION_DAYS)}
        )
        cursor.execute(
            _WRITE,
            {
                "cluster": cluster.pk,
                "now": now,
                "uids": uids,
                "steps": [steps.get(uid) for uid in uids],
                "over": [json.dumps(over.get(uid, ())) for uid in uids],
            },
        )
        return int(cursor.rowcount)


def known_of(*, clusters: Collection[int], uids: Collection[str]) -> dict[tuple[int, str], list[Known]]:
    """What is known of the surroundings of this work, by cluster and uid, in the order of time; without notes: no key."""
    notes: dict[tuple[int, str], list[SurroundingsNote]] = {}
    for note in SurroundingsNote.objects.filter(cluster__in=list(clusters), uid__in=list(uids)).order_by(
        "noted_at"
    ):
        notes.setdefault((note.cluster_id, note.uid), []).append(note)
    return {key: _stretches(found) for key, found in notes.items()}


def _stretches(notes: Sequence[SurroundingsNote]) -> list[Known]:
    begins: Iterable[datetime | None] = [None, *(note.noted_at for note in notes[1:])]
    ends: Iterable[datetime | None] = [*(note.noted_at for note in notes[1:]), None]
    return [
        Known(
            start, end, None if note.steps is None else facts_of_steps(note.steps), tuple(note.over_ceiling)
        )
        for note, start, end in zip(notes, begins, ends, strict=True)
    ]


def known_at(
    known: Mapping[tuple[int, str], Sequence[Known]], *, cluster_id: int, uid: str, until: datetime
) -> Known:
    """What was known last in a stretch that ended at `until`."""
    found = known.get((cluster_id, uid), ())
    return next((one for one in reversed(found) if one.start is None or one.start < until), UNKNOWN)
