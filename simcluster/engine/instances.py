"""Cards and partitions as their exporters name them. Pure: a pool, a model and a place in; an Instance out.

Invariant: names follow from the node's name and the card's place only, so that a run repeats exactly.
"""

from __future__ import annotations

from hashlib import blake2b

from simcluster.exporters import EXPORTERS, HAMI, SM
from simcluster.scenario import Model, Pool
from simcluster.telemetry import Card, Instance


def name_uuid(text: str) -> str:
    digest = blake2b(text.encode(), digest_size=16).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"


def pci_address(index: int) -> str:
    return f"00000000:{0x0F + 16 * (index % 15):02X}:0{index // 15}.0"


def device_instance(
    node: str,
    pool: Pool,
    model: Model,
    card: Card,
    index: int,
    driver: str,
    *,
    part: dict[str, str] | None = None,
    memory_mib: int = 0,
) -> Instance | None:
    """The card at a place, or the partition of it that `part` names; None where the vendor has no exporter."""
    exporter = EXPORTERS.get(model.vendor)
    if exporter is None:
        return None
    salt = int(blake2b(f"{node}{index}{part}".encode(), digest_size=4).hexdigest(), 16)
    lacks = set(pool.scrape.lacks) | (set() if pool.sm_active else {SM})
    return Instance(
        labels=_LABELS[model.vendor](node, pool, model, card, index, driver) | (part or {}),
        node=node,
        memory_mib=memory_mib or model.memory_mib,
        idle_watts=model.idle_watts,
        max_watts=model.max_watts,
        part=part is not None,
        salt=salt,
        card=card,
        exporter=exporter,
        lacks=frozenset(lacks),
        blank=frozenset(pool.scrape.blank.get(str(index), ())),
        sharing=pool.scrape.sharing,
    )


def monitored(found: Instance, index: int) -> Instance:
    """The card as HAMi's monitor sees it: the same pods, at the same times."""
    return Instance(
        labels={
            "device_index": str(index),
            "device_type": f"NVIDIA-{found.labels['modelName']}",
            "device_uuid": found.card.uuid,
        },
        node=found.node,
        memory_mib=found.memory_mib,
        idle_watts=found.idle_watts,
        max_watts=found.max_watts,
        part=False,
        salt=found.salt,
        card=Card(found.card.uuid),
        exporter=HAMI,
        uses=found.uses,
        ends=found.ends,
    )


def _nvidia(node: str, pool: Pool, model: Model, card: Card, index: int, driver: str) -> dict[str, str]:
    scrape = pool.scrape
    return {
        "gpu": str(index),
        "UUID": card.uuid,
        "pci_bus_id": pci_address(index),
        "device": f"nvidia{index}",
        "modelName": model.model_name,
        scrape.node_key: node,
        **({"DCGM_FI_DRIVER_VERSION": driver} if scrape.driver else {}),
    }


def _amd(node: str, pool: Pool, model: Model, card: Card, index: int, _driver: str) -> dict[str, str]:
    compute, _, memory = model.labels["amd.com/gpu.compute-memory-partition"].partition("_")
    if named := pool.labels.get("amd.com/gpu.compute-memory-partition"):
        compute, _, memory = named.partition("_")
    return {
        "card_model": "102-G30211-00",
        "card_series": "AMD Instinct MI300X OAM",
        "card_vendor": "Advanced Micro Devices Inc. [AMD/ATI]",
        "cluster_name": "demo",
        "deployment_mode": "kubernetes",
        "gpu_compute_partition_type": compute,
        "gpu_id": str(index),
        "gpu_memory_partition_type": memory,
        "gpu_partition_id": "0",
        "hostname": node,
        "serial_number": card.uuid,
    }


def _ascend(_node: str, _pool: Pool, model: Model, card: Card, index: int, _driver: str) -> dict[str, str]:
    return {
        "id": str(index),
        "model_name": model.product,
        "pcie_bus_info": f"0000:{0xC1 + index:02X}:00.0",
        "vdie_id": card.uuid,
    }


def _gaudi(_node: str, _pool: Pool, _model: Model, card: Card, index: int, _driver: str) -> dict[str, str]:
    return {"UUID": card.uuid, "device": f"accel{index}"}


def _intel(_node: str, _pool: Pool, _model: Model, card: Card, index: int, _driver: str) -> dict[str, str]:
    return {
        "dev_name": "Intel(R) Data Center GPU Flex 170",
        "dev_file": f"card{index}",
        "pci_bdf": f"0000:{0x4A + index:02x}:00.0",
        "uuid": card.uuid,
        "vendor": "Intel(R) Corporation",
    }


def _tpu(node: str, _pool: Pool, model: Model, _card: Card, index: int, _driver: str) -> dict[str, str]:
    return {
        "accelerator_id": f"{int(name_uuid(node)[:8], 16)}-{index}",
        "make": "cloud-tpu",
        "model": model.product,
        "tpu_topology": model.labels["cloud.google.com/gke-tpu-topology"],
    }


def _neuron(node: str, _pool: Pool, model: Model, _card: Card, index: int, _driver: str) -> dict[str, str]:
    return {
        "instance_name": node,
        "instance_type": model.instance,
        "neuron_device": str(index),
        "runtime_tag": "1",
    }


_LABELS = {
    "nvidia": _nvidia,
    "amd": _amd,
    "ascend": _ascend,
    "gaudi": _gaudi,
    "intel": _intel,
    "tpu": _tpu,
    "neuron": _neuron,
}


def card_name(vendor: str, node: str, index: int) -> str:
    """What the vendor calls a card: a UUID, a serial number, a die."""
    uuid = name_uuid(f"{node}/{index}")
    if vendor == "nvidia":
        return f"GPU-{uuid}"
    if vendor == "amd":
        return f"69{int(uuid[:8], 16) % 10**10:010d}"
    if vendor == "ascend":
        return f"{uuid[:8]} {uuid[9:13]}{uuid[14:18]}".upper()
    return uuid
