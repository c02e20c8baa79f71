"""Deciding what to ask for each kind of a source: its API version, whether to resume a watch, whether to list.

Input: the resume points of the last pull and, where they do not suffice, the server's discovery; output: one
Plan per kind that the server serves, and the names of those that it does not. Invariants: a kind is "not
installed" only when discovery itself answered and does not name it; a version that went away is replaced by the
next one that is served; every kind is listed in full from time to time, spread over kinds and clusters.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec

from worker.clients.errors import NOT_FOUND, ClientError
from worker.clients.kube import KubeClient
from worker.parsers.kinds import Kind

Cursor = dict[str, Any]
RELIST_AFTER = timedelta(hours=6)
ABSENT_RECHECK = timedelta(minutes=1)


class _Resource(msgspec.Struct):
    name: str


class _Resources(msgspec.Struct):
    resources: list[_Resource] | None = None


_resources = msgspec.json.Decoder(_Resources)


@dataclass(slots=True)
class Plan:
    """What to do for one kind. `versions`: those served, best first; `resume_from`: "" when it must be listed."""

    kind: Kind
    versions: list[str]
    resume_from: str = ""
    relist: bool = False


@dataclass(slots=True)
class Plans:
    """`missing`: kinds that discovery did not name just now; `absent`: those found missing a moment ago."""

    plans: list[Plan] = field(default_factory=list)
    missing: list[Kind] = field(default_factory=list)
    absent: list[Kind] = field(default_factory=list)


class Discovery:
    """The server's own account of what it serves, asked at most once per group and version."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._versions: dict[str, list[str]] = {}
        self._resources: dict[tuple[str, str], set[str]] = {}

    def versions_of(self, kind: Kind) -> list[str]:
        """The versions in which the server serves this kind, in our order of preference."""
        if not kind.group:
            return list(kind.versions)
        if kind.group not in self._versions:
            self._versions[kind.group] = self._client.served_versions(kind.group)
        served = self._versions[kind.group]
        return [v for v in kind.versions if v in served and kind.plural in self._plurals(kind.group, v)]

    def _plurals(self, group: str, version: str) -> set[str]:
        key = (group, version)
        if key not in self._resources:
            try:
                body = self._client.get(f"/apis/{group}/{version}")
                found = _resources.decode(body).resources or []
            except msgspec.MsgspecError as error:
                raise ClientError("bad_body", f"/apis/{group}/{version}: {error}", status=200) from error
            except ClientError as error:
                if error.kind != NOT_FOUND:
                    raise
                found = []
            self._resources[key] = {resource.name for resource in found}
        return self._resources[key]


def _time(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None


def relist_due(cursor: Cursor, kind: Kind, *, cluster_id: int, now: datetime) -> bool:
    """Whether the last full list is too long ago; the moment differs between kinds and clusters."""
    listed_at = _time(cursor.get("listed_at"))
    spread = zlib.crc32(f"{cluster_id}/{kind.name}".encode()) % 3600
    return listed_at is None or now - listed_at > RELIST_AFTER + timedelta(seconds=spread)


def absence_holds(cursor: Cursor, now: datetime) -> bool:
    """Whether a kind was found missing so recently that asking again can wait."""
    checked_at = _time(cursor.get("absent_at"))
    return checked_at is not None and timedelta(0) <= now - checked_at < ABSENT_RECHECK


def make_plans(
    *,
    kinds: Iterable[Kind],
    cursors: Mapping[str, Cursor],
    discovery: Discovery,
    cluster_id: int,
    now: datetime,
) -> Plans:
    """One plan per kind that can be pulled. Asks the server only about kinds that cannot simply be resumed."""
    made = Plans()
    for kind in kinds:
        cursor = cursors.get(kind.name, {})
        version, resume_from = cursor.get("api_version", ""), cursor.get("resource_version", "")
        due = relist_due(cursor, kind, cluster_id=cluster_id, now=now)
        if resume_from and version in kind.versions and not due:
            made.plans.append(Plan(kind, [version], resume_from))
            continue
        if absence_holds(cursor, now):
            made.absent.append(kind)
            continue
        versions = discovery.versions_of(kind)
        if not versions:
            made.missing.append(kind)
        elif resume_from and version == versions[0]:
            made.plans.append(Plan(kind, versions, resume_from, relist=True))
        else:
            made.plans.append(Plan(kind, versions))
    return made
