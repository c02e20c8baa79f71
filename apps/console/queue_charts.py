"""The history chart of one (queue, flavor, resource). Input: query parameters; output: a `Series` of means.

Parameters: cluster, kind, queue, flavor, resource and `window`, "hour" to "year". A queue that the reader may not see is
404. Time that nobody observed is a gap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import Http404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.console.figures import Line, Series
from apps.core.formats import resource_text
from apps.quotas.history import has_history, quota_series
from apps.quotas.history_steps import WINDOWS

if TYPE_CHECKING:
    from apps.console.frame import Page

DEFAULT_WINDOW = "day"
LABELS = {
    "hour": gettext_lazy("hour"),
    "day": gettext_lazy("day"),
    "week": gettext_lazy("week"),
    "month": gettext_lazy("month"),
    "year": gettext_lazy("year"),
}


def window_of(text: str) -> str:
    """The window that is asked for, the default where it is none of ours."""
    return text if text in WINDOWS else DEFAULT_WINDOW


def queue_quota(page: Page) -> Series:
    """Nominal, held and waiting over time, and the ceiling."""
    given = {name: page.request.GET.get(name, "") for name in ("kind", "queue", "flavor", "resource")}
    if page.cluster is None or not given["resource"]:
        raise Http404
    known = has_history(
        cluster=page.cluster, kind=given["kind"], queue=given["queue"], team_ids=page.team_ids, now=page.now
    )
    if not known:
        raise Http404
    window = window_of(page.request.GET.get("window", ""))
    points = quota_series(cluster=page.cluster, window=window, now=page.now, **given)
    nominal = _("deserved") if given["kind"] == "VolcanoQueue" else _("nominal")
    lines = [
        Line(_("held"), "--held", [point.mean["reserved"] for point in points]),
        Line(nominal, "--mark", [point.mean["nominal"] for point in points], dash="dash"),
        Line(_("ceiling"), "--ceiling", [point.mean["ceiling"] for point in points], dash="dot"),
        Line(_("waiting"), "--borrowed", [point.mean["pending"] for point in points]),
    ]
    return Series(
        times=[point.at for point in points],
        lines=lines,
        unit=resource_text(given["resource"]),
        daily=window == "year",
    )
