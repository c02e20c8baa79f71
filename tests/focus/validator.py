"""The official validator of FOCUS. Input: a file; output: what it says of it.

Invariants: its exit code is not believed (it is 0 whatever it finds); it runs in its own packages' folder, the only one in
which it finds its list of currencies; it fetches nothing."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FACTS = Path(__file__).resolve().parents[1] / "data" / "focus" / "validator.yaml"
_TOTAL = re.compile(r"^Total: (\d+) \| Pass: (\d+) \| Fail: (\d+) \| Skipped: (\d+)$", re.MULTILINE)
_FAILED = re.compile(r"^\N{CROSS MARK} (\S+): FAIL\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`failed`: ids of rules. `text`: all that it said."""

    passed: int
    failed: frozenset[str]
    text: str


@cache
def facts() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(FACTS.read_text())
    return found


def validate(environment: Path, file: Path) -> Verdict:
    (packages,) = environment.glob("lib/python3.*/site-packages")
    command = [
        *(str(environment / "bin" / "focus-validator"), "--data-file", str(file.absolute())),
        *("--validate-version", facts()["version"], "--block-download", "--show-violations"),
        *("--applicability-criteria", ",".join(facts()["criteria"])),
    ]
    done = subprocess.run(
        command,
        cwd=packages,
        env={**os.environ, "PYTHONPATH": "", "PYTHONUTF8": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    return read(done.stdout)


def read(text: str) -> Verdict:
    """Raises AssertionError when there is no verdict in it, or not a whole one."""
    total = _TOTAL.search(text)
    assert total, f"the validator came to no verdict:\n{text[-4000:]}"
    failed = _FAILED.findall(text)
    assert len(failed) == int(total[3]), f"{total[3]} rules failed, {len(failed)} are named:\n{text[-4000:]}"
    return Verdict(int(total[2]), frozenset(failed), text)
