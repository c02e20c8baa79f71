"""Kueue: queues, cohorts, flavors, checks, workloads and namespaces; v1beta2, else v1beta1; then positions in queues.

Input and output: see engine. A cluster without any of Kueue's kinds is a normal case. A kind that is not for us to read
does not keep the positions from being read; a server in trouble is not asked for them.
"""

from __future__ import annotations

import time

from apps.observations.models import Source
from worker.clients.errors import FORBIDDEN
from worker.parsers.kinds import kinds_of

from .engine import PullReport
from .positions import pull_positions
from .pull import PullContext, client_of, pull_kinds


def pull(context: PullContext) -> PullReport:
    deadline = time.monotonic() + context.seconds * 0.6
    report = pull_kinds(context, kinds_of(Source.KUEUE))
    if not report.absent and all(error.kind == FORBIDDEN for _kind, error in report.errors):
        told = pull_positions(
            cluster_id=context.cluster.pk, client=client_of(context), now=context.now, deadline=deadline
        )
        if told:
            report.remarks.append(f"positions in queues: {told}")
    return report
