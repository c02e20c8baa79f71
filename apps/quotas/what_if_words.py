"""Everything a what-if says in words: faults, notes, effects, what is not modelled, the summary. Shared by the page and
REST. Input: the plain results of the what-if modules; output: sentences in the active language."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.quotas.engine.model import Pending, Reason
from apps.quotas.sentences import amount_text
from apps.quotas.tree import ZERO
from apps.quotas.what_if import MOST_WORK, Answer, TooMuch
from apps.quotas.what_if_apply import ChangeNote
from apps.quotas.what_if_change import ChangeFault
from apps.quotas.what_if_diff import Effect, Holding

_FAULTS = {
    "shape": gettext_lazy("This must be of another form: %(part)s."),
    "required": gettext_lazy("This is needed."),
    "unknown_field": gettext_lazy("There is no field of this name here; there are: %(part)s."),
    "choice": gettext_lazy("This must be one of: %(part)s."),
    "quantity": gettext_lazy("This is not an amount. Write 8, 0.5, 500m or 64Gi."),
    "negative": gettext_lazy("This must not be negative."),
    "number": gettext_lazy("This must be a whole number or amount in the range %(part)s."),
    "unknown": gettext_lazy("There is nothing of this name."),
    "too_many": gettext_lazy("There may be at most %(part)s here."),
    "no_cohort": gettext_lazy(
        "%(part)s has a borrowing or lending limit, which needs a cohort above. Take the limit away."
    ),
    "above_nominal": gettext_lazy("The lending limit of %(part)s would be larger than the nominal quota."),
    "not_listed": gettext_lazy("%(part)s is not listed there, so that it cannot be taken away."),
    "not_allowed_together": gettext_lazy("Kueue does not allow this together with %(part)s."),
    "other_group": gettext_lazy(
        "The flavor is in another resource group of this queue; it can be in one only."
    ),
    "repeated": gettext_lazy("This is given twice."),
    "nothing": gettext_lazy("Nothing would be changed."),
}
_NOTES = {
    "unknown_flavor": gettext_lazy(
        "There is no ResourceFlavor %(part)s: Kueue accepts it and stops the queue until there is one."
    ),
    "cycle": gettext_lazy(
        "The cohorts above %(part)s would form a circle: Kueue accepts it and serves none of their queues."
    ),
    "new_cohort": gettext_lazy(
        "No Cohort object %(part)s exists; Kueue takes the name as a cohort without quota of its own."
    ),
    "filled": gettext_lazy("All flavors of a group need all its resources: %(part)s count with 0."),
    "stops": gettext_lazy("A stopped queue admits nothing new. Its quota can still be borrowed by others."),
    "inactive": gettext_lazy("%(part)s would admit nothing: a flavor that it lists does not exist."),
    "local_queue_stopped": gettext_lazy("The LocalQueue is stopped: work in it is not looked at."),
    "emptied": gettext_lazy("The queue would list no flavor any more."),
}
_GAPS = {
    "topology": gettext_lazy("Topology: whether the cards are close enough together is not looked at."),
    "admission_checks": gettext_lazy("Admission checks: work counts as let through by them."),
    "dra_counters": gettext_lazy(
        "Devices of DRA with shared counters or capacity are counted as whole devices."
    ),
    "time": gettext_lazy("Time: nothing finishes, nothing new arrives, and no back-off ends meanwhile."),
    "elastic": gettext_lazy("Elastic jobs neither grow nor shrink."),
    "multikueue": gettext_lazy("MultiKueue: whether a worker cluster takes the work is not looked at."),
    "afs": gettext_lazy(
        "Admission fair sharing by past use is not looked at; order is by priority and time."
    ),
    "pod_set_flavors": gettext_lazy(
        "For running work with several flavors the sums are exact, but which pod set has which is not known."
    ),
    "namespaces": gettext_lazy("Namespaces were not read: every namespace counts as selected by the queues."),
}
_WHY = {
    "InClusterQueue": gettext_lazy("higher priority in the same queue"),
    "InCohortReclamation": gettext_lazy("a queue of the cohort takes its quota back"),
    "InCohortReclaimWhileBorrowing": gettext_lazy(
        "a queue of the cohort borrows and takes quota of lower priority"
    ),
    "InCohortFairSharing": gettext_lazy("fair sharing in the cohort"),
}
_WHAT = {
    "starts": gettext_lazy("starts"),
    "preempted": gettext_lazy("is preempted"),
    "drained": gettext_lazy("is evicted by the stopped queue"),
    "misses": gettext_lazy("would have started, now waits"),
    "moves": gettext_lazy("gets other flavors"),
    "removed": gettext_lazy("is taken away"),
}
_REFUSED = {
    "ExceedsMaxQuota": gettext_lazy("larger than the ceiling"),
    "WaitingForQuota": gettext_lazy("not enough free quota"),
    "WaitingForPreemption": gettext_lazy("waits until preempted work is gone"),
    "NoMatchingFlavor": gettext_lazy("no flavor fits"),
    "NoPlacement": gettext_lazy("no place for all pods"),
    "ResourceNotCovered": gettext_lazy("the queue does not offer a resource"),
    "BehindHead": gettext_lazy("behind the first in a strict queue"),
    "QueueInactive": gettext_lazy("the queue admits nothing"),
    "QueueMissing": gettext_lazy("the queue is missing or stopped"),
    "NamespaceMismatch": gettext_lazy("the queue does not take this namespace"),
    "Deactivated": gettext_lazy("deactivated"),
    "NotEvaluated": gettext_lazy("not looked at before the run ended"),
}

_POLICY = {
    "stop_policy": gettext_lazy("Stopped"),
    "strategy": gettext_lazy("Order"),
    "within_cluster_queue": gettext_lazy("Preempts in the queue"),
    "reclaim_within_cohort": gettext_lazy("Takes back in the cohort"),
    "borrow_within_cohort": gettext_lazy("Preempts while borrowing"),
    "when_can_borrow": gettext_lazy("When it can borrow"),
    "when_can_preempt": gettext_lazy("When it can preempt"),
    "preference": gettext_lazy("Rather"),
}


def policy_name(name: str) -> str:
    return str(_POLICY[name])


def fault_text(fault: ChangeFault) -> str:
    return str(_FAULTS[fault.code] % {"part": fault.part})


def note_text(note: ChangeNote) -> str:
    return str(_NOTES[note.code] % {"part": note.part})


def gap_text(code: str) -> str:
    return str(_GAPS.get(code, code))


def too_much_text(error: TooMuch) -> str:
    text = _("%(count)d workloads are in the cohorts that this touches; at most %(most)d can be tried here.")
    return text % {"count": error.count, "most": MOST_WORK}


def what_text(effect: Effect) -> str:
    return str(_WHAT[effect.what])


def why_text(effect: Effect) -> str:
    """Why work is preempted; "" for other effects."""
    return str(_WHY.get(effect.why, effect.why))


def refused_text(pending: Pending | None) -> str:
    return "" if pending is None else str(_REFUSED[pending.refused])


def reason_text(reason: Reason) -> str:
    """One reason with its numbers: "h100: 4 more of nvidia.com/gpu needed"."""
    place = "/".join(part for part in (reason.flavor, reason.resource) if part)
    if reason.more is not None:
        text = _("%(place)s: %(amount)s more needed")
        return text % {"place": place, "amount": amount_text(reason.resource, reason.more)}
    if reason.most is not None:
        text = _("%(place)s: at most %(amount)s")
        return text % {"place": place, "amount": amount_text(reason.resource, reason.most)}
    said = str(_REFUSED[reason.code])
    return f"{place}: {said}" if place else said


def holding_text(held: Holding, accelerator: Callable[[str], bool]) -> str:
    """ "8 h100": accelerators where it holds any, else everything."""
    cells = [(fr, amount) for fr, amount in sorted(held.items()) if amount]
    shown = [cell for cell in cells if accelerator(cell[0][1])] or cells
    return ", ".join(f"{amount_text(resource, amount)} {flavor}" for (flavor, resource), amount in shown)


def summary(
    answer: Answer, *, accelerator: Callable[[str], bool], team_name: Callable[[int | None], str]
) -> str:
    """Of the work that the reader may see: "3 workloads would start, 1 would be preempted. Red loses 8 h100." """
    found = answer.comparison
    starts = len(found.of("starts"))
    preempted = len(found.of("preempted", "drained"))
    misses = len(found.of("misses"))
    parts = []
    if starts:
        parts.append(
            ngettext("%(n)d workload would start", "%(n)d workloads would start", starts) % {"n": starts}
        )
    if preempted:
        text = ngettext("%(n)d would lose its quota", "%(n)d would lose their quota", preempted)
        parts.append(text % {"n": preempted})
    if misses:
        text = ngettext("%(n)d would no longer start", "%(n)d would no longer start", misses)
        parts.append(text % {"n": misses})
    if moved := len(found.of("moves")):
        text = ngettext("%(n)d would get another flavor", "%(n)d would get other flavors", moved)
        parts.append(text % {"n": moved})
    if not parts:
        return _("No work would start or stop because of this change.")
    first = _("%(what)s.") % {"what": ", ".join(parts)}
    losers = _changes_by_team(answer, accelerator, gains=False)
    winners = _changes_by_team(answer, accelerator, gains=True)
    sentences = [first]
    for team_id, cells in losers.items():
        text = _("%(team)s loses %(amounts)s.")
        sentences.append(text % {"team": team_name(team_id), "amounts": holding_text(cells, accelerator)})
    for team_id, cells in winners.items():
        text = _("%(team)s gains %(amounts)s.")
        sentences.append(text % {"team": team_name(team_id), "amounts": holding_text(cells, accelerator)})
    return " ".join(sentences)


def _changes_by_team(
    answer: Answer, accelerator: Callable[[str], bool], *, gains: bool
) -> dict[int | None, dict[tuple[str, str], Decimal]]:
    sums: dict[int | None, dict[tuple[str, str], Decimal]] = defaultdict(dict)
    for line in answer.comparison.teams:
        change = line.after - line.before
        if change and (change > ZERO) == gains and accelerator(line.resource):
            sums[line.team_id][line.flavor, line.resource] = abs(change)
    return sums
