"""`/charts/<name>.json` and its table twin `/charts/<name>/`: the same series for the eye and as numbers.

A chart takes the filters of the page that it stands on. The page itself does not compute it, so that a long
history does not delay the numbers of now.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.http import Http404, HttpRequest, HttpResponseBase, JsonResponse
from django.utils.functional import Promise
from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_lazy as _

from apps.admissions.filters import WaitingForm
from apps.admissions.selectors import reason_series
from apps.chargeback.overview import cost_trend
from apps.console import capacity_charts
from apps.console.admission_tables import behind
from apps.console.figures import PALETTE, Line, Series
from apps.console.figures import figure as figure_of
from apps.console.frame import FLEET, QUOTA, WORK, Page
from apps.console.links import address, with_query
from apps.console.queue_charts import queue_quota
from apps.core.csv import csv_response
from apps.core.formats import resource_text
from apps.core.tables import wants_csv
from apps.core.windows import Bucket, choose_bucket
from apps.observations.models import Source
from apps.usage.admission_filters import BlockedForm
from apps.usage.blocked import blocked_series

KEYS_SHOWN = 6
STEPS = ("", "hour", "day", "month")


def _reasons(page: Page) -> Series:
    form = WaitingForm(page.request.GET, now=page.now, team_ids=page.team_ids)
    if not form.is_valid():
        raise Http404
    window = form.time_window
    bucket = choose_bucket(window)
    found = reason_series(
        now=page.now,
        window=window,
        bucket=bucket,
        by=form.grouping,
        team_ids=page.team_ids,
        criteria=form.criteria,
    )
    lines = _stack(found.values, found.labels, by=form.grouping)
    times = [piece.start for piece in found.buckets]
    return Series(
        times=times, lines=lines, unit=gettext("workloads"), stacked=True, daily=bucket is Bucket.DAY
    )


_CAUSE_COLOURS = {"scale_up": "--c-scale", "configuration": "--c-config", "startup": "--c-startup"}


def _cause_colour(cause: str) -> str:
    return _CAUSE_COLOURS.get(cause, f"--c-{cause}")


def _blocked(page: Page) -> Series:
    """Hours blocked, stacked; each bar opens the work behind it."""
    form = BlockedForm(page.request.GET, now=page.now, team_ids=page.team_ids)
    if not form.is_valid():
        raise Http404
    criteria, by = form.criteria, form.grouping
    found = blocked_series(window=form.time_window, by=by, team_ids=page.team_ids, criteria=criteria)
    lines = _stack(
        found.hours,
        found.labels,
        by=by,
        urls=lambda key: [behind(found.query(key, piece)) for piece in found.buckets],
    )
    unit = gettext("%(resource)s-hours") % {"resource": resource_text(criteria.resource)}
    return Series(
        times=[piece.start for piece in found.buckets],
        lines=lines,
        unit=unit if criteria.resource else gettext("workload-hours"),
        stacked=True,
        daily=found.reading.step != "hour",
    )


def _stack(
    values: Mapping[str, Sequence[Decimal | None]],
    labels: Mapping[str, str],
    *,
    by: str,
    urls: Callable[[str], Sequence[str]] = lambda _key: (),
) -> list[Line]:
    """The first keys as layers of a stack, all others as one; a cause has a colour of its own."""
    keys = list(values)
    shown, rest = (keys[: KEYS_SHOWN - 1], keys[KEYS_SHOWN - 1 :]) if len(keys) > KEYS_SHOWN else (keys, [])
    lines = [
        Line(labels[key], _cause_colour(key) if by == "cause" else PALETTE[i], values[key], urls=urls(key))
        for i, key in enumerate(shown)
    ]
    if rest:
        lines.append(Line(gettext("others"), PALETTE[-1], _sum_of([values[key] for key in rest])))
    return lines


def _sum_of(columns: Sequence[Sequence[Decimal | None]]) -> list[Decimal | None]:
    """Value by value; None where none of them is known."""
    return [
        None if all(v is None for v in values) else sum((v for v in values if v is not None), Decimal(0))
        for values in zip(*columns, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Kind:
    title: Promise
    lede: Promise
    sources: tuple[str, ...]
    build: Callable[[Page], Series]
    section: str
    buckets: tuple[str, ...] = ()


def _costs(page: Page) -> Series:
    found = cost_trend(team_ids=page.team_ids)
    labels = {team: found.names.get(team) or gettext("no team") for team in found.amounts}
    return Series(
        times=[period.starts_at for period in found.periods],
        lines=_stack(found.amounts, labels, by="team"),
        unit=found.currency,
        stacked=True,
        monthly=True,
    )


KINDS: dict[str, _Kind] = {
    "costs": _Kind(
        _("Charged by month"),
        _("Totals of the statements, by team, in one currency; months that are not closed are provisional."),
        (),
        _costs,
        "chargeback",
    ),
    "capacity": _Kind(
        _("Capacity over time, whole cards"),
        _("Held, allocatable and nominal quota over the pools of whole cards."),
        (*FLEET, *QUOTA),
        capacity_charts.whole_cards,
        "overview",
    ),
    "capacity-trend": _Kind(
        _("Physical, allocatable and committed over time"),
        _(
            "All pools as whole GPUs: shared and partitioned cards by their weight. Each point is the newest whole hour."
        ),
        (*FLEET, *QUOTA),
        capacity_charts.trend,
        "capacity",
        buckets=STEPS,
    ),
    "allocation-ratio": _Kind(
        _("Allocation ratio over time"),
        _(
            "What is promised and what pods hold, in percent of what is allocatable. Above 100 is over-commitment."
        ),
        (*FLEET, *QUOTA),
        capacity_charts.ratio,
        "capacity",
        buckets=STEPS,
    ),
    "node-utilisation": _Kind(
        _("How busy the node's devices were"),
        _(
            "Hourly mean of each device's utilisation as its exporter measures it. A gap is an hour without samples."
        ),
        (Source.DCGM,),
        capacity_charts.node_utilisation,
        "capacity",
    ),
    "queue-quota": _Kind(
        _("Nominal, held and waiting over time"),
        _("Mean of each step as the portal saw it. A gap is time in which the source was not read."),
        QUOTA,
        queue_quota,
        "queues",
    ),
    "blocked": _Kind(
        _("Kept from running over time"),
        _(
            "Hours blocked per step, by cause or layer, from the rollups. A gap is time that is not rolled up."
        ),
        WORK,
        _blocked,
        "admissions",
    ),
    "reasons": _Kind(
        _("Waiting work over time"),
        _("Mean number of waiting workloads per hour or day, by reason or cause."),
        QUOTA,
        _reasons,
        "admissions",
    ),
}


@dataclass(frozen=True, slots=True)
class Chart:
    """What a page needs to show a chart. `key` changes with the filters, so that a refresh keeps a drawn chart
    and other filters get a new one."""

    name: str
    title: Promise
    lede: Promise
    src: str
    table_url: str
    key: str

    @classmethod
    def of(cls, name: str, page: Page, **own: str) -> Chart:
        """With the page's filters, or with `own` ones beside the cluster where the page means others by them."""
        kind = KINDS[name]
        given = {"cluster": page.cluster_slug, **own} if own else page.request.GET
        filters = {k: v for k, v in given.items() if k not in {"sort", "page", "all", "format", "table"}}
        src = address("chart_json", name, **filters)
        key = hashlib.sha256(src.encode()).hexdigest()[:10]
        return cls(name, kind.title, kind.lede, src, address("chart", name, **filters), f"chart-{name}-{key}")


def _kind_or_404(name: str) -> _Kind:
    if name not in KINDS:
        raise Http404
    return KINDS[name]


def figure(request: HttpRequest, name: str) -> HttpResponseBase:
    kind = _kind_or_404(name)
    page = Page.open(request, sources=kind.sources)
    series = kind.build(page)
    body: dict[str, Any] = figure_of(series, language=get_language() or "en")
    if series.is_empty:
        body["empty"] = gettext("Nothing was recorded in this time yet.")
    return JsonResponse(body)


def table(request: HttpRequest, name: str) -> HttpResponseBase:
    kind = _kind_or_404(name)
    page = Page.open(request, sources=kind.sources)
    series = kind.build(page)
    if wants_csv(request):
        head = [gettext("Start"), *(line.label for line in series.lines)]
        return csv_response(f"chart_{name}", [head, *([at, *values] for at, values in series.rows())])
    chosen = request.GET.get("bucket", "")
    context = {
        "kind": kind,
        "series": series,
        "chart": Chart.of(name, page),
        "buckets": [(key, with_query(request, bucket=key), key == chosen) for key in kind.buckets],
    }
    return page.render("console/chart.html", context, section=kind.section)
