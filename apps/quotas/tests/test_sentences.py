"""Quota rows in words: one expected text per branch, written by hand."""

from __future__ import annotations

from decimal import Decimal as D
from typing import Any

import pytest
from django.utils import translation

from apps.fleet.models import Cluster
from apps.quotas.lacking import Lack
from apps.quotas.loans import comes_back
from apps.quotas.rows import LoanRow, QuotaRow
from apps.quotas.sentences import asides, describe, noun_of
from apps.quotas.standing_words import lack_text

GPU = "nvidia.com/gpu"
EAST, WEST = Cluster(pk=1, slug="east", name="East"), Cluster(pk=2, slug="west", name="West")


@pytest.fixture(autouse=True)
def english() -> Any:
    with translation.override("en"):
        yield


def row(**changes: Any) -> QuotaRow:
    """24 of 32 H100 in cohort ml, which may grow to 48."""
    said: dict[str, Any] = {
        "cluster": EAST, "system": "kueue", "kind": "ClusterQueue", "queue": "mine", "cohort": "ml", "flavor": "h100",
        "resource": GPU, "accelerator": True, "unit": "card", "model_label": "H100", "listed": True, "nominal": D(32),
        "borrowing_limit": None, "lending_limit": None, "reserved": D(24), "admitted": D(24), "borrowed": D(0),
        "lent": D(0), "available": D(24), "ceiling": D(48), "over": D(0), "pending": D(0), "waiting": 0,
        "pending_on": "", "team_ids": (), "active": True, "stopped": False, "reason": "", "message": "",
    }  # fmt: skip
    return QuotaRow(**{**said, **changes})


def loan(lender: str, borrower: str, amount: int, **changes: Any) -> LoanRow:
    said: dict[str, Any] = {
        "cluster": EAST, "lender_kind": "ClusterQueue", "lender": lender, "borrower": borrower, "flavor": "h100",
        "resource": GPU, "accelerator": True, "unit": "card", "model_label": "H100", "amount": D(amount), "since": None,
        "reclaim": "Never", "lender_teams": (), "borrower_teams": (),
    }  # fmt: skip
    return LoanRow(**{**said, **changes})


GROWS = " May grow to 48 while others leave them idle."


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, f"Uses 24 of 32 H100.{GROWS}"),
        (
            {"reserved": D(40), "borrowed": D(8), "waiting": 3, "pending": D(40)},
            f"Uses 40 of 32 H100. 8 of these are borrowed from cohort ml.{GROWS} 3 jobs wait for 40 more.",
        ),
        ({"lent": D(4)}, f"Uses 24 of 32 H100. 4 of its own are lent to others in cohort ml.{GROWS}"),
        ({"ceiling": D(32), "reserved": D(32)}, "Uses 32 of 32 H100. It is at its ceiling."),
        ({"ceiling": D(32)}, "Uses 24 of 32 H100."),
        (
            {"ceiling": D(20), "over": D(4)},
            "Uses 24 of 32 H100. It is over its ceiling by 4; nothing is evicted for that.",
        ),
        # A queue that only borrows has no 0 to be measured against.
        (
            {"nominal": D(0), "reserved": D(0)},
            f"Has no H100 of its own; uses 0.{GROWS}",
        ),
        ({"nominal": D(0), "reserved": D(0), "ceiling": D(0)}, "Has no H100 and can borrow none."),
        (
            {"nominal": D(0), "reserved": D(6), "borrowed": D(6)},
            f"Has no H100 of its own; uses 6. 6 of these are borrowed from cohort ml.{GROWS}",
        ),
        (
            {"listed": False, "nominal": None, "ceiling": D(0), "over": D(24)},
            "Still holds 24 H100 in a flavor that the queue no longer lists. "
            "It is over its ceiling by 24; nothing is evicted for that.",
        ),
        ({"stopped": True}, f"Uses 24 of 32 H100.{GROWS} The queue is stopped: it admits nothing new."),
        (
            {"active": False, "message": "no flavor"},
            f"Uses 24 of 32 H100.{GROWS} The queue admits nothing new: no flavor",
        ),
        ({"waiting": 1, "pending": D(8)}, f"Uses 24 of 32 H100.{GROWS} 1 job waits for 8 more."),
    ],
)
def test_kueue(changes: dict[str, Any], expected: str) -> None:
    assert describe(row(**changes)) == expected


VOLCANO: dict[str, Any] = {
    "system": "volcano",
    "kind": "VolcanoQueue",
    "flavor": "",
    "borrowed": None,
    "lent": None,
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"plugin": "capacity"}, f"Uses 24 H100; deserves 32 (capacity).{GROWS}"),
        (
            {"plugin": "proportion"},
            f"Uses 24 H100; deserves 32 now, which moves with demand (proportion).{GROWS}",
        ),
        ({"plugin": "", "ceiling": None}, "Uses 24 of 32 H100. It has no upper limit."),
        ({"nominal": None, "ceiling": None}, "Uses 24 H100; no share is set. It has no upper limit."),
    ],
)
def test_volcano(changes: dict[str, Any], expected: str) -> None:
    assert describe(row(**{**VOLCANO, **changes})) == expected


@pytest.mark.parametrize(
    ("loans", "expected"),
    [
        ([loan("ml-platform", "mine", 8)], "8 of these are borrowed from ml-platform."),
        ([loan("a", "mine", 5), loan("b", "mine", 3)], "8 of these are borrowed from a (5), b (3)."),
        # A loan covers less than what is borrowed: the root is over by the rest, which nobody lends.
        ([loan("a", "mine", 5)], "8 of these are borrowed from a (5)."),
        ([loan(name, "mine", 2) for name in "abcd"], "8 of these are borrowed from cohort ml."),
        # Loans of another cluster, flavor or queue are not this row's.
        (
            [loan("x", "mine", 8, cluster=WEST), loan("x", "mine", 8, flavor="a100"), loan("x", "other", 8)],
            "8 of these are borrowed from cohort ml.",
        ),
    ],
)
def test_the_lenders_by_name(loans: list[LoanRow], expected: str) -> None:
    said = describe(row(reserved=D(40), borrowed=D(8)), loans)
    assert said == f"Uses 40 of 32 H100. {expected}{GROWS}"


def test_the_borrowers_by_name() -> None:
    said = describe(row(lent=D(4)), [loan("mine", "vision", 4)])
    assert said == f"Uses 24 of 32 H100. 4 of its own are lent to vision.{GROWS}"


def test_what_is_counted() -> None:
    assert (
        noun_of(row(resource="deviceclass/gpu.nvidia.com", unit="device"))
        == "devices of class gpu.nvidia.com"
    )
    assert noun_of(row(resource="cpu", accelerator=False)) == "CPU cores"


def test_what_the_sentence_leaves_out() -> None:
    assert asides(row()) == []
    assert asides(row(guaranteed=D(8), admitted=D(20), status_reserved=D(23), notes=("Odd.",))) == [
        "8 are guaranteed: never lent",
        "4 reserved, not running yet",
        "the queue's own status says 23",
        "Odd.",
    ]
    # Absent is not zero: a guarantee of 0 is said, none is not.
    assert asides(row(**VOLCANO, guarantee=D(0), real_capability=D(40))) == [
        "guarantee 0",
        "real capability 40",
    ]


def test_how_a_loan_comes_back() -> None:
    assert (
        comes_back(loan("a", "b", 1))
        == "When the borrower's work ends: the lender preempts nothing to get it back."
    )
    cohort = loan("a", "b", 1, lender_kind="Cohort", reclaim="")
    assert comes_back(cohort) == "The cohort's own quota: free again when the borrower's work ends."


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, "–"),
        ((), "nothing: quota is free"),
        ((Lack(GPU, D(16), D(10), "h100"),), "10 GPU in h100"),
        ((Lack("memory", D(16), D(2147483648), ""),), "2 GiB memory"),
        ((Lack(GPU, D(64), D(54), "h100", beyond=D(16)),), "exceeds the ceiling by 16 GPU"),
        (
            (Lack("cpu", D(3), D(3), "", offered=False), Lack(GPU, D(8), D(2), "h100")),
            "cpu: the queue has no quota of it; 2 GPU in h100",
        ),
    ],
)
def test_what_is_lacking_in_words(found: Any, expected: str) -> None:
    assert lack_text(found) == expected


@pytest.mark.parametrize(
    ("found", "blocked", "expected"),
    [
        ((), "cluster_queue_stopped", "quota is free, but its queue is stopped"),
        ((), "cluster_queue_inactive", "quota is free, but its queue is not active"),
        ((), "local_queue_stopped", "quota is free, but its LocalQueue is stopped"),
        ((), "behind_head", "quota is free, but it waits behind the head of its queue (StrictFIFO)"),
        (None, "cluster_queue_stopped", "its queue is stopped"),
        (
            (Lack(GPU, D(16), D(10), "h100"),),
            "local_queue_stopped",
            "10 GPU in h100; its LocalQueue is stopped",
        ),
    ],
)
def test_what_is_in_the_way_beside_quota_in_words(found: Any, blocked: Any, expected: str) -> None:
    assert lack_text(found, blocked) == expected
