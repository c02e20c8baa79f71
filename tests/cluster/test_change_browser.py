"""Each field that can be edited, from the form in a browser to what the collectors see in a real cluster: asked for by one
person, approved by another, checked and written by the worker's own code, observed.

Volcano's controller does not run on every cluster that serves its kinds: what it would do about a Command is done by the
test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from kubernetes.client import ApiClient, CustomObjectsApi

from apps.accounts.models import User
from apps.changes import audit, observing
from apps.changes.models import ChangeRequest, State
from apps.fleet.models import Cluster
from apps.observations.retention import keep_observation_partitions
from tests.browser.conftest import chromium  # noqa: F401  the one that pages are looked at with
from worker.appliers.work import carry_on
from worker.clients.kube import KubeClient
from worker.clients.writes import KubeWriter
from worker.collectors.run import collect_source
from worker.parsers.kinds import KINDS

from .access import CONTEXT, KUBECONFIG, require_cluster
from .stage import GPU, VOLCANO, Stage

require_cluster()
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(240),
]
ALONE = True
H100 = f"h100:{GPU}"
Spec = dict[str, Any]


def cell(spec: Spec, flavor: str = "h100", resource: str = GPU) -> Spec:
    return next(
        (
            one
            for group in spec.get("resourceGroups") or ()
            for part in group["flavors"]
            if part["name"] == flavor
            for one in part["resources"]
            if one["name"] == resource
        ),
        {},
    )


def parent(spec: Spec, name: str) -> str:
    return str(spec.get(f"{name}Name") or spec.get(name) or "")


@dataclass(frozen=True)
class Case:
    """`fields`: what is typed or chosen; `boxes`: what is ticked; `reads`: what the live spec has to say then."""

    kind: str
    name: str
    fields: dict[str, str]
    reads: Callable[[Spec], Any]
    expected: Any
    boxes: tuple[str, ...] = field(default=())


P = "{p}"
CASES = [
    Case("ClusterQueue", "team", {f"nominal:{H100}": "12"}, lambda s: cell(s)["nominalQuota"], "12"),
    Case("ClusterQueue", "team", {f"borrowing_limit:{H100}": "6"}, lambda s: cell(s)["borrowingLimit"], "6"),
    Case("ClusterQueue", "team", {f"lending_limit:{H100}": "5"}, lambda s: cell(s)["lendingLimit"], "5"),
    Case("ClusterQueue", "team", {f"borrowing_limit:{H100}": ""}, lambda s: cell(s).get("borrowingLimit"), None),
    Case("ClusterQueue", "team", {"fair_weight": "3"}, lambda s: s["fairSharing"]["weight"], "3"),
    Case("ClusterQueue", "team", {"parent": f"{P}-other"}, lambda s: parent(s, "cohort"), f"{P}-other"),
    Case("ClusterQueue", "team", {"stop_policy": "Hold"}, lambda s: s["stopPolicy"], "Hold"),
    Case(
        "ClusterQueue", "team", {"within_cluster_queue": "LowerPriority"},
        lambda s: s["preemption"]["withinClusterQueue"], "LowerPriority",
    ),
    Case(
        "ClusterQueue", "team", {"reclaim_within_cohort": "LowerPriority"},
        lambda s: s["preemption"]["reclaimWithinCohort"], "LowerPriority",
    ),
    Case(
        "ClusterQueue", "team",
        {"reclaim_within_cohort": "Any", "borrow_within_cohort": "LowerPriority", "max_priority_threshold": "50"},
        lambda s: s["preemption"]["borrowWithinCohort"], {"policy": "LowerPriority", "maxPriorityThreshold": 50},
    ),
    Case(
        "ClusterQueue", "team", {"when_can_borrow": "TryNextFlavor", "when_can_preempt": "MayStopSearch"},
        lambda s: [s["flavorFungibility"][name] for name in ("whenCanBorrow", "whenCanPreempt")],
        ["TryNextFlavor", "MayStopSearch"],
    ),
    Case(
        "ClusterQueue", "team", {"new_flavor": "spot", "new_resource": GPU, "new_nominal": "2"},
        lambda s: cell(s, "spot")["nominalQuota"], "2",
    ),
    Case("ClusterQueue", "team", {}, lambda s: cell(s, "a100"), {}, boxes=("remove:a100",)),
    Case("ClusterQueue", "team", {}, lambda s: cell(s, resource="cpu"), {}, boxes=("remove-resource:cpu",)),
    Case("Cohort", "org", {f"nominal:{H100}": "6"}, lambda s: cell(s)["nominalQuota"], "6"),
    Case("Cohort", "org", {"parent": f"{P}-top"}, lambda s: parent(s, "parent"), f"{P}-top"),
    Case("Cohort", "org", {"fair_weight": "2"}, lambda s: s["fairSharing"]["weight"], "2"),
    Case("LocalQueue", "team", {"stop_policy": "HoldAndDrain"}, lambda s: s["stopPolicy"], "HoldAndDrain"),
    Case("VolcanoQueue", "vol", {"weight": "5"}, lambda s: s["weight"], 5),
    Case("VolcanoQueue", "vol", {"priority": "7"}, lambda s: s["priority"], 7),
    Case("VolcanoQueue", "vol", {f"capability:{GPU}": "12"}, lambda s: s["capability"][GPU], "12"),
    Case("VolcanoQueue", "vol", {f"deserved:{GPU}": "6"}, lambda s: s["deserved"][GPU], "6"),
    Case("VolcanoQueue", "vol", {f"guarantee:{GPU}": "3"}, lambda s: s["guarantee"]["resource"][GPU], "3"),
]  # fmt: skip


def named(case: Case) -> str:
    return f"{case.kind}-{'-'.join([*case.fields, *case.boxes])}"


@dataclass
class Desk:
    """A portal over the real cluster, and two admins at it."""

    stage: Stage
    cluster: Cluster
    writer: KubeWriter
    client: KubeClient
    api: CustomObjectsApi
    open_page: Callable[[str], Any]

    def collect(self) -> None:
        for source in ("nodes", "kueue", "volcano"):
            run = collect_source(cluster=self.cluster, source=source, now=timezone.now(), seconds=60)
            assert run.outcome in ("ok", "partial"), run.error

    def object(self, kind: str, name: str) -> str:
        full = self.stage.name(name)
        return f"LocalQueue/{self.stage.namespace}/{full}" if kind == "LocalQueue" else f"{kind}/{full}"

    def spec(self, kind: str, name: str) -> Spec:
        known = KINDS[kind]
        version = next(v for v in known.versions if v in self.client.served_versions(known.group))
        where = f"namespaces/{self.stage.namespace}/" if kind == "LocalQueue" else ""
        path = f"/apis/{known.group}/{version}/{where}{known.plural}/{self.stage.name(name)}"
        return self.writer.read(path).spec


@pytest.fixture(scope="module")
def stage(writer: ApiClient, kueue: str, client: KubeClient) -> Iterator[Stage]:
    if VOLCANO[1] not in client.served_versions(VOLCANO[0]):
        pytest.skip("this cluster does not serve Volcano's queues")
    made = Stage(writer, kueue)
    made.open()
    try:
        _furnish(made, kueue)
        yield made
    finally:
        made.clear()


def _furnish(stage: Stage, version: str) -> None:
    cohort = "cohortName" if version == "v1beta2" else "cohort"
    quota = {"name": GPU, "nominalQuota": "4"}
    cards = {"coveredResources": [GPU], "flavors": [{"name": "h100", "resources": [quota]}]}
    stage.make("Cohort", "top")
    stage.make("Cohort", "other")
    stage.make("Cohort", "org", {"resourceGroups": [cards]})
    flavors = [
        {
            "name": name,
            "resources": [
                {"name": "cpu", "nominalQuota": "64"},
                {"name": GPU, "nominalQuota": "8", **limits},
            ],
        }
        for name, limits in (("h100", {"borrowingLimit": "4", "lendingLimit": "6"}), ("a100", {}))
    ]
    stage.make(
        "ClusterQueue",
        "team",
        {
            "namespaceSelector": {},
            cohort: stage.name("org"),
            "resourceGroups": [{"coveredResources": ["cpu", GPU], "flavors": flavors}],
        },
    )
    stage.make("LocalQueue", "team", {"clusterQueue": stage.name("team")})
    amounts = {"capability": {GPU: "16"}, "deserved": {GPU: "8"}, "guarantee": {"resource": {GPU: "2"}}}
    stage.volcano_queue("vol", {"weight": 1, "reclaimable": True, **amounts}, state="Open")


@pytest.fixture
def desk(
    stage: Stage,
    client: KubeClient,
    writer: ApiClient,
    live_server: Any,
    chromium: Any,  # noqa: F811
) -> Iterator[Desk]:
    keep_observation_partitions(now=timezone.now())
    cluster = Cluster.objects.create(
        slug="real", name="Real", kubeconfig_path=KUBECONFIG, kube_context=CONTEXT
    )
    contexts = []

    def open_page(who: str) -> Any:
        person = User.objects.filter(username=who).first() or User.objects.create(
            username=who, role=User.Role.PLATFORM_ADMIN, password="!"
        )
        session = Client()
        session.force_login(person)
        context = chromium.new_context(base_url=live_server.url, viewport={"width": 1440, "height": 900})
        context.add_cookies(
            [{"name": "sessionid", "value": session.cookies["sessionid"].value, "url": live_server.url}]
        )
        contexts.append(context)
        return context.new_page()

    found = Desk(stage, cluster, KubeWriter(client), client, CustomObjectsApi(writer), open_page)
    found.collect()
    yield found
    for context in contexts:
        context.close()


def ask(page: Any, desk: Desk, case: Case) -> ChangeRequest:
    page.goto(f"/changes/new/?cluster=real&object={desk.object(case.kind, case.name)}")
    page.eval_on_selector_all("main details", "all => all.forEach(one => one.open = true)")
    for name, value in case.fields.items():
        place = page.locator(f'[name="{name}"]')
        value = value.replace(P, desk.stage.prefix)
        if place.evaluate("one => one.tagName") == "SELECT":
            place.select_option(value)
        else:
            place.fill(value)
    for name in case.boxes:
        page.check(f'[name="{name}"]')
    page.fill('[name="reason"]', "to see it in a real cluster")
    page.click('button:not(.visually-hidden)[name="do"][value="save"]')
    page.wait_for_url("**/changes/*/")
    request = ChangeRequest.objects.get()
    assert page.url.endswith(f"/changes/{request.pk}/")
    return request


def press(page: Any, request: ChangeRequest, do: str) -> None:
    page.goto(f"/changes/{request.pk}/")
    page.click(f'button[name="do"][value="{do}"]')
    page.wait_for_load_state()


def observed(desk: Desk, request: ChangeRequest) -> str:
    desk.collect()
    observing.observe(timezone.now())
    return str(ChangeRequest.objects.get(pk=request.pk).state)


def go_through(desk: Desk, case: Case) -> ChangeRequest:
    asker, approver = desk.open_page("asker"), desk.open_page("approver")
    request = ask(asker, desk, case)
    assert carry_on(request.pk) == State.CHECKED
    report = ChangeRequest.objects.get(pk=request.pk).report or {}
    assert (report["refusals"], {one["verdict"] for one in report["dry_run"]}) == ([], {"accepted"})
    press(asker, request, "submit")
    press(approver, request, "approve")
    return request


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_field_goes_from_the_form_into_the_cluster(desk: Desk, case: Case) -> None:
    request = go_through(desk, case)
    assert carry_on(request.pk) == State.APPLIED
    expected = (
        case.expected.replace(P, desk.stage.prefix) if isinstance(case.expected, str) else case.expected
    )
    assert case.reads(desk.spec(case.kind, case.name)) == expected
    assert observed(desk, request) == State.OBSERVED
    assert audit.verify() is None


def test_a_volcano_queue_is_closed_by_a_command(desk: Desk) -> None:
    request = go_through(desk, Case("VolcanoQueue", "vol", {"state": "Closed"}, dict, None))
    assert carry_on(request.pk) == State.APPLYING
    listed: Any = desk.api.list_namespaced_custom_object("bus.volcano.sh", "v1alpha1", "default", "commands")
    own = [one for one in listed["items"] if one["target"]["name"] == desk.stage.name("vol")]
    assert [one["action"] for one in own] == ["CloseQueue"]
    queue = (*VOLCANO, "queues", desk.stage.name("vol"))
    desk.api.patch_cluster_custom_object_status(*queue, {"status": {"state": "Closed"}})
    desk.api.delete_namespaced_custom_object(
        "bus.volcano.sh", "v1alpha1", "default", "commands", own[0]["metadata"]["name"]
    )
    assert carry_on(request.pk) == State.APPLIED
    assert observed(desk, request) == State.OBSERVED
