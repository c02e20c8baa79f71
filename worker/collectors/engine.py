"""One pull of one source of one cluster, common to every source that is read from a Kubernetes API.

Input: the cluster, its client, the resume points; output: a PullReport with the new resume points. Needs an open
transaction: rows, quarantine and resume points become visible together or not at all. Invariants: kinds are
merged in the order of the registry (queues before the work that waits in them); a kind that cannot be read keeps
what is stored of it and does not keep the others from being read, unless the server as a whole does not answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db import DataError, IntegrityError, transaction

from apps.observations.models import ErrorKind, Outcome, Presence
from apps.observations.services import RunResult, Written
from worker.clients.errors import (
    BAD_CONFIG,
    FORBIDDEN,
    NOT_FOUND,
    THROTTLED,
    TIMEOUT,
    UNAUTHORIZED,
    UNREACHABLE,
    ClientError,
)
from worker.clients.kube import KubeClient
from worker.parsers.kinds import Kind

from .kindpull import KindPull, forget_kind
from .plan import Cursor, Discovery, Plan, Plans, make_plans
from .watching import Ended, Watches, WatchOrder

CLOCK_TOLERANCE_SECONDS = 60.0
# Errors that say the same about every other kind of this server: asking on would only cost time.
_OF_THE_SERVER = frozenset((UNREACHABLE, UNAUTHORIZED, THROTTLED, BAD_CONFIG))


@dataclass(slots=True)
class PullReport:
    """What a pull found, in the terms of the log. `notes`: faults that leave a part out; `remarks`: what is worth
    saying and is none."""

    written: Written = field(default_factory=Written)
    seen: int = 0
    quarantined: int = 0
    bytes_read: int = 0
    modes: set[str] = field(default_factory=set)
    cursors: dict[str, Cursor] = field(default_factory=dict)
    errors: list[tuple[str, ClientError]] = field(default_factory=list)
    good_kinds: int = 0
    absent: bool = False
    resource_version: str = ""
    notes: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    note_kind: str = ""
    clock_skew_seconds: float | None = None

    @property
    def mode(self) -> str:
        return "mixed" if len(self.modes) > 1 else next(iter(self.modes), "")

    @property
    def presence(self) -> str | None:
        if self.absent:
            return Presence.ABSENT
        return Presence.INSTALLED if self.good_kinds else None

    def _named_errors(self) -> list[str]:
        """Which kinds are missing and why: one sentence per kind of error, with the first message."""
        names: dict[str, list[str]] = {}
        messages: dict[str, str] = {}
        for name, error in self.errors:
            names.setdefault(error.kind, []).append(name)
            messages.setdefault(error.kind, error.message)
        return [f"{', '.join(found)}: {messages[kind]}" for kind, found in names.items()]

    def _judge(self) -> tuple[str, str, list[str]]:
        """(outcome, error kind, sentences)."""
        said = self._named_errors()
        if self.errors:
            outcome = Outcome.PARTIAL if self.good_kinds or self.absent else Outcome.FAILED
            return outcome, self.errors[0][1].kind, said + self.notes
        if self.quarantined or self.notes:
            if self.quarantined:
                said.append(f"{self.quarantined} objects could not be read and are in quarantine")
            return Outcome.PARTIAL, self.note_kind or ErrorKind.BAD_VALUES, said + self.notes
        skew = self.clock_skew_seconds
        if skew is not None and skew > CLOCK_TOLERANCE_SECONDS:
            return (
                Outcome.PARTIAL,
                ErrorKind.CLOCK_AHEAD,
                [f"the server's clock is {skew:.0f} s ahead of ours"],
            )
        return Outcome.OK, ErrorKind.NONE, []

    def result(self, *, started_at: datetime, ended_at: datetime) -> RunResult:
        """The line for the log."""
        outcome, error_kind, said = self._judge()
        return RunResult(
            started_at=started_at,
            ended_at=ended_at,
            outcome=outcome,
            mode=self.mode,
            objects_seen=self.seen,
            rows_written=self.written.rows,
            rows_gone=self.written.gone,
            quarantined=self.quarantined,
            bytes_read=self.bytes_read,
            resource_version=self.resource_version,
            error_kind=error_kind,
            error="; ".join(said + self.remarks),
            told_from=self.written.told_from,
        )

    def add(self, pull: KindPull) -> None:
        """Take over what one kind's pull brought."""
        name = pull.kind.name
        self.written += pull.written
        self.seen += pull.seen
        self.quarantined += len(pull.bad)
        self.modes |= pull.modes
        if pull.cursor is not None:
            self.cursors[name] = pull.cursor
            self.resource_version = pull.cursor.get("resource_version", "")[:64]
        if pull.error is not None:
            self.errors.append((name, pull.error))
        if (
            not pull.kind.beside
            and not pull.absent
            and (pull.error is None or pull.written.rows or pull.written.gone)
        ):
            self.good_kinds += 1


class Puller:
    """Carries out one pull. `deadline` (monotonic) is when no further kind is begun."""

    def __init__(
        self,
        *,
        cluster_id: int,
        source: str,
        client: KubeClient,
        cursors: dict[str, Any],
        quarantined: dict[str, frozenset[str]],
        now: datetime,
        watch_seconds: int,
        deadline: float,
    ) -> None:
        self.cluster_id = cluster_id
        self.source = source
        self.client = client
        self.now = now
        self.watch_seconds = watch_seconds
        self.deadline = deadline
        self.quarantined = quarantined
        self.discovery = Discovery(client)
        self.report = PullReport(cursors=dict(cursors))

    def pull(self, kinds: Sequence[Kind]) -> PullReport:
        """Read every kind. Raises ClientError when not even the first question is answered."""
        report, read_before = self.report, self.client.bytes_read
        plans = make_plans(
            kinds=kinds,
            cursors=report.cursors,
            discovery=self.discovery,
            cluster_id=self.cluster_id,
            now=self.now,
        )
        self._forget(plans)
        pulls = [self._kind_pull(plan) for plan in plans.plans]
        self._watch([p for p in pulls if p.plan.resume_from])
        for pull in pulls:
            self._finish(pull)
            report.add(pull)
        report.absent = all(pull.absent for pull in pulls if not pull.kind.beside)
        report.bytes_read = self.client.bytes_read - read_before
        report.clock_skew_seconds = self.client.clock_skew_seconds
        return report

    def pull_object(self, kind: Kind, path: str, *, what: str) -> None:
        """Read one object by its name, after `pull`. That it is not there, or not for us to read, is no fault: then
        a remark says that `what` is not known."""
        read_before = self.client.bytes_read
        pull = self._kind_pull(Plan(kind, list(kind.versions)))
        pull.error = self._stopped()
        if pull.error is None:
            self._guard(pull, lambda: pull.read_object(self.client, path), cursor=None)
        if pull.error is not None and pull.error.kind in (NOT_FOUND, FORBIDDEN):
            self.report.remarks.append(f"{what}: not known: {pull.error.message}")
            pull.error = None
            pull.forget_object()
        self.report.add(pull)
        self.report.bytes_read += self.client.bytes_read - read_before

    def forget_object(self, kind: Kind) -> None:
        """The source that it belongs to is not installed."""
        pull = self._kind_pull(Plan(kind, list(kind.versions)))
        pull.forget_object()
        self.report.add(pull)

    def _kind_pull(self, plan: Plan) -> KindPull:
        return KindPull(
            cluster_id=self.cluster_id,
            source=self.source,
            plan=plan,
            now=self.now,
            was=self.report.cursors.get(plan.kind.name, {}),
            quarantined=self.quarantined.get(plan.kind.name, frozenset()),
        )

    def _forget(self, plans: Plans) -> None:
        for kind in plans.missing:
            if "listed_at" in self.report.cursors.get(kind.name, {}):
                self.report.written += forget_kind(cluster_id=self.cluster_id, kind=kind, now=self.now)
            self.report.cursors[kind.name] = {"absent_at": self.now.isoformat()}

    def _watch(self, pulls: list[KindPull]) -> None:
        by_name = {pull.kind.name: pull for pull in pulls}
        orders = [
            WatchOrder(name, pull.kind.path(pull.version), pull.plan.resume_from)
            for name, pull in by_name.items()
        ]
        with Watches(self.client, orders, self.watch_seconds) as items:
            for item in items:
                if isinstance(item, Ended):
                    by_name[item.name].end_watch(item.error)
                else:
                    by_name[item.name].take_line(item.data)

    def _finish(self, pull: KindPull) -> None:
        """Merge what the watch brought, and list where that is needed."""
        if pull.plan.resume_from:
            self._guard(pull, pull.merge_watch, cursor=None)
        else:
            pull.must_list = True
        if not (pull.must_list or (pull.plan.relist and pull.error is None)):
            return
        stopped = self._stopped()
        if stopped is not None:
            pull.error = stopped
            return
        pull.error = None
        if pull.must_list and pull.plan.resume_from and not self._rediscover(pull):
            return
        self._guard(pull, lambda: pull.read_list(self.client), cursor=pull.cursor)

    def _rediscover(self, pull: KindPull) -> bool:
        """Before listing what could not be resumed: the version may have changed, or the kind may be gone."""
        try:
            versions = self.discovery.versions_of(pull.kind)
        except ClientError as error:
            pull.error = error
            return False
        if versions:
            pull.plan.versions = versions
            return True
        pull.written += forget_kind(cluster_id=self.cluster_id, kind=pull.kind, now=self.now)
        pull.cursor = {"absent_at": self.now.isoformat()}
        pull.absent = True
        return False

    def _stopped(self) -> ClientError | None:
        """Why no further list is begun."""
        for _name, error in self.report.errors:
            if error.kind in _OF_THE_SERVER:
                return error
        if time.monotonic() > self.deadline:
            return ClientError(TIMEOUT, "no time left in this pull")
        return None

    def _guard(self, pull: KindPull, act: Callable[[], None], *, cursor: Cursor | None) -> None:
        """Run a step of one kind in a savepoint; what it cannot do is an error of that kind alone, which then
        resumes from `cursor` (None: where it stood before this pull)."""
        before = replace(pull.written)
        try:
            with transaction.atomic():
                act()
        except ClientError as error:
            pull.error = error
        except (DataError, IntegrityError) as error:
            pull.error = ClientError(ErrorKind.INTERNAL, str(error).splitlines()[0])
        else:
            return
        pull.cursor, pull.written = cursor, before
