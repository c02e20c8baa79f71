"""What a finding is. See selectors.py for how they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

Severity = Literal["bad", "warn", "note"]
Target = Literal[
    "sources", "node", "capacity", "topology", "queues", "queue", "admissions", "team", "workload", ""
]

NAMES_SHOWN = 3
_AREAS = {
    "source": "sight",
    "quarantine": "sight",
    "waiting": "work",
    "between": "work",
    "queue": "quota",
    "quota": "quota",
}


@dataclass(frozen=True, slots=True)
class Ref:
    """An object that a finding is about; `namespace` "" for cluster-wide ones. `kind`: "ClusterQueue", "Cohort",
    "LocalQueue", "VolcanoQueue", "Workload", "Team", or a kind of capacity's notes ("node", "flavor", "pool", …)."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Finding:
    """`text` is a sentence in the active language. `target` and `args` say where its link leads:
    "sources" {cluster, source}, "node" {cluster, name}, "capacity" {cluster, model, sharing_mode}, "topology" {cluster},
    "queue" {cluster, kind, name, namespace}, "admissions" {cluster, team, queue, cause, …}, "team" {slug}.
    `key` is stable for the same finding over time; `count` how many objects it sums up; `since` when the matter began,
    as far as the cluster says. `why` it matters and `advice`, what to change, are sentences; `first_seen` and
    `last_seen`: when the portal found it, None while that is not noted yet."""

    key: str
    severity: Severity
    text: str
    target: Target = ""
    args: Mapping[str, str] = field(default_factory=dict)
    since: datetime | None = None
    cluster_id: int | None = None
    count: int = 1
    why: str = ""
    advice: str = ""
    objects: tuple[Ref, ...] = ()
    first_seen: datetime | None = None
    last_seen: datetime | None = None

    @property
    def code(self) -> str:
        """What kind of finding it is, the same for all of its kind."""
        first, *rest = self.key.split("/", 2)
        return rest[0] if first in ("quota", "capacity", "between") else first

    @property
    def area(self) -> str:
        """What it concerns: "sight" (what the portal reads), "work", "quota" or "cards"."""
        first = self.key.split("/", 1)[0].split("-")[0]
        return _AREAS.get(first, "cards")

    @property
    def started(self) -> datetime | None:
        """Since when it is so: what the cluster says, else since the portal found it."""
        return self.since or self.first_seen


def some_names(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(names[:NAMES_SHOWN])
    more = len(names) - NAMES_SHOWN
    return _("%(names)s and %(more)d more") % {"names": shown, "more": more} if more > 0 else shown


def duration(seconds: int) -> str:
    """A length of time in its largest whole unit."""
    if seconds >= 2 * 86400:
        days = seconds // 86400
        return ngettext("%(n)d day", "%(n)d days", days) % {"n": days}
    if seconds >= 3600:
        hours = seconds // 3600
        return ngettext("%(n)d hour", "%(n)d hours", hours) % {"n": hours}
    minutes = max(1, seconds // 60)
    return ngettext("%(n)d minute", "%(n)d minutes", minutes) % {"n": minutes}
