"""Series of capacity and of how busy a node was. Input: a page's filters; output: `Series` for `charts.py`.

A query that no form takes is 404, as everywhere where a chart is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from django.http import Http404
from django.utils.translation import gettext

from apps.console.figures import PALETTE, Line, Series
from apps.console.frame import Page
from apps.core.window_form import WindowForm
from apps.fleet.models import Cluster
from apps.usage.device_hours import DeviceHours, device_hours
from apps.usage.filters import NodeHoursForm, TrendForm
from apps.usage.fleet import fleet_capacity_series
from apps.usage.selectors import CapacitySeries

LINES_SHOWN = 8
Numbers = Sequence[Decimal | None]


class CapacityWindowForm(WindowForm):
    default_window = "14d"


def whole_cards(page: Page) -> Series:
    form = CapacityWindowForm(page.request.GET, now=page.now)
    if not form.is_valid():
        raise Http404
    found = fleet_capacity_series(window=form.time_window, cluster_ids=_ids(page))
    lines = [
        Line(gettext("held"), "--held", found.held),
        Line(gettext("allocatable"), "--ink-2", found.allocatable),
        Line(gettext("nominal quota"), "--borrowed", found.nominal, dash="dash"),
    ]
    return Series(times=found.hours, lines=lines, unit=gettext("whole cards"))


def _ids(page: Page) -> list[int]:
    return [cluster.pk for cluster in page.clusters]


def _trend(page: Page) -> tuple[CapacitySeries, TrendForm]:
    form = TrendForm(page.request.GET, now=page.now)
    if not form.is_valid():
        raise Http404
    found = fleet_capacity_series(
        window=form.time_window,
        cluster_ids=_ids(page),
        sharing_mode=form.cleaned_data["sharing_mode"],
        model=form.cleaned_data["model"],
        step=form.step,
    )
    return found, form


def trend(page: Page) -> Series:
    found, form = _trend(page)
    lines = [
        Line(gettext("physical"), "--ceiling", found.physical),
        Line(gettext("allocatable"), "--ink-2", found.allocatable),
        Line(gettext("committed"), "--borrowed", found.nominal, dash="dash"),
        Line(gettext("held"), "--held", found.held),
    ]
    return _series(found, form, lines, gettext("GPU-equivalents"))


def ratio(page: Page) -> Series:
    found, form = _trend(page)
    lines = [
        Line(
            gettext("committed of allocatable"),
            "--borrowed",
            _percent(found.nominal, found.allocatable),
            dash="dash",
        ),
        Line(gettext("held of allocatable"), "--held", _percent(found.held, found.allocatable)),
    ]
    return _series(found, form, lines, "%")


def _series(found: CapacitySeries, form: TrendForm, lines: list[Line], unit: str) -> Series:
    return Series(
        times=found.hours,
        lines=lines,
        unit=unit,
        daily=form.step == "day",
        monthly=form.step == "month",
    )


def _percent(parts: Numbers, wholes: Numbers) -> list[Decimal | None]:
    return [
        None if part is None or not whole else (100 * part / whole).quantize(Decimal("0.1"))
        for part, whole in zip(parts, wholes, strict=True)
    ]


def node_utilisation(page: Page) -> Series:
    """One line per device while they can be told apart, else the mean, the busiest and the idlest of each hour."""
    form = NodeHoursForm(page.request.GET, now=page.now)
    if not form.is_valid():
        raise Http404
    cluster = _cluster_of(page)
    found = device_hours(cluster=cluster, node=form.cleaned_data["node"], window=form.time_window)
    return Series(times=found.hours, lines=_device_lines(found), unit="%")


def _cluster_of(page: Page) -> Cluster:
    if page.cluster is None and len(page.clusters) != 1:
        raise Http404
    return page.clusters[0]


def _device_lines(found: DeviceHours) -> list[Line]:
    busy = {name: [None if v is None else 100 * v for v in values] for name, values in found.ratios.items()}
    if len(busy) <= len(PALETTE):
        return [Line(name, PALETTE[i], values) for i, (name, values) in enumerate(busy.items())]
    columns = [[v for v in column if v is not None] for column in zip(*busy.values(), strict=True)]
    return [
        Line(gettext("busiest"), "--ceiling", [max(c) if c else None for c in columns], dash="dot"),
        Line(gettext("mean"), "--held", [sum(c) / len(c) if c else None for c in columns]),
        Line(gettext("idlest"), "--borrowed", [min(c) if c else None for c in columns], dash="dot"),
    ]
