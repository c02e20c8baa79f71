"""Where on the what-if page a fault stands. Input: a fault's field path, the changes that it is in, and what the page
shows of them; output: the name of the input beside which it is said, and the path in words. No queries.

A path is "changes.2.set.quotas.0.nominal". A resource's name may hold dots itself, so that what follows "requests" is
one part. Invariant: a change is either on the form (the queue that is edited, the job and work just filled in) or
among the changes that came with the address; of both, the form shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from apps.quotas.what_if_change import POLICY_PLACES
from apps.quotas.what_if_form import CELL_FIELDS, CellRow, Json, Target, field_name

_UNSAID = ("changes", "set", "quotas", "pod_sets", "preemption", "fungibility", "remove", "requests")
_OF_NODE = ("parent", "fair_weight", "max_priority_threshold", *POLICY_PLACES)
_OF_JOB = {"queue": "job_queue", "local_queue": "job_queue", "priority": "job_priority", "count": "job_pods"}
_OF_WORK = {"uid": "work", "priority": "work_priority"}
_ORDER = (
    *("new_flavor", "new_resource", "new_nominal", "parent", "fair_weight"),
    *(*POLICY_PLACES, "max_priority_threshold", "remove"),
    *("job_queue", "job_pods", "job_amount", "job_also", "job_priority", "work", "work_priority"),
)


@dataclass(frozen=True, slots=True)
class PlacedFault:
    """`name`: of the input, "" when none is to blame; `target`: the id to go to, "" for nowhere; `text`: what is said
    beside the input; `said`: the same with the place in words, for the list of all."""

    name: str
    target: str
    text: str
    said: str


def input_id(name: str) -> str:
    """An id for the input of this name; names may hold what people typed, an id no blank."""
    return f"i-{quote(name, safe=':/')}"


def listed_id(place: int) -> str:
    """The id of a change among those that came with the address."""
    return f"tried-{place}"


def as_on_the_page(faults: Sequence[PlacedFault], rows: Sequence[CellRow]) -> list[PlacedFault]:
    """Faults in the order in which their inputs stand: those without one first, then quota, policy, job, work."""
    names = ["", *(cell.name for row in rows for cell in row.cells), *_ORDER]
    places = {name: at for at, name in enumerate(names)}
    return sorted(faults, key=lambda fault: places.get(fault.name, places["remove"]))


def parts_of(path: str) -> list[str]:
    before, found, resource = path.partition(".requests.")
    return [*before.split("."), "requests", resource] if found else path.split(".")


def in_words(path: str, changes: Sequence[Json]) -> str:
    """A path as people say it: of the third quota "red-cq, h100 nvidia.com/gpu, lending_limit"."""
    found: Any = {"changes": changes}
    said: list[str] = []
    for part in parts_of(path):
        if isinstance(found, list) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
            if isinstance(found, dict):
                name = found.get("name") or " ".join(
                    str(found[key]) for key in ("flavor", "resource") if key in found
                )
                said += [name] if name and isinstance(name, str) else []
        elif isinstance(found, dict):
            if part not in _UNSAID:
                said.append(part)
            found = found.get(part)
    return ", ".join(said)


def place(
    path: str, changes: Sequence[Json], *, given: Sequence[Json], target: Target | None, job_resource: str
) -> tuple[str, str]:
    """(name of the input, id to go to). `given`: the changes as they came, before the form was read into `changes`;
    `job_resource`: the resource that the form's job asks for beside others."""
    parts = parts_of(path)
    if len(parts) < 2 or not parts[1].isdecimal() or int(parts[1]) >= len(changes):
        return "", ""
    change = changes[int(parts[1])]
    if target is not None and (change.get("kind"), change.get("name")) == (target.kind, target.node.name):
        name = node_input(parts[2:], change)
    elif (listed := next((at for at, one in enumerate(given) if one is change), None)) is not None:
        return "", listed_id(listed)
    elif change.get("action") == "add":
        name = _of_job(parts[2:], job_resource)
    else:
        name = _OF_WORK.get(parts[-1], "work")
    return name, input_id(name) if name else "h-choose"


def node_input(parts: Sequence[str], change: Json) -> str:
    """The input that a field of a ClusterQueue's or Cohort's edit has, "" for none. `parts`: after the change's number,
    "set" first. A fault of the whole edit is about limits that need a cohort."""
    if parts[1:2] == ["quotas"] and len(parts) > 2:
        return _of_quota(change["set"]["quotas"][int(parts[2])], parts[3] if len(parts) > 3 else "")
    if parts[1:2] == ["remove"] and len(parts) > 2:
        removal = change["set"]["remove"][int(parts[2])]
        if not isinstance(removal, dict):
            return ""
        if removal.get("resource"):
            return f"remove-resource:{removal['resource']}"
        return f"remove:{removal.get('flavor', '')}"
    last = parts[-1]
    if last == "policy":
        return "borrow_within_cohort"
    return last if last in _OF_NODE else "parent" if last in ("cohort", "set") else ""


def _of_quota(quota: Any, part: str) -> str:
    if not isinstance(quota, Mapping):
        return ""
    flavor, resource = str(quota.get("flavor") or ""), str(quota.get("resource") or "")
    if not flavor or not resource:  # the form keeps it in its last row until both are named
        return {"flavor": "new_flavor", "resource": "new_resource"}.get(part, "new_nominal")
    return field_name(part if part in CELL_FIELDS else CELL_FIELDS[0], flavor, resource)


def _of_job(parts: Sequence[str], resource: str) -> str:
    if len(parts) > 1 and parts[-2] == "requests":
        return "job_amount" if parts[-1] == resource else "job_also"
    return _OF_JOB.get(parts[-1], "job_amount")
