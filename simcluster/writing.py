"""Writes through the Kubernetes API: patches of what is there, and the creation of Volcano's Commands.

Input: a Request with its Target, after authorisation; output: its answer. Invariants: what is refused or asked for as a
dry run changes nothing; a patch is laid on the object as the version in its path says it; what a write has as its
effect is the simulation's matter (`Cluster.on_write`).
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import msgspec

from simcluster import patches, statuses, validation, validation_command
from simcluster.kinds import KINDS
from simcluster.statuses import Refused
from simcluster.timestamps import stamp
from simcluster.versions import from_version, in_version

if TYPE_CHECKING:
    from simcluster.faults import Effect
    from simcluster.kubeapi import Target
    from simcluster.server import Request

_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json")
_CREATED = ("Command",)
"""The kinds of which the simulated server creates objects."""


def write(request: Request, target: Target, effect: Effect) -> None:
    """A PATCH of an object or a POST to a list; anything else is 405."""
    if request.method == "PATCH" and target.name:
        _patch(request, target, effect)
    elif request.method == "POST" and target.namespace and not target.name and target.kind.name in _CREATED:
        _create(request, target, effect)
    else:
        raise statuses.not_allowed()


def _decoded(request: Request, what: str) -> Any:
    try:
        return msgspec.json.decode(request.body)
    except msgspec.MsgspecError as error:
        raise statuses.bad_request(f"error decoding {what}: {error}") from error


def _dry(request: Request) -> bool:
    return request.query.get("dryRun") == "All"


def _store(request: Request, target: Target, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Write it and let it have its effect; gives the object as written. The caller holds the store's lock."""
    cluster = request.cluster
    written = cluster.on_write(target.kind, before, after) if cluster.on_write else None
    if written is not None:
        return written
    cluster.store.put(target.kind, after)
    return after


# ---- patches ----------------------------------------------------------------------------------------------------
def _patch(request: Request, target: Target, effect: Effect) -> None:
    store, kind = request.cluster.store, target.kind
    patch = _decoded(request, "patch")
    with store.lock:
        before = store.get(kind, target.key)
        if before is None:
            raise statuses.not_found(kind, target.name)
        present = msgspec.json.decode(in_version(kind, target.version, msgspec.json.encode(before)))
        after = from_version(kind, target.version, _patched(request, present, patch), before)
        queues = store.objects(KINDS["VolcanoQueue"]) if kind.name == "VolcanoQueue" else ()
        specs = {queue["metadata"]["name"]: queue.get("spec", {}) for queue in queues}
        validation.check(kind, before, after, queues=specs)
        if after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] = before["metadata"].get("generation", 1) + 1
        if not _dry(request) and after != before:
            after = _store(request, target, before, after)
    raw = in_version(kind, target.version, msgspec.json.encode(after))
    request.answer(raw, effect=effect)


def _patched(request: Request, present: dict[str, Any], patch: Any) -> dict[str, Any]:
    content_type = request.headers.get("Content-Type", "").partition(";")[0]
    if content_type == _JSON_PATCH:
        return patches.json_patched(present, patch)
    if content_type in _MERGE_PATCHES:
        return dict(patches.merged(present, patch))
    words = f"the body of the request was in an unknown format - {content_type}"
    raise Refused(415, statuses.status(415, words))


# ---- creation -----------------------------------------------------------------------------------------------------
def _create(request: Request, target: Target, effect: Effect) -> None:
    kind, store = target.kind, request.cluster.store
    obj = validation_command.new_command(
        kind, target.namespace, _decoded(request, "body"), strict=_strict(request)
    )
    metadata = obj["metadata"]
    name = metadata["name"]
    with store.lock:
        namespaces = KINDS["Namespace"]
        if store.count(namespaces) and store.entry(namespaces, f"/{target.namespace}") is None:
            raise statuses.not_found(namespaces, target.namespace)
        if store.entry(kind, f"{target.namespace}/{name}") is not None:
            raise statuses.already_exists(kind, name)
        metadata |= {
            "creationTimestamp": stamp(request.cluster.now()),
            "generation": 1,
            "namespace": target.namespace,
            "uid": str(uuid.uuid4()),
        }
        if not _dry(request):
            obj = _store(request, target, {}, obj)
    request.answer_json(obj, code=201, effect=effect)


def _strict(request: Request) -> bool:
    return request.query.get("fieldValidation") == "Strict"
