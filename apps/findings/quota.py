"""Findings of the quota lint: its problems in words, for those whom they concern.

A reader restricted to teams is told of queues that these teams own or use and of LocalQueues that are theirs, never
the name of another queue. What was found is at most KEEP old; who may see it is decided with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from apps.findings.keeping import Kept
from apps.findings.rows import Finding, Ref, Severity, some_names
from apps.fleet.models import Cluster
from apps.quotas.lint import lint
from apps.quotas.lint_loading import lint_facts
from apps.quotas.lint_model import Problem, Thing
from apps.quotas.snapshot import load_snapshot

KEEP = timedelta(seconds=30)
# Causes that Kueue or Volcano itself tells, too; what lint says of them stands for both.
SAID_BY_QUEUE = frozenset(("stopped", "flavor_missing", "check_missing", "check_inactive"))

_SEVERITY: dict[str, Severity] = {
    "never_admits.cohort_cycle": "bad",
    "never_admits.flavor_missing": "bad",
    "never_admits.check_missing": "bad",
    "never_admits.check_inactive": "bad",
    "never_admits.parent_missing": "bad",
    "never_admits.stopped": "note",
    "never_admits.stopped_parent": "note",
    "never_admits.no_local_queue": "note",
    "lendable_unreachable": "note",
    "limit_never_binds": "note",
    "status_differs": "note",
}
_TEXTS = {
    "never_admits.stopped": _("Queue %(queue)s of %(cluster)s is stopped: it lets nothing in."),
    "never_admits.flavor_missing": _(
        "Queue %(queue)s of %(cluster)s admits nothing: it names flavors that do not exist: %(names)s."
    ),
    "never_admits.check_missing": _(
        "Queue %(queue)s of %(cluster)s admits nothing: it names admission checks that do not exist: %(names)s."
    ),
    "never_admits.check_inactive": _(
        "Queue %(queue)s of %(cluster)s admits nothing: its admission checks are not active: %(names)s."
    ),
    "never_admits.zero_ceiling": _(
        "Queue %(queue)s of %(cluster)s can admit nothing: it has no quota and can borrow none."
    ),
    "never_admits.no_selector": _(
        "Queue %(queue)s of %(cluster)s admits nothing: it has no namespace selector, so no namespace may use it."
    ),
    "never_admits.no_namespace": _(
        "Queue %(queue)s of %(cluster)s admits nothing: its namespace selector matches no namespace."
    ),
    "never_admits.no_local_queue": _(
        "Queue %(queue)s of %(cluster)s gets no work: no local queue leads to it."
    ),
    "never_admits.parent_missing": _(
        "Queue %(queue)s of %(cluster)s names a parent that does not exist: %(above)s."
    ),
    "never_admits.stopped_parent": _(
        "Queue %(queue)s of %(cluster)s lets nothing in: %(above)s above it is closed."
    ),
    "local_queue_nowhere": _(
        "Local queue %(queue)s in namespace %(namespace)s of %(cluster)s leads to a queue that does not exist: %(goal)s."
    ),
    "lendable_unreachable.queue": _(
        "Queue %(queue)s of %(cluster)s offers quota that no other queue can borrow: %(cells)s."
    ),
    "lendable_unreachable.cohort": _(
        "Cohort %(queue)s of %(cluster)s has quota that no queue can use: %(cells)s."
    ),
    "limit_never_binds.borrowing": _(
        "%(queue)s of %(cluster)s has a borrowing limit above all that it could borrow: %(cells)s."
    ),
    "limit_never_binds.lending": _(
        "%(queue)s of %(cluster)s has a lending limit as large as its quota: %(cells)s."
    ),
    "limit_never_binds.no_cohort": _(
        "%(queue)s of %(cluster)s has limits on borrowing or lending and nothing above it: %(cells)s."
    ),
    "volcano_children_over_parent.guarantee": _(
        "Queue %(queue)s of %(cluster)s guarantees %(own)s %(resource)s, the queues below it %(sum)s together."
    ),
    "volcano_children_over_parent.deserved": _(
        "Queue %(queue)s of %(cluster)s deserves %(own)s %(resource)s, the queues below it %(sum)s together."
    ),
    "volcano_children_over_parent.capability": _(
        "Queue %(queue)s of %(cluster)s may use %(sum)s %(resource)s, %(above)s above it only %(own)s."
    ),
    "unit_mismatch.size": _(
        "%(queue)s of %(cluster)s: %(one)s quotes %(small)s %(resource)s, %(other)s %(large)s: not in one unit, it seems."
    ),
    "status_differs": _(
        "Queue %(queue)s of %(cluster)s says that it holds %(said)s %(resource)s, its work holds %(counted)s."
    ),
}


@dataclass(frozen=True, slots=True)
class _Linted:
    """A cluster's problems, and which teams each of their queues concerns."""

    problems: tuple[Problem, ...]
    teams: Mapping[Thing, frozenset[int]]


def _lint(now: datetime, cluster: Cluster) -> _Linted:
    snapshot = load_snapshot(now=now, clusters=[cluster])
    view = snapshot.views[cluster.pk]
    teams = {Thing(kind, "", name): frozenset(owners) for (kind, name), owners in view.teams.items()}
    for item in view.local_queues:
        team = snapshot.bindings.team_id_for(
            cluster.pk,
            namespace=item.namespace,
            queue_name=item.name,
            queue=str(item.spec.get("cluster_queue") or ""),
            volcano=False,
        )
        if team is not None:
            teams[Thing("LocalQueue", item.namespace, item.name)] = frozenset((team,))
    return _Linted(tuple(lint(lint_facts(snapshot, cluster))), teams)


_kept = Kept(_lint, KEEP)


def quota_findings(
    *, now: datetime, clusters: Collection[Cluster], team_ids: Collection[int] | None
) -> Iterator[Finding]:
    if team_ids is not None and not team_ids:
        return
    for cluster in clusters:
        linted = _kept.of(now, cluster)
        for problem in linted.problems:
            own = _own(problem, linted.teams, team_ids)
            if own:
                yield _finding(cluster, problem, own, everything=team_ids is None)


def _own(
    problem: Problem, teams: Mapping[Thing, frozenset[int]], team_ids: Collection[int] | None
) -> tuple[Thing, ...]:
    """The objects that the reader may be told of; () when the problem does not concern them."""
    if team_ids is None:
        return problem.objects
    if problem.code == "larger_than_ceiling":  # a LocalQueue's work, in a queue that others may use as well
        theirs = not teams.get(problem.objects[1], frozenset()).isdisjoint(team_ids)
        return problem.objects if theirs else ()
    seen = tuple(t for t in problem.objects if not teams.get(t, frozenset()).isdisjoint(team_ids))
    if problem.cause == "cohort_cycle":
        return seen
    return (problem.main,) if problem.main in seen else ()


def _finding(cluster: Cluster, problem: Problem, own: tuple[Thing, ...], *, everything: bool) -> Finding:
    what = ".".join(filter(None, (problem.code, problem.cause)))
    shown = own[0]
    args = {"cluster": cluster.slug, "kind": shown.kind, "name": shown.name}
    if shown.namespace:
        args["namespace"] = shown.namespace
    return Finding(
        key=_key(cluster, problem),
        severity=_SEVERITY.get(what) or _SEVERITY.get(problem.code) or "warn",
        text=_text(cluster, problem, own, everything=everything),
        target="queue",
        args=args,
        cluster_id=cluster.pk,
        count=problem.count,
        objects=tuple(Ref(thing.kind, thing.namespace, thing.name) for thing in own),
    )


def _key(cluster: Cluster, problem: Problem) -> str:
    """Of the objects only what stays while the matter does: not the work that comes and goes."""
    parts = ["quota", problem.code, cluster.slug]
    named = problem.objects[:2] if problem.code == "larger_than_ceiling" else problem.objects[:1]
    for thing in named:
        parts += [thing.kind, thing.namespace, thing.name]
    if problem.code != "status_differs":
        parts.append(problem.values.get("resource", ""))
    return "/".join(part for part in (*parts, problem.cause) if part)


def _text(cluster: Cluster, problem: Problem, own: tuple[Thing, ...], *, everything: bool) -> str:
    values = {**problem.values, "cluster": cluster.name, "queue": problem.main.name}
    if problem.cause == "cohort_cycle":
        return _cycle(values, own, everything=everything)
    if problem.code == "larger_than_ceiling":
        return (
            ngettext(
                "%(first)s in queue %(queue)s of %(cluster)s asks for more %(names)s than the queue can ever give.",
                "%(first)s and other work in queue %(queue)s of %(cluster)s ask for more %(names)s than the queue can ever"
                " give: %(n)s in all.",
                problem.count,
            )
            % values
        )
    values["namespace"], values["goal"] = problem.main.namespace, problem.values.get("queue", "")
    values["cells"] = some_names([_cell(*cell) for cell in problem.cells])
    if not everything and "above" in values and problem.cause != "parent_missing":
        values["above"] = str(_("a queue"))
    if not values.get("own"):
        values["own"] = str(_("nothing of"))
    what = ".".join(filter(None, (problem.code, problem.cause)))
    return str(_TEXTS[what] % values)


def _cell(flavor: str, resource: str) -> str:
    return (
        str(_("%(resource)s in %(flavor)s")) % {"resource": resource, "flavor": flavor}
        if flavor
        else resource
    )


def _cycle(values: Mapping[str, str], own: tuple[Thing, ...], *, everything: bool) -> str:
    queues = [thing.name for thing in own if thing.kind == "ClusterQueue"]
    if everything:
        text = ngettext(
            "Cohorts of %(cluster)s form a circle (%(ring)s): Kueue skips %(n)s queue below it.",
            "Cohorts of %(cluster)s form a circle (%(ring)s): Kueue skips %(n)s queues below it.",
            len(queues),
        )
        return text % values
    text = ngettext(
        "The cohorts above queue %(names)s of %(cluster)s form a circle: Kueue skips it.",
        "The cohorts above queues %(names)s of %(cluster)s form a circle: Kueue skips them.",
        len(queues),
    )
    return text % {**values, "names": some_names(queues)}
