"""The quota tree and the engine against where a real Kueue came to rest, from what is kept in tests/data/settled.

Whatever differs has to be explained: by a known gap (compare.py names them), or the fault is ours. The figures are
printed by `./portal bench agreement`, and live by tests/cluster/test_agreement.py.
"""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.differential.compare import ARITHMETIC, Agreement
from tests.differential.kept import agreement, recordings

WAYS = ("classic", "fair")


@pytest.fixture(scope="module", params=WAYS)
def found(request: pytest.FixtureRequest) -> Agreement:
    return agreement(request.param)


def test_enough_was_compared() -> None:
    kept = [recording for way in WAYS for recording in recordings(way)]
    assert len(kept) >= 200
    assert {len(recording["waves"]) for recording in kept} == {1, 2, 3}
    assert sum(len(recording["setup"]["work"]) for recording in kept) > 4000
    preempted = {
        work["preempted"]
        for recording in kept
        for wave in recording["waves"]
        for work in wave["work"].values()
    }
    assert preempted >= {
        "InClusterQueue",
        "InCohortReclamation",
        "InCohortReclaimWhileBorrowing",
        "InCohortFairSharing",
    }


def test_quota_arithmetic_agrees(found: Agreement) -> None:
    assert sum(found.made[what] for what in ARITHMETIC) > 2000
    assert found.share(*ARITHMETIC) >= Decimal("99")


def test_the_same_work_is_admitted(found: Agreement) -> None:
    assert found.made["admitted"] > 2000
    assert found.share("admitted") >= Decimal("95")
    assert found.share("flavors") >= Decimal("99")
    assert found.share("refused") >= Decimal("95")


def test_what_differs_is_explained(found: Agreement) -> None:
    assert [str(one) for one in found.differ if not one.why] == []
