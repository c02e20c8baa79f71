"""The what-if page's form. Input: a queue or cohort as it is, and posted fields; output: rows to edit, and the change in
the JSON that `what_if_change` reads. No queries.

Only what differs from the present state becomes part of the change, so that the address of a result is short and says
what is tried. A second edit of the same queue takes the place of the first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from apps.core.quantity import QuantityError, parse_quantity, plain
from apps.quotas.engine.model import Queue, Situation
from apps.quotas.sentences import is_bytes
from apps.quotas.tree import QuotaNode
from apps.quotas.what_if_change import CHOICES, POLICY_PLACES

Json = dict[str, Any]
CELL_FIELDS = ("nominal", "borrowing_limit", "lending_limit")
BINARY_UNITS = ("Pi", "Ti", "Gi", "Mi", "Ki")
LONGEST_CHANGE = 6000
"""Characters of a change in an address."""


@dataclass(frozen=True, slots=True)
class CellField:
    """One input: `name` of the field, `value` as text ("" for no limit), `present` what it is now."""

    name: str
    value: str
    present: str

    @property
    def edited(self) -> bool:
        return self.value != self.present


@dataclass(frozen=True, slots=True)
class CellRow:
    flavor: str
    resource: str
    cells: tuple[CellField, ...]


@dataclass(frozen=True, slots=True)
class PolicyField:
    name: str
    value: str
    present: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """What is edited: a ClusterQueue or a Cohort, as it is now."""

    kind: str
    node: QuotaNode
    queue: Queue | None

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.node.name}"

    @property
    def parent_field(self) -> str:
        return "cohort" if self.kind == "ClusterQueue" else "parent"


def find_target(situation: Situation, key: str) -> Target | None:
    """`key`: "ClusterQueue/NAME" or "Cohort/NAME"; a cohort that only queues name can be edited, too."""
    kind, _slash, name = key.partition("/")
    if kind == "ClusterQueue":
        queue = next((queue for queue in situation.queues if queue.name == name), None)
        return Target(kind, queue.node, queue) if queue else None
    node = next((node for node in situation.cohorts if node.name == name), None)
    if node is None and kind == "Cohort" and name in cohort_names(situation):
        node = QuotaNode(name, "Cohort", None, {})
    return Target(kind, node, None) if node is not None and kind == "Cohort" else None


def cohort_names(situation: Situation) -> list[str]:
    nodes = [*(queue.node for queue in situation.queues), *situation.cohorts]
    return sorted({node.name for node in situation.cohorts} | {node.parent for node in nodes if node.parent})


def load_changes(text: str, *, longest: int = LONGEST_CHANGE) -> list[Json] | None:
    """The "changes" of an address or a form; None when the text is no JSON list, or longer than may be."""
    if not text:
        return []
    if len(text) > longest:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) else None


def dump_changes(changes: Sequence[Json]) -> str:
    return json.dumps(changes, separators=(",", ":"), ensure_ascii=False)


# ---- showing --------------------------------------------------------------------------------------------------


def present_values(target: Target) -> dict[str, str]:
    """Every field that is no quota, as the form shows it."""
    values = {"parent": target.node.parent or "", "fair_weight": plain(target.node.fair_weight)}
    if target.queue is not None:
        policy = target.queue.policy
        stopped = "HoldAndDrain" if target.queue.drains else "Hold" if target.node.stopped else "None"
        threshold = policy.max_priority_threshold
        values |= {
            "stop_policy": stopped,
            "strategy": policy.strategy,
            "within_cluster_queue": policy.within_cluster_queue,
            "reclaim_within_cohort": policy.reclaim_within_cohort,
            "borrow_within_cohort": policy.borrow_within_cohort,
            "max_priority_threshold": "" if threshold is None else str(threshold),
            "when_can_borrow": policy.when_can_borrow,
            "when_can_preempt": policy.when_can_preempt,
            "preference": policy.preference,
        }
    return values


def edited_values(target: Target, changes: Sequence[Json]) -> dict[str, str]:
    """The present values with what a change says of this queue or cohort."""
    values, wanted = present_values(target), _set_of(target, changes)
    if target.parent_field in wanted:
        values["parent"] = str(wanted[target.parent_field] or "")
    if "fair_weight" in wanted:
        values["fair_weight"] = str(wanted["fair_weight"])
    for name, places in POLICY_PLACES.items():
        inner: Any = wanted
        for place in places:
            inner = inner.get(place) if isinstance(inner.get(place), dict) else {}
        if name in inner:
            found = inner[name]
            if name == "borrow_within_cohort":
                found = found if isinstance(found, dict) else {}
                if found.get("max_priority_threshold") is not None:
                    values["max_priority_threshold"] = str(found["max_priority_threshold"])
                found = found.get("policy") or "Never"
            values[name] = str(found)
    return values


def cell_rows(target: Target, changes: Sequence[Json]) -> list[CellRow]:
    given = _set_of(target, changes).get("quotas")
    quotas = {
        (str(quota.get("flavor") or ""), str(quota.get("resource") or "")): quota
        for quota in (given if isinstance(given, list) else ())
        if isinstance(quota, dict)
    }
    places = list(target.node.cells) + [fr for fr in quotas if fr not in target.node.cells and all(fr)]
    rows = []
    for flavor, resource in places:
        cell = target.node.cells.get((flavor, resource))
        quota = quotas.get((flavor, resource), {})
        fields = []
        for name in CELL_FIELDS:
            present = "" if cell is None else _text(getattr(cell, name), resource)
            value = _text(quota[name], resource) if name in quota else present
            fields.append(CellField(field_name(name, flavor, resource), value, present))
        rows.append(CellRow(flavor, resource, tuple(fields)))
    return rows


def flavor_boxes(target: Target, changes: Sequence[Json]) -> list[tuple[str, str, bool]]:
    """Per flavor that the queue lists: (name of the box that takes it away, flavor, whether it is ticked)."""
    gone = _removed(target, changes, "flavor")
    flavors = dict.fromkeys(flavor for flavor, _resource in target.node.cells)
    return [(f"remove:{flavor}", flavor, flavor in gone) for flavor in flavors]


def resource_boxes(target: Target, changes: Sequence[Json]) -> list[tuple[str, str, bool]]:
    """The same per resource, which goes with all its flavors' quota of it."""
    gone = _removed(target, changes, "resource")
    resources = dict.fromkeys(resource for _flavor, resource in target.node.cells)
    return [(f"remove-resource:{resource}", resource, resource in gone) for resource in resources]


def _removed(target: Target, changes: Sequence[Json], part: str) -> set[Any]:
    given = _set_of(target, changes).get("remove")
    return {item.get(part) for item in given if isinstance(item, dict)} if isinstance(given, list) else set()


def policy_fields(target: Target, values: Mapping[str, str]) -> list[PolicyField]:
    if target.queue is None:
        return []
    present = present_values(target)
    return [
        PolicyField(
            name,
            values[name],
            present[name],
            CHOICES["policy" if name == "borrow_within_cohort" else name],
        )
        for name in POLICY_PLACES
    ]


def field_name(name: str, flavor: str, resource: str) -> str:
    return f"{name}:{flavor}:{resource}"


def _text(value: Any, resource: str = "") -> str:
    """An amount as people write it: memory in the largest binary unit that says it exactly."""
    if value is None:
        return ""
    if not isinstance(value, Decimal):
        return str(value)
    if is_bytes(resource) and value:
        for power, unit in enumerate(BINARY_UNITS, 1):
            size = 1024 ** (len(BINARY_UNITS) + 1 - power)
            if value % size == 0:
                return f"{plain(value / size)}{unit}"
    return plain(value)


def _set_of(target: Target, changes: Sequence[Json]) -> Json:
    for change in changes:
        if isinstance(change, dict) and (change.get("kind"), change.get("name")) == (
            target.kind,
            target.node.name,
        ):
            found = change.get("set")
            return found if isinstance(found, dict) else {}
    return {}


# ---- reading --------------------------------------------------------------------------------------------------


def with_edit(changes: Sequence[Json], target: Target, data: Mapping[str, str]) -> list[Json]:
    """The changes with what the posted fields say of this queue; nothing of it when they are as it is now."""
    wanted: Json = {}
    present = present_values(target)
    if data.get("parent", present["parent"]).strip() != present["parent"]:
        wanted[target.parent_field] = data["parent"].strip()
    if (weight := data.get("fair_weight", "").strip()) and not same_amount(weight, present["fair_weight"]):
        wanted["fair_weight"] = weight
    if target.queue is not None:
        _read_policy(wanted, present, data)
    if quotas := _read_quotas(target, data):
        wanted["quotas"] = quotas
    removals = [{"flavor": name} for box, name, _ticked in flavor_boxes(target, ()) if data.get(box)]
    removals += [{"resource": name} for box, name, _ticked in resource_boxes(target, ()) if data.get(box)]
    if removals:
        wanted["remove"] = removals
    others = [
        change
        for change in changes
        if (change.get("kind"), change.get("name")) != (target.kind, target.node.name)
    ]
    edit = {"kind": target.kind, "name": target.node.name, "set": wanted}
    return [*others, edit] if wanted else others


def _read_policy(wanted: Json, present: Mapping[str, str], data: Mapping[str, str]) -> None:
    for name, places in POLICY_PLACES.items():
        value = data.get(name, present[name])
        threshold = data.get("max_priority_threshold", present["max_priority_threshold"]).strip()
        limited = name == "borrow_within_cohort" and threshold != present["max_priority_threshold"]
        if value == present[name] and not limited:
            continue
        inner = wanted
        for place in places:
            inner = inner.setdefault(place, {})
        if name == "borrow_within_cohort":
            inner[name] = {"policy": value} | ({"max_priority_threshold": threshold} if threshold else {})
        else:
            inner[name] = value


def _read_quotas(target: Target, data: Mapping[str, str]) -> list[Json]:
    quotas: list[Json] = []
    prefix = f"{CELL_FIELDS[0]}:"
    places = [tuple(name[len(prefix) :].split(":", 1)) for name in data if name.startswith(prefix)]
    for flavor, resource in (place for place in places if len(place) == 2):
        cell = target.node.cells.get((flavor, resource))
        quota: Json = {}
        for name in CELL_FIELDS:
            value = data.get(field_name(name, flavor, resource), "").strip()
            present = "" if cell is None else _text(getattr(cell, name), resource)
            if same_amount(value, present) or (name == "nominal" and not value):
                continue
            quota[name] = value or None
        if quota:
            quotas.append({"flavor": flavor, "resource": resource, **quota})
    if data.get("new_flavor", "").strip() or data.get("new_resource", "").strip():
        quotas.append(
            {
                "flavor": data.get("new_flavor", "").strip(),
                "resource": data.get("new_resource", "").strip(),
                "nominal": data.get("new_nominal", "").strip() or "0",
            }
        )
    return quotas


def same_amount(value: str, present: str) -> bool:
    """Whether two texts say the same amount, or are the same text."""
    if value == present:
        return True
    try:
        return parse_quantity(value) == parse_quantity(present)
    except QuantityError:
        return False


def with_job(changes: Sequence[Json], data: Mapping[str, str]) -> list[Json]:
    """The changes with a hypothetical job, when one is filled in."""
    if not data.get("job_amount", "").strip():
        return list(changes)
    place = data.get("job_queue", "").strip()
    requests = {data.get("job_resource", "").strip(): data["job_amount"].strip()}
    for part in data.get("job_also", "").replace(",", " ").split():
        name, _equals, amount = part.partition("=")
        requests[name] = amount
    job: Json = {
        "kind": "Workload",
        "action": "add",
        "priority": data.get("job_priority", "").strip() or "0",
        "pod_sets": [{"count": data.get("job_pods", "").strip() or "1", "requests": requests}],
    }
    if name := data.get("job_name", "").strip():
        job["name"] = name
    job["local_queue" if "/" in place else "queue"] = place
    return [*changes, job]


def with_work(changes: Sequence[Json], data: Mapping[str, str], uids: Mapping[str, str]) -> list[Json]:
    """The changes with another priority, or the end, of existing work. `uids`: "namespace/name" → uid."""
    named = data.get("work", "").strip()
    if not named:
        return list(changes)
    edit: Json = {"kind": "Workload", "action": "remove", "uid": uids.get(named, named)}
    if priority := data.get("work_priority", "").strip():
        edit |= {"action": "priority", "priority": priority}
    return [*changes, edit]


def without(changes: Sequence[Json], place: int) -> list[Json]:
    return [change for at, change in enumerate(changes) if at != place]
