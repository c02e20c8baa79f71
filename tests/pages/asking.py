"""What tests of the form of a change request share: the small fleet's objects as served, what a page and a form say."""

from __future__ import annotations

import html
import json
import re
from typing import Any

from apps.api.tests.world import GPU, World, cluster_object
from apps.changes.models import ChangeRequest
from apps.observations.models import ClusterObject
from apps.quotas.what_if_places import input_id

RED = "/changes/new/?cluster=east&object=ClusterQueue/red-cq"
NOMINAL = f"nominal:h100:{GPU}"
BORROWING = f"borrowing_limit:h100:{GPU}"
MORE = {
    "kind": "ClusterQueue",
    "name": "red-cq",
    "set": {"quotas": [{"flavor": "h100", "resource": GPU, "nominal": "12"}]},
}
STOP = {"kind": "LocalQueue", "namespace": "red-ns", "name": "red-lq", "set": {"stop_policy": "Hold"}}


def raw_queue(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": name, "uid": f"u-{name}", "resourceVersion": "7"},
        "spec": {
            "cohortName": "all",
            "resourceGroups": [
                {
                    "coveredResources": [GPU],
                    "flavors": [{"name": "h100", "resources": [{"name": GPU, "nominalQuota": "8"}]}],
                }
            ],
            "stopPolicy": "None",
            "namespaceSelector": {},
            "queueingStrategy": "BestEffortFIFO",
        },
    }


def keep_as_served(world: World) -> None:
    """Objects as a collector of today keeps them, and a cohort and a Volcano queue beside the two queues."""
    for name in ("red-cq", "blue-cq"):
        ClusterObject.objects.filter(kind="ClusterQueue", name=name).update(raw=raw_queue(name))
    ClusterObject.objects.filter(kind="LocalQueue", name="red-lq").update(
        raw={
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "metadata": {"name": "red-lq", "namespace": "red-ns", "uid": "u", "resourceVersion": "3"},
            "spec": {"clusterQueue": "red-cq", "stopPolicy": "None"},
        }
    )
    cluster_object(
        world,
        "VolcanoQueue",
        "train",
        spec={"weight": 2, "capability": {GPU: "8"}, "deserved": {GPU: "4"}, "guarantee": {}, "parent": ""},
        status={"state": "Open"},
        raw={
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "metadata": {"name": "train", "uid": "v", "resourceVersion": "5"},
            "spec": {"weight": 2, "capability": {GPU: "8"}, "deserved": {GPU: "4"}},
            "status": {"state": "Open"},
        },
    )


def page(world: World, path: str = RED, role: str = "admin", status: int = 200, **query: str) -> str:
    response = world.client(role).get(path, query) if query else world.client(role).get(path)
    assert response.status_code == status
    return html.unescape(response.content.decode())


def post(world: World, path: str = RED, role: str = "admin", **data: str) -> Any:
    return world.client(role).post(path, data)


def kept(response: Any) -> list[dict[str, Any]]:
    """The edits that travel with the form."""
    found = re.search(r'name="edits" value="([^"]*)"', response.content.decode())
    assert found is not None
    edits: list[dict[str, Any]] = json.loads(html.unescape(found[1]) or "[]")
    return edits


def beside(response: Any, name: str) -> str:
    """What is said at an input."""
    text = html.unescape(response.content.decode())
    found = re.search(rf'id="{re.escape(input_id(name))}-fault">(.*?)</span>', text)
    return found[1] if found else ""


def only() -> ChangeRequest:
    return ChangeRequest.objects.get()
