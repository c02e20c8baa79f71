"""Files of the month that was worked out by hand, and of the one that corrects it, before the official validator."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from apps.chargeback.focus_export import Format
from apps.chargeback.models import BillingPeriod
from apps.chargeback.tests.test_focus_export import late_facts, unbind, written
from apps.chargeback.tests.test_ledger import filled
from tests.focus.validator import facts, validate

pytestmark = [pytest.mark.focus, pytest.mark.timeout(600)]
MONTHS = ("2026-03", "2026-04")


@pytest.fixture
def environment() -> Path:
    return Path(os.environ["PORTAL_TEST_FOCUS"])


@pytest.fixture
def files(db: None, settings: object, tmp_path: Path) -> dict[tuple[str, Format], Path]:
    """March, whose queue q11 is nobody's, and April with corrections of March."""
    cluster = filled(settings)
    unbind(cluster, "q11")
    late_facts(cluster)
    found = {}
    for period in BillingPeriod.objects.filter(month__in=MONTHS):
        for format_ in Format:
            path = tmp_path / f"{period.month}.{format_}"
            path.write_bytes(written(period, format_))
            found[period.month, format_] = path
    return found


@pytest.mark.parametrize("format_", list(Format))
@pytest.mark.parametrize("month", MONTHS)
def test_the_validator_finds_nothing_but_what_is_known_to_be_wrong(
    files: dict[tuple[str, Format], Path], environment: Path, month: str, format_: Format
) -> None:
    found = validate(environment, files[month, format_])
    assert found.failed == set(facts()["known"]), found.text[-6000:]
    assert found.passed >= facts()["passed"]


def test_the_validator_finds_what_is_wrong(files: dict[tuple[str, Format], Path], environment: Path) -> None:
    """Else its silence would say nothing."""
    path = files["2026-04", Format.CSV]
    path.write_text(path.read_text().replace(",Usage,Correction,", ",Use,Correction,"))
    found = validate(environment, path)
    assert any(rule.startswith("ChargeCategory-") for rule in found.failed), found.text[-6000:]


def test_each_criterion_of_the_validator_has_its_place(environment: Path) -> None:
    (packages,) = environment.glob("lib/python3.*/site-packages")
    command = [
        *(str(environment / "bin" / "focus-validator"), "--block-download"),
        *("--validate-version", facts()["version"], "--show-applicability-criteria"),
    ]
    said = subprocess.run(command, cwd=packages, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"\b[A-Z_]+_SUPPORTED\b", said)) == {*facts()["criteria"], *facts()["left_out"]}
