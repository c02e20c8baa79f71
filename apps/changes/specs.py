"""A live object's spec as data: how it is read, compared and named. Input: objects as the API server serves them;
output: `ObjectSeen`, and a spec laid flat so that two can be compared field by field. Pure.

Flat paths name flavors and resources, not their places ("/spec/resourceGroups/h100/nvidia.com~1gpu/nominalQuota"), so
that a flavor put before another by somebody else does not look like a change of both. "/spec/resourceGroups" itself is
the order of groups, resources and flavors. Invariants: quantities are compared by value; absent is None."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal, localcontext
from typing import Any

from apps.core.quantity import QuantityError, parse_quantity

Spec = dict[str, Any]
NANO = Decimal("1e-9")
MOST_DIGITS = 160
"""More than the longest quantity has before and after its point."""
GROUPS = "/spec/resourceGroups"
CELL_FIELDS: Mapping[str, str] = {
    "nominal": "nominalQuota",
    "borrowing_limit": "borrowingLimit",
    "lending_limit": "lendingLimit",
}
_AMOUNT_PREFIXES = (
    "/spec/capability/",
    "/spec/deserved/",
    "/spec/guarantee/resource/",
    "/spec/fairSharing/weight",
)


@dataclass(frozen=True, slots=True)
class FieldManager:
    """Who set fields of an object. `paths`: JSON pointers of the lowest fields owned, list places by "k:{…}"."""

    name: str
    operation: str
    subresource: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ObjectSeen:
    """A live object as the API served it. `path`: of the object in the API. `status_state`: a Volcano queue's state.
    `has_spec`: the object has the field at all."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    api_version: str
    path: str
    spec: Spec
    managers: tuple[FieldManager, ...] = ()
    status_state: str = ""
    has_spec: bool = True

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kind, self.namespace, self.name


def object_seen(kind: str, path: str, body: Mapping[str, Any]) -> ObjectSeen:
    """`kind`: the portal's ("VolcanoQueue"), `body`: the answer to a GET of `path`."""
    meta = body.get("metadata") or {}
    return ObjectSeen(
        kind=kind,
        namespace=str(meta.get("namespace") or ""),
        name=str(meta["name"]),
        uid=str(meta.get("uid") or ""),
        resource_version=str(meta.get("resourceVersion") or ""),
        api_version=str(body.get("apiVersion") or ""),
        path=path,
        spec=body.get("spec") or {},
        managers=field_managers(meta),
        status_state=str((body.get("status") or {}).get("state") or ""),
        has_spec=isinstance(body.get("spec"), dict),
    )


def field_managers(meta: Mapping[str, Any]) -> tuple[FieldManager, ...]:
    return tuple(
        FieldManager(
            name=str(found.get("manager") or ""),
            operation=str(found.get("operation") or ""),
            subresource=str(found.get("subresource") or ""),
            paths=tuple(_owned(found.get("fieldsV1") or {}, "")),
        )
        for found in meta.get("managedFields") or ()
    )


def _owned(fields: Mapping[str, Any], where: str) -> Iterator[str]:
    for name, inner in fields.items():
        if name != ".":
            path = f"{where}/{escaped(name.removeprefix('f:'))}"
            deeper = list(_owned(inner, path)) if isinstance(inner, dict) else []
            yield from deeper or [path]


def escaped(name: str) -> str:
    """A name as one part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def shape_of(spec: Mapping[str, Any]) -> list[dict[str, list[str]]] | None:
    """The order of groups, covered resources, flavors, and each flavor's resources where they are not the covered."""
    if "resourceGroups" not in spec:
        return None
    return [
        {
            "coveredResources": [str(name) for name in group.get("coveredResources") or ()],
            "flavors": [_flavor_name(group, flavor) for flavor in group.get("flavors") or ()],
        }
        for group in spec["resourceGroups"] or ()
    ]


def _flavor_name(group: Mapping[str, Any], flavor: Mapping[str, Any]) -> str:
    """A flavor's name, with its resources where they are not in the order of the group's: no legal object has that."""
    resources = [resource.get("name") for resource in flavor.get("resources") or ()]
    name = str(flavor.get("name"))
    if resources == list(group.get("coveredResources") or ()):
        return name
    return f"{name} ({', '.join(map(str, resources))})"


def flat(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Every lowest field by its flat path. Lists other than resource groups are one value."""
    found: dict[str, Any] = {}
    for name, value in spec.items():
        if name == "resourceGroups":
            found[GROUPS] = shape_of(spec)
            for flavor, resource, cell in cells_of(spec):
                for field, amount in cell.items():
                    if field != "name":
                        found[cell_path(flavor, resource, field)] = amount
        else:
            _lay_flat(value, f"/spec/{escaped(name)}", found)
    return found


def _lay_flat(value: Any, path: str, found: dict[str, Any]) -> None:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            _lay_flat(inner, f"{path}/{escaped(name)}", found)
    elif value is not None and value != {}:
        found[path] = value


def cells_of(spec: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(flavor, resource, the resource's object) in the order of the spec."""
    for group in spec.get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for resource in flavor.get("resources") or ():
                yield str(flavor.get("name")), str(resource.get("name")), resource


def cell_path(flavor: str, resource: str, field: str) -> str:
    return f"{GROUPS}/{escaped(flavor)}/{escaped(resource)}/{field}"


def is_amount(path: str) -> bool:
    return path.startswith((*_AMOUNT_PREFIXES, GROUPS + "/"))


def same(path: str, one: Any, other: Any) -> bool:
    """Equal; amounts by value."""
    if one == other:
        return type(one) is type(other) or (not isinstance(one, bool) and not isinstance(other, bool))
    if one is None or other is None or not is_amount(path):
        return False
    left, right = amount(one), amount(other)
    return left is not None and left == right


def value_text(path: str, value: Any) -> str:
    """A field's value as text; "" where it is absent."""
    if value is None:
        return ""
    if path == GROUPS:
        groups = [f"{', '.join(one['flavors'])}: {', '.join(one['coveredResources'])}" for one in value]
        return "[" + "; ".join(groups) + "]"
    return str(value)


def amount(value: Any) -> Decimal | None:
    """A quantity in a spec; None where there is none or it is no quantity. What is finer than a billionth is rounded
    away from zero, as Kubernetes reads it and may store it ("0.0000000001" is 1n)."""
    if value is None:
        return None
    try:
        found = parse_quantity(value)
    except QuantityError:
        return None
    exponent = found.as_tuple().exponent
    if not isinstance(exponent, int) or exponent >= -9:
        return found
    with localcontext(prec=MOST_DIGITS):
        return found.quantize(NANO, rounding=ROUND_UP)
