"""The configuration of Volcano's scheduler. The first is the one that Volcano's chart installs, the second that of its
documentation of hierarchical queues; expected values were read by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.parsers.base import Meta, ParseError
from worker.parsers.volcano_conf import MOST_VALUES, ConfigMap, scheduler_row

BY_CHART = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
HIERARCHY = """
actions: "enqueue, allocate, preempt, reclaim"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: capacity
    enableHierarchy: true
  - name: nodeorder
    arguments:
      leastrequested.weight: 0
      mostrequested.weight: 2.5
      resources: {nvidia.com/gpu: {type: MostAllocated, weight: 2}}
configurations:
- name: init
"""
KEY = "volcano-scheduler.conf"


def read(data: dict[str, str] | None) -> dict[str, Any]:
    meta = Meta(name="volcano-scheduler-configmap", namespace="volcano-system", uid="u", resource_version="7")
    row = scheduler_row(ConfigMap(meta, data))
    assert row[:4] == ("u", "volcano-system", "volcano-scheduler-configmap", "7")
    assert row[7] == "VolcanoScheduler"
    found: dict[str, Any] = msgspec.json.decode(row[8])
    return found


def test_what_the_chart_installs_is_proportion_in_the_second_tier() -> None:
    found = read({KEY: BY_CHART})
    assert {name: found[name] for name in ("key", "plugin", "plugins", "hierarchy", "actions")} == {
        "key": KEY,
        "plugin": "proportion",
        "plugins": ["proportion"],
        "hierarchy": False,
        "actions": ["enqueue", "allocate", "backfill"],
    }
    assert [[option["name"] for option in tier] for tier in found["tiers"]] == [
        ["priority", "gang", "conformance"],
        ["overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack"],
    ]
    assert found["tiers"][0][1] == {
        "name": "gang",
        "arguments": {},
        "switches": {"enablePreemptable": False},
    }


def test_capacity_with_a_hierarchy_and_arguments_of_any_shape() -> None:
    found = read({KEY: HIERARCHY})
    assert (found["plugin"], found["hierarchy"]) == ("capacity", True)
    assert found["actions"] == ["enqueue", "allocate", "preempt", "reclaim"]
    assert found["tiers"][1][2]["arguments"] == {
        "leastrequested.weight": "0",
        "mostrequested.weight": "2.5",
        "resources": {"nvidia.com/gpu": {"type": "MostAllocated", "weight": "2"}},
    }


def tiers(*plugins: str) -> str:
    lines = "\n".join(f"- plugins: [{each}]" for each in plugins)
    return f"actions: allocate\ntiers:\n{lines}\n"


@pytest.mark.parametrize(
    ("conf", "plugin", "plugins", "hierarchy"),
    [
        (tiers("{name: gang}, {name: capacity}"), "capacity", ["capacity"], False),
        (tiers("{name: gang}", "{name: drf}"), "", [], False),
        (tiers("{name: capacity}", "{name: proportion}"), "", ["capacity", "proportion"], False),
        # twice: one plugin all the same, with the switches of where it stands first
        (tiers("{name: proportion}", "{name: proportion}"), "proportion", ["proportion"], False),
        (
            tiers("{name: capacity, enableHierarchy: true}", "{name: capacity}"),
            "capacity",
            ["capacity"],
            True,
        ),
        (
            tiers("{name: capacity}", "{name: capacity, enableHierarchy: true}"),
            "capacity",
            ["capacity"],
            False,
        ),
        ("actions: allocate", "", [], False),
        ("actions: allocate\ntiers:\n- plugins:\n", "", [], False),
    ],
)
def test_which_plugin_decides(conf: str, plugin: str, plugins: list[str], hierarchy: bool) -> None:
    found = read({KEY: conf})
    assert (found["plugin"], found["plugins"], found["hierarchy"]) == (plugin, plugins, hierarchy)


@pytest.mark.parametrize(
    ("data", "key"),
    [
        ({KEY: BY_CHART, "other": "x"}, KEY),
        ({"volcano-scheduler-ci.conf": BY_CHART}, "volcano-scheduler-ci.conf"),
        ({"volcano-scheduler-ci.conf": HIERARCHY, KEY: BY_CHART}, KEY),
        ({"mine.yaml": BY_CHART}, "mine.yaml"),
    ],
)
def test_the_key_that_is_read(data: dict[str, str], key: str) -> None:
    found = read(data)
    assert (found["key"], found["plugin"]) == (key, "proportion")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (None, "not just one key: none"),
        ({"b": BY_CHART, "a": BY_CHART}, "not just one key: a, b"),
        ({KEY: "actions: [allocate"}, "volcano-scheduler.conf: not YAML: while parsing"),
        ({KEY: "\x00"}, "not YAML"),
        ({KEY: ""}, "no configuration"),
        ({KEY: "just words"}, "no configuration"),
        ({KEY: "actions: allocate\ntiers: true"}, "no configuration of a scheduler with a list"),
        ({KEY: "tiers: []"}, "actions"),
        ({KEY: "actions: 'allocate,'"}, "actions"),
        ({KEY: "actions: [allocate]"}, "actions"),
        ({KEY: "actions: allocate\ntiers: [5]"}, "tiers[0]: no list of plugins"),
        ({KEY: tiers("{nam: gang}")}, "tiers[0].plugins[0]: no name"),
        ({KEY: tiers("{name: gang, arguments: [1]}")}, "arguments: no mapping"),
        ({KEY: f"actions: allocate\nx: {[1] * (MOST_VALUES + 1)}"}, f"more than {MOST_VALUES} values"),
        (
            {KEY: "actions: a\n" + "".join(f"x{n}: &x{n} [*x{n - 1}, *x{n - 1}]\n" for n in range(1, 40))},
            "not YAML",
        ),
        ({KEY: "actions: a\nx: &x [*x]"}, "not YAML"),
    ],
)
def test_what_the_scheduler_would_refuse_is_refused(data: dict[str, str] | None, why: str) -> None:
    with pytest.raises(ParseError) as caught:
        read(data)
    assert why in caught.value.message


def test_a_few_lines_that_stand_for_billions_of_values_are_not_taken() -> None:
    lines = ["actions: a", "x0: &x0 [1, 1]"]
    lines += [f"x{n}: &x{n} [*x{n - 1}, *x{n - 1}]" for n in range(1, 40)]
    with pytest.raises(ParseError, match="more than"):
        read({KEY: "\n".join(lines)})


@given(st.text() | st.from_regex(r"\A(!!(int|float|bool|timestamp|binary|set) .*|[a-z{}\[\]&*:, -]*)\Z"))
def test_whatever_it_says_nothing_but_a_parse_error_comes_of_it(text: str) -> None:
    try:
        read({KEY: text})
    except ParseError:
        return


@given(
    st.lists(
        st.lists(st.sampled_from(["gang", "drf", "capacity", "proportion"]), min_size=1, max_size=4),
        max_size=4,
    )
)
def test_the_plugin_is_the_only_one_of_the_two(chosen: list[list[str]]) -> None:
    found = read({KEY: tiers(*(", ".join(f"{{name: {name}}}" for name in tier) for tier in chosen))})
    listed = {name for tier in chosen for name in tier} & {"capacity", "proportion"}
    assert found["plugin"] == (next(iter(listed)) if len(listed) == 1 else "")
    assert [[option["name"] for option in tier] for tier in found["tiers"]] == chosen
