"""Merge patches (RFC 7396) and JSON patches (RFC 6902).

Input: the present object and a patch; output: the new object. Raises Refused with the real server's body.
"""

from __future__ import annotations

import copy
from typing import Any

from simcluster import statuses


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
