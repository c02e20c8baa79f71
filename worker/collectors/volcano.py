"""Volcano: queues, PodGroups and jobs, of two API groups, and the ConfigMap that the scheduler is configured with.

Input and output: see engine. A cluster without any of these kinds is a normal case. Of ConfigMaps the one is read that
PORTAL_VOLCANO_CONFIGMAP names, and none is listed; where it cannot be read, it is not known which plugin decides.
"""

from __future__ import annotations

from django.conf import settings

from apps.observations.models import Source
from worker.parsers.kinds import kinds_of
from worker.parsers.volcano_conf import VOLCANO_SCHEDULER

from .engine import PullReport
from .pull import PullContext, puller_of


def pull(context: PullContext) -> PullReport:
    puller = puller_of(context)
    report = puller.pull(kinds_of(Source.VOLCANO))
    if report.absent:
        puller.forget_object(VOLCANO_SCHEDULER)
    else:
        namespace, name = settings.VOLCANO_CONFIGMAP
        path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        puller.pull_object(VOLCANO_SCHEDULER, path, what="the scheduler's configuration")
    return report
