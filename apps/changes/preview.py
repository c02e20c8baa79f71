"""What the check of a request will find, told before it is saved: on the cluster as it was last observed. Input: the
clock, a cluster, edits that the asker may name; output: what the check was given and its report.

Invariants: nothing is read live and nothing is written; there is no dry run in it, so that the check after saving may
find more. Names and rights are the caller's to look at: the report is of the whole fleet (see `masking`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from apps.changes import checks
from apps.changes.check_loading import load_check
from apps.changes.checks_model import CheckInput, Report
from apps.changes.edits import Edit, key_of
from apps.changes.specs import ObjectSeen, object_seen
from apps.changes.what_if import what_if_of
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject


@dataclass(frozen=True, slots=True)
class Preview:
    """`report` None: an edited object was not read whole yet, so that only the check after saving can tell."""

    given: CheckInput
    report: Report | None


def preview(*, now: datetime, cluster: Cluster, edits: Sequence[Edit]) -> Preview:
    """Without edits: what there is and who holds what, beside the fields of a form."""
    seen = _observed(cluster, edits)
    given = load_check(now=now, cluster=cluster, edits=edits, seen=seen or ())
    if not edits or seen is None:
        return Preview(given, None)
    report = checks.run(given)
    if not report.refusals:
        report = replace(report, what_if=what_if_of(now=now, cluster=cluster, edits=edits))
    return Preview(given, report)


def _observed(cluster: Cluster, edits: Sequence[Edit]) -> list[ObjectSeen] | None:
    """The edited objects that there are, as they were served; None when one was read before these were kept."""
    wanted = {key_of(edit) for edit in edits}
    rows = ClusterObject.objects.filter(
        cluster=cluster,
        kind__in={key[0] for key in wanted},
        name__in={key[2] for key in wanted},
        gone_at=None,
    ).values_list("kind", "namespace", "name", "resource_version", "raw")
    found = []
    for kind, namespace, name, version, raw in rows if wanted else ():
        if (kind, namespace, name) not in wanted:
            continue
        if not raw:
            return None
        found.append(replace(object_seen(kind, "", raw), resource_version=version))
    return found
