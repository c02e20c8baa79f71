"""What the validator says is read as it is meant, whether it runs here or not."""

from __future__ import annotations

import pytest

from tests.focus.validator import facts, read

SAID = """
\N{WHITE HEAVY CHECK MARK} SkuId-C-001-M: PASS  (violations=0, 1.2ms)
\N{CROSS MARK} InvoiceId-C-004-C: FAIL  (violations=891, msg=InvoiceId MUST be NULL., 2.6ms)
\N{CROSS MARK} BilledCost-C-001-M: FAIL  (violations=2, msg=BilledCost MUST be of type DECIMAL., 2.6ms)
Total: 578 | Pass: 301 | Fail: 2 | Skipped: 275
--- Failures ---
- InvoiceId-C-004-C: violations=891; InvoiceId MUST be NULL.
"""


def test_a_verdict_names_what_failed() -> None:
    found = read(SAID)
    assert found.passed == 301
    assert found.failed == {"InvoiceId-C-004-C", "BilledCost-C-001-M"}


@pytest.mark.parametrize(
    "text", ["", "Traceback (most recent call last):", SAID.replace("Fail: 2", "Fail: 3")]
)
def test_no_verdict_is_no_success(text: str) -> None:
    with pytest.raises(AssertionError):
        read(text)


def test_each_criterion_is_asked_or_left_out_with_a_reason() -> None:
    told = facts()
    assert len(set(told["criteria"]) | set(told["left_out"])) == len(told["criteria"]) + len(told["left_out"])
    assert all(len(reason) > 10 for reason in (*told["left_out"].values(), *told["known"].values()))
