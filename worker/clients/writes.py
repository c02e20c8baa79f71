"""Writing to a Kubernetes API: a JSON patch of an object that is still the one that was seen, and creating an object.

Input: paths, operations, the resourceVersion that was seen, and for whom; output: the object as it is (or, of a dry
run, would be) afterwards. Invariants: a patch never lands on another version than the one named, because it says that
version itself and the server compares (409, ClientError("conflict")); unknown fields are refused by the server, not
dropped; an error whose `is_verdict` is False leaves open whether something was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from . import errors
from .errors import ClientError
from .kube import KubeClient

FIELD_MANAGER = "gpu-portal"
Operation = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Served:
    """An object as the API served it. `resource_version` "": of an object that a dry run would have created."""

    obj: dict[str, Any]

    @property
    def resource_version(self) -> str:
        return str(self.obj["metadata"].get("resourceVersion", ""))

    @property
    def uid(self) -> str:
        return str(self.obj["metadata"].get("uid", ""))

    @property
    def spec(self) -> dict[str, Any]:
        found: dict[str, Any] = self.obj.get("spec") or {}
        return found


class KubeWriter:
    """One cluster's API for writing, in the name of `acting_as` where one is given (else of the portal itself)."""

    def __init__(self, client: KubeClient, acting_as: str = "") -> None:
        self._client = client
        self._headers = {"Impersonate-User": acting_as} if acting_as else {}

    def read(self, path: str) -> Served:
        """The object as it is now, read as the portal itself. Raises ClientError."""
        return _served(self._client.get(path), path)

    def patch(
        self, path: str, operations: Sequence[Operation], *, resource_version: str, dry_run: bool = False
    ) -> Served:
        """Apply RFC 6902 operations to the object if it still has this version. Raises ClientError."""
        precondition = {"op": "replace", "path": "/metadata/resourceVersion", "value": resource_version}
        return self._write(
            "PATCH", path, [precondition, *operations], "application/json-patch+json", dry_run=dry_run
        )

    def create(self, path: str, body: Mapping[str, Any], *, dry_run: bool = False) -> Served:
        """Create an object in the list at `path`; ClientError("conflict") when the name is taken."""
        return self._write("POST", path, dict(body), "application/json", dry_run=dry_run)

    def _write(self, method: str, path: str, body: Any, content_type: str, *, dry_run: bool) -> Served:
        params = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        if dry_run:
            params["dryRun"] = "All"
        headers = {"Content-Type": content_type, **self._headers}
        answer = self._client.write(method, path, body, params=params, headers=headers)
        return _served(answer, path, stored=not (dry_run and method == "POST"))


def _served(body: bytes, path: str, *, stored: bool = True) -> Served:
    """`stored`: the object is in the cluster and so has a version."""
    try:
        found = Served(msgspec.json.decode(body, type=dict[str, Any]))
        _ = found.obj["metadata"]["resourceVersion" if stored else "name"]
    except (msgspec.MsgspecError, LookupError, TypeError) as error:
        raise ClientError(errors.BAD_BODY, f"{path}: the answer is no object: {error}", status=200) from error
    return found
