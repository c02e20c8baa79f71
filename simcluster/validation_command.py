"""What an API server refuses about a new Command of Volcano, which has no spec: its fields are at the top.

Input: the kind, the namespace of the path and the decoded body; output: the object as it is stored, or Refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simcluster import statuses
from simcluster.kinds import Kind
from simcluster.statuses import Cause

_FIELDS = ("kind", "apiVersion", "metadata", "action", "target", "reason", "message")
_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid")


def new_command(kind: Kind, namespace: str, body: Any, *, strict: bool) -> dict[str, Any]:
    """A Command as it is stored: known fields only. `strict`: an unknown field is refused instead of dropped.
    Raises Refused with the body that a real server would answer."""
    if not isinstance(body, dict) or not isinstance(body.get("metadata", {}), dict):
        raise statuses.bad_request("the body of the request is no object with metadata")
    if body.get("apiVersion") != kind.api_version():
        asked, expected = body.get("apiVersion"), kind.api_version()
        words = f"the API version in the data ({asked}) does not match the expected API version ({expected})"
        raise statuses.bad_request(words)
    metadata = {**body.get("metadata", {}), "namespace": body.get("metadata", {}).get("namespace", namespace)}
    if metadata["namespace"] != namespace:
        words = "the namespace of the provided object does not match the namespace sent on the request"
        raise statuses.bad_request(words)
    unknown = [f'unknown field "{field}"' for field in body if field not in _FIELDS]
    if unknown and strict:
        words = f"strict decoding error: {', '.join(unknown)}"
        head = f'{kind.api_kind} in version "{kind.versions[0]}" cannot be handled as a {kind.api_kind}'
        raise statuses.bad_request(f"{head}: {words}")
    causes = list(_faults(kind, body))
    if causes:
        raise statuses.invalid(kind, str(metadata.get("name", "")), causes)
    top = {"kind": kind.api_kind, "apiVersion": kind.api_version(), "metadata": metadata}
    return {
        **top,
        **{field: body[field] for field in _FIELDS if field in body and field not in top},
    }


def _faults(kind: Kind, body: dict[str, Any]) -> Iterator[Cause]:
    if body.get("kind") != kind.api_kind:
        yield Cause("kind", f'Invalid value: "{body.get("kind", "")}": must be {kind.api_kind}')
    if not body.get("metadata", {}).get("name"):
        words = "Required value: name or generateName is required"
        yield Cause("metadata.name", words, "FieldValueRequired")
    target = body.get("target") or {}
    for field in _OWNER_FIELDS if "target" in body else ():
        if not target.get(field):
            yield Cause(f"target.{field}", "Required value", "FieldValueRequired")
