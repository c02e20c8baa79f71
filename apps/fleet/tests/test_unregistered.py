"""What is RDMA, what looks like an accelerator, and that what the portal says to add works."""

import shutil
from pathlib import Path

import msgspec
import pytest
import yaml

from apps.fleet import unregistered
from apps.fleet.registry import DATA, RegistryError, read_registry, registry
from apps.fleet.unregistered import is_rdma, looks_like_accelerator, read_resources, what_to_add


@pytest.mark.parametrize(
    "resource",
    [
        "example.com/gpu",
        "example.com/vgpu",
        "example.com/GPUs",
        "example.com/gpu-mem",
        "biren.com/gpu",
        "vendor.io/npu",
        "vendor.io/big.tpu",
        "gpu.example.com/a1",
        "aliyun.com/gpu-mem",
        "tencent.com/vcuda-core",
        "alibabacloud.com/ppu",
        "c600.graphcore.ai/ipu",
        "furiosa.ai/rngd",
        "mycloud.io/nvidia-a100",
        "nvidia.com/gpux",  # nobody else's domain
        "amd.com/new-thing",
        "volcano.sh/vgpu-foo",
        "huawei.com/Ascend",
    ],
)
def test_an_unknown_accelerator_is_noticed(resource: str) -> None:
    assert looks_like_accelerator(resource)
    assert not is_rdma(resource)


@pytest.mark.parametrize(
    "resource",
    [
        "cpu",
        "memory",
        "pods",
        "ephemeral-storage",
        "hugepages-2Mi",
        "attachable-volumes-aws-ebs",
        "nvidia.com/gpu",  # registered
        "nvidia.com/gpumem",
        "amd.com/cpx_nps4",
        "smarter-devices/gpu",
        "smarter-devices/fuse",
        "devices.kubevirt.io/kvm",
        "squat.ai/fuse",
        "example.com/fpga",
        "intel.com/fpga",
        "fpga.intel.com/arria10.dcp1.0-nlb0",
        "xilinx.com/fpga-xilinx_u200",
        "qat.intel.com/generic",
        "sgx.intel.com/epc",
        "intel.com/intel_sriov_netdevice",
        "amd.com/vnic",
        "nvidia.com/bf3-dpu",
        "aliyun/member-eni",
        "networking.gke.io.networks/vpc1.IP",
        "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
        "example.com/input",
        "example.com/migration",
        "example.com/license",
        "example.com/",
        "/gpu",
    ],
)
def test_what_is_none_is_left_alone(resource: str) -> None:
    assert not looks_like_accelerator(resource)
    assert not is_rdma(resource)


@pytest.mark.parametrize(
    "resource",
    [
        "rdma/hca",
        "rdma/ib",
        "rdma/rdma_shared_device_a",
        "rdma-training/roce",
        "nvidia.com/hostdev",
        "nvidia.com/rdma_host_dev",
        "nvidia.com/mlnxnics",
        "nvidia.com/ib-0",
        "mellanox.com/cx5_sriov_switchdev",
        "openshift.io/sriov_rdma",
        "openshift.io/mlnx_roce",
        "intel.com/intel_sriov_rdma",
        "vpc.amazonaws.com/efa",
        "networking.gke.io.networks/rdma-0",
        "networking.gke.io.networks/gvnic-rdma-1",
        "aliyun/erdma",
    ],
)
def test_rdma_by_its_many_names(resource: str) -> None:
    assert is_rdma(resource)
    assert not looks_like_accelerator(resource)


@pytest.mark.parametrize(
    "resource",
    [
        "cpu",
        "nvidia.com/gpu",
        "openshift.io/sriovlegacy",
        "networking.gke.io.networks/rdma-0.IP",
        "example.com/rdma",
    ],
)
def test_not_rdma(resource: str) -> None:
    assert not is_rdma(resource)


def test_what_to_add_names_the_file_and_the_lines() -> None:
    assert what_to_add("gpu.acme.com/gpu") == (
        "Add a file apps/fleet/data/acme.yaml: {vendor: acme, name: Acme, resources: "
        "[{pattern: 'gpu\\.acme\\.com/gpu', unit: device, examples: [gpu.acme.com/gpu]}]}"
    )
    assert what_to_add("acme.com/gpu-mem") == (
        "Add a file apps/fleet/data/acme.yaml: {vendor: acme, name: Acme, resources: "
        "[{pattern: 'acme\\.com/gpu-mem', unit: aux, examples: [acme.com/gpu-mem]}]}"
    )
    assert what_to_add("nvidia.com/gpux") == (
        "Add to “resources” in apps/fleet/data/nvidia.yaml: "
        "- {pattern: 'nvidia\\.com/gpux', unit: device, examples: [nvidia.com/gpux]}"
    )
    assert what_to_add("volcano.sh/vgpu-foo").startswith(
        "Add to “resources” in apps/fleet/data/volcano.yaml: - "
    )


@pytest.mark.parametrize(
    "resource",
    [
        "gpu.acme.com/gpu",
        "acme.com/GPU_mem",
        "nvidia.com/gpux",
        "volcano.sh/vgpu-foo",
        "3d.io/npu",
        "a/gpu",
        "x.nvidia.io/gpu",
    ],
)
def test_what_it_says_to_add_works(tmp_path: Path, resource: str) -> None:
    """The lines, put where the sentence says, make the resource known."""
    assert registry().classify(resource) is None
    sentence, _colon, lines = what_to_add(resource).partition(".yaml: ")
    name = sentence.rsplit("/", 1)[1]
    shutil.copytree(DATA, tmp_path / "data")
    path = tmp_path / "data" / f"{name}.yaml"
    if sentence.startswith("Add a file"):
        assert not path.exists()
        path.write_text(lines)
    else:
        vendor = yaml.safe_load(path.read_bytes())
        vendor["resources"] += yaml.safe_load(lines)
        path.write_text(yaml.safe_dump(vendor))
    found = read_registry(tmp_path / "data").classify(resource)
    assert found is not None
    assert found.vendor == name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rdma": [{"pattern": "(", "examples": ["a/b"]}]}, r"^r\.yaml: rdma\[0\]\.pattern: missing"),
        ({"rdma": [{"pattern": "", "examples": ["a/b"]}]}, r"^r\.yaml: .* at `\$.rdma\[0\].pattern`"),
        (
            {"rdma": [{"pattern": "a/b", "examples": ["a/c"]}]},
            r"rdma\[0\]\.pattern does not match its example 'a/c'",
        ),
        ({"other": [{"pattern": ".*", "examples": ["a/c"]}]}, r"other\[0\]\.pattern: matches ''"),
        (
            {"other": [{"pattern": "rdma/h.*", "examples": ["rdma/hca"]}]},
            r"other\[0\]: 'rdma/hca' is an RDMA device",
        ),
        ({"words": ["GPU"]}, "words: 'GPU' is not one word in lower case"),
        ({"properties": [""]}, r"at `\$.properties\[0\]`"),
        ({"more": []}, "unknown field `more`"),
    ],
)
def test_a_bad_resources_file_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    good = yaml.safe_load(unregistered.FILE.read_bytes())
    (tmp_path / "r.yaml").write_bytes(msgspec.yaml.encode({**good, **change}))
    with pytest.raises(RegistryError, match=message):
        read_resources(tmp_path / "r.yaml")


def test_examples_of_the_file_are_what_it_says() -> None:
    file = yaml.safe_load(unregistered.FILE.read_bytes())
    for entry in file["rdma"]:
        assert all(is_rdma(example) for example in entry["examples"]), entry
    for entry in file["other"]:
        assert not any(
            is_rdma(example) or looks_like_accelerator(example) for example in entry["examples"]
        ), entry
