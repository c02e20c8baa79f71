"""How the registry refuses a bad file, and what it offers beside the tables."""

from decimal import Decimal
from pathlib import Path

import pytest

from apps.fleet.registry import (
    RegistryError,
    by_counted_name,
    classify_resource,
    device_resources,
    first_label,
    is_device,
    read_registry,
    registry,
)
from apps.fleet.vendors import Identity

HEAD = "vendor: x\nname: X\n"
RESOURCE = "resources: [{pattern: 'x\\.io/a', unit: device, examples: [x.io/a]}]\n"
METRIC = "identity: {device: [uuid]}\nmetrics: [{name: m, means: power}"


def test_lookups_by_name() -> None:
    found = classify_resource("nvidia.com/mig-1g.10gb")
    assert found is not None
    assert (found.vendor, found.unit, found.profile, found.counted) == (
        "nvidia",
        "partition",
        "1g.10gb",
        True,
    )
    assert is_device("amd.com/gpu")
    assert not is_device("nvidia.com/gpumem")
    for name in ("cpu", "memory", "pods", "hugepages-2Mi", "rdma/hca", "example.com/fpga", "nvidia.com/gpux"):
        assert classify_resource(name) is None
        assert not is_device(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vendor: [\n", "while parsing"),
        (HEAD, "Object missing required field `resources`"),
        (HEAD + "resources: []\n", r"Expected `array` of length >= 1 - at `\$.resources`"),
        (HEAD + RESOURCE + "typo: 1\n", "Object contains unknown field `typo`"),
        ("vendor: X\nname: X\n" + RESOURCE, r"at `\$.vendor`"),
        (
            HEAD + "resources: [{pattern: a, unit: card, examples: [a]}]\n",
            r"Invalid enum value 'card' - at `\$.resources\[0\].unit`",
        ),
        (
            HEAD + "resources: [{pattern: '', unit: device, examples: [a]}]\n",
            r"at `\$.resources\[0\].pattern`",
        ),
        (
            HEAD + "resources: [{pattern: a, unit: device, examples: []}]\n",
            r"at `\$.resources\[0\].examples`",
        ),
        (
            HEAD + "resources: [{pattern: '(', unit: device, examples: [a]}]\n",
            r"resources\[0\]\.pattern: missing",
        ),
        (
            HEAD + "resources: [{pattern: '.*', unit: device, examples: [x.io/a]}]\n",
            r"resources\[0\]\.pattern: matches '', which is no accelerator",
        ),
        (
            HEAD + "resources: [{pattern: '.+/.+', unit: device, examples: [x.io/a]}]\n",
            r"resources\[0\]\.pattern: matches 'a.example/b', which is no accelerator",
        ),
        (
            HEAD + "resources: [{pattern: 'x\\.io/a', unit: device, examples: [x.io/b]}]\n",
            r"resources\[0\]\.pattern does not match its example 'x.io/b'",
        ),
        (
            HEAD + "resources: [{pattern: 'x.io/a', unit: device, examples: [x.io/a]},"
            " {pattern: 'x.io/[ab]', unit: share, examples: [x.io/b]}]\n",
            r"resources\[0\]\.pattern: 'x.io/a' also matches x\.yaml: resources\[1\]\.pattern",
        ),
        (
            HEAD + "resources: [{pattern: x.io/m, unit: aux, same_as: x.io/a, examples: [x.io/m]}]\n",
            r"resources\[0\]\.same_as: a resource of unit aux is not counted anyway",
        ),
        (
            HEAD + "resources: [{pattern: x.io/c, unit: partition, same_as: x.io/a, examples: [x.io/c]}]\n",
            r"resources\[0\]\.same_as: no example of this file is 'x.io/a'",
        ),
        (HEAD + RESOURCE + METRIC.replace("power", "heat") + "]\n", r"'heat' - at `\$.metrics\[0\].means`"),
        (HEAD + RESOURCE + METRIC.replace("name: m", "name: m-1") + "]\n", r"at `\$.metrics\[0\].name`"),
        (
            HEAD + RESOURCE + METRIC + ", {name: m, means: power}]\n",
            r"metrics\[1\] \(m\): the name is in the list twice",
        ),
        (HEAD + RESOURCE + METRIC + ", {name: n, means: power, scale: 0}]\n", r"above 0, not 0"),
        (
            HEAD + RESOURCE + METRIC + ", {name: n, means: power, scale: -1}]\n",
            r"metrics\[1\] \(n\): scale must be a number above 0, not -1",
        ),
        (
            HEAD + RESOURCE + METRIC + ", {name: n, means: power, scale: .inf}]\n",
            r"metrics\[1\] \(n\): scale must be",
        ),
        (
            HEAD + RESOURCE + METRIC + ", {name: n, means: power, scale: .nan}]\n",
            r"metrics\[1\] \(n\): scale must be",
        ),
        (HEAD + RESOURCE + METRIC + ", {name: n, means: utilisation}]\n", "every utilisation needs one"),
        (HEAD + RESOURCE + METRIC + ", {name: n, means: power, source: s}]\n", "source is for utilisation"),
        (
            HEAD
            + RESOURCE
            + METRIC
            + ", {name: n, means: utilisation, source: s}, {name: o, means: utilisation, source: s}]\n",
            r"metrics\[2\] \(o\): source 's' is in the list twice",
        ),
        (HEAD + RESOURCE + METRIC + ", {name: n, means: health}]\n", "every health metric needs it"),
        (
            HEAD + RESOURCE + "metrics: [{name: m, means: power}]\n",
            "identity: metrics need the labels that name a device",
        ),
        (HEAD + RESOURCE + "labels: {model: ['']}\n", r"at `\$.labels.model\[0\]`"),
        (HEAD + RESOURCE + "labels: {memory: [m]}\n", r"labels\.memory_unit: missing"),
        (HEAD + RESOURCE + "partitions: {half: 0}\n", r"at `\$.partitions\[...\]`"),
        (HEAD + RESOURCE + "metric_prefixes: ['', '']\n", "metric_prefixes: one is in the list twice"),
        (HEAD + RESOURCE + "resolver: magic\n", r"'magic' - at `\$.resolver`"),
        (HEAD + RESOURCE + "drivers: {d: {types: {t: card}}}\n", r"Invalid enum value 'card'"),
        (
            HEAD + RESOURCE + "drivers: {d: {types: {t: device}}}\n",
            r"drivers\[d\]\.attributes\.type: missing",
        ),
        (
            HEAD
            + RESOURCE
            + "drivers: {d: {types: {t: device}, ignored: [t], attributes: {type: [type]}}}\n",
            r"drivers\[d\]: type 't' is both counted and ignored",
        ),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_the_place(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(RegistryError, match=r"^x\.yaml: .*" + message):
        read_registry(tmp_path)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("", r"^a\.yaml: resources\[0\]\.pattern: 'x\.io/a' also matches b\.yaml: resources\[0\]\.pattern"),
        (
            "identity: {device: [u]}\nmetrics: [{name: m, means: power}]\n",
            "^b.yaml: metrics: m is already a metric of a",
        ),
        ("drivers: {d: {default: device}}\n", "^b.yaml: drivers: d is already a driver of a"),
        ("domains: [x.io]\n", "^b.yaml: domains: x.io is already a domain of a"),
    ],
)
def test_two_vendors_never_claim_the_same(tmp_path: Path, extra: str, message: str) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(f"vendor: {name}\nname: N\n{RESOURCE}{extra}")
    with pytest.raises(RegistryError, match=message):
        read_registry(tmp_path)


def test_a_vendor_in_two_files_and_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="no vendor file"):
        read_registry(tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(HEAD + RESOURCE)
    with pytest.raises(RegistryError, match=r"^b\.yaml: vendor 'x' is defined in two files"):
        read_registry(tmp_path)


def test_dedicated_taints_are_exact_keys() -> None:
    assert "nvidia.com/gpu" in registry().dedicated_taints
    assert "nvidia.com/gpu-xid-error" not in registry().dedicated_taints


def test_annotations_that_are_worth_storing() -> None:
    assert {
        "hami.io/node-nvidia-register",
        "volcano.sh/node-vgpu-register",
        "hami.io/node-mlu-register",
        "hami.io/node-register-Ascend910B3",
    } <= registry().annotations


def test_the_first_label_that_is_set_counts() -> None:
    labels = {"a": "", "b": "B", "c": "C"}
    assert first_label(labels, ("a", "b", "c")) == "B"
    assert first_label(labels, ("a", "d")) == ""


def test_only_devices_of_a_node_count() -> None:
    offered = {
        "cpu": "96",
        "nvidia.com/gpu": "8",
        "nvidia.com/gpumem": "320000",
        "rdma/hca": "4",
        "gpu.intel.com/i915_monitoring": "1",
        "amd.com/cpx_nps4": "64",
    }
    assert sorted(device_resources(offered)) == ["amd.com/cpx_nps4", "nvidia.com/gpu"]


@pytest.mark.parametrize(
    ("asked", "offered", "held"),
    [
        # 2 cores are a device here: 4 cores and 3 devices are 5 devices
        (
            {"aws.amazon.com/neuroncore": 4, "aws.amazon.com/neuron": 3, "nvidia.com/gpu": 1},
            {"aws.amazon.com/neuron": "16", "aws.amazon.com/neuroncore": "32"},
            {"aws.amazon.com/neuron": 5, "nvidia.com/gpu": 1},
        ),
        # Trn2 in logical cores: 4 to a device, and 6 of them are one and a half
        (
            {"aws.amazon.com/neuroncore": 6},
            {"aws.amazon.com/neuron": "16", "aws.amazon.com/neuroncore": "64"},
            {"aws.amazon.com/neuron": Decimal("1.5")},
        ),
        # Only cores are offered: they count themselves
        (
            {"aws.amazon.com/neuroncore": 4},
            {"aws.amazon.com/neuroncore": "8"},
            {"aws.amazon.com/neuroncore": 4},
        ),
        (
            {"aws.amazon.com/neuroncore": 4},
            {"aws.amazon.com/neuron": "0", "aws.amazon.com/neuroncore": "8"},
            {"aws.amazon.com/neuroncore": 4},
        ),
        ({"nvidia.com/gpu": 2, "cpu": 8}, {}, {"nvidia.com/gpu": 2, "cpu": 8}),
    ],
)
def test_what_pods_ask_for_in_units_that_count(
    asked: dict[str, int], offered: dict[str, str], held: dict[str, Decimal]
) -> None:
    assert by_counted_name({name: Decimal(n) for name, n in asked.items()}, offered) == held


@pytest.mark.parametrize(
    ("labels", "instance"),
    [
        ({"gpu_partition_id": "0", "gpu_compute_partition_type": "spx"}, ""),
        ({"gpu_partition_id": "3", "gpu_compute_partition_type": "cpx"}, "3"),
        ({"gpu_partition_id": "0"}, "0"),
        ({"GPU_I_ID": "7"}, ""),
    ],
)
def test_a_whole_card_is_no_partition_of_itself(labels: dict[str, str], instance: str) -> None:
    assert registry().vendors["amd"].identity.instance_of(labels) == instance
    assert Identity().instance_of(labels) == ""
