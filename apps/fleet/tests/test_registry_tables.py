"""Every vendor file against its table, and that adding a vendor takes one file and one table."""

import re
import shutil
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.fleet.registry import COUNTED, DATA, read_registry, registry
from apps.fleet.tests.registry_tables import TABLES, check_offered, check_table, read_table

GUIDE = Path(__file__).parents[3] / "docs" / "registry.md"
VENDORS = sorted(path.stem for path in DATA.glob("*.yaml"))


def test_every_vendor_file_has_a_table_and_its_own_name() -> None:
    assert sorted(path.stem for path in TABLES.glob("*.yaml")) == VENDORS
    assert sorted(registry().vendors) == VENDORS


@pytest.mark.parametrize("name", VENDORS)
def test_the_registry_answers_as_the_table_says(name: str) -> None:
    table = read_table(TABLES / f"{name}.yaml")
    check_table(registry(), name, table)
    check_offered(table)


def test_nothing_auxiliary_is_a_device() -> None:
    """Every row that says memory or aux, of every vendor, in one list."""
    rows = {
        resource: kind.split()[0]
        for name in VENDORS
        for resource, kind in read_table(TABLES / f"{name}.yaml")["resources"].items()
    }
    aside = {resource for resource, kind in rows.items() if kind in ("memory", "aux")}
    assert {
        "nvidia.com/gpumem",
        "nvidia.com/gpucores",
        "gpu.intel.com/monitoring",
        "nvidia.com/imex-channel",
    } <= aside
    for resource in aside:
        known = registry().classify(resource)
        assert known is not None
        assert known.unit not in COUNTED
        assert not known.counted, resource


def pieces_by_domain() -> list[tuple[str, list[str]]]:
    """Of every resource in the tables: "nvidia.com" → "mig-", "1g.", "10gb", …"""
    found: dict[str, list[str]] = {}
    for name in VENDORS:
        for resource in read_table(TABLES / f"{name}.yaml")["resources"]:
            domain, _slash, rest = resource.partition("/")
            found.setdefault(domain, []).extend(re.split("(?<=[-._])", rest))
    return sorted(found.items())


@given(
    st.sampled_from(pieces_by_domain()).flatmap(
        lambda item: st.lists(st.sampled_from(item[1]), min_size=1, max_size=4).map(
            lambda pieces: f"{item[0]}/{''.join(pieces)}"
        )
    )
)
def test_no_name_is_claimed_by_two_patterns(name: str) -> None:
    """Names made of pieces of real ones of the same domain."""
    found = [entry.pattern for pattern, _vendor, entry in registry().patterns if pattern.fullmatch(name)]
    assert len(found) <= 1, found


ACME = """
vendor: acme
name: Acme
domains: [acme.example]
resources:
  - {pattern: 'acme\\.example/npu', unit: device, examples: [acme.example/npu]}
  - {pattern: 'acme\\.example/npu-(?P<profile>half|quarter)', unit: partition, examples: [acme.example/npu-half]}
  - {pattern: 'acme\\.example/npu-memory', unit: aux, examples: [acme.example/npu-memory]}
labels: {model: [acme.example/card], memory: [acme.example/memory], memory_unit: Gi}
partitions: {half: 2, quarter: 4}
metrics:
  - {name: acme_busy_percent, means: utilisation, source: acme, scale: 0.01}
  - {name: acme_memory_kib, means: memory_used, scale: 1024}
identity: {device: [serial]}
drivers:
  npu.acme.example: {types: {whole: device, part: partition}, ignored: [link], attributes: {type: [type]}}
"""
TABLE = """
resources:
  acme.example/npu: device
  acme.example/npu-half: partition half
  acme.example/npu-quarter: partition quarter
  acme.example/npu-memory: aux
unknown: [acme.example/npu-third]
labels:
  - {given: {acme.example/card: A1, acme.example/memory: '48'}, then: {model: A1, memory: 48 Gi, driver: ''}}
metrics:
  acme_busy_percent: [utilisation, 0.01, acme]
  acme_memory_kib: [memory_used, 1024]
ladder: [acme]
drivers:
  npu.acme.example: {whole: device, part: partition, link: ''}
"""


def test_a_vendor_is_one_file_and_one_table(tmp_path: Path) -> None:
    data, tables = tmp_path / "data", tmp_path / "tables"
    shutil.copytree(DATA, data)
    shutil.copytree(TABLES, tables)
    (data / "acme.yaml").write_text(ACME)
    (tables / "acme.yaml").write_text(TABLE)
    found = read_registry(data)
    for path in sorted(tables.glob("*.yaml")):  # the new one, and all others unchanged beside it
        check_table(found, path.stem, read_table(path))
    assert found.metrics["acme_busy_percent"][0] == "acme"
    assert found.domains["acme.example"] == "acme"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("acme.example/npu-memory: aux", "acme.example/npu-memory: device"),
        ("acme_memory_kib: [memory_used, 1024]", "acme_memory_kib: [memory_used, 1000]"),
        ("  acme.example/npu-half: partition half\n", ""),
        ("link: ''", "link: device"),
        ("memory: 48 Gi", "memory: 48 Mi"),
    ],
)
def test_a_table_that_differs_fails(tmp_path: Path, wrong: str, right: str) -> None:
    shutil.copytree(DATA, tmp_path / "data")
    (tmp_path / "data" / "acme.yaml").write_text(ACME)
    (tmp_path / "acme.yaml").write_text(TABLE.replace(wrong, right))
    with pytest.raises(AssertionError):
        check_table(read_registry(tmp_path / "data"), "acme", read_table(tmp_path / "acme.yaml"))


def test_the_guide_is_true(tmp_path: Path) -> None:
    """The vendor file and the table that docs/registry.md shows."""
    blocks = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    vendor, table = (textwrap.dedent(block) for block in blocks)
    (tmp_path / "acme.yaml").write_text(vendor)
    (tmp_path / "table.txt").write_text(table)
    check_table(read_registry(tmp_path), "acme", read_table(tmp_path / "table.txt"))


def test_metrics_of_a_file_without_devices_come_last() -> None:
    """HAMi's monitor sees other vendors' cards: it only fills in what their exporters do not say."""
    owners = list(dict.fromkeys(owner for owner, _ in registry().metrics.values()))
    assert owners[-1] == "hami"
    assert registry().metrics["DCGM_FI_DEV_GPU_UTIL"][0] == "nvidia"
