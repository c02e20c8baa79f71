"""Device samples of all vendors' exporters, read from the cluster's Prometheus at one instant.

Input: the context of a pull; output: rows of DeviceSample, one per device or MIG instance. Invariants: the
instant is the minute that has just ended, so two pulls within a minute write nothing twice and retries are
harmless; a Prometheus that knows no such series is "partial: no series", never zero; a cluster without a
Prometheus is "not installed"; a value that an exporter says it has not is remarked and no fault.
"""

from __future__ import annotations

from django.conf import settings

from apps.observations.models import ErrorKind
from apps.observations.services import BadObject, Written, all_silent, quarantine_put, write_samples
from worker.clients.prom import PromClient
from worker.parsers import exporters as parser

from .engine import PullReport
from .pull import PullContext


def pull(context: PullContext) -> PullReport:
    report = PullReport(cursors=dict(context.cursors))
    if not context.cluster.prometheus_url:
        report.absent = True
        all_silent(cluster_id=context.cluster.pk, at=context.now)
        return report
    at = context.now.replace(second=0, microsecond=0)
    client = PromClient(
        context.cluster.prometheus_url, settings.CONNECT_TIMEOUT_SECONDS, settings.READ_TIMEOUT_SECONDS
    )
    try:
        series = [one for query in parser.queries() for one in client.instant(query, at)]
        if targets := parser.targets_query(series):
            series += client.instant(targets, at)
    finally:
        report.bytes_read = client.bytes_read
        client.close()
    report.modes.add("query")
    report.good_kinds = 1
    found = parser.samples(parser.group_by_metric(series), at)
    if not found.rows:
        report.notes.append("no series: Prometheus knows no metric of the device registry")
        report.note_kind = ErrorKind.BAD_VALUES
    _write(context, report, found)
    return report


def _write(context: PullContext, report: PullReport, found: parser.Samples) -> None:
    report.seen = len(found.rows)
    for problem in found.problems:
        times = f"{problem.times} × " if problem.times > 1 else ""
        said = f"{problem.metric}: {times}{problem.reason} ({problem.example})"
        if problem.blank:
            report.remarks.append(said)
        else:
            report.notes.append(said)
            report.note_kind = ErrorKind.BAD_VALUES
    if not found.rows:
        all_silent(cluster_id=context.cluster.pk, at=context.now)
        return
    written, rejected = write_samples(cluster_id=context.cluster.pk, columns=found.columns, rows=found.rows)
    report.written += Written(inserted=written)
    report.quarantined = len(rejected)
    if rejected:
        device = found.columns.index("device")
        quarantine_put(
            cluster_id=context.cluster.pk,
            source=context.source,
            kind="DeviceSample",
            objects=[
                BadObject(str(r.row[device]), str(r.row[device]), repr(r.row).encode(), r.error)
                for r in rejected
            ],
            now=context.now,
        )
