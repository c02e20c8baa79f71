"""What the demo's fleet has, against numbers counted by hand in fleet.yaml and devices.yaml."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from simcluster.engine.dra import PLACEMENTS
from simcluster.exporters import ENGINE, USED, XID
from simcluster.testing import Running, running
from simcluster.tests.libraries import PrometheusConnect

EPOCH = 1_795_500_000
# h100 64 + 8 + fabric 24 + spot 24 + uncut cards of h100-mig 8 + notebook 56 + halfcut 0
# + a100 64 + qa 8 + hpc 16 + gb200 16 + mps 80 + hami 40 + shared 48 + renamed 0 + v100 4 + dual 8 = 468,
# less one that v100-legacy-01's plugin does not list and eight of a100-07, whose plugin is gone.
CAPACITY = {
    "nvidia.com/gpu": 468 - 1 - 8,
    "nvidia.com/gpu.shared": 32,
    "nvidia.com/mig-1g.10gb": 28,
    "nvidia.com/mig-3g.40gb": 8,
    "amd.com/gpu": 16,
    "amd.com/cpx_nps4": 64,
    "huawei.com/Ascend910": 16,
    "habana.ai/gaudi": 8,
    "gpu.intel.com/i915": 4,
    "gpu.intel.com/i915_monitoring": 1,
    "google.com/tpu": 4,
    "aws.amazon.com/neuron": 16,
    "aws.amazon.com/neuroncore": 32,
    "aws.amazon.com/neurondevice": 16,
    "example.com/xpu": 4,
    "rdma/hca_shared_devices_a": 3 * 8 + 4 * 4,
}


@pytest.fixture(scope="module")
def fortnight() -> Iterator[Running]:
    """Always at the same time of day: when work comes and goes depends on it."""
    with running(scenario=True, days=14, clock=lambda: float(EPOCH + 14 * 86400)) as made:
        yield made


@pytest.fixture(scope="module")
def nodes(fortnight: Running) -> dict[str, dict[str, Any]]:
    return {node["metadata"]["name"]: node for node in fortnight.store.objects("Node")}


def taints(node: dict[str, Any]) -> set[tuple[str, str]]:
    return {(taint["key"], taint["effect"]) for taint in node["spec"].get("taints", ())}


# ---- nodes ------------------------------------------------------------------------------------------------------
def test_capacity_of_the_whole_fleet(nodes: dict[str, dict[str, Any]]) -> None:
    sums: Counter[str] = Counter()
    for node in nodes.values():
        for resource, amount in node["status"]["capacity"].items():
            if "/" in resource:
                sums[resource] += int(amount)
    assert dict(sums) == CAPACITY


def test_a_lost_plugin_leaves_labels_and_a_zero(nodes: dict[str, dict[str, Any]]) -> None:
    node = nodes["a100-07"]
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "0"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "0"
    assert node["metadata"]["labels"]["nvidia.com/gpu.count"] == "8"
    assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "True"


def test_a_card_that_the_plugin_lost_is_still_seen(
    fortnight: Running, nodes: dict[str, dict[str, Any]]
) -> None:
    node = nodes["v100-legacy-01"]
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "3"
    assert node["metadata"]["labels"]["nvidia.com/gpu.count"] == "4"
    client = PrometheusConnect(url=fortnight.prometheus_url)
    assert len(client.custom_query(f'{USED}{{Hostname="v100-legacy-01"}}')) == 4


def test_a_card_that_fell_off_the_bus_is_counted_and_not_seen(
    fortnight: Running, nodes: dict[str, dict[str, Any]]
) -> None:
    node = nodes["h100-09"]["status"]
    assert (node["capacity"]["nvidia.com/gpu"], node["allocatable"]["nvidia.com/gpu"]) == ("8", "7")
    client = PrometheusConnect(url=fortnight.prometheus_url)
    seen = client.custom_query(f'{USED}{{Hostname="h100-09"}}')
    assert sorted(one["metric"]["gpu"] for one in seen) == list("0123456")
    end = datetime.fromtimestamp(fortnight.cluster.epoch + 86400 * 4.3 + 100, tz=UTC)
    (one,) = client.custom_query(
        f'{XID}{{Hostname="h100-09",gpu="7"}}', params={"time": str(end.timestamp())}
    )
    assert one["value"][1] == "79"


def test_cards_that_nobody_offers_are_seen_all_the_same(
    fortnight: Running, nodes: dict[str, dict[str, Any]]
) -> None:
    node = nodes["l4-studio-01"]
    assert not any(resource.startswith("nvidia.com/") for resource in node["status"]["capacity"])
    assert "nvidia.com/gpu.count" not in node["metadata"]["labels"]
    client = PrometheusConnect(url=fortnight.prometheus_url)
    assert len(client.custom_query(f'{USED}{{Hostname="l4-studio-01"}}')) == 2


def test_an_invalid_geometry_offers_nothing(nodes: dict[str, dict[str, Any]]) -> None:
    labels = nodes["h100-halfcut-01"]["metadata"]["labels"]
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3-MIG-INVALID"
    assert (labels["nvidia.com/gpu.count"], labels["nvidia.com/gpu.replicas"]) == ("0", "0")
    assert labels["nvidia.com/gpu.sharing-strategy"] == ""
    assert nodes["h100-halfcut-01"]["status"]["capacity"]["nvidia.com/gpu"] == "0"


def test_splits_are_registered_and_unknown_to_feature_discovery(nodes: dict[str, dict[str, Any]]) -> None:
    node = nodes["l40s-hami-01"]
    cards = node["metadata"]["annotations"]["hami.io/node-nvidia-register"].split(":")[:-1]
    assert len(cards) == 4
    assert [card.split(",")[1:] for card in cards] == [
        ["10", "46068", "100", "NVIDIA-NVIDIA L40S", numa, "true"] for numa in "0011"
    ]
    labels = node["metadata"]["labels"]
    assert (labels["nvidia.com/gpu.count"], labels["nvidia.com/gpu.sharing-strategy"]) == ("4", "none")
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "40"


def test_taints_of_nodes_that_are_out(nodes: dict[str, dict[str, Any]]) -> None:
    assert taints(nodes["h100-spot-03"]) == {("spot", "NoSchedule"), ("karpenter.sh/disrupted", "NoSchedule")}
    assert taints(nodes["a100-qa-01"]) == {("reserved-for", "NoSchedule")}
    assert taints(nodes["tpu-01"]) == {("google.com/tpu", "NoSchedule")}


def test_driver_upgrades_are_under_way_and_done(nodes: dict[str, dict[str, Any]]) -> None:
    state = "nvidia.com/gpu-driver-upgrade-state"
    waiting, done = nodes["a100-08"], nodes["a100-hpc-02"]
    assert waiting["metadata"]["labels"][state] == "wait-for-jobs-required"
    assert waiting["spec"]["unschedulable"] is True
    assert done["metadata"]["labels"][state] == "upgrade-done"
    assert done["metadata"]["labels"]["nvidia.com/cuda.driver-version.full"] == "570.133.20"
    assert "unschedulable" not in done["spec"]


def test_the_drivers_new_version_is_a_new_series(fortnight: Running) -> None:
    client = PrometheusConnect(url=fortnight.prometheus_url)
    end = datetime.fromtimestamp(fortnight.cluster.now(), tz=UTC)
    query = f'{USED}{{Hostname="a100-hpc-02",gpu="0"}}'
    found = client.custom_query_range(query, end - timedelta(days=13), end, "3600s")
    times: dict[str, list[float]] = {}
    for one in found:
        times.setdefault(one["metric"]["DCGM_FI_DRIVER_VERSION"], []).extend(
            at for at, _text in one["values"]
        )
    changed = fortnight.cluster.epoch + 86400 * 3.1 + 3600 * 6
    assert set(times) == {"570.124.06", "570.133.20"}
    assert max(times["570.124.06"]) < changed <= min(times["570.133.20"])


def test_one_nodes_software_is_older(nodes: dict[str, dict[str, Any]]) -> None:
    kubelets = Counter(node["status"]["nodeInfo"]["kubeletVersion"] for node in nodes.values())
    assert kubelets == {"v1.36.3": 58, "v1.35.4": 1}
    info = nodes["h100-08"]["status"]["nodeInfo"]
    assert (info["kubeletVersion"], info["kernelVersion"]) == ("v1.35.4", "5.15.0-1068-generic")
    assert nodes["h100-08"]["metadata"]["labels"]["nvidia.com/cuda.driver-version.major"] == "550"


def test_nvlink_domains_and_rdma(nodes: dict[str, dict[str, Any]]) -> None:
    cliques = Counter(node["metadata"]["labels"].get("nvidia.com/gpu.clique") for node in nodes.values())
    assert sorted(n for clique, n in cliques.items() if clique) == [2, 2]
    with_rdma = {
        name for name, node in nodes.items() if "rdma/hca_shared_devices_a" in node["status"]["capacity"]
    }
    assert with_rdma == {f"h100-fabric-0{n}" for n in (1, 2, 3)} | {f"gb200-0{n}" for n in (1, 2, 3, 4)}
    spot = {
        n for n, node in nodes.items() if node["metadata"]["labels"]["karpenter.sh/capacity-type"] == "spot"
    }
    assert spot == {"h100-spot-01", "h100-spot-02", "h100-spot-03", "gb200-03"}


# ---- work -------------------------------------------------------------------------------------------------------
def bound(fortnight: Running, app: str) -> list[dict[str, Any]]:
    return [
        pod
        for pod in fortnight.store.objects("Pod")
        if pod["metadata"]["labels"].get("app") == app and pod["status"]["phase"] == "Running"
    ]


def test_a_group_spans_spot_and_others(fortnight: Running) -> None:
    pods = bound(fortnight, "nvl-pretrain")
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == ["gb200-01", "gb200-02", "gb200-03"]
    assert len({pod["metadata"]["labels"]["training.kubeflow.org/job-name"] for pod in pods}) == 1


def test_two_teams_hold_cards_that_do_nothing(fortnight: Running) -> None:
    """For hours at noise level, not at zero, with their memory taken."""
    client = PrometheusConnect(url=fortnight.prometheus_url)
    end = datetime.fromtimestamp(fortnight.cluster.now(), tz=UTC)
    for app, team, cards in (("label-review", "vision", 2), ("voice-sandbox", "speech", 1)):
        (pod,) = bound(fortnight, app)
        labels = f'exported_namespace="{team}",exported_pod="{pod["metadata"]["name"]}"'
        found = client.custom_query_range(f"{ENGINE}{{{labels}}}", end - timedelta(hours=3), end, "60s")
        assert len(found) == cards
        values = [float(text) for one in found for _at, text in one["values"]]
        assert len(values) >= cards * 150
        assert 0 < max(values) <= 0.01
        held = client.custom_query(f"{USED}{{{labels}}}")
        assert all(float(one["value"][1]) > 10_000 for one in held)


# ---- DRA --------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def slices(fortnight: Running) -> dict[str, list[dict[str, Any]]]:
    """GPU slices by pool."""
    found: dict[str, list[dict[str, Any]]] = {}
    for one in fortnight.store.objects("ResourceSlice"):
        if one["spec"]["driver"] == "gpu.nvidia.com":
            found.setdefault(one["spec"]["pool"]["name"], []).append(one)
    return found


def test_pools_are_complete(slices: dict[str, list[dict[str, Any]]]) -> None:
    # One slice for all counters of dra-02 and one for each of its four cards.
    assert {pool: len(found) for pool, found in slices.items()} == {
        "dra-01": 1,
        "dra-02": 5,
        "dra-dual-01": 1,
    }
    for found in slices.values():
        assert {one["spec"]["pool"]["resourceSliceCount"] for one in found} == {len(found)}


def test_slices_name_the_cards_that_telemetry_sees(
    fortnight: Running, slices: dict[str, list[dict[str, Any]]]
) -> None:
    client = PrometheusConnect(url=fortnight.prometheus_url)
    for pool, cards in (("dra-01", 8), ("dra-02", 4), ("dra-dual-01", 8)):
        attributes = [d["attributes"] for one in slices[pool] for d in one["spec"].get("devices", ())]
        uuids = {a["uuid"]["string"] for a in attributes if "uuid" in a}
        parents = {a["parentUUID"]["string"] for a in attributes if "parentUUID" in a}
        seen = {one["metric"]["UUID"] for one in client.custom_query(f'{USED}{{hostname="{pool}"}}')}
        assert uuids == seen
        assert parents <= uuids
        assert len(uuids) == cards


def test_a_card_is_offered_whole_and_in_every_placement(slices: dict[str, list[dict[str, Any]]]) -> None:
    # 1 whole, 7 × 1g.10gb, 4 × 1g.20gb, 3 × 2g.20gb, 2 × 3g.40gb, 1 × 4g.40gb, 1 × 7g.80gb
    assert sum(len(placement.starts) for placement in PLACEMENTS) == 18
    devices = [len(one["spec"]["devices"]) for one in slices["dra-02"] if "devices" in one["spec"]]
    assert devices == [19] * 4


def test_claims_never_take_more_than_the_counters_have(
    fortnight: Running, slices: dict[str, list[dict[str, Any]]]
) -> None:
    have: Counter[tuple[str, str]] = Counter()
    takes: dict[str, list[tuple[str, str, int]]] = {}
    for one in slices["dra-02"]:
        for counters in one["spec"].get("sharedCounters", ()):
            for name, amount in counters["counters"].items():
                have[counters["name"], name] = int(amount["value"].removesuffix("Mi"))
        for device in one["spec"].get("devices", ()):
            takes[device["name"]] = [
                (part["counterSet"], name, int(amount["value"].removesuffix("Mi")))
                for part in device["consumesCounters"]
                for name, amount in part["counters"].items()
            ]
    taken: Counter[tuple[str, str]] = Counter()
    for device in held(fortnight, "dra-02"):
        for counters, name, amount in takes[device]:
            taken[counters, name] += amount
    assert taken["gpu-0-counter-set", "memory-slice-7"] == 1
    assert all(amount <= have[key] for key, amount in taken.items())


def held(fortnight: Running, pool: str) -> list[str]:
    """Devices of a pool that claims hold; a look by the administrator holds none."""
    return [
        result["device"]
        for claim in fortnight.store.objects("ResourceClaim")
        for result in claim["status"]["allocation"]["devices"]["results"]
        if result["pool"] == pool and not result.get("adminAccess")
    ]


def test_who_holds_what(fortnight: Running) -> None:
    assert sorted(held(fortnight, "dra-01")) == ["gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4"]
    claims = {claim["metadata"]["name"]: claim for claim in fortnight.store.objects("ResourceClaim")}
    pods = {pod["metadata"]["uid"]: pod for pod in fortnight.store.objects("Pod")}
    for claim in claims.values():
        for user in claim["status"].get("reservedFor", ()):
            assert pods[user["uid"]]["metadata"]["namespace"] == claim["metadata"]["namespace"]
    assert len(claims["embedder"]["status"]["reservedFor"]) == 2
    assert "reservedFor" not in claims["cryo-scratch"]["status"]
    assert {r["pool"] for r in claims["old-sweep"]["status"]["allocation"]["devices"]["results"]} == {
        "dra-00"
    }
    assert len(claims["dcgm-dra"]["status"]["allocation"]["devices"]["results"]) == 8


def test_an_extended_resource_is_served_by_a_claim(fortnight: Running) -> None:
    (pod,) = bound(fortnight, "asr-live")
    served = pod["status"]["extendedResourceClaimStatus"]
    assert pod["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] == "1"
    assert served["requestMappings"][0]["resourceName"] == "nvidia.com/gpu"
    claim = fortnight.store.get("ResourceClaim", served["resourceClaimName"], "speech")
    assert claim is not None
    assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}


def test_a_broken_device_is_tainted(slices: dict[str, list[dict[str, Any]]]) -> None:
    tainted = [d for d in slices["dra-01"][0]["spec"]["devices"] if "taints" in d]
    assert [(d["name"], d["taints"][0]["key"], d["taints"][0]["value"]) for d in tainted] == [
        ("gpu-7", "gpu.nvidia.com/xid", "95")
    ]
