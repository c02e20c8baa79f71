"""What every parser shares: the parts of a Kubernetes object, quantities, JSON columns, and `Kind`.

Input: structs decoded from raw bytes by msgspec; output: values ready for the tables of apps.observations.
Invariants: pure (no Django, no I/O); structs are frozen and hold only the fields that are read; what a cluster
adds is ignored, what it leaves out gets a default; a value that cannot be used raises ParseError and costs only
its own object.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

import msgspec

from apps.core.quantity import QuantityError, parse_quantity, plain

Quantity = str | int | float
Row = tuple[Any, ...]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
BAD_BODY = "bad_body"
BAD_VALUES = "bad_values"

REASON_LENGTH = 120
"""Longest reason the tables keep; Kubernetes allows 1,024 characters."""


class ParseError(Exception):
    """What cannot be read. `kind`: "bad_body" (the answer as a whole) or "bad_values" (one object)."""

    def __init__(self, message: str, *, kind: str = BAD_VALUES) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class Struct(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of all decoded parts: frozen, Kubernetes' camelCase names, unknown fields ignored."""


class OwnerReference(Struct, frozen=True):
    kind: str
    name: str
    uid: str = ""
    controller: bool | None = None


class Meta(Struct, frozen=True):
    """metadata without annotations and managedFields. An object without name or uid is unusable."""

    name: str
    uid: str
    namespace: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    owner_references: list[OwnerReference] | None = None


class AnnotatedMeta(Meta, frozen=True):
    annotations: dict[str, str] | None = None


class Condition(Struct, frozen=True):
    type: str
    status: str
    reason: str | None = None
    message: str | None = None
    last_transition_time: datetime | None = None


_encoder = msgspec.json.Encoder()
_encode = _encoder.encode
EMPTY_OBJECT = "{}"
EMPTY_LIST = "[]"


def to_json(value: Any) -> str:
    """Text of a JSON column; structs inside are encoded as they are."""
    return _encode(value).decode()


@lru_cache(maxsize=65536)
def _decimal(value: Quantity) -> Decimal:
    return parse_quantity(value)


@lru_cache(maxsize=65536)
def plain_text(value: Quantity) -> str:
    """A quantity as plain digits in base units: "2500m" → "2.5". Raises QuantityError."""
    return plain(_decimal(value))


@lru_cache(maxsize=65536)
def plain_number(value: Decimal) -> str:
    return plain(value)


def quantity(value: Quantity, where: str) -> Decimal:
    """A quantity exactly. Raises ParseError that says where it stood."""
    try:
        return _decimal(value)
    except QuantityError as error:
        raise ParseError(f"{where}: {error}") from error


def resource_text(values: Mapping[str, Quantity] | None, where: str) -> dict[str, str]:
    """{resource: quantity} with plain digits."""
    if not values:
        return {}
    try:
        return {name: plain_text(value) for name, value in values.items()}
    except QuantityError:
        for name, value in values.items():
            quantity(value, f"{where}[{name}]")
        raise


def optional_quantity(value: Quantity | None, where: str) -> str | None:
    return None if value is None else plain_number(quantity(value, where))


def conditions_of(conditions: Iterable[Condition] | None) -> dict[str, dict[str, Any]]:
    """{type: {status, reason, message, since}}; reasons pass through whatever they are."""
    return {
        c.type: {
            "status": c.status,
            "reason": c.reason or "",
            "message": c.message or "",
            "since": c.last_transition_time,
        }
        for c in conditions or ()
    }


def condition(conditions: Iterable[Condition] | None, kind: str, status: str = "True") -> Condition | None:
    """The condition of this type when it has this status."""
    for found in conditions or ():
        if found.type == kind:
            return found if found.status == status else None
    return None


def said(found: Condition | None) -> tuple[str, str]:
    """(reason, message) of a condition, empty when there is none."""
    if found is None:
        return "", ""
    return (found.reason or "")[:REASON_LENGTH], found.message or ""


def owner_of(meta: Meta) -> tuple[str, str, str]:
    """(kind, name, uid) of the controlling owner, else of the first one, else empty."""
    owners = meta.owner_references
    if not owners:
        return "", "", ""
    owner = next((o for o in owners if o.controller), owners[0])
    return owner.kind, owner.name, owner.uid


META_COLUMNS = ("uid", "namespace", "name", "resource_version", "labels", "created_at", "deleting_since")


def meta_row(meta: Meta) -> Row:
    """Values of META_COLUMNS."""
    return (
        meta.uid,
        meta.namespace,
        meta.name,
        meta.resource_version,
        to_json(meta.labels) if meta.labels else EMPTY_OBJECT,
        meta.creation_timestamp,
        meta.deletion_timestamp,
    )


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object: where it is served, what it decodes to, and the row it becomes.

    `name` is the portal's name (VolcanoQueue, not Queue). `source` is a value of observations.Source, `model` the
    name of the table's model in apps.observations.models. `columns` are that model's fields without id, cluster,
    first_seen_at, observed_at and gone_at; `row(struct)` gives the values in that order (JSON columns as text,
    quantities as plain digits, times aware) or raises ParseError.
    `keeps_raw`: the last column is `raw`, which decode.py adds from the bytes. `beside`: read with a source that it
    is no sign of: a cluster that has only this has not the source.
    """

    name: str
    source: str
    model: str
    group: str
    versions: tuple[str, ...]
    plural: str
    namespaced: bool
    struct: type[Struct]
    columns: tuple[str, ...]
    row: Callable[[Any], Row]
    keeps_raw: bool = False
    beside: bool = False

    def path(self, version: str) -> str:
        """The collection of all namespaces: "/api/v1/pods", "/apis/kueue.x-k8s.io/v1beta2/workloads"."""
        root = f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"
        return f"{root}/{self.plural}"


@dataclass(frozen=True, slots=True)
class Bad:
    """An object that could not be read, with its bytes as received.

    `key`: uid, else "namespace/name", else a hash of the bytes; `name`: "namespace/name" or "name" or ""."""

    key: str
    name: str
    raw: bytes
    error: str


class _LooseMeta(msgspec.Struct, gc=False):
    uid: Any = None
    name: Any = None
    namespace: Any = None
    resource_version: Any = msgspec.field(default=None, name="resourceVersion")


class _Loose(msgspec.Struct, gc=False):
    metadata: _LooseMeta | None = None


_loose = msgspec.json.Decoder(_Loose)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def loose_version(raw: bytes | msgspec.Raw) -> str:
    """resourceVersion of an object that may be broken elsewhere, "" when it cannot be found."""
    try:
        meta = _loose.decode(raw).metadata
    except msgspec.MsgspecError:
        return ""
    return _text(meta.resource_version) if meta else ""


def served_text(raw: bytes | msgspec.Raw) -> str:
    """The object as served, for reading: without managedFields, the copy that kubectl keeps of it, and the
    resourceVersion, which has its own column and would make every version differ."""
    found = msgspec.json.decode(raw)
    meta = found.get("metadata") or {}
    meta.pop("managedFields", None)
    meta.pop("resourceVersion", None)
    if meta.get("annotations") and meta["annotations"].pop(LAST_APPLIED, None) and not meta["annotations"]:
        del meta["annotations"]
    return to_json(found)


def bad_object(raw: bytes | msgspec.Raw, error: str) -> Bad:
    """Identify a broken object as well as its bytes allow."""
    data = bytes(raw)
    try:
        meta = _loose.decode(data).metadata or _LooseMeta()
    except msgspec.MsgspecError:
        meta = _LooseMeta()
    uid, name, namespace = _text(meta.uid), _text(meta.name), _text(meta.namespace)
    shown = f"{namespace}/{name}" if namespace else name
    key = uid or (f"{namespace}/{name}" if name else f"sha256:{hashlib.sha256(data).hexdigest()}")
    return Bad(key=key[:400], name=shown[:320], raw=data, error=error)
