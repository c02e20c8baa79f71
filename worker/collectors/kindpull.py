"""The pull of one kind: rows staged as they stream in, merged once everything has arrived.

Input: pages of a list or lines of a watch; output: what the merge wrote, the next resume point, and an error when
the kind could not be read. Invariants: nothing stored is touched before the list is complete; one object that
cannot be read goes to the quarantine and its stored state stays; the resume point moves only over lines that were
staged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime

import msgspec
import psycopg
from django.apps import apps
from django.db import transaction

from apps.observations.models import Event
from apps.observations.services import (
    BadObject,
    Change,
    Rejected,
    Row,
    Staging,
    Target,
    Written,
    apply_list,
    is_first,
    mark_gone,
    merge_list,
    merge_staged,
    quarantine_clear,
    quarantine_keep_only,
    quarantine_put,
    write_first,
)
from worker.clients.errors import BAD_BODY, EXPIRED, NOT_FOUND, ClientError
from worker.clients.kube import KubeClient
from worker.parsers.kinds import Bad, Kind, ParseError, decode_list, decode_watch, page_rows, watch_row

from .ahead import one_ahead
from .plan import Cursor, Plan

FLUSH_ROWS = 500
_rows_as_json = msgspec.json.Encoder(enc_hook=str)


def target_of(kind: Kind) -> Target:
    """The table that takes this kind's rows."""
    return Target(apps.get_model("observations", kind.model), kind.name, kind.columns)


@dataclass(slots=True)
class KindPull:
    """One kind of one cluster during one pull. `error`: why it could not be read (fully)."""

    cluster_id: int
    source: str
    plan: Plan
    now: datetime
    was: Cursor
    quarantined: frozenset[str]
    written: Written = field(default_factory=Written)
    seen: int = 0
    bad: dict[str, BadObject] = field(default_factory=dict)
    modes: set[str] = field(default_factory=set)
    cursor: Cursor | None = None
    error: ClientError | None = None
    must_list: bool = False
    absent: bool = False
    _staging: Staging | None = None
    _buffer: list[Change] = field(default_factory=list)
    _good: set[str] = field(default_factory=set)
    _listed_version: str = ""
    # uids whose last state could not be read, but which are deleted all the same
    _ended: list[str] = field(default_factory=list)

    @property
    def kind(self) -> Kind:
        return self.plan.kind

    @property
    def version(self) -> str:
        return self.plan.versions[0]

    @property
    def complete(self) -> bool:
        return self.error is None and not self.bad

    # ------------------------------------------------------------------ shared
    def _stage(self) -> Staging:
        if self._staging is None:
            self._staging = Staging(target_of(self.kind))
        return self._staging

    def _set_aside(self, bad: Bad) -> None:
        self.bad[bad.key] = BadObject(bad.key, bad.name, bad.raw, bad.error)

    def _refused(self, rejected: list[Rejected]) -> None:
        for item in rejected:
            named = dict(zip(self.kind.columns, item.row, strict=True))
            name = f"{named['namespace']}/{named['name']}" if "name" in named else str(named["uid"])
            raw = _rows_as_json.encode(named)
            key = str(named["uid"]).replace("\x00", "")
            self.bad[key] = BadObject(key, name, raw, item.error)

    def _note_good(self, row: Row) -> None:
        """Remember what parses again, only where something is in quarantine at all."""
        if not self.quarantined:
            return
        columns = self.kind.columns
        self._good.add(row[columns.index("uid")])
        if "name" in columns:
            name, namespace = row[columns.index("name")], row[columns.index("namespace")]
            self._good.add(f"{namespace}/{name}")

    # ------------------------------------------------------------------ watch
    def take_line(self, line: bytes) -> None:
        """One line of the watch. After a line that ends it, the kind has to be listed again."""
        if self.must_list:
            return
        self.modes.add("watch")
        found = decode_watch(self.kind, self.version, line)
        if found.type == "ERROR":
            self.must_list = True
            if found.code not in (0, 410):
                self.error = ClientError(BAD_BODY, f"{self.kind.plural}: watch: {found.message}")
            return
        if found.type != "BOOKMARK":
            self._take_object(found.type, watch_row(self.kind, found))
        if found.resource_version:
            self.cursor = {**self.was, "resource_version": found.resource_version}

    def _take_object(self, event: str, row: Row | Bad) -> None:
        self.seen += 1
        if isinstance(row, Bad):
            if event == "DELETED":
                self._ended.append(row.key)
                self.bad.pop(row.key, None)
            else:
                self._set_aside(row)
            return
        self._note_good(row)
        self._buffer.append(Change(self.now, event == "DELETED", row))
        if len(self._buffer) >= FLUSH_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._buffer:
            self._refused(self._stage().add(self._buffer))
            self._buffer = []

    def end_watch(self, error: ClientError | None) -> None:
        """The watch is over: normally, because its version expired, or because it broke."""
        self.modes.add("watch")
        if error is None:
            self.cursor = self.cursor or dict(self.was)
        elif error.kind in (EXPIRED, NOT_FOUND):
            self.must_list = True
        else:
            self.error = error

    def merge_watch(self) -> None:
        """Write what the watch brought."""
        self._flush()
        if self._staging is not None:
            self.written += merge_staged(cluster_id=self.cluster_id, staging=self._staging)
            self._staging = None
        if self._ended:
            self._good.update(self._ended)
            self.written += mark_gone(
                cluster_id=self.cluster_id, target=target_of(self.kind), uids=self._ended, now=self.now
            )
        if self._good & self.quarantined:
            quarantine_clear(
                cluster_id=self.cluster_id, source=self.source, kind=self.kind.name, keys=self._good
            )
        self._put_bad()

    def _put_bad(self) -> None:
        if self.bad:
            quarantine_put(
                cluster_id=self.cluster_id,
                source=self.source,
                kind=self.kind.name,
                objects=list(self.bad.values()),
                now=self.now,
            )

    # ------------------------------------------------------------------ list
    def read_list(self, client: KubeClient) -> None:
        """List and merge; an expired continue token starts over once, a version that is gone tries the next."""
        retried = careful = False
        while True:
            try:
                with transaction.atomic():
                    self._list_once(client, careful=careful)
                return
            except (psycopg.DataError, psycopg.IntegrityError):
                # A row that the database refuses, or one that came twice: read again, in steps that find it.
                if careful:
                    raise
                careful = True
            except ClientError as error:
                if error.kind == EXPIRED and not retried:
                    retried = True
                elif error.kind == NOT_FOUND and len(self.plan.versions) > 1:
                    self.plan.versions.pop(0)
                else:
                    raise
            except ParseError as error:
                raise ClientError(error.kind, error.message) from error

    def _list_once(self, client: KubeClient, *, careful: bool) -> None:
        self.modes.add("list")
        self.bad = {}
        self._listed_version = ""
        target = target_of(self.kind)
        if (
            not careful
            and "listed_at" not in self.was
            and is_first(cluster_id=self.cluster_id, target=target)
        ):
            self._list_first(client, target)
        else:
            self._list_staged(client, Staging(target), careful=careful)
        if not self._listed_version:
            raise ClientError(BAD_BODY, f"{self.kind.plural}: the list says no resourceVersion")
        self._note_quarantine()
        self.cursor = {
            "resource_version": self._listed_version,
            "api_version": self.version,
            "listed_at": self.now.isoformat(),
        }

    def _list_first(self, client: KubeClient, target: Target) -> None:
        written = Written()
        with write_first(cluster_id=self.cluster_id, target=target, now=self.now, written=written) as put:
            for rows in self._listed_rows(client):
                put(rows)
        self.written += written
        self.seen += written.inserted + len(self.bad)

    def _list_staged(self, client: KubeClient, staging: Staging, *, careful: bool) -> None:
        seen = 0
        if careful:
            for rows in self._listed_rows(client):
                self._refused(staging.add_rows(rows, at=self.now))
                seen += len(rows)
        else:
            with staging.stream(at=self.now) as put:
                for rows in self._listed_rows(client):
                    put(rows)
                    seen += len(rows)
        self._merge_list(staging)
        self.seen += seen + len(self.bad)

    def _listed_rows(self, client: KubeClient) -> Iterator[list[Row]]:
        """The rows of each page; what cannot be read is set aside."""
        with closing(one_ahead(client.list_pages(self.kind.path(self.version)))) as bodies:
            for body in bodies:
                page = decode_list(self.kind, self.version, body)
                rows, bad = page_rows(self.kind, page)
                for item in bad:
                    self._set_aside(item)
                self._listed_version = page.resource_version or self._listed_version
                yield rows

    def _merge_list(self, staging: Staging) -> None:
        first = "listed_at" not in self.was
        nameless = any(key.startswith("sha256:") for key in self.bad)
        if staging.target.model is Event or nameless:
            # Events end by themselves; and an object that has no name may be any of those that seem missing.
            self.written += merge_staged(cluster_id=self.cluster_id, staging=staging, record_new=not first)
        else:
            self.written += merge_list(
                cluster_id=self.cluster_id,
                staging=staging,
                now=self.now,
                kept=self.bad,
                record_new=not first,
            )

    # ------------------------------------------------------------------ one object
    def read_object(self, client: KubeClient, path: str) -> None:
        """One object, asked for by its name, is all there is of the kind. While it is the version that was read last,
        nothing is written."""
        found = decode_watch(self.kind, self.version, b'{"type":"ADDED","object":%b}' % client.get(path))
        if found.type == "ERROR":
            raise ClientError(BAD_BODY, f"{path}: the answer is no object: {found.message}", status=200)
        cursor = {"resource_version": found.resource_version, "path": path, "listed_at": self.now.isoformat()}
        if found.resource_version and all(self.was.get(k) == cursor[k] for k in ("resource_version", "path")):
            return
        self.seen += 1
        row = watch_row(self.kind, found)
        if isinstance(row, Bad):
            self._set_aside(row)
        self._all_there_is([] if isinstance(row, Bad) else [row])
        self.cursor = cursor

    def forget_object(self) -> None:
        """It is not there, or not for us to read: what was read of it is not known any more."""
        if "listed_at" in self.was:
            self._all_there_is([])
        self.cursor = {"absent_at": self.now.isoformat()}

    def _all_there_is(self, rows: list[Row]) -> None:
        written, rejected = apply_list(
            cluster_id=self.cluster_id, target=target_of(self.kind), rows=rows, now=self.now, kept=self.bad
        )
        self.written += written
        self._refused(rejected)
        self._note_quarantine()

    def _note_quarantine(self) -> None:
        if self.quarantined:
            quarantine_keep_only(
                cluster_id=self.cluster_id, source=self.source, kind=self.kind.name, keys=self.bad
            )
        self._put_bad()


def forget_kind(*, cluster_id: int, kind: Kind, now: datetime) -> Written:
    """The kind is not installed any more: what we hold of it is gone."""
    target = target_of(kind)
    if target.model is Event:
        return Written()
    staging = Staging(target)
    return merge_list(cluster_id=cluster_id, staging=staging, now=now)
