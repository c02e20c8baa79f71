"""Our numbers of Volcano's plugins against those that the real scheduler published, in both recorded runs.

The scheduler counts in milli-units and writes its largest number for "no limit". Only nvidia.com/gpu and cpu: the queues
say nothing of other devices.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal

import pytest

from apps.quotas.volcano_shares import QueueSpec, shares
from tests.facts.recorded import DATA, rows_of
from worker.parsers.kinds import KINDS

GPU, CPU = "nvidia.com/gpu", "cpu"
LINE = re.compile(r'volcano_queue_(\w+)\{queue_name="([^"]+)"(?:,resource="([^"]+)")?\} (\S+)')
UNLIMITED = Decimal(10) ** 15
Published = dict[tuple[str, str, str], Decimal | None]


def published(plugin: str) -> Published:
    """(what, queue, resource) → amount, None for no limit."""
    found: Published = {}
    for line in (DATA / f"volcano-{plugin}/metrics-scheduler.txt").read_text().splitlines():
        if (match := LINE.match(line)) is None:
            continue
        name, queue, resource, value = match.groups()
        for ending, kind in (("_milli_cpu", CPU), ("_scalar_resources", resource)):
            if name.endswith(ending) and kind in (CPU, GPU):
                amount = Decimal(value)
                found[name.removesuffix(ending), queue, kind] = None if amount > UNLIMITED else amount / 1000
    return found


def specs(plugin: str) -> list[QueueSpec]:
    found = []
    for row in rows_of("VolcanoQueue", f"volcano-{plugin}/queues.json"):
        named = dict(zip(KINDS["VolcanoQueue"].columns, row, strict=True))
        spec = json.loads(named["spec"])
        amounts = {
            key: {r: Decimal(n) for r, n in spec[key].items()}
            for key in ("capability", "deserved", "guarantee")
        }
        found.append(QueueSpec(named["name"], spec["parent"], spec["weight"] or 1, **amounts))
    return found


def total(plugin: str) -> dict[str, Decimal]:
    amounts = {GPU: Decimal(0), CPU: Decimal(0)}
    for row in rows_of("Node", f"volcano-{plugin}/nodes.json"):
        allocatable = json.loads(dict(zip(KINDS["Node"].columns, row, strict=True))["allocatable"])
        for resource in amounts:
            amounts[resource] += Decimal(allocatable.get(resource, "0"))
    return amounts


def asked(metrics: Published) -> dict[str, dict[str, Decimal]]:
    """What the scheduler says that each queue asks for; queues without work are not in a session's books."""
    found: dict[str, dict[str, Decimal]] = {}
    for (what, queue, resource), amount in metrics.items():
        if what == "request" and amount:
            found.setdefault(queue, {})[resource] = amount
    return found


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_deserved_is_what_the_scheduler_published(plugin: str) -> None:
    metrics = published(plugin)
    found = shares(plugin, specs(plugin), total=total(plugin), asked=asked(metrics))
    expected = {key: amount for key, amount in metrics.items() if key[0] == "deserved"}
    ours = {key: found[key[1]].deserved.get(key[2], Decimal(0)) for key in expected}
    assert ours == expected
    assert len(expected) >= 8


def test_real_capability_is_what_the_scheduler_published() -> None:
    metrics = published("capacity")
    found = shares("capacity", specs("capacity"), total=total("capacity"), asked=asked(metrics))
    expected = {key: amount for key, amount in metrics.items() if key[0] == "real_capacity"}
    assert {key: found[key[1]].real_capability.get(key[2]) for key in expected} == expected
    assert len(expected) == 18


def test_the_two_runs_tell_the_same_work_apart() -> None:
    """Production is configured with 16 and 24, and asks for 24: one plugin goes by the demand, one by the word."""
    by_plugin = {}
    for plugin in ("proportion", "capacity"):
        found = shares(plugin, specs(plugin), total=total(plugin), asked=asked(published(plugin)))
        by_plugin[plugin] = (found["production"].deserved[GPU], found["research"].deserved[GPU])
    assert by_plugin == {
        "proportion": (Decimal(24), Decimal(12)),
        "capacity": (Decimal(24), Decimal(16)),
    }
