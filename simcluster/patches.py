"""Merge patches (RFC 7396), JSON patches (RFC 6902) and the checks that an API server makes on the result.

Input: the present object and a patch; output: the new object. Raises Refused with the real server's body.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

from simcluster import statuses
from simcluster.kinds import Kind

_QUANTITY = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
_QUANTITY_RE = re.compile(_QUANTITY)
_STOP_POLICIES = ("None", "Hold", "HoldAndDrain")
_IMMUTABLE = {"LocalQueue": (("spec", "clusterQueue"),), "ResourceFlavor": (("spec", "topologyName"),)}


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def json_patched(target: dict[str, Any], operations: Any) -> dict[str, Any]:
    """RFC 6902: add, remove, replace, move, copy, test. Any that does not fit refuses the whole."""
    if not isinstance(operations, list):
        raise statuses.bad_request("error decoding patch: a JSON patch is a list of operations")
    result = copy.deepcopy(target)
    for operation in operations:
        try:
            _apply(result, operation)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise statuses.unprocessable() from error
    return result


def _apply(document: dict[str, Any], operation: dict[str, Any]) -> None:
    what, path = operation["op"], _pointer(operation["path"])
    if what == "test":
        if _read(document, path) != operation["value"]:
            raise ValueError("test failed")
    elif what == "add":
        _add(document, path, operation["value"])
    elif what == "replace":
        _read(document, path)
        _set(document, path, operation["value"])
    elif what == "remove":
        _remove(document, path)
    elif what in ("move", "copy"):
        source = _pointer(operation["from"])
        value = copy.deepcopy(_read(document, source))
        if what == "move":
            _remove(document, source)
        _add(document, path, value)
    else:
        raise ValueError(f"unknown operation {what}")


def _pointer(text: str) -> list[str]:
    if not text.startswith("/"):
        raise ValueError("a path starts with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _read(document: Any, path: list[str]) -> Any:
    for part in path:
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def _set(document: Any, path: list[str], value: Any) -> None:
    parent = _read(document, path[:-1])
    if isinstance(parent, list):
        parent[int(path[-1])] = value
    else:
        parent[path[-1]] = value


def _add(document: Any, path: list[str], value: Any) -> None:
    parent = _read(document, path[:-1])
    if isinstance(parent, list):
        index = len(parent) if path[-1] == "-" else int(path[-1])
        if not 0 <= index <= len(parent):
            raise IndexError(path[-1])
        parent.insert(index, value)
    else:
        parent[path[-1]] = value


def _remove(document: Any, path: list[str]) -> None:
    parent = _read(document, path[:-1])
    del parent[int(path[-1]) if isinstance(parent, list) else path[-1]]


# ---- checks ---------------------------------------------------------------------------------------------------
def check(kind: Kind, before: dict[str, Any], after: dict[str, Any]) -> None:
    """What schema, CEL and webhook would refuse. Raises Refused."""
    name = before["metadata"]["name"]
    if after.get("metadata", {}).get("name") != name:
        raise statuses.bad_request("the name of the object does not match the name on the URL")
    asked = after["metadata"].get("resourceVersion")
    if asked and asked != before["metadata"]["resourceVersion"]:
        raise statuses.conflict(kind, name)
    causes = list(_schema_causes(kind, before, after))
    if causes:
        raise statuses.invalid(kind, name, causes)
    if kind.name in ("ClusterQueue", "Cohort"):
        _check_limits(kind, name, after.get("spec", {}))
    if kind.name == "VolcanoQueue":
        _check_volcano_queue(after.get("spec", {}))


def _schema_causes(kind: Kind, before: dict[str, Any], after: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for path in _IMMUTABLE.get(kind.name, ()):
        old, new = before.get(path[0], {}).get(path[1]), after.get(path[0], {}).get(path[1])
        if old and old != new:
            yield ".".join(path), f'Invalid value: "{new}": field is immutable'
    spec = after.get("spec", {})
    for field, value in _quantities(spec):
        if not isinstance(value, int) and not (isinstance(value, str) and _QUANTITY_RE.match(value)):
            shown = f'"{value}"' if isinstance(value, str) else str(value)
            yield field, f"Invalid value: {shown}: {field} in body should match '{_QUANTITY}'"
    policy = spec.get("stopPolicy")
    if policy is not None and policy not in _STOP_POLICIES:
        known = ", ".join(f'"{one}"' for one in _STOP_POLICIES)
        yield "spec.stopPolicy", f'Unsupported value: "{policy}": supported values: {known}'
    alone = kind.name == "ClusterQueue" and not spec.get("cohortName")
    if alone and any("borrowingLimit" in resource for _field, resource in _quotas(spec)):
        yield "spec", "Invalid value: borrowingLimit must be nil when cohort is empty"
    for index, group in enumerate(spec.get("resourceGroups", ())):
        for flavor in group.get("flavors", ()):
            if len(flavor.get("resources", ())) != len(group.get("coveredResources", ())):
                words = (
                    "Invalid value: flavors must have the same number of resources as the coveredResources"
                )
                yield f"spec.resourceGroups[{index}]", words
                break


def _quotas(spec: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for g, group in enumerate(spec.get("resourceGroups", ())):
        for f, flavor in enumerate(group.get("flavors", ())):
            for r, resource in enumerate(flavor.get("resources", ())):
                yield f"spec.resourceGroups[{g}].flavors[{f}].resources[{r}]", resource


def _quantities(spec: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for field, resource in _quotas(spec):
        for name in ("nominalQuota", "borrowingLimit", "lendingLimit"):
            if name in resource:
                yield f"{field}.{name}", resource[name]
    for name in ("capability", "deserved"):
        for resource, value in (spec.get(name) or {}).items():
            yield f"spec.{name}.{resource}", value


def _check_limits(kind: Kind, name: str, spec: dict[str, Any]) -> None:
    from apps.core.quantity import parse_quantity

    said: list[str] = []
    parent = spec.get("cohortName" if kind.name == "ClusterQueue" else "parentName")
    above = "cohort" if kind.name == "ClusterQueue" else "parent"
    for field, resource in _quotas(spec):
        nominal = parse_quantity(resource.get("nominalQuota", "0"))
        for limit in ("nominalQuota", "borrowingLimit", "lendingLimit"):
            if limit not in resource:
                continue
            where = f'{field}.{limit}: Invalid value: "{resource[limit]}"'
            if parse_quantity(resource[limit]) < 0:
                said.append(f"{where}: must be greater than or equal to 0")
            elif limit != "nominalQuota" and not parent:
                said.append(f"{where}: must be nil when {above} is empty")
            elif limit == "lendingLimit" and above == "cohort" and parse_quantity(resource[limit]) > nominal:
                said.append(f"{where}: must be less than or equal to the nominalQuota")
    if said:
        words = said[0] if len(said) == 1 else "[" + ", ".join(said) + "]"
        raise statuses.denied_by_webhook(f"v{kind.name.lower()}.kb.io", words)


def _check_volcano_queue(spec: dict[str, Any]) -> None:
    from apps.core.quantity import parse_quantity

    deserved, capability = spec.get("deserved") or {}, spec.get("capability") or {}
    for resource, value in ((spec.get("guarantee") or {}).get("resource") or {}).items():
        if resource in deserved and parse_quantity(deserved[resource]) < parse_quantity(value):
            words = (
                f'requestBody.spec.deserved.{resource}: Invalid value: "{deserved[resource]}": '
                f"deserved[{resource}]={deserved[resource]} must be >= guarantee[{resource}]={value}"
            )
            raise _volcano_refusal(words)
    for resource, value in deserved.items():
        if resource in capability and parse_quantity(value) > parse_quantity(capability[resource]):
            words = (
                f'requestBody.spec.deserved.{resource}: Invalid value: "{value}": '
                f"deserved[{resource}]={value} must be <= capability[{resource}]={capability[resource]}"
            )
            raise _volcano_refusal(words)


def _volcano_refusal(words: str) -> statuses.Refused:
    body = statuses.status(400, f'admission webhook "validatequeue.volcano.sh" denied the request: {words}')
    del body["reason"]
    return statuses.Refused(400, body)
