"""Lines that exporters printed, from bug reports and documentation, and the rows that they have to become.

Every expected row was written down by hand before the parser was asked. A line is what Prometheus stores after a
scrape: target labels (`job`, `instance`, `node`) are added where the report shows them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from worker.parsers.exporters import COLUMNS, Samples, group_by_metric, queries, samples, targets_query

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
D, MI = Decimal, 1 << 20
_LINE = re.compile(r"(\w+)\{(.*)\} (\S+)$")


def series(text: str, at: float | None = None) -> list[dict[str, Any]]:
    """Exposition text as an instant vector, or as a matrix of one point."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        match = _LINE.match(line)
        assert match, line
        labels = dict(re.findall(r'(\w+)="([^"]*)"', match[2]))
        point = [at or NOW.timestamp(), match[3]]
        value: dict[str, Any] = {"value": point} if at is None else {"values": [point]}
        found.append({"metric": {"__name__": match[1], **labels}, **value})
    return found


def read(text: str) -> Samples:
    return samples(group_by_metric(series(text)), NOW)


def rows(text: str) -> list[dict[str, Any]]:
    found = [dict(zip(COLUMNS, row, strict=True)) for row in read(text).rows]
    for row in found:
        row["shares"] = [(s["namespace"], s["pod"], s["ratio"]) for s in json.loads(row["shares"])]
    return found


EMPTY: dict[str, Any] = {
    "sampled_at": NOW,
    "instance": "",
    "node_name": "",
    "model": "",
    "namespace": "",
    "pod": "",
    "utilisation_ratio": None,
    "utilisation_source": "",
    "memory_used_bytes": None,
    "memory_total_bytes": None,
    "power_watts": None,
    "xid": None,
    "vendor": "nvidia",
    "profile": "",
    "driver": "",
    "attribution": "",
    "shares": [],
}


def row(device: str, **said: Any) -> dict[str, Any]:
    assert said.keys() <= EMPTY.keys()
    return {**EMPTY, "device": device, **said}


H100 = "NVIDIA H100 80GB HBM3"
CASES = {
    "a whole card with a pod, then an idle one (dcgm-exporter 490)": (
        """
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-8b2281de-6d3c-22ed-0ec8-d3b864870b8b",pci_bus_id="00000000:8D:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="computeinstance-e00",DCGM_FI_DRIVER_VERSION="550.144.03",container="dcgmproftester2",namespace="default",pod="dcgmproftester2"} 0
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-15338f3e-5fd9-962d-921a-979b820520f0",pci_bus_id="00000000:91:00.0",device="nvidia1",modelName="NVIDIA H100 80GB HBM3",Hostname="computeinstance-e00",DCGM_FI_DRIVER_VERSION="550.144.03"} 0
        """,
        [
            row(
                "GPU-15338f3e-5fd9-962d-921a-979b820520f0",
                node_name="computeinstance-e00",
                model=H100,
                driver="550.144.03",
                utilisation_ratio=D("0.0000"),
                utilisation_source="gpu_util",
            ),
            row(
                "GPU-8b2281de-6d3c-22ed-0ec8-d3b864870b8b",
                node_name="computeinstance-e00",
                model=H100,
                driver="550.144.03",
                namespace="default",
                pod="dcgmproftester2",
                attribution="whole",
                utilisation_ratio=D("0.0000"),
                utilisation_source="gpu_util",
            ),
        ],
    ),
    "an instance that no pod has (544)": (
        """
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-153bdcb7-df30-40e2-3f2c-379902ba72fa",pci_bus_id="00000000:00:06.0",device="nvidia0",modelName="NVIDIA H100 NVL",GPU_I_PROFILE="1g.11gb",GPU_I_ID="7",Hostname="node",DCGM_FI_DRIVER_VERSION="535.230.02"} 12
        """,
        [
            row(
                "GPU-153bdcb7-df30-40e2-3f2c-379902ba72fa",
                instance="7",
                profile="1g.11gb",
                node_name="node",
                model="NVIDIA H100 NVL",
                driver="535.230.02",
                memory_used_bytes=12 * MI,
            )
        ],
    ),
    "an instance through DRA, with the newer hostname (664)": (
        """
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="1",UUID="GPU-e04ce2a0-21a4-b68c-854a-f5c0d26bfc0b",pci_bus_id="00000000:D8:00.0",device="nvidia1",modelName="NVIDIA A30",GPU_I_PROFILE="1g.6gb",GPU_I_ID="3",hostname="nim-operator-72q5r53",container="ctr0",dra_claim_name="pod-c98945f5d-dnjs6-mig-devices-thfdj",dra_claim_namespace="gpu-test4",dra_device_name="gpu-1-mig-1g6gb-14-0",dra_driver_name="gpu.nvidia.com",dra_mig_device_uuid="MIG-c73ab1c4-6cb7-59b6-be7e-21c4ac35c3b6",dra_mig_profile="1g.6gb",dra_pool_name="nim-operator-72q5r53",namespace="gpu-test4",pod="pod-c98945f5d-dnjs6"} 0.25
        """,
        [
            row(
                "GPU-e04ce2a0-21a4-b68c-854a-f5c0d26bfc0b",
                instance="3",
                profile="1g.6gb",
                node_name="nim-operator-72q5r53",
                model="NVIDIA A30",
                namespace="gpu-test4",
                pod="pod-c98945f5d-dnjs6",
                attribution="whole",
                utilisation_ratio=D("0.2500"),
                utilisation_source="gr_engine_active",
            )
        ],
    ),
    "a scrape that does not honour labels (340)": (
        """
DCGM_FI_DEV_GPU_UTIL{Hostname="worker1",UUID="GPU-1",container="exporter",exported_container="runner",exported_namespace="somenamespace",exported_pod="pod3",namespace="monitoring",pod="dcgm-exporter-dev-78z52",instance="10.0.0.1:9400",job="dcgm"} 50
DCGM_FI_DEV_GPU_UTIL{Hostname="worker1",UUID="GPU-2",container="exporter",namespace="monitoring",pod="dcgm-exporter-dev-78z52",instance="10.0.0.1:9400",job="dcgm"} 0
        """,
        [
            row(
                "GPU-1",
                node_name="worker1",
                namespace="somenamespace",
                pod="pod3",
                attribution="whole",
                utilisation_ratio=D("0.5000"),
                utilisation_source="gpu_util",
            ),
            row("GPU-2", node_name="worker1", utilisation_ratio=D("0.0000"), utilisation_source="gpu_util"),
        ],
    ),
    "time slices with virtual GPUs: three pods, one value (582, 587)": (
        """
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-aa",Hostname="n",container="main",namespace="default",pod="w-1",vgpu="0"} 0.714
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-aa",Hostname="n",container="main",namespace="default",pod="w-2",vgpu="1"} 0.714
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-aa",Hostname="n",container="main",namespace="default",pod="w-3",vgpu="2"} 0.714
        """,
        [
            row(
                "GPU-aa",
                node_name="n",
                attribution="copies",
                shares=[("default", f"w-{n}", None) for n in (1, 2, 3)],
                utilisation_ratio=D("0.7140"),
                utilisation_source="gr_engine_active",
            )
        ],
    ),
    "time slices measured by process (from 4.8.2)": (
        """
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aa",Hostname="n"} 70
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aa",Hostname="n",namespace="default",pod="w-1",pod_uid="u1",vgpu="0"} 45
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aa",Hostname="n",namespace="default",pod="w-2",pod_uid="u2",vgpu="1"} 25
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-aa",Hostname="n"} 3000
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-aa",Hostname="n",namespace="default",pod="w-1",pod_uid="u1",vgpu="0"} 1000
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-aa",Hostname="n",namespace="default",pod="w-2",pod_uid="u2",vgpu="1"} 2000
        """,
        [
            row(
                "GPU-aa",
                node_name="n",
                attribution="per_process",
                shares=[("default", "w-1", "0.4500"), ("default", "w-2", "0.2500")],
                utilisation_ratio=D("0.7000"),
                utilisation_source="gpu_util",
                memory_used_bytes=3000 * MI,
            )
        ],
    ),
    "the last error, and a counter of another meaning": (
        """
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-1",Hostname="n",err_code="45",err_msg="Preemptive cleanup, due to previous errors"} 45
DCGM_EXP_XID_ERRORS_COUNT{gpu="0",UUID="GPU-1",Hostname="n",window_size_in_ms="300000",xid="42"} 1
        """,
        [row("GPU-1", node_name="n", xid=45)],
    ),
    "an error whose code changed within the look-back (500)": (
        """
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-1",Hostname="n",err_code="31",err_msg="a"} 31
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-1",Hostname="n",err_code="79",err_msg="b"} 79
        """,
        [row("GPU-1", node_name="n", xid=79)],
    ),
    "one card, three pods left over from a label that moves (340, 237)": (
        """
DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",Hostname="n",job="d",exported_namespace="ml",exported_pod="pod1",namespace="mon",pod="dcgm-exporter-x"} 90
DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",Hostname="n",job="d",exported_namespace="ml",exported_pod="pod2",namespace="mon",pod="dcgm-exporter-x"} 90
DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",Hostname="n",job="d",exported_namespace="ml",exported_pod="pod3",namespace="mon",pod="dcgm-exporter-x"} 80
        """,
        [
            row(
                "GPU-1",
                node_name="n",
                attribution="flips",
                shares=[("ml", f"pod{n}", None) for n in (1, 2, 3)],
                utilisation_ratio=D("0.9000"),
                utilisation_source="gpu_util",
            )
        ],
    ),
    "seven instances of one card, board power on each (257, 544)": (
        "\n".join(
            f'DCGM_FI_DEV_POWER_USAGE{{UUID="GPU-1",Hostname="n",GPU_I_ID="{gi}",GPU_I_PROFILE="1g.11gb"}} 300\n'
            f'DCGM_FI_DEV_GPU_UTIL{{UUID="GPU-1",Hostname="n",GPU_I_ID="{gi}",GPU_I_PROFILE="1g.11gb"}} 0'
            for gi in range(7, 14)
        ),
        [
            row(
                "GPU-1",
                instance=str(gi),
                profile="1g.11gb",
                node_name="n",
                # Rows go by the text of the instance: "10" is before "7".
                power_watts=D("300.00") if gi == 10 else None,
            )
            for gi in sorted(range(7, 14), key=str)
        ],
    ),
    "a row of DRA without a pod uid, and an instance without a pod (714, 718)": (
        """
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",hostname="n",GPU_I_ID="1",GPU_I_PROFILE="1g.6gb"} 0.5
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-2",hostname="n",dra_device_name="gpu-1",namespace="ml",pod="a"} 0.5
        """,
        [
            row(
                "GPU-1",
                instance="1",
                profile="1g.6gb",
                node_name="n",
                utilisation_ratio=D("0.5000"),
                utilisation_source="gr_engine_active",
            ),
            row(
                "GPU-2",
                node_name="n",
                namespace="ml",
                pod="a",
                attribution="whole",
                utilisation_ratio=D("0.5000"),
                utilisation_source="gr_engine_active",
            ),
        ],
    ),
    "a claim that two pods share: one copy each (KAI 1930)": (
        """
DCGM_FI_PROF_SM_ACTIVE{UUID="GPU-1",Hostname="n",namespace="ml",pod="a",dra_claim_name="c"} 0.3
DCGM_FI_PROF_SM_ACTIVE{UUID="GPU-1",Hostname="n",namespace="ml",pod="b",dra_claim_name="c"} 0.3
        """,
        [
            row(
                "GPU-1",
                node_name="n",
                attribution="copies",
                shares=[("ml", "a", None), ("ml", "b", None)],
                utilisation_ratio=D("0.3000"),
                utilisation_source="sm_active",
            )
        ],
    ),
    "two jobs of a batch system on one card": (
        """
DCGM_FI_PROF_SM_ACTIVE{UUID="GPU-1",Hostname="n",hpc_job="17"} 0.3
DCGM_FI_PROF_SM_ACTIVE{UUID="GPU-1",Hostname="n",hpc_job="18"} 0.3
        """,
        [row("GPU-1", node_name="n", utilisation_ratio=D("0.3000"), utilisation_source="sm_active")],
    ),
    "names of old exporters, and empty labels of idle cards": (
        """
DCGM_FI_DEV_GPU_UTIL{uuid="GPU-1",Hostname="n",pod_name="a",pod_namespace="ml",container_name="c"} 10
DCGM_FI_DEV_GPU_UTIL{uuid="GPU-2",Hostname="n",pod="",namespace="",container=""} 0
        """,
        [
            row(
                "GPU-1",
                node_name="n",
                namespace="ml",
                pod="a",
                attribution="whole",
                utilisation_ratio=D("0.1000"),
                utilisation_source="gpu_util",
            ),
            row("GPU-2", node_name="n", utilisation_ratio=D("0.0000"), utilisation_source="gpu_util"),
        ],
    ),
    "a partitioned card that is monitored as a whole besides": (
        """
DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",Hostname="n"} 0
DCGM_FI_DEV_POWER_USAGE{UUID="GPU-1",Hostname="n"} 200
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",Hostname="n",GPU_I_ID="1"} 0.9
DCGM_FI_DEV_POWER_USAGE{UUID="GPU-1",Hostname="n",GPU_I_ID="1"} 200
        """,
        [
            row("GPU-1", node_name="n", power_watts=D("200.00")),
            row(
                "GPU-1",
                instance="1",
                node_name="n",
                utilisation_ratio=D("0.9000"),
                utilisation_source="gr_engine_active",
            ),
        ],
    ),
    "AMD: two whole cards by serial number, one of them taken": (
        """
gpu_gfx_activity{gpu_id="0",serial_number="692251001124",card_series="AMD INSTINCT MI300X",hostname="amd-1",gpu_compute_partition_type="spx",gpu_partition_id="0",pod="train-0",namespace="ml",container="c"} 88
gpu_used_vram{gpu_id="0",serial_number="692251001124",card_series="AMD INSTINCT MI300X",hostname="amd-1",gpu_compute_partition_type="spx",gpu_partition_id="0",pod="train-0",namespace="ml",container="c"} 1000
gpu_total_vram{gpu_id="0",serial_number="692251001124",card_series="AMD INSTINCT MI300X",hostname="amd-1",gpu_compute_partition_type="spx",gpu_partition_id="0",pod="train-0",namespace="ml",container="c"} 196592
gpu_package_power{gpu_id="0",serial_number="692251001124",card_series="AMD INSTINCT MI300X",hostname="amd-1",gpu_compute_partition_type="spx",gpu_partition_id="0",pod="train-0",namespace="ml",container="c"} 412
gpu_gfx_activity{gpu_id="1",serial_number="692251001125",card_series="AMD INSTINCT MI300X",hostname="amd-1",gpu_compute_partition_type="spx",gpu_partition_id="0"} 0
        """,
        [
            row(
                "692251001124",
                vendor="amd",
                node_name="amd-1",
                model="AMD INSTINCT MI300X",
                namespace="ml",
                pod="train-0",
                attribution="whole",
                utilisation_ratio=D("0.8800"),
                utilisation_source="gfx_activity",
                memory_used_bytes=1000 * MI,
                memory_total_bytes=196592 * MI,
                power_watts=D("412.00"),
            ),
            row(
                "692251001125",
                vendor="amd",
                node_name="amd-1",
                model="AMD INSTINCT MI300X",
                utilisation_ratio=D("0.0000"),
                utilisation_source="gfx_activity",
            ),
        ],
    ),
    "AMD without a serial number: a card is where it is": (
        """
gpu_prof_sm_active{gpu_id="3",hostname="amd-1"} 25
        """,
        [
            row(
                "amd:amd-1/3",
                vendor="amd",
                node_name="amd-1",
                utilisation_ratio=D("0.2500"),
                utilisation_source="sm_active",
            )
        ],
    ),
    "AMD in partitions: activity of a partition is not the card's": (
        """
gpu_gfx_activity{gpu_id="0",serial_number="S1",hostname="amd-1",gpu_compute_partition_type="cpx",gpu_partition_id="0"} 90
gpu_used_vram{gpu_id="0",serial_number="S1",hostname="amd-1",gpu_compute_partition_type="cpx",gpu_partition_id="0"} 10
gpu_used_vram{gpu_id="1",serial_number="S1",hostname="amd-1",gpu_compute_partition_type="cpx",gpu_partition_id="1"} 20
        """,
        [
            row(
                "S1",
                vendor="amd",
                instance=str(n),
                profile="cpx",
                node_name="amd-1",
                memory_used_bytes=10 * (n + 1) * MI,
            )
            for n in (0, 1)
        ],
    ),
    "Ascend: the pod under its own label, the namespace exported": (
        """
npu_chip_info_utilization{id="0",model_name="910B4",vdie_id="17A43D0",pcie_bus_info="0000:C1:00.0",exported_namespace="ml",pod_name="train-0",container_name="c",namespace="kube-system",pod="npu-exporter-7x",node="npu-1",job="npu-exporter",instance="10.0.0.9:8082"} 63
npu_chip_info_hbm_used_memory{id="0",model_name="910B4",vdie_id="17A43D0",pcie_bus_info="0000:C1:00.0",exported_namespace="ml",pod_name="train-0",container_name="c",namespace="kube-system",pod="npu-exporter-7x",node="npu-1",job="npu-exporter",instance="10.0.0.9:8082"} 20000
npu_chip_info_hbm_total_memory{id="0",model_name="910B4",vdie_id="17A43D0",pcie_bus_info="0000:C1:00.0",exported_namespace="ml",pod_name="train-0",container_name="c",namespace="kube-system",pod="npu-exporter-7x",node="npu-1",job="npu-exporter",instance="10.0.0.9:8082"} 32768
npu_chip_info_power{id="1",model_name="910B4",vdie_id="",pcie_bus_info="0000:C2:00.0",pod_name="",container_name="",namespace="kube-system",pod="npu-exporter-7x",node="npu-1",job="npu-exporter",instance="10.0.0.9:8082"} 93.5
        """,
        [
            row(
                "17A43D0",
                vendor="ascend",
                node_name="npu-1",
                model="910B4",
                namespace="ml",
                pod="train-0",
                attribution="whole",
                utilisation_ratio=D("0.6300"),
                utilisation_source="ai_core",
                memory_used_bytes=20000 * MI,
                memory_total_bytes=32768 * MI,
            ),
            row("ascend:npu-1/1", vendor="ascend", node_name="npu-1", model="910B4", power_watts=D("93.50")),
        ],
    ),
    "Intel: several engines of one card, the busiest counts": (
        """
xpum_engine_ratio{uuid="01000000-0000-0000-0000-000000290000",dev_name="Intel(R) Data Center GPU Max 1550",pci_bdf="0000:29:00.0",vendor="Intel(R) Corporation",type="compute",node="xpu-1"} 0.4
xpum_engine_ratio{uuid="01000000-0000-0000-0000-000000290000",dev_name="Intel(R) Data Center GPU Max 1550",pci_bdf="0000:29:00.0",vendor="Intel(R) Corporation",type="copy",node="xpu-1"} 0.1
xpum_power_watts{uuid="01000000-0000-0000-0000-000000290000",dev_name="Intel(R) Data Center GPU Max 1550",pci_bdf="0000:29:00.0",node="xpu-1"} 210.126
        """,
        [
            row(
                "01000000-0000-0000-0000-000000290000",
                vendor="intel",
                node_name="xpu-1",
                model="Intel(R) Data Center GPU Max 1550",
                utilisation_ratio=D("0.4000"),
                utilisation_source="engine",
                power_watts=D("210.13"),
            )
        ],
    ),
    "Gaudi: milliwatts, and pod labels that are the scrape target's": (
        """
habanalabs_utilization{device="hl0",UUID="01P0-HL2080A0",node="hpu-1",namespace="gaudi",pod="metric-exporter-ds-x",job="habana",instance="10.0.0.5:41611"} 97
habanalabs_memory_used_bytes{device="hl0",UUID="01P0-HL2080A0",node="hpu-1",namespace="gaudi",pod="metric-exporter-ds-x",job="habana",instance="10.0.0.5:41611"} 1e+09
habanalabs_memory_total_bytes{device="hl0",UUID="01P0-HL2080A0",node="hpu-1",namespace="gaudi",pod="metric-exporter-ds-x",job="habana",instance="10.0.0.5:41611"} 1.0e+11
habanalabs_power_mW{device="hl0",UUID="01P0-HL2080A0",node="hpu-1",namespace="gaudi",pod="metric-exporter-ds-x",job="habana",instance="10.0.0.5:41611"} 385250
        """,
        [
            row(
                "01P0-HL2080A0",
                vendor="gaudi",
                node_name="hpu-1",
                utilisation_ratio=D("0.9700"),
                utilisation_source="hpu",
                memory_used_bytes=10**9,
                memory_total_bytes=10**11,
                power_watts=D("385.25"),
            )
        ],
    ),
    "TPU: plain names count only with the maker's label": (
        """
duty_cycle{make="cloud-tpu",model="tpu-v5-lite-podslice",accelerator_id="4804027640182130321-0",node="tpu-1"} 42
memory_used{make="cloud-tpu",model="tpu-v5-lite-podslice",accelerator_id="4804027640182130321-0",node="tpu-1"} 1024
memory_used{app="redis",node="tpu-1"} 77
        """,
        [
            row(
                "4804027640182130321-0",
                vendor="tpu",
                node_name="tpu-1",
                model="tpu-v5-lite-podslice",
                utilisation_ratio=D("0.4200"),
                utilisation_source="duty_cycle",
                memory_used_bytes=1024,
            )
        ],
    ),
    "Neuron: cores of a device on its node": (
        """
neuroncore_utilization_ratio{neuroncore="0",neuron_device_index="0",instance_type="trn1.32xlarge",node="trn-1"} 0.5
neuroncore_utilization_ratio{neuroncore="1",neuron_device_index="0",instance_type="trn1.32xlarge",node="trn-1"} 0.7
        """,
        [
            row(
                "neuron:trn-1/0",
                vendor="neuron",
                instance=core,
                node_name="trn-1",
                model="trn1.32xlarge",
                utilisation_ratio=D(ratio),
                utilisation_source="neuroncore",
            )
            for core, ratio in (("0", "0.5000"), ("1", "0.7000"))
        ],
    ),
    "HAMi's monitor beside DCGM: the same card once, the vendor's exporter first": (
        """
DCGM_FI_PROF_SM_ACTIVE{UUID="GPU-1",Hostname="n",modelName="NVIDIA L4"} 0.6
hami_host_gpu_utilization_ratio{device_uuid="GPU-1",device_index="0",node="n"} 55
hami_host_gpu_memory_used_bytes{device_uuid="GPU-1",device_index="0",node="n"} 4096
hami_host_gpu_memory_used_bytes{device_uuid="GPU-2",device_index="1",node="n"} 8192
        """,
        [
            row(
                "GPU-1",
                node_name="n",
                model="NVIDIA L4",
                utilisation_ratio=D("0.6000"),
                utilisation_source="sm_active",
                memory_used_bytes=4096,
            ),
            row("GPU-2", vendor="hami", node_name="n", memory_used_bytes=8192),
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_lines_become_these_rows(name: str) -> None:
    text, expected = CASES[name]
    assert rows(text) == expected
    assert read(text).problems == []


def test_one_card_whose_pod_changes_is_one_device_at_every_time() -> None:
    """340 in time: three pods, one after the other."""
    line = 'DCGM_FI_DEV_GPU_UTIL{{UUID="GPU-1",Hostname="n",namespace="ml",pod="pod{n}"}} 40'
    found: list[dict[str, Any]] = []
    for n in (1, 2, 3):
        found += series(line.format(n=n), NOW.timestamp() + 60 * n)
    read_rows = samples(group_by_metric(found)).rows
    assert [(row[1], row[6], row[7]) for row in read_rows] == [
        ("GPU-1", f"pod{n}", D("0.4000")) for n in (1, 2, 3)
    ]


def test_exporters_are_asked_for_by_the_jobs_of_their_series() -> None:
    assert targets_query([]) == ""
    jobs = [{"metric": {"job": job}} for job in ("serviceMonitor/gpu/dcgm.x", "npu", "npu", "")]
    assert targets_query(jobs) == r'up{job=~"npu|serviceMonitor/gpu/dcgm\\.x"}'


def test_an_exporter_is_no_user_whatever_it_is_called() -> None:
    text = """
up{job="j",instance="a:1",namespace="mon",pod="agent-1",node="n1"} 1
up{job="j",instance="b:1",namespace="ml",pod="train-0",node="n2"} 1
DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",Hostname="agent-1",namespace="mon",pod="agent-1",job="j",instance="a:1"} 0
DCGM_FI_DEV_GPU_UTIL{UUID="GPU-2",Hostname="agent-1",namespace="ml",pod="train-0",job="j",instance="a:1"} 5
    """
    found = rows(text)
    assert [(row["device"], row["pod"], row["node_name"]) for row in found] == [
        ("GPU-1", "", "n1"),
        ("GPU-2", "train-0", "n1"),
    ]


def test_a_device_without_a_name_needs_its_node() -> None:
    text = 'gpu_prof_sm_active{gpu_id="3",hostname="localhost"} 25'
    assert read(text).rows == []
    assert [(p.metric, p.reason) for p in read(text).problems] == [
        ("gpu_prof_sm_active", "no label names the device")
    ]
    (placed,) = rows('gpu_prof_sm_active{gpu_id="3",hostname="localhost",instance="10.0.0.7:5000"} 25')
    assert (placed["device"], placed["node_name"]) == ("amd:10.0.0.7:5000/3", "")


def test_names_of_devices_fit_their_column() -> None:
    (found,) = rows(f'gpu_prof_sm_active{{gpu_id="3",hostname="{"n" * 250}"}} 25')
    assert len(found["device"]) <= 128
    assert found["device"].endswith("/3")


def test_every_query_is_one_selector() -> None:
    assert all(query.startswith('{__name__=~"') and query.endswith('"}') for query in queries())
    assert len(queries()) < 10


# ------------------------------------------------------------------ a card keeps its name
def npu(metric: str, value: str, *, die: str, card: str = "0", node: str = "npu-1") -> str:
    return (
        f'npu_chip_info_{metric}{{id="{card}",model_name="910B4",vdie_id="{die}",'
        f'pcie_bus_info="0000:C{card}:00.0",node="{node}"}} {value}'
    )


def names(*lines: str) -> list[tuple[str, Decimal | None, int | None]]:
    return [
        (row["device"], row["utilisation_ratio"], row["memory_used_bytes"]) for row in rows("\n".join(lines))
    ]


def test_a_blank_name_is_the_one_that_the_same_position_has_elsewhere() -> None:
    """npu-exporter leaves vdie_id blank while the driver does not answer; its lines carry their own time, so that
    the last ones with a name are still there."""
    assert names(
        npu("utilization", "63", die="17A43D0"),
        npu("utilization", "70", die=""),
        npu("hbm_used_memory", "100", die=""),
    ) == [("17A43D0", D("0.7000"), 100 * MI)]


def test_a_name_is_of_one_position_of_one_node() -> None:
    assert names(
        npu("utilization", "1", die="A", card="0"),
        npu("utilization", "2", die="B", card="1"),
        npu("utilization", "3", die="C", card="0", node="npu-2"),
        npu("hbm_used_memory", "10", die="", card="1"),
        npu("hbm_used_memory", "20", die="", card="0", node="npu-2"),
        npu("hbm_used_memory", "30", die="", card="2"),
    ) == [
        ("A", D("0.0100"), None),
        ("B", D("0.0200"), 10 * MI),
        ("C", D("0.0300"), 20 * MI),
        ("ascend:npu-1/2", None, 30 * MI),
    ]


def test_a_position_with_two_names_lends_none() -> None:
    """A card was exchanged: which of the two a blank line is about, nobody says."""
    assert names(
        npu("utilization", "1", die="A"),
        npu("utilization", "2", die="B"),
        npu("hbm_used_memory", "9", die=""),
    ) == [("A", D("0.0100"), None), ("B", D("0.0200"), None), ("ascend:npu-1/0", None, 9 * MI)]


def test_a_card_that_never_has_a_name_is_always_where_it_is() -> None:
    for value in ("0", "50"):
        [(device, _ratio, _used)] = names(npu("utilization", value, die=""))
        assert device == "ascend:npu-1/0"


def test_other_vendors_keep_names_in_the_same_way() -> None:
    found = names(
        'gpu_gfx_activity{gpu_id="3",serial_number="S3",card_series="MI300X",hostname="amd-1"} 40',
        'gpu_used_vram{gpu_id="3",serial_number="",card_series="MI300X",hostname="amd-1"} 7',
    )
    assert found == [("S3", D("0.4000"), 7 * MI)]
