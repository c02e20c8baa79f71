"""Objects with versions, as an API server keeps them. Input: objects as dicts or encoded bytes; output: pages of
encoded items, changes since a version, and the history of all changes.

Invariants
- Objects are kept encoded: serving copies no Python objects. An object's bytes start with its kind's `prefix`.
- Versions grow over all kinds together and follow the simulated time, so that they stay ahead of every earlier
  run, and so that a change which is left out of the history does not shift those after it.
- `compact` forgets changes: a watch or a continue token from before is answered 410.
- All methods take the lock; `changed` is notified after every change.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from simcluster.kinds import KINDS, Kind

_encode = msgspec.json.encode
_decode = msgspec.json.decode
VERSION_EPOCH = 1_700_000_000
"""Versions count thousandths of seconds of simulated time from here on."""


class Change(NamedTuple):
    """One change: `at` is simulated time in seconds, `raw` the object as it was written (or deleted)."""

    at: float
    version: int
    kind: Kind
    type: str
    raw: bytes


class Entry(NamedTuple):
    version: int
    raw: bytes


class Page(NamedTuple):
    items: list[bytes]
    version: int
    next_key: str
    remaining: int


class Gone(Exception):
    """The version asked for was compacted; `oldest` is the first that still works."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")
        self.asked, self.oldest = asked, oldest


@dataclass(slots=True)
class _Collection:
    kind: Kind
    entries: dict[str, Entry] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    log: list[Change] = field(default_factory=list)
    oldest: int = 0


def version_at(at: float) -> int:
    """The first version that a change at a simulated time can get."""
    return max(1, int((int(at) - VERSION_EPOCH) * 1000))


def key_of(metadata: dict[str, Any]) -> str:
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def stamped(raw: bytes, old: int, new: int) -> bytes:
    """The same object with another resourceVersion."""
    return raw.replace(b'"resourceVersion":"%d"' % old, b'"resourceVersion":"%d"' % new, 1)


class Store:
    """All objects of one simulated cluster."""

    def __init__(self, *, now: float = 0.0) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.now = now
        self.version = version_at(now)
        self.history: list[Change] = []
        self._collections = {kind.name: _Collection(kind) for kind in KINDS.values()}
        for collection in self._collections.values():
            collection.oldest = self.version

    # ---- writing ------------------------------------------------------------------------------------------
    def put(self, kind: Kind, obj: dict[str, Any], *, at: float | None = None, record: bool = True) -> int:
        """Create or replace an object; its resourceVersion is set in place. Gives the new version."""
        with self.lock:
            version = self._next(at)
            metadata = obj["metadata"]
            metadata["resourceVersion"] = str(version)
            body = obj
            if next(iter(obj)) != "kind":
                body = {"kind": kind.api_kind, "apiVersion": kind.api_version(), **obj}
            self._write(kind, key_of(metadata), version, _encode(body), record)
            return version

    def put_raw(self, kind: Kind, key: str, raw: bytes, *, record: bool = False, notify: bool = True) -> int:
        """Create or replace an object given encoded, with any resourceVersion in it."""
        with self.lock:
            version = self._next(None)
            before = _version_in(raw)
            raw = raw if before is None else stamped(raw, before, version)
            self._write(kind, key, version, raw, record, notify=notify)
            return version

    def remove(self, kind: Kind, key: str, *, at: float | None = None, record: bool = True) -> bool:
        """Delete an object; watchers see its last state with the version of the deletion."""
        with self.lock:
            collection = self._collections[kind.name]
            entry = collection.entries.pop(key, None)
            if entry is None:
                return False
            del collection.keys[bisect_left(collection.keys, key)]
            version = self._next(at)
            raw = stamped(entry.raw, entry.version, version)
            self._log(collection, Change(self.now, version, kind, "DELETED", raw), record)
            return True

    def compact(self, kind: Kind | None = None, *, before: int | None = None) -> None:
        """Forget changes older than a version (default: all there were)."""
        with self.lock:
            for collection in [self._collections[kind.name]] if kind else self._collections.values():
                oldest = self.version if before is None else before
                collection.oldest = max(collection.oldest, oldest)
                cut = bisect_left(collection.log, collection.oldest, key=lambda change: change.version)
                del collection.log[:cut]
            self.changed.notify_all()

    def advance(self, at: float) -> None:
        """Move time and version on without a change."""
        with self.lock:
            self.now = max(self.now, at)
            self.version = max(self.version, version_at(self.now))

    def _next(self, at: float | None) -> int:
        if at is not None:
            self.now = max(self.now, at)
        self.version = max(self.version + 1, version_at(self.now))
        return self.version

    def _write(
        self, kind: Kind, key: str, version: int, raw: bytes, record: bool, *, notify: bool = True
    ) -> None:
        collection = self._collections[kind.name]
        change_type = "MODIFIED" if key in collection.entries else "ADDED"
        if change_type == "ADDED":
            if not collection.keys or key > collection.keys[-1]:
                collection.keys.append(key)
            else:
                insort(collection.keys, key)
        collection.entries[key] = Entry(version, raw)
        self._log(collection, Change(self.now, version, kind, change_type, raw), record, notify=notify)

    def _log(self, collection: _Collection, change: Change, record: bool, *, notify: bool = True) -> None:
        collection.log.append(change)
        if record:
            self.history.append(change)
        if notify:
            self.changed.notify_all()

    # ---- reading ------------------------------------------------------------------------------------------
    def get(self, kind: Kind, key: str) -> dict[str, Any] | None:
        """A decoded copy of one object."""
        entry = self.entry(kind, key)
        return None if entry is None else _decode(entry.raw)

    def entry(self, kind: Kind, key: str) -> Entry | None:
        with self.lock:
            return self._collections[kind.name].entries.get(key)

    def count(self, kind: Kind) -> int:
        with self.lock:
            return len(self._collections[kind.name].entries)

    def raws(self, kind: Kind) -> list[bytes]:
        """Every object of a kind, encoded, in the order of lists."""
        return self.page(kind).items

    def objects(self, kind: Kind) -> list[dict[str, Any]]:
        return [_decode(raw) for raw in self.raws(kind)]

    def page(self, kind: Kind, *, namespace: str = "", after: str = "", limit: int = 0) -> Page:
        """Up to `limit` objects behind the key `after`, sorted by namespace and name."""
        with self.lock:
            collection = self._collections[kind.name]
            keys = collection.keys
            first = bisect_left(keys, f"{namespace}/") if namespace else 0
            last = bisect_left(keys, f"{namespace}0") if namespace else len(keys)  # "0" follows "/"
            if after:
                first = max(first, bisect_left(keys, f"{after}\0"))
            end = min(last, first + limit) if limit else last
            items = [collection.entries[key].raw for key in keys[first:end]]
            more = keys[end - 1] if end < last and items else ""
            return Page(items, self.version, more, last - end)

    def oldest(self, kind: Kind) -> int:
        with self.lock:
            return self._collections[kind.name].oldest

    def changes_since(self, kind: Kind, version: int) -> list[Change]:
        """Changes after a version, oldest first. Raises Gone when some were compacted."""
        with self.lock:
            collection = self._collections[kind.name]
            if version < collection.oldest:
                raise Gone(version, collection.oldest)
            start = bisect_left(collection.log, version + 1, key=lambda change: change.version)
            return collection.log[start:]

    def wait(self, version: int, timeout: float) -> None:
        """Sleep until something is newer than `version`, or the timeout."""
        with self.changed:
            if self.version <= version:
                self.changed.wait(timeout)

    def history_since(self, at: float) -> Iterator[Change]:
        with self.lock:
            start = bisect_left(self.history, at, key=lambda change: change.at)
            found = self.history[start:]
        return iter(found)

    def fill(self, kind: Kind, items: Iterable[tuple[str, bytes]]) -> None:
        """Bulk load of encoded objects without a log: like a cluster that was there before."""
        with self.lock:
            collection = self._collections[kind.name]
            for key, raw in items:
                version = self._next(None)
                before = _version_in(raw)
                collection.entries[key] = Entry(
                    version, raw if before is None else stamped(raw, before, version)
                )
            collection.keys = sorted(collection.entries)
            collection.oldest = self.version
            self.changed.notify_all()


def _version_in(raw: bytes) -> int | None:
    marker = b'"resourceVersion":"'
    start = raw.find(marker)
    if start < 0:
        return None
    text = raw[start + len(marker) : raw.index(b'"', start + len(marker))]
    return int(text) if text.isdigit() else None
