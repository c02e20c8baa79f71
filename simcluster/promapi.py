"""The Prometheus side: /api/v1/query, query_range, series, labels, label values, and the exporter's /metrics.

Input: a Request; output: Prometheus' JSON, or the text format for /metrics. Invariants: labels are those of a
ServiceMonitor with honorLabels off (the workload stands in exported_pod); /metrics says what the exporter itself
says; values come from `Telemetry` at the times asked for, never from the future.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from simcluster import promql, statuses
from simcluster.exporters import DCGM, METRICS, Exporter, Metric
from simcluster.faults import Effect
from simcluster.promql import Matcher
from simcluster.statuses import Refused
from simcluster.telemetry import Instance, Run, Telemetry, User, View, axis

if TYPE_CHECKING:
    from simcluster.server import Request

ENDPOINTS = frozenset(("query", "query_range", "series", "labels", "label", "targets", "status", "metadata"))
MOST_POINTS = 11_000
Labels = dict[str, str]


def health(request: Request) -> None:
    _present(request)
    request.answer(b"Prometheus Server is Ready.\n", content_type="text/plain; charset=utf-8")


def handle(request: Request) -> None:
    _present(request)
    effect = request.cluster.faults.effect("prometheus", request.path.split("/")[3])
    _before(request, effect)
    parameters = request.form()
    try:
        body = _ROUTES[request.path.split("/")[3]](request, dict(parameters), parameters, effect)
    except promql.QueryError as error:
        body = msgspec.json.encode({"status": "error", "errorType": "bad_data", "error": str(error)})
        request.answer(body, code=400, effect=effect)
        return
    request.answer(body, effect=effect)


def _present(request: Request) -> None:
    if "prometheus" in request.cluster.absent:
        raise statuses.no_such_path()


def _before(request: Request, effect: Effect) -> None:
    if effect.delay:
        request.cluster.faults.over.wait(effect.delay)
    if effect.hang:
        request.cluster.faults.over.wait(600)
    if effect.error is not None:
        raise Refused(422, {"status": "error", "errorType": "execution", "error": effect.error})
    if effect.status is not None:
        words = effect.message or "the server is overloaded"
        raise Refused(
            effect.status, {"status": "error", "errorType": "unavailable", "error": words}, effect.retry_after
        )


# ---- parameters -----------------------------------------------------------------------------------------------
def _time(text: str | None, default: float, name: str) -> float:
    if not text:
        return default
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        raise promql.QueryError(
            f'invalid parameter "{name}": cannot parse "{text}" to a valid timestamp'
        ) from None


_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}


def _duration(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    for unit, seconds in _UNITS.items():
        if text.endswith(unit) and text[: -len(unit)].isdigit():
            return int(text[: -len(unit)]) * seconds
    raise promql.QueryError(f'invalid parameter "step": cannot parse "{text}" to a valid duration')


# ---- series ---------------------------------------------------------------------------------------------------
def _target_labels(node: str, exporter: Exporter, index: int) -> Labels:
    """What a ServiceMonitor adds; the node only where the exporter does not name it."""
    return {
        "container": exporter.container,
        "instance": f"10.42.{index // 250}.{index % 250 + 4}:{exporter.port}",
        "job": exporter.job,
        "namespace": exporter.namespace,
        "pod": f"{exporter.pod}-{_suffix(node)}",
        **({"node": node} if exporter.node_label else {}),
    }


def _suffix(node: str) -> str:
    letters = "bcdfghjklmnpqrstvwxz2456789"
    seed = sum(ord(char) * 31**index for index, char in enumerate(node))
    return "".join(letters[(seed >> shift) % len(letters)] for shift in (0, 3, 7, 11, 13))


def _pod_labels(exporter: Exporter, user: User | None, target: Labels) -> Labels:
    """The workload's labels; those that the target has as well are renamed, as without honorLabels."""
    if user is None:
        return {}
    own = dict(user.labels)
    if exporter.workload:
        namespace, pod, container = exporter.workload
        own = {container: "main", namespace: user.namespace, pod: user.pod, **own}
    return {f"exported_{name}" if name in target else name: text for name, text in own.items()}


_Parts = list[tuple[int, list[str]]]


class _Query:
    """One question: which metrics, which labels, at which times."""

    def __init__(
        self, telemetry: Telemetry, matchers: list[Matcher], times: Sequence[float], effect: Effect
    ) -> None:
        self.telemetry, self.times = telemetry, times
        named = set(self._named(matchers, METRICS))
        self._metrics = {
            exporter.job: [metric for metric in exporter.metrics if metric.name in named]
            for exporter in telemetry.targets.values()
        }
        self.wants_up = bool(self._named(matchers, ("up",)))
        self._others = [m for m in matchers if m.label != "__name__"]
        self._value, self._empty = effect.value, effect.empty
        self._targets = targets(telemetry)

    @staticmethod
    def _named(matchers: list[Matcher], names: Iterable[str]) -> list[str]:
        tests = [m for m in matchers if m.label == "__name__"]
        return [name for name in names if all(m.test(name) for m in tests)]

    def series(self) -> Iterator[tuple[Labels, _Parts]]:
        """(labels, [(first step, texts)]), one per series; a series may have gaps."""
        if self._empty:
            return
        with self.telemetry.lock:
            if self.wants_up:
                yield from self._up()
            for instance in self.telemetry.instances:
                if self._metrics[instance.exporter.job]:
                    yield from self._instance(instance)

    def _up(self) -> Iterator[tuple[Labels, _Parts]]:
        for (node, _job), target in self._targets.items():
            labels = {"__name__": "up", **target}
            if promql.matches(self._others, labels):
                texts = [("1" if self.telemetry.up(node, at) else "0") for at in self.times]
                yield labels, [(0, self._faulty(texts))]

    def _faulty(self, texts: list[str]) -> list[str]:
        return texts if self._value is None else [self._value] * len(texts)

    def _instance(self, instance: Instance) -> Iterator[tuple[Labels, _Parts]]:
        found: dict[tuple[User | None, bool, bool], list[tuple[Run, View]]] = {}
        changed = instance.relabelled[0] if instance.relabelled else None
        for run in self.telemetry.runs(instance, self.times):
            later = changed is not None and self.times[run.first] >= changed
            for view in self.telemetry.views(instance, run, self.times):
                who = view.user and view.user._replace(activity=0.0, memory=0.0)
                found.setdefault((who, view.parts, later), []).append((run, view))
        target = self._targets[instance.node, instance.exporter.job]
        for (who, _parts, _later), views in found.items():
            at = self.times[views[0][0].first]
            pod = _pod_labels(instance.exporter, who, target)
            labels = {**instance.labels_at(at), **target, **pod}
            if not promql.matches(self._others, labels):
                continue
            runs = [
                (run._replace(first=first, last=last), view)
                for run, view in views
                for first, last in view.steps
            ]
            activities = [self.telemetry.activity(run.use, self.times, run) for run, _view in runs]
            for metric in self._metrics[instance.exporter.job]:
                if parts := self._parts(metric, instance, runs, activities):
                    yield {"__name__": metric.name, **labels}, parts

    def _parts(
        self, metric: Metric, instance: Instance, runs: list[tuple[Run, View]], activities: list[list[int]]
    ) -> _Parts:
        parts: _Parts = []
        for (run, view), activity in zip(runs, activities, strict=True):
            user = view.user if view.parts else None
            texts = self.telemetry.texts(metric, instance, run, self.times, activity, user)
            if texts is not None:
                parts.append((run.first, self._faulty(texts)))
        return parts


def targets(telemetry: Telemetry) -> dict[tuple[str, str], Labels]:
    """The scrape targets, by node and job."""
    found = enumerate(telemetry.targets.items())
    return {(node, job): _target_labels(node, exporter, i) for i, ((node, job), exporter) in found}


def _answer(kind: str, results: list[bytes]) -> bytes:
    head = b'{"status":"success","data":{"resultType":"%b","result":[' % kind.encode()
    return head + b",".join(results) + b"]}}"


def _stamps(times: Sequence[float]) -> list[str]:
    return [f'[{at:.3f},"'.replace(".000,", ",") for at in times]


def _query(
    request: Request, parameters: dict[str, str], _pairs: list[tuple[str, str]], effect: Effect
) -> bytes:
    now = request.cluster.now()
    at = _time(parameters.get("time"), now, "time")
    matchers = promql.parse(parameters.get("query", ""))
    if at > now + 300 or at < request.cluster.epoch:
        return _answer("vector", [])
    stamp = _stamps([at])[0]
    results = [
        b'{"metric":%b,"value":%b}' % (msgspec.json.encode(labels), f'{stamp}{parts[0][1][0]}"]'.encode())
        for labels, parts in _Query(request.cluster.telemetry, matchers, (min(at, now),), effect).series()
    ]
    return _answer("vector", results)


def _query_range(
    request: Request, parameters: dict[str, str], _pairs: list[tuple[str, str]], effect: Effect
) -> bytes:
    now, epoch = request.cluster.now(), request.cluster.epoch
    start = _time(parameters.get("start"), now, "start")
    end = _time(parameters.get("end"), now, "end")
    step = _duration(parameters.get("step", "60"))
    if end < start:
        raise promql.QueryError('invalid parameter "end": end timestamp must not be before start time')
    if step <= 0:
        raise promql.QueryError(
            'invalid parameter "step": zero or negative query resolution step widths are not accepted. '
            "Try a positive integer"
        )
    if (end - start) / step > MOST_POINTS:
        raise promql.QueryError(
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution "
            "(?step=XX)"
        )
    matchers = promql.parse(parameters.get("query", ""))
    times = tuple(at for at in axis(start, end, step) if epoch <= at <= now)
    if not times:
        return _answer("matrix", [])
    stamps = _stamps(times)
    results = []
    for labels, parts in _Query(request.cluster.telemetry, matchers, times, effect).series():
        points = [
            f'{stamps[first + offset]}{text}"]' for first, texts in parts for offset, text in enumerate(texts)
        ]
        values = ",".join(points).encode()
        results.append(b'{"metric":%b,"values":[%b]}' % (msgspec.json.encode(labels), values))
    return _answer("matrix", results)


def _window(request: Request, parameters: dict[str, str]) -> tuple[float, ...]:
    now = request.cluster.now()
    end = min(_time(parameters.get("end"), now, "end"), now)
    start = max(_time(parameters.get("start"), end - 300, "start"), request.cluster.epoch)
    return axis(start, end, max(300.0, (end - start) / 500)) if end >= start else ()


def _found(
    request: Request, parameters: dict[str, str], pairs: list[tuple[str, str]], effect: Effect
) -> list[Labels]:
    selectors = [value for name, value in pairs if name == "match[]"] or ['{__name__=~".+"}']
    times = _window(request, parameters)
    found: list[Labels] = []
    for selector in selectors if times else ():
        query = _Query(request.cluster.telemetry, promql.parse(selector), times, effect)
        found += [labels for labels, _parts in query.series()]
    return found


def _success(data: object) -> bytes:
    return msgspec.json.encode({"status": "success", "data": data})


def _series(
    request: Request, parameters: dict[str, str], pairs: list[tuple[str, str]], effect: Effect
) -> bytes:
    if not any(name == "match[]" for name, _value in pairs):
        raise promql.QueryError("no match[] parameter provided")
    return _success(_found(request, parameters, pairs, effect))


def _labels(
    request: Request, parameters: dict[str, str], pairs: list[tuple[str, str]], effect: Effect
) -> bytes:
    return _success(
        sorted({name for labels in _found(request, parameters, pairs, effect) for name in labels})
    )


def _label_values(
    request: Request, parameters: dict[str, str], pairs: list[tuple[str, str]], effect: Effect
) -> bytes:
    parts = request.path.split("/")
    if len(parts) != 6 or parts[5] != "values":
        raise statuses.no_such_path()
    found = _found(request, parameters, pairs, effect)
    return _success(sorted({labels[parts[4]] for labels in found if parts[4] in labels}))


def _targets(
    request: Request, _parameters: dict[str, str], _pairs: list[tuple[str, str]], _effect: Effect
) -> bytes:
    telemetry, now = request.cluster.telemetry, request.cluster.now()
    active = [
        {"labels": labels, "health": "up" if telemetry.up(node, now) else "down"}
        for (node, _job), labels in targets(telemetry).items()
    ]
    return _success({"activeTargets": active, "droppedTargets": []})


def _metadata(
    _request: Request, _parameters: dict[str, str], _pairs: list[tuple[str, str]], _effect: Effect
) -> bytes:
    return _success(
        {name: [{"type": one.kind, "help": one.help, "unit": ""}] for name, one in METRICS.items()}
    )


def _status(
    request: Request, _parameters: dict[str, str], _pairs: list[tuple[str, str]], _effect: Effect
) -> bytes:
    if not request.path.endswith("/buildinfo"):
        raise statuses.no_such_path()
    return _success({"version": "3.5.0", "revision": "simulated", "branch": "HEAD", "goVersion": "go1.26.1"})


_ROUTES = {
    "query": _query,
    "query_range": _query_range,
    "series": _series,
    "labels": _labels,
    "label": _label_values,
    "targets": _targets,
    "metadata": _metadata,
    "status": _status,
}


# ---- the exporter ---------------------------------------------------------------------------------------------
def exporter(request: Request) -> None:
    """All NVIDIA nodes' series as their exporters print them, for a real Prometheus to scrape."""
    _present(request)
    effect = request.cluster.faults.effect("metrics", "get")
    _before(request, effect)
    now = request.cluster.now()
    lines: dict[Metric, list[str]] = {metric: [] for metric in DCGM.metrics}
    telemetry = request.cluster.telemetry
    with telemetry.lock:
        for instance in () if effect.empty else telemetry.instances:
            if instance.exporter is DCGM:
                _print(telemetry, instance, now, effect, lines)
    text = "".join(
        f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n" + "\n".join(found) + "\n"
        for metric, found in lines.items()
        if found
    )
    request.answer(text.encode(), content_type="text/plain; version=0.0.4; charset=utf-8", effect=effect)


def _print(
    telemetry: Telemetry, instance: Instance, now: float, effect: Effect, lines: dict[Metric, list[str]]
) -> None:
    for run in telemetry.runs(instance, (now,)):
        activity = telemetry.activity(run.use, (now,), run)
        for view in telemetry.views(instance, run, (now,)):
            shown = {**instance.labels_at(now), **_pod_labels(DCGM, view.user, {})}
            labels = ",".join(f'{name}="{value}"' for name, value in shown.items())
            user = view.user if view.parts else None
            for metric, found in lines.items():
                texts = telemetry.texts(metric, instance, run, (now,), activity, user)
                if texts is not None:
                    found.append(f"{metric.name}{{{labels}}} {effect.value or texts[0]}")
