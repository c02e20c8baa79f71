"""DRA's kinds, HyperNodes and the operator's policy over HTTP: every version in its own shape."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from simcluster.testing import Running, running
from simcluster.tests.libraries import ApiException, client, config, watch

DEVICE = {"attributes": {"uuid": {"string": "GPU-1"}}, "capacity": {"memory": {"value": "80Gi"}}}
ASKED = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 2}
OBJECTS: dict[str, list[dict[str, Any]]] = {
    "DeviceClass": [
        {"metadata": {"name": "gpu.nvidia.com"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}
    ],
    "ResourceSlice": [
        {
            "metadata": {"name": "n1-gpu"},
            "spec": {
                "driver": "gpu.nvidia.com",
                "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
                "nodeName": "n1",
                "devices": [{"name": "gpu-0", **DEVICE}],
            },
        }
    ],
    "ResourceClaim": [
        {
            "metadata": {"name": "two", "namespace": "lab"},
            "spec": {"devices": {"requests": [{"name": "g", "exactly": ASKED}]}},
        }
    ],
    "DeviceTaintRule": [{"metadata": {"name": "r"}, "spec": {"taint": {"key": "k", "effect": "NoSchedule"}}}],
    "ClusterPolicy": [{"metadata": {"name": "cluster-policy"}, "spec": {"driver": {"version": "595.91.07"}}}],
    "HyperNode": [{"metadata": {"name": "rack-1"}, "spec": {"tier": 1, "members": []}}],
}
DRA = "resource.k8s.io"


@pytest.fixture(scope="module")
def devices() -> Iterator[Running]:
    with running(objects=OBJECTS) as sim:
        yield sim


@pytest.fixture(scope="module")
def custom(devices: Running) -> Any:
    return client.CustomObjectsApi(config.new_client_from_config(str(devices.kubeconfig)))


@pytest.mark.parametrize(
    ("group", "version", "plural", "name"),
    [
        (DRA, "v1", "deviceclasses", "gpu.nvidia.com"),
        (DRA, "v1", "resourceslices", "n1-gpu"),
        (DRA, "v1", "resourceclaims", "two"),
        (DRA, "v1beta2", "devicetaintrules", "r"),
        ("nvidia.com", "v1", "clusterpolicies", "cluster-policy"),
        ("topology.volcano.sh", "v1alpha1", "hypernodes", "rack-1"),
    ],
)
def test_every_kind_is_listed(custom: Any, group: str, version: str, plural: str, name: str) -> None:
    found = custom.list_cluster_custom_object(group, version, plural)
    assert [item["metadata"]["name"] for item in found["items"]] == [name]
    assert found["apiVersion"] == f"{group}/{version}"
    assert plural in {r.name for r in custom.get_api_resources(group, version).resources}


def test_the_shapes_of_v1beta1(custom: Any) -> None:
    (found,) = custom.list_cluster_custom_object(DRA, "v1beta1", "resourceslices")["items"]
    assert found["spec"]["devices"] == [{"name": "gpu-0", "basic": DEVICE}]
    (claim,) = custom.list_cluster_custom_object(DRA, "v1beta1", "resourceclaims")["items"]
    assert claim["spec"]["devices"]["requests"] == [{"name": "g", **ASKED}]
    (same,) = custom.list_cluster_custom_object(DRA, "v1beta2", "resourceclaims")["items"]
    assert same["spec"]["devices"]["requests"] == [{"name": "g", "exactly": ASKED}]


def test_a_version_that_lacks_a_kind_is_404_for_it(custom: Any) -> None:
    assert "devicetaintrules" not in {r.name for r in custom.get_api_resources(DRA, "v1").resources}
    with pytest.raises(ApiException) as caught:
        custom.list_cluster_custom_object(DRA, "v1", "devicetaintrules")
    assert caught.value.status == 404


def test_a_change_of_a_slice_is_watched(devices: Running, custom: Any) -> None:
    since = custom.list_cluster_custom_object(DRA, "v1", "resourceslices")["metadata"]["resourceVersion"]
    changed = {
        "metadata": {"name": "n2-gpu"},
        "spec": {**OBJECTS["ResourceSlice"][0]["spec"], "nodeName": "n2"},
    }
    threading.Timer(0.3, lambda: devices.store.upsert("ResourceSlice", changed)).start()
    stream = watch.Watch().stream(
        custom.list_cluster_custom_object,
        DRA,
        "v1",
        "resourceslices",
        resource_version=since,
        timeout_seconds=5,
    )
    event = next(iter(stream))
    assert (event["type"], event["object"]["spec"]["nodeName"]) == ("ADDED", "n2")
    devices.store.delete("ResourceSlice", "n2-gpu")


def test_a_cluster_without_device_objects() -> None:
    with running(objects={}, absent=["devices"]) as sim:
        api = config.new_client_from_config(str(sim.kubeconfig))
        assert not {DRA, "nvidia.com"} & {g.name for g in client.ApisApi(api).get_api_versions().groups}
        with pytest.raises(ApiException) as caught:
            client.CustomObjectsApi(api).list_cluster_custom_object(DRA, "v1", "resourceslices")
        assert caught.value.status == 404
