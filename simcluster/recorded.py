"""A folder of recorded lists, served as they are. Input: files with a Kubernetes list each; output: a filled Store.

Only lists of kinds that the API serves are taken, each kind from one file: the one that is named after it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from simcluster.kinds import ABSENT_GROUPS, KINDS, Kind
from simcluster.store import Store, key_of

_NAMES = {"VolcanoJob": ("vcjobs",), "VolcanoQueue": ("queues",), "Event": ("events-core", "events")}


def file_of(folder: Path, kind: Kind) -> Path | None:
    """The file with the list of a kind."""
    for name in _NAMES.get(kind.name, (kind.plural,)):
        path = folder / f"{name}.json"
        if path.is_file():
            return path
    return None


def fill(store: Store, folder: Path) -> dict[str, int]:
    """Fill the store from a folder; gives how many of each kind. Raises ValueError when there is no list at all."""
    counts: dict[str, int] = {}
    for kind in KINDS.values():
        path = file_of(folder, kind)
        if path is None:
            continue
        try:
            document: dict[str, Any] = msgspec.json.decode(path.read_bytes())
        except msgspec.MsgspecError as error:
            raise ValueError(f"{path}: {error}") from error
        items = document.get("items")
        if not isinstance(items, list):
            continue
        store.fill(kind, ((key_of(item["metadata"]), _encoded(kind, item)) for item in items))
        counts[kind.name] = len(items)
    if not counts:
        raise ValueError(f"{folder}: no recorded list in it")
    return counts


def _encoded(kind: Kind, item: dict[str, Any]) -> bytes:
    head = {"kind": kind.api_kind, "apiVersion": item.get("apiVersion", kind.api_version())}
    return msgspec.json.encode({**head, **{name: part for name, part in item.items() if name not in head}})


def absent_in(counts: dict[str, int]) -> frozenset[str]:
    """What such a cluster does not have."""
    groups = {KINDS[name].group for name in counts}
    gone = {name for name, those in ABSENT_GROUPS.items() if groups.isdisjoint(those)}
    return frozenset({"prometheus", *gone})
