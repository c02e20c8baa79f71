"""Everything that checks and plans say in words. Input: plain findings, differences, steps; output: sentences in the
active language. Shared by pages, REST and notices. Amounts stay as they were written in specs; where work is summed,
as people write amounts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.changes.checks_model import Finding, Param
from apps.changes.masking import OTHERS
from apps.changes.models import ChangeStep
from apps.changes.patching import FieldChange
from apps.changes.planning import PlannedStep
from apps.changes.specs import GROUPS, amount, unescaped, value_text
from apps.quotas.sentences import amount_text
from apps.quotas.what_if_change import ChangeFault
from apps.quotas.what_if_words import fault_text

TeamName = Callable[[int | None], str]
Words = Mapping[str, str | Promise]

_REFUSALS: Words = {
    "quantity": gettext_lazy("“%(value)s” is not an amount. Write 8, 0.5, 500m or 64Gi."),
    "negative": gettext_lazy("%(value)s is negative; amounts are at least 0."),
    "choice": gettext_lazy("“%(value)s” is none of: %(known)s."),
    "number": gettext_lazy("%(value)s is outside of %(known)s."),
    "no_cohort": gettext_lazy(
        "%(flavor)s %(resource)s has a borrowing or lending limit, but the queue is in no cohort."
    ),
    "no_parent": gettext_lazy(
        "%(flavor)s %(resource)s has a borrowing or lending limit, but the cohort has no parent."
    ),
    "above_nominal": gettext_lazy(
        "The lending limit %(limit)s of %(flavor)s %(resource)s is larger than the nominal quota %(nominal)s."
    ),
    "weight_too_small": gettext_lazy("A fair weight is 0 or more than 1n, not %(value)s."),
    "duplicate_flavor": gettext_lazy("The flavor %(flavor)s is listed twice."),
    "duplicate_resource": gettext_lazy("The resource %(resource)s is in two resource groups."),
    "object_name": gettext_lazy(
        "“%(name)s” cannot be a name: small letters, digits, dashes and points, a letter or digit at both ends."
    ),
    "resource_name": gettext_lazy("%(resource)s cannot be the name of a resource."),
    "resource_count": gettext_lazy("The flavor %(flavor)s must list exactly these resources: %(covered)s."),
    "resource_order": gettext_lazy(
        "The flavor %(flavor)s must list its resources in this order: %(covered)s."
    ),
    "empty_group": gettext_lazy("A resource group lists no flavor or no resource."),
    "too_many_groups": gettext_lazy("%(found)s resource groups; there may be %(most)s."),
    "too_many_flavors_of_the_queue": gettext_lazy("%(found)s flavors in all; there may be %(most)s."),
    "too_many_resources_of_the_queue": gettext_lazy("%(found)s resources in all; there may be %(most)s."),
    "too_many_flavors_of_a_group": gettext_lazy(
        "%(found)s flavors in one resource group; there may be %(most)s."
    ),
    "too_many_resources_of_a_group": gettext_lazy(
        "%(found)s resources in one resource group; there may be %(most)s."
    ),
    "too_many_cells_of_a_group": gettext_lazy(
        "Flavors times resources of one resource group are %(found)s; there may be %(most)s."
    ),
    "borrow_needs_reclaim": gettext_lazy(
        "Preempting while borrowing (%(policy)s) is allowed only to a queue that takes back in its cohort."
    ),
    "preference_needs_search": gettext_lazy(
        "The preference %(preference)s needs TryNextFlavor both for borrowing and for preempting."
    ),
    "immutable": gettext_lazy("%(field)s cannot be changed once it is set."),
    "variants_one_group": gettext_lazy(
        "Concurrent admission needs exactly one resource group; there would be %(found)s."
    ),
    "variants_flavors": gettext_lazy("Concurrent admission allows at most %(most)s flavors."),
    "variants_strict": gettext_lazy("Concurrent admission does not go with StrictFIFO."),
    "selector": gettext_lazy("The queue's namespace selector is not valid at %(label)s."),
    "root_amounts": gettext_lazy("Of the queue root, %(part)s cannot be changed."),
    "root_closed": gettext_lazy("The queue root cannot be closed."),
    "guarantee_above_deserved": gettext_lazy(
        "%(resource)s: the guarantee %(guarantee)s is more than the queue deserves (%(deserved)s)."
    ),
    "deserved_above_capability": gettext_lazy(
        "%(resource)s: the queue would deserve %(deserved)s, more than its capability %(capability)s."
    ),
    "own_parent": gettext_lazy("A queue cannot be its own parent."),
    "no_such_parent": gettext_lazy("There is no queue %(parent)s to be the parent."),
    "too_deep": gettext_lazy("Queues may be at most %(most)s deep."),
    "above_ancestor": gettext_lazy(
        "%(resource)s: the capability %(capability)s is more than that of the queue %(queue)s above (%(most)s)."
    ),
    "below_descendant": gettext_lazy(
        "%(resource)s: the capability %(capability)s is less than that of the queue %(queue)s below (%(least)s)."
    ),
    "below_children": gettext_lazy(
        "%(resource)s: the queues right below have %(sum)s in all of %(part)s, more than the %(most)s of %(queue)s."
    ),
    "children_above_parent": gettext_lazy(
        "%(resource)s: the queues below %(queue)s would have %(sum)s in all of %(part)s, more than its %(most)s."
    ),
    "changed_since": gettext_lazy(
        "%(name)s: %(field)s was made %(was)s by the change and is %(now)s now. Somebody else changed it, so it is not taken back."
    ),
}
_WARNINGS: Words = {
    "unknown_flavor": gettext_lazy(
        "There is no ResourceFlavor %(flavor)s: Kueue accepts it and admits nothing in this queue until there is one."
    ),
    "flavor_in_use": gettext_lazy(
        "Work still holds %(held)s %(resource)s of %(flavor)s here. It runs on, outside of any quota."
    ),
    "check_names_flavor": gettext_lazy(
        "The admission check %(check)s is for the flavor %(flavor)s, which the queue would not list any more. Kueue accepts it up to version 0.17; later versions refuse it."
    ),
    "limits_dropped": gettext_lazy(
        "Outside of a cohort there are no limits: the borrowing and lending limits of %(cells)s are taken away too."
    ),
    "new_cohort": gettext_lazy(
        "There is no Cohort object %(cohort)s; Kueue takes the name as a cohort without quota of its own."
    ),
    "unit_mismatch": gettext_lazy(
        "%(flavor)s %(resource)s: %(amount)s here and %(other)s in %(queue)s are hardly of the same unit. Kueue compares them as they stand."
    ),
    "stops": gettext_lazy(
        "Nothing new is admitted; what runs runs on. Reservations that are not admitted yet are lost."
    ),
    "drains": gettext_lazy("Nothing new is admitted, and all that is admitted is evicted."),
    "two_writes": gettext_lazy(
        "%(name)s is written twice, so that every write on the way keeps the rules: first what shrinks, then what grows."
    ),
    "managed": gettext_lazy(
        "%(manager)s (%(operation)s) also sets what would be changed and may set it back: %(fields)s."
    ),
    "cycle": gettext_lazy(
        "The cohorts %(cohorts)s would form a circle: Kueue accepts it and serves none of these queues: %(queues)s."
    ),
    "above_allocatable": gettext_lazy(
        "%(flavor)s %(resource)s: all nominal quota would be %(sum)s (now %(before)s); the nodes have %(allocatable)s."
    ),
    "above_allocatable_volcano": gettext_lazy(
        "%(resource)s: %(part)s of all queues would be %(sum)s (now %(before)s); the nodes have %(allocatable)s."
    ),
    "closes": gettext_lazy("New work is refused; the queue stays Closing until what it has is over."),
    "opens_below_closed": gettext_lazy(
        "%(queue)s does not open while the queue %(parent)s above it is closed."
    ),
    "below_use": gettext_lazy(
        "%(queue)s holds %(held)s %(flavor)s %(resource)s and would have %(nominal)s: %(beyond)s beyond it."
    ),
    "below_use_others": gettext_lazy(
        "Queues of other teams would hold %(over)s %(flavor)s %(resource)s more than they could get."
    ),
    "below_use_volcano": gettext_lazy(
        "%(queue)s holds %(held)s %(resource)s, %(beyond)s more than the new %(part)s %(nominal)s."
    ),
}
_THEN: Words = {
    "stays": gettext_lazy(
        "Nothing is evicted for it: what runs runs on, and nothing new starts until enough is free."
    ),
    "reclaimable": gettext_lazy("Other queues may take it back by preemption; until then it runs on."),
    "drains": gettext_lazy("HoldAndDrain evicts it."),
}
_AMOUNTS = ("held", "nominal", "beyond", "ceiling", "over", "sum", "before", "allocatable", "most")
_SUMMED = frozenset(
    {
        "below_use",
        "below_use_others",
        "flavor_in_use",
        "above_allocatable",
        "below_children",
        "children_above_parent",
    }
)
REFUSAL_CODES = frozenset(_REFUSALS)
WARNING_CODES = frozenset(_WARNINGS)


def finding_text(finding: Finding, *, team_name: TeamName) -> str:
    """A refusal or warning as one or more sentences. `team_name`: None is nobody's work."""
    code = finding.code
    if f"{code}_volcano" in _WARNINGS and not finding.params.get("flavor"):
        code = f"{code}_volcano"
    words = _REFUSALS.get(code) or _WARNINGS.get(code)
    if words is None:
        return fault_text(ChangeFault(finding.field, finding.code, str(finding.params.get("part", ""))))  # type: ignore[arg-type]
    sentences = [str(words) % _shown(finding)]
    if finding.code == "below_use":
        sentences += [_team_text(finding.params, team_name), str(_THEN[str(finding.params["then"])])]
    elif finding.code == "closes" and finding.params["below"]:
        sentences.append(_("So do the queues below it: %(queues)s.") % {"queues": finding.params["below"]})
    elif finding.code in ("stops", "drains"):
        sentences.append(_held_text(finding.params["held"]))
    return " ".join(sentence for sentence in sentences if sentence)


def _shown(finding: Finding) -> dict[str, str]:
    resource = str(finding.params.get("resource", ""))
    if finding.code == "changed_since":
        path = str(finding.params["path"])
        values = {part: str(finding.params[part]) or _("none") for part in ("was", "now")}
        return {"name": str(finding.params["name"]), "field": field_name(path), **values}
    return {
        name: _amount(resource, value) if finding.code in _SUMMED and name in _AMOUNTS else str(value)
        for name, value in finding.params.items()
    }


def _amount(resource: str, value: Param) -> str:
    number = amount(value) if isinstance(value, str) else None
    return str(value) if number is None else amount_text(resource, number)


def _team_text(params: Mapping[str, Param], team_name: TeamName) -> str:
    resource, teams = str(params["resource"]), params["teams"]
    parts = [
        _("%(team)s %(amount)s")
        % {
            "team": _("other teams")
            if line["team"] == OTHERS
            else team_name(int(line["team"]) if line["team"] else None),
            "amount": _amount(resource, line["held"]),
        }
        for line in (teams if isinstance(teams, list) else [])
    ]
    return _("Held by: %(teams)s.") % {"teams": ", ".join(parts)} if parts else ""


def _held_text(lines: Param) -> str:
    found = [
        f"{_amount(line['resource'], line['held'])} {line['flavor']} {line['resource']}"
        for line in (lines if isinstance(lines, list) else [])
    ]
    return _("Held now: %(amounts)s.") % {"amounts": ", ".join(found)} if found else ""


# ---- differences ----------------------------------------------------------------------------------------------------

_FIELDS: Words = {
    "nominalQuota": gettext_lazy("nominal quota"),
    "borrowingLimit": gettext_lazy("borrowing limit"),
    "lendingLimit": gettext_lazy("lending limit"),
    "/spec/cohort": gettext_lazy("cohort"),
    "/spec/cohortName": gettext_lazy("cohort"),
    "/spec/parent": gettext_lazy("parent"),
    "/spec/parentName": gettext_lazy("parent"),
    "/spec/fairSharing/weight": gettext_lazy("fair weight"),
    "/spec/stopPolicy": gettext_lazy("stop policy"),
    "/spec/queueingStrategy": gettext_lazy("order of waiting work"),
    "/spec/preemption/withinClusterQueue": gettext_lazy("preempts in the queue"),
    "/spec/preemption/reclaimWithinCohort": gettext_lazy("takes back in the cohort"),
    "/spec/preemption/borrowWithinCohort/policy": gettext_lazy("preempts while borrowing"),
    "/spec/preemption/borrowWithinCohort/maxPriorityThreshold": gettext_lazy(
        "preempts while borrowing, up to priority"
    ),
    "/spec/flavorFungibility/whenCanBorrow": gettext_lazy("when it can borrow"),
    "/spec/flavorFungibility/whenCanPreempt": gettext_lazy("when it can preempt"),
    "/spec/flavorFungibility/preference": gettext_lazy("rather"),
    "/spec/weight": gettext_lazy("weight"),
    "/spec/priority": gettext_lazy("priority"),
    "/status/state": gettext_lazy("state"),
    "capability": gettext_lazy("capability"),
    "deserved": gettext_lazy("deserved"),
    "guarantee": gettext_lazy("guarantee"),
    GROUPS: gettext_lazy("flavors and resources"),
}


def field_name(path: str) -> str:
    """A flat path in words: "h100 nvidia.com/gpu: nominal quota"; an unknown one as it stands."""
    parts = [unescaped(part) for part in path.split("/")[2:]]
    if path.startswith(GROUPS + "/") and len(parts) == 4 and parts[3] in _FIELDS:
        return _("%(flavor)s %(resource)s: %(field)s") % {
            "flavor": parts[1],
            "resource": parts[2],
            "field": _FIELDS[parts[3]],
        }
    if parts[0] in _FIELDS and len(parts) > 1:
        return _("%(resource)s: %(field)s") % {"resource": parts[-1], "field": _FIELDS[parts[0]]}
    return str(_FIELDS.get(path, path))


def field_words(changes: Iterable[FieldChange]) -> tuple[str, ...]:
    """One line per changed field: "h100 nvidia.com/gpu: nominal quota 8 → 12"."""
    return tuple(
        _("%(field)s %(before)s → %(after)s")
        % {
            "field": field_name(change.path),
            "before": field_value(change.path, change.before),
            "after": field_value(change.path, change.after),
        }
        for change in changes
    )


def field_value(path: str, value: Any) -> str:
    """What stands at a flat path, as people read it."""
    return value_text(path, value) or _("none")


def step_words(step: PlannedStep | ChangeStep) -> str:
    """What a step does, for the list of the plan."""
    if isinstance(step.body, dict):
        text = _("Open %(name)s") if step.body["action"] == "OpenQueue" else _("Close %(name)s")
        return text % {"name": step.name}
    name = f"{step.namespace}/{step.name}" if step.namespace else step.name
    return _("Change %(kind)s %(name)s") % {"kind": step.kind.removeprefix("Volcano"), "name": name}
