"""The page's CSV and REST answer the same question in the same way: one form, one narrowing, the same rows."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from apps.admissions.filters import WaitingForm
from apps.api.admission_failures import AdmissionFailuresView
from apps.api.nodes import NodesView
from apps.api.queues import QueuesView
from apps.api.quotas import QuotasView
from apps.api.stack import StackView
from apps.api.tests.world import GPU, World, workload
from apps.api.topology import TopologyView
from apps.capacity.filters import NodeForm, StackForm
from apps.capacity.topology_filters import TopologyForm
from apps.observations.models import ClusterObject, Node
from apps.quotas.filters import QueueFilterForm

from .test_pages import download

QUERIES = [
    "",
    "everything=on",
    "q=RED",
    "q=red&everything=on",
    "q=nothing",
    "team=blue",
    "cluster=east&q=all",
]


def listed(world: World, path: str) -> list[dict[str, str]]:
    head, *rows = download(world.client("admin"), path)
    return [dict(zip(head, row, strict=True)) for row in rows]


def answered(world: World, path: str) -> list[dict[str, Any]]:
    answer = world.client("admin").get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.content
    rows: list[dict[str, Any]] = answer.json()["results"]
    return rows


@pytest.mark.parametrize(
    ("module", "view", "form"),
    [
        ("queues", QueuesView, QueueFilterForm),
        ("queues", QuotasView, QueueFilterForm),
        ("capacity", NodesView, NodeForm),
        ("stack", StackView, StackForm),
        ("topology", TopologyView, TopologyForm),
        ("admissions", AdmissionFailuresView, WaitingForm),
    ],
)
def test_page_and_rest_take_the_same_form(module: str, view: Any, form: type) -> None:
    assert view.filter_class is form
    assert getattr(importlib.import_module(f"apps.console.{module}"), form.__name__) is form


@pytest.fixture
def with_cpu(world: World) -> World:
    """red-cq also has quota of CPU, and a flavor in which it has nothing of the kind."""
    queue = ClusterObject.objects.get(kind="ClusterQueue", name="red-cq")
    empty = {"borrowing_limit": "0", "lending_limit": None}
    queue.spec["resource_groups"] = [
        {
            "covered": [GPU, "cpu"],
            "flavors": [
                {
                    "name": "h100",
                    "resources": [
                        {"name": GPU, "nominal": "8", "borrowing_limit": None, "lending_limit": None},
                        {"name": "cpu", "nominal": "64", "borrowing_limit": None, "lending_limit": None},
                    ],
                },
                {
                    "name": "plain",
                    "resources": [
                        {"name": GPU, "nominal": "0", **empty},
                        {"name": "cpu", "nominal": "16", "borrowing_limit": None, "lending_limit": None},
                    ],
                },
            ],
        }
    ]
    queue.save()
    return world


@pytest.mark.parametrize("query", QUERIES)
def test_quota_rows_are_the_same(with_cpu: World, query: str) -> None:
    page = [row for row in listed(with_cpu, f"/queues/?format=csv&{query}") if row["Kind"] != "Cohort"]
    rest = answered(with_cpu, f"quotas/?{query}")
    assert {(row["Queue"], row["Flavor"], row["Resource"], row["Nominal"]) for row in page} == {
        (row["queue"], row["flavor"], row["resource"], row["nominal"]) for row in rest
    }
    nested = [row for node in answered(with_cpu, f"queues/?{query}") for row in node["quotas"]]
    assert sorted((row["queue"], row["flavor"], row["resource"]) for row in nested) == sorted(
        (row["Queue"], row["Flavor"], row["Resource"])
        for row in listed(with_cpu, f"/queues/?format=csv&{query}")
    )


def test_other_resources_come_when_they_are_asked_for(with_cpu: World) -> None:
    def resources(query: str) -> set[tuple[str, str, str]]:
        rows = answered(with_cpu, f"quotas/?{query}")
        return {(row["queue"], row["flavor"], row["resource"]) for row in rows}

    shown = {("red-cq", "h100", GPU), ("blue-cq", "h100", GPU)}
    assert resources("") == shown
    more = {("red-cq", "h100", "cpu"), ("red-cq", "plain", "cpu"), ("red-cq", "plain", GPU)}
    assert resources("everything=on") == shown | more
    assert resources("everything=on&q=Blue") == {("blue-cq", "h100", GPU)}


@pytest.mark.parametrize(
    "query",
    [
        "",
        "state=free",
        "state=held",
        "state=stranded",
        "state=out",
        "bucket=cordoned",
        "q=GPU-2",
        "model=none",
    ],
)
def test_nodes_are_the_same(world: World, query: str) -> None:
    Node.objects.filter(name="gpu-2").update(unschedulable=True)
    page = listed(world, f"/capacity/?format=csv&table=nodes&{query}")
    assert [row["Node"] for row in page] == [row["name"] for row in answered(world, f"nodes/?{query}")]


@pytest.mark.parametrize("query", ["", "team=red", "cause=quota", "q=blue", "team=-", "kind=PodGroup"])
def test_waiting_work_is_the_same(world: World, query: str) -> None:
    workload(world, "red-other", message="", reason="")
    page = {row["Workload"] for row in listed(world, f"/admissions/?format=csv&{query}")}
    assert page == {row["name"] for row in answered(world, f"admission-failures/?{query}")}


@pytest.mark.parametrize("query", ["", "cluster=east"])
def test_pools_and_sources_are_the_same(world: World, query: str) -> None:
    pools = listed(world, f"/capacity/?format=csv&table=pools&{query}")
    assert [row["Allocatable"] for row in pools] == [
        row["allocatable"] for row in answered(world, f"capacity/?{query}")
    ]
    sources = listed(world, f"/sources/?format=csv&table=sources&{query}")
    assert len(sources) == len(answered(world, f"sources/?{query}")) > 3
