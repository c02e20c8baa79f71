"""Weights, names and modes: every figure from the vendors' geometry tables."""

from fractions import Fraction

import pytest
from django.utils import translation

from apps.core.gpu import (
    MODE_LABELS,
    SharingMode,
    mig_model,
    mig_models,
    mig_weight,
    mode_sentence,
    profile_label,
    published_weights,
    short_model,
    split_product,
    unit_label,
    unit_of,
)

H100, A40, A80 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"


@pytest.mark.parametrize(
    ("product", "profile", "compute", "memory", "per_card"),
    [
        (H100, "1g.10gb", Fraction(1, 7), Fraction(1, 8), 7),
        (H100, "3g.40gb", Fraction(3, 7), Fraction(1, 2), 2),
        (H100, "7g.80gb", Fraction(1), Fraction(1), 1),
        (H100, "1g.10gb.me", Fraction(1, 7), Fraction(1, 8), 7),
        (A80, "1g.10gb", Fraction(1, 7), Fraction(1, 8), 7),
        (A40, "1g.10gb", Fraction(1, 7), Fraction(1, 4), 4),  # the same name is another part of another card
        ("NVIDIA-H200", "1g.35gb", Fraction(1, 7), Fraction(1, 4), 4),
        ("NVIDIA-GB300", "1g.35gb", Fraction(1, 7), Fraction(1, 8), 7),
        ("NVIDIA-A30", "2g.12gb", Fraction(1, 2), Fraction(1, 2), 2),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "1g.24gb", Fraction(1, 4), Fraction(1, 4), 4),
        ("NVIDIA H100 NVL", "3g.47gb", Fraction(3, 7), Fraction(1, 2), 2),
    ],
)
def test_mig_weights_by_model_and_profile(
    product: str, profile: str, compute: Fraction, memory: Fraction, per_card: int
) -> None:
    weight = mig_weight(product, profile)
    assert (weight.compute, weight.memory, weight.per_card, weight.known) == (compute, memory, per_card, True)


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA-GH200-480GB", "H100/GH200/H20 96GB"),
        ("NVIDIA-GH200-144G-HBM3e", "GH200 144GB"),
        ("NVIDIA-H200-NVL", "H200 141GB"),
        ("NVIDIA-H20", "H100/GH200/H20 96GB"),
        ("NVIDIA-GB200", "GB200 186GB"),
        ("NVIDIA-B200", "B200 180GB"),
        ("NVIDIA-B300", "B300 269GB"),
        ("NVIDIA-A800-SXM4-80GB", "A100/H100/H800 80GB"),
        ("NVIDIA-H100-PCIe", "A100/H100/H800 80GB"),
        ("NVIDIA-L4", None),
        ("NVIDIA-RTX-A3000", None),
    ],
)
def test_products_find_their_row(product: str, name: str | None) -> None:
    found = mig_model(product)
    assert (found.name if found else None) == name


def test_a_profile_outside_of_the_table_is_estimated_and_says_so() -> None:
    weight = mig_weight("NVIDIA-X900", "2g.99gb")
    assert (weight.compute, weight.memory, weight.per_card, weight.known) == (Fraction(2, 7), None, 3, False)


def test_no_profile_fits_more_than_its_card_has() -> None:
    for model in mig_models():
        for profile, (most, memory) in model.profiles.items():
            slices = int(profile.split("g")[0])
            assert most * slices <= model.compute_slices, (model.name, profile)
            assert most * memory <= model.memory_slices, (model.name, profile)


@pytest.mark.parametrize(
    ("label", "model", "profile", "shared"),
    [
        ("NVIDIA-L4-SHARED", "NVIDIA-L4", "", True),
        (H100, H100, "", False),
        (f"{H100}-MIG-1g.10gb", H100, "1g.10gb", False),
        (f"{H100}-MIG-1g.10gb-SHARED", H100, "1g.10gb", True),
        (f"{H100}-MIG-INVALID", H100, "INVALID", False),
        ("", "", "", False),
    ],
)
def test_product_labels_are_taken_apart(label: str, model: str, profile: str, shared: bool) -> None:
    found = split_product(label)
    assert (found.model, found.profile, found.shared) == (model, profile, shared)


@pytest.mark.parametrize(
    ("model", "short"),
    [
        (H100, "H100 80GB"),
        ("NVIDIA H100 80GB HBM3", "H100 80GB"),
        (A80, "A100 80GB"),
        ("NVIDIA-A100-PCIE-40GB", "A100 40GB"),
        ("NVIDIA-L4", "L4"),
        ("NVIDIA-GB200", "GB200"),
        ("Tesla-T4", "T4"),
        ("Tesla-V100-SXM2-32GB", "V100 32GB"),
        ("AMD_Instinct_MI300X_OAM", "MI300X"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "RTX PRO 6000 Blackwell"),
        ("nvidia-tesla-a100", "A100"),
        ("nvidia-h100-80gb", "H100 80GB"),
        ("tpu-v5-lite-podslice", "tpu v5 lite podslice"),
        ("NVIDIA-H100-80GB-HBM3 + NVIDIA-L4", "H100 80GB + L4"),
        ("Intel-Gaudi", "Intel Gaudi"),
        ("910B3", "910B3"),
        ("nvidia", "nvidia"),
        ("", ""),
    ],
)
def test_short_names(model: str, short: str) -> None:
    assert short_model(model) == short


def test_every_mode_has_a_label_and_a_unit() -> None:
    for mode in SharingMode:
        assert MODE_LABELS[mode]
        assert unit_label(unit_of(mode)) != unit_of(mode)


@pytest.mark.parametrize(
    ("product", "profile", "name"),
    [
        ("NVIDIA H100 NVL", "1g.11gb", "1g.12gb"),  # what exporters say for the same instance
        ("NVIDIA-GB200", "3g.94gb", "3g.93gb"),  # between 93 and 95, as near to both: the table's first
        (H100, "1g.10gb+me", "1g.10gb"),
        (H100, "1g.15gb", ""),  # halfway between two sizes: neither
        (H100, "6g.40gb", ""),  # as large as another profile, but with other slices
        (H100, "1g.xgb", ""),
        (H100, "rubbish", ""),
    ],
)
def test_the_nearest_profile_of_a_model(product: str, profile: str, name: str) -> None:
    found = mig_weight(product, profile)
    assert (found.profile, found.known) == (name, bool(name))


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("nvidia-tesla-a100", "A100 40GB"),  # GKE's names
        ("nvidia-a100-80gb", "A100/H100/H800 80GB"),
        ("nvidia-h100-mega-80gb", "A100/H100/H800 80GB"),
        ("nvidia-h200-141gb", "H200 141GB"),
        ("nvidia-gb200", "GB200 186GB"),
        ("nvidia-l4", None),
    ],
)
def test_names_of_a_cloud_find_their_row(product: str, name: str | None) -> None:
    found = mig_model(product)
    assert (found.name if found else None) == name


def test_the_published_table_is_the_one_that_weighs() -> None:
    rows = published_weights()
    assert len(rows) == sum(len(model.profiles) for model in mig_models()) == 68
    first = rows[0]
    assert (first.model, first.profile, first.per_card) == ("A100 40GB", "1g.5gb", 7)
    assert (first.compute_slices, first.card_compute_slices) == (1, 7)
    assert (first.memory_slices, first.card_memory_slices) == (1, 8)
    for model in mig_models():
        for row in (row for row in rows if row.model == model.name):
            product = {"A100/H100/H800 80GB": H100, "H100/GH200/H20 96GB": "NVIDIA-H20"}.get(
                row.model, row.model
            )
            weight = mig_weight(product.replace(" 40GB", "-SXM4-40GB"), row.profile)
            assert weight.compute == Fraction(row.compute_slices, row.card_compute_slices), row
            assert weight.memory == Fraction(row.memory_slices, row.card_memory_slices), row
            assert (weight.per_card, weight.profile) == (row.per_card, row.profile), row
    assert {row.model for row in rows} == {model.name for model in mig_models()}


@pytest.mark.parametrize(
    ("mode", "units", "sentence"),
    [
        ("exclusive", 1, "One unit is a whole card."),
        (
            "mig",
            Fraction(26, 4),
            "One MIG instance is a hardware partition: own memory, own fault isolation.",
        ),
        ("partition", 8, "One unit is a fixed part of a card, as its vendor divides it."),
        ("time_slicing", 4, "4 time slices share one card: no memory or fault isolation."),
        ("time_slicing", Fraction(9, 2), "Several slices share one card: no memory or fault isolation."),
        ("time_slicing", 0, "Several slices share one card: no memory or fault isolation."),
        ("mps", 10, "10 MPS clients share one card: memory limited to 1/10 each, no fault isolation."),
        ("vgpu", 10, "10 vGPU shares split one card: limits are kept by software, no fault isolation."),
        ("unheard-of", 3, ""),
    ],
)
def test_a_line_says_what_a_unit_is_and_is_not(mode: str, units: Fraction | int, sentence: str) -> None:
    with translation.override("en"):
        assert mode_sentence(mode, units) == sentence


@pytest.mark.parametrize(
    ("profile", "label"),
    [("1g.10gb", "MIG 1g.10gb"), ("1g.10gb.me", "MIG 1g.10gb.me"), ("cpx_nps4", "cpx_nps4"), ("2c", "2c")],
)
def test_only_nvidias_partitions_are_called_mig(profile: str, label: str) -> None:
    assert profile_label(profile) == label
