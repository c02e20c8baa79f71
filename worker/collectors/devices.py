"""Device objects: DRA's classes, slices, claims and taint rules, and the GPU operator's own account of itself.

Input and output: see engine. A cluster without any of these kinds is a normal case.
"""

from __future__ import annotations

from apps.observations.models import Source
from worker.parsers.kinds import kinds_of

from .engine import PullReport
from .pull import PullContext, pull_kinds


def pull(context: PullContext) -> PullReport:
    return pull_kinds(context, kinds_of(Source.DEVICES))
