"""What the registry says about real resource names, and how it refuses a bad file."""

from pathlib import Path

import pytest

from apps.fleet.registry import RegistryError, classify_resource, is_device, read_registry, registry


@pytest.mark.parametrize(
    ("name", "vendor", "unit", "profile"),
    [
        ("nvidia.com/gpu", "nvidia", "device", ""),
        ("nvidia.com/gpu.shared", "nvidia", "share", ""),
        ("nvidia.com/mig-1g.10gb", "nvidia", "partition", "1g.10gb"),
        ("nvidia.com/mig-1g.10gb.me", "nvidia", "partition", "1g.10gb.me"),
        ("nvidia.com/mig-3g.40gb.shared", "nvidia", "share", "3g.40gb"),
        ("nvidia.com/gpumem", "hami", "aux", ""),
        ("nvidia.com/gpumem-percentage", "hami", "aux", ""),
        ("nvidia.com/gpucores", "hami", "aux", ""),
        ("amd.com/gpu", "amd", "device", ""),
        ("amd.com/cpx_nps4", "amd", "partition", "cpx_nps4"),
        ("gpu.intel.com/i915", "intel", "device", ""),
        ("gpu.intel.com/monitoring", "intel", "aux", ""),
        ("gpu.intel.com/xe_monitoring", "intel", "aux", ""),
        ("habana.ai/gaudi", "gaudi", "device", ""),
        ("huawei.com/Ascend910", "ascend", "device", ""),
        ("huawei.com/Ascend910B2", "ascend", "device", ""),
        ("huawei.com/Ascend310P", "ascend", "device", ""),
        ("huawei.com/Ascend910B2-memory", "ascend", "aux", ""),
        ("huawei.com/Ascend310P-2c", "ascend", "partition", "2c"),
        ("huawei.com/npu-core", "ascend", "aux", ""),
        ("volcano.sh/vgpu-number", "volcano", "share", ""),
        ("volcano.sh/vgpu-memory", "volcano", "memory", ""),
        ("volcano.sh/vgpu-cores", "volcano", "aux", ""),
        ("deviceclass/gpu.nvidia.com", "dra", "device", ""),
        ("memory.deviceclass/gpu.nvidia.com", "dra", "aux", ""),
        ("google.com/tpu", "tpu", "device", ""),
        ("aws.amazon.com/neuron", "neuron", "device", ""),
        ("aws.amazon.com/neuroncore", "neuron", "partition", "neuroncore"),
    ],
)
def test_known_resources(name: str, vendor: str, unit: str, profile: str) -> None:
    found = classify_resource(name)
    assert found is not None
    assert (found.vendor, found.unit, found.profile) == (vendor, unit, profile)
    assert is_device(name) is (unit in {"device", "partition", "share"})


@pytest.mark.parametrize(
    "name",
    [
        "cpu",
        "memory",
        "pods",
        "hugepages-2Mi",
        "rdma/hca",
        "nvidia.com/gpux",
        "xnvidia.com/gpu",
        "example.com/fpga",
    ],
)
def test_unknown_resources_are_not_guessed(name: str) -> None:
    assert classify_resource(name) is None
    assert not is_device(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vendor: x\nname: X\n", r"x\.yaml: Object missing required field `resources`"),
        (
            "vendor: x\nname: X\nresources: [{pattern: a, unit: card}]\n",
            r"x\.yaml: Invalid enum value 'card' - at `\$.resources\[0\].unit`",
        ),
        (
            "vendor: x\nname: X\nresources: [{pattern: '(', unit: device, examples: [x.io/a]}]\n",
            r"x\.yaml: resources\[0\]\.pattern:",
        ),
        (
            "vendor: x\nname: X\nresources: [{pattern: a/b, unit: device, examples: [a/b]}]\ntypo: 1\n",
            r"x\.yaml: Object contains unknown field `typo`",
        ),
        ("vendor: [\n", r"x\.yaml: while parsing"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(RegistryError, match=message):
        read_registry(tmp_path)


def test_a_vendor_in_two_files_and_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="no vendor file"):
        read_registry(tmp_path)
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(
            "vendor: x\nname: X\nresources: [{pattern: a/b, unit: device, examples: [a/b]}]\n"
        )
    with pytest.raises(RegistryError, match=r"b\.yaml: vendor 'x' is defined in two files"):
        read_registry(tmp_path)


def test_dedicated_taints_are_exact_keys() -> None:
    assert "nvidia.com/gpu" in registry().dedicated_taints
    assert "nvidia.com/gpu-xid-error" not in registry().dedicated_taints
    assert {"hami.io/node-nvidia-register", "volcano.sh/node-vgpu-register"} <= registry().annotations
