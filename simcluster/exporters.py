"""The exporters of the vendors: which metrics each has, in which unit, and how it names what and who it means.

Input: nothing; output: `EXPORTERS` by name. Invariants: a metric belongs to one exporter; `what` says which of the
simulated quantities it shows, `scale` what it multiplies them with (thousandths of activity, MiB, watts, mJ).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

What = Literal[
    "ratio",
    "percent",
    "sm_ratio",
    "sm_percent",
    "used",
    "free",
    "reserved",
    "total",
    "power",
    "energy",
    "temperature",
    "xid",
    "health",
]
BOARD: frozenset[What] = frozenset(("power", "energy", "temperature", "xid", "health"))
"""What is said of a whole board, on each of its instances again."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric as an exporter describes and prints it; `whole_only`: a partition does not have it."""

    name: str
    help: str
    what: What
    scale: float = 1.0
    kind: str = "gauge"
    whole_only: bool = False


@dataclass(frozen=True, slots=True)
class Exporter:
    """One exporter and how it is scraped (honorLabels off). `workload`: its labels for (namespace, pod, container),
    () when it knows no pods; `names_node`: its series or their scrape configuration name the node."""

    job: str
    namespace: str
    pod: str
    container: str
    port: int
    metrics: tuple[Metric, ...]
    workload: tuple[str, str, str] | tuple[()] = ("namespace", "pod", "container")
    node_label: bool = True
    board_on_first: bool = False
    """Only the first partition of a card carries what is said of the board, and its activity."""


_MIB = float(1 << 20)
UTIL = "DCGM_FI_DEV_GPU_UTIL"
ENGINE, SM = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE"
USED, FREE, RESERVED = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED"
POWER, TEMP = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_TEMP"
XID, ENERGY = "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"

DCGM = Exporter(
    job="nvidia-dcgm-exporter",
    namespace="gpu-operator",
    pod="nvidia-dcgm-exporter",
    container="nvidia-dcgm-exporter",
    port=9400,
    node_label=False,
    metrics=(
        Metric(TEMP, "GPU temperature (in C).", "temperature"),
        Metric(POWER, "Power draw (in W).", "power"),
        Metric(
            ENERGY,
            "Total energy consumption since boot (in mJ).",
            "energy",
            kind="counter",
        ),
        Metric(UTIL, "GPU utilization (in %).", "percent", whole_only=True),
        Metric(XID, "Value of the last XID error encountered.", "xid"),
        Metric(FREE, "Framebuffer memory free (in MiB).", "free"),
        Metric(USED, "Framebuffer memory used (in MiB).", "used"),
        Metric(RESERVED, "Framebuffer memory reserved (in MiB).", "reserved"),
        Metric(ENGINE, "Ratio of time the graphics engine is active.", "ratio"),
        Metric(
            SM,
            "The ratio of cycles an SM has at least 1 warp assigned.",
            "sm_ratio",
        ),
    ),
)
AMD = Exporter(
    job="device-metrics-exporter",
    namespace="kube-amd-gpu",
    pod="device-metrics-exporter",
    container="metrics-exporter-container",
    port=5000,
    node_label=False,
    board_on_first=True,
    metrics=(
        Metric("gpu_gfx_activity", "Graphics engine usage percentage (0 - 100).", "percent"),
        Metric("gpu_used_vram", "Used VRAM memory of the GPU (in MB).", "used"),
        Metric("gpu_free_vram", "Free VRAM memory of the GPU (in MB).", "free"),
        Metric("gpu_total_vram", "Total VRAM memory of the GPU (in MB).", "total"),
        Metric("gpu_package_power", "Current socket power in Watts.", "power"),
        Metric("gpu_energy_consumed", "Accumulated energy consumed (in uJ).", "energy", 1000.0, "counter"),
        Metric("gpu_junction_temperature", "Junction/hotspot temperature in Celsius.", "temperature"),
        Metric("gpu_health", "Health of the GPU (1 = healthy | 0 = unhealthy).", "health"),
    ),
)
NPU = Exporter(
    job="npu-exporter",
    namespace="npu-exporter",
    pod="npu-exporter",
    container="npu-exporter",
    port=8082,
    workload=("namespace", "pod_name", "container_name"),
    metrics=(
        Metric("npu_chip_info_utilization", "the ai core utilization", "percent"),
        Metric("npu_chip_info_hbm_used_memory", "the npu hbm used memory", "used"),
        Metric("npu_chip_info_hbm_total_memory", "the npu hbm total memory", "total"),
        Metric("npu_chip_info_power", "the npu power", "power"),
        Metric("npu_chip_info_temperature", "the npu temperature", "temperature"),
        Metric("npu_chip_info_health_status", "the npu health status", "health"),
    ),
)
GAUDI = Exporter(
    job="habana-metric-exporter",
    namespace="habana-system",
    pod="habana-metric-exporter",
    container="metric-exporter",
    port=41611,
    workload=(),
    metrics=(
        Metric("habanalabs_utilization", "Utilization of the device (in %).", "percent"),
        Metric("habanalabs_memory_used_bytes", "Used memory.", "used", _MIB),
        Metric("habanalabs_memory_free_bytes", "Free memory.", "free", _MIB),
        Metric("habanalabs_memory_total_bytes", "Total memory.", "total", _MIB),
        Metric("habanalabs_power_mW", "Power usage (in mW).", "power", 1000.0),
        Metric("habanalabs_temperature_onchip", "Temperature of the chip (in C).", "temperature"),
    ),
)
XPUM = Exporter(
    job="xpumanager",
    namespace="monitoring",
    pod="xpumanager",
    container="xpumd",
    port=9101,
    workload=("kube_namespace", "kube_pod", "kube_container"),
    metrics=(
        Metric("xpum_engine_ratio", "GPU engine utilization ratio.", "ratio"),
        Metric("xpum_memory_used_bytes", "Used GPU memory (in bytes).", "used", _MIB),
        Metric("xpum_power_watts", "Average GPU power (in watts).", "power"),
        Metric("xpum_energy_joules_total", "Total GPU energy consumed (in J).", "energy", 0.001, "counter"),
        Metric("xpum_temperature_celsius", "GPU temperature (in C).", "temperature"),
    ),
)
TPU = Exporter(
    job="tpu-device-plugin",
    namespace="kube-system",
    pod="tpu-device-plugin",
    container="tpu-device-plugin",
    port=2112,
    metrics=(
        Metric("tensorcore_utilization", "Percentage of the TensorCore that is in use.", "sm_percent"),
        Metric("duty_cycle", "Percentage of time the accelerator was actively processing.", "percent"),
        Metric("memory_used", "Accelerator memory in bytes that is in use.", "used", _MIB),
        Metric("memory_total", "Total accelerator memory in bytes.", "total", _MIB),
    ),
)
NEURON = Exporter(
    job="neuron-monitor",
    namespace="neuron-monitor",
    pod="neuron-monitor",
    container="neuron-monitor",
    port=8000,
    workload=(),
    metrics=(Metric("neuroncore_utilization_ratio", "NeuronCore utilization ratio", "ratio"),),
)
HAMI = Exporter(
    job="hami-device-plugin-monitor",
    namespace="kube-system",
    pod="hami-device-plugin",
    container="vgpu-monitor",
    port=9394,
    workload=(),
    metrics=(
        Metric("hami_host_gpu_utilization_ratio", "GPU core utilization (0 - 100).", "percent"),
        Metric("hami_host_gpu_memory_used_bytes", "GPU device memory usage in bytes.", "used", _MIB),
        Metric("hami_host_gpu_memory_total_bytes", "GPU device memory in bytes.", "total", _MIB),
    ),
)
"""Beside DCGM's, on nodes whose cards HAMi splits: the same cards once more."""
EXPORTERS: dict[str, Exporter] = {
    "nvidia": DCGM,
    "amd": AMD,
    "ascend": NPU,
    "gaudi": GAUDI,
    "intel": XPUM,
    "tpu": TPU,
    "neuron": NEURON,
}
METRICS: dict[str, Metric] = {
    metric.name: metric for exporter in (*EXPORTERS.values(), HAMI) for metric in exporter.metrics
}
