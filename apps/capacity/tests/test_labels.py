"""Evidence in words: what the portal counted reads in the reader's language, what a cluster says as it came."""

from __future__ import annotations

import pytest
from django.utils import translation

from apps.capacity.labels import evidence_text

COUNTED = "nvidia.com/mig-1g.10gb: 5 of 7, nvidia.com/mig-3g.40gb: 0 of 1"


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "5 of 7 nvidia.com/mig-1g.10gb offered; 0 of 1 nvidia.com/mig-3g.40gb offered"),
        ("zh-hans", "7 个 nvidia.com/mig-1g.10gb 中可分配 5 个；1 个 nvidia.com/mig-3g.40gb 中可分配 0 个"),
    ],
)
def test_units_that_are_not_offered_are_counted_in_words(language: str, text: str) -> None:
    with translation.override(language):
        assert evidence_text(COUNTED) == text


def test_cards_that_are_gone_are_counted_in_words() -> None:
    with translation.override("zh-hans"):
        assert evidence_text("4 known, 3 offered") == "已知 4 张卡，上报 3 张"


@pytest.mark.parametrize(
    "said", ["KubeletNotReady: 3 of 5 disks are full", "recabling: 1 of 2, then the rest", "1 of 2", ""]
)
def test_what_a_cluster_says_stays_as_it_came(said: str) -> None:
    with translation.override("zh-hans"):
        assert evidence_text(said) == said
