"""RFC 6902 add, remove and replace, as an API server applies them; another implementation than the one that makes them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any


def apply_patch(document: Any, operations: list[dict[str, Any]]) -> Any:
    found = deepcopy(document)
    for operation in operations:
        parts = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        holder = found
        for part in parts[:-1]:
            holder = holder[int(part)] if isinstance(holder, list) else holder[part]
        last: Any = parts[-1]
        if isinstance(holder, list):
            last = len(holder) if last == "-" else int(last)
        if operation["op"] == "add" and isinstance(holder, list):
            holder.insert(last, deepcopy(operation["value"]))
        elif operation["op"] == "remove":
            del holder[last]
        else:
            if operation["op"] == "replace":
                assert last in holder or isinstance(holder, list)
            holder[last] = deepcopy(operation["value"])
    return found


def merge_patch(document: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    found = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merge_patch(found.get(name), value)
    return found
