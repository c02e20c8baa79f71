"""`./portal test --focus`: files of a closed month before the official validator of FOCUS.

Input: pytest's arguments; output: its exit code, 0 with a sentence where there is no Python 3.12. The validator wants
packages that do not go with the portal's (numpy before 2, another pyarrow) and that Python alone: it has an environment
of its own in `var/cache/focus`, made once for each requirements-focus.txt. Invariants: `.venv` is not touched; an
environment that was not finished is made anew."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from .errors import LaunchError
from .fingerprints import fingerprint, matches, record
from .folders import folders_for
from .testing import run_tests

REQUIREMENTS = "requirements-focus.txt"
VARIABLE = "PORTAL_TEST_FOCUS"
TESTS = "tests/focus/test_validator.py"
FITS = "import ensurepip, ssl, sys, venv; sys.exit(sys.version_info[:2] != (3, 12))"
NONE = (
    "gpu-portal: skipped: the validator of FOCUS needs Python 3.12 and there is none; install it, or name it with "
    "PORTAL_FOCUS_PYTHON=/path/to/python3.12"
)


def run_focus(root: Path, arguments: list[str]) -> int:
    python = find_python(os.environ)
    if python is None:
        print(NONE, file=sys.stderr)
        return 1 if "focus" in os.environ.get("PORTAL_TEST_REQUIRE", "").split(",") else 0
    validator = environment(root, python)
    return run_tests(root, [*arguments, TESTS], {VARIABLE: str(validator)})


def find_python(environ: Mapping[str, str]) -> str | None:
    """The first Python 3.12 that can make environments."""
    return next((found for found in _candidates(environ) if _fits(found)), None)


def _candidates(environ: Mapping[str, str]) -> Iterator[str]:
    """The one that was named, alone; else those on PATH, then those of pyenv, which keeps what it has off PATH."""
    named = environ.get("PORTAL_FOCUS_PYTHON")
    if named:
        yield named
        return
    for name in ("python3.12", "python3", "python"):
        found = shutil.which(name, path=environ.get("PATH", ""))
        if found:
            yield found
    versions = Path(environ.get("PYENV_ROOT") or Path(environ.get("HOME", "/"), ".pyenv"), "versions")
    yield from (str(path) for path in sorted(versions.glob("3.12*/bin/python3.12"), reverse=True))


def _fits(python: str) -> bool:
    try:
        return subprocess.run([python, "-c", FITS], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def environment(root: Path, python: str) -> Path:
    """Folder of the validator's environment, made when it is not there as locked."""
    folder = folders_for(root).var / "cache" / "focus"
    stamp, wanted = folder / "made-of", fingerprint(root, [REQUIREMENTS])
    if matches(stamp, wanted):
        return folder
    print(f"gpu-portal: installing the pinned packages of {REQUIREMENTS} (once)", file=sys.stderr)
    _run([python, "-m", "venv", "--clear", str(folder)], "the validator's environment could not be made")
    install = [
        *(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
        *("--no-input", "--no-deps", "--require-hashes", "--requirement", str(root / REQUIREMENTS)),
    ]
    _run(install, f"the packages of {REQUIREMENTS} could not be installed")
    record(stamp, wanted)
    return folder


def _run(command: list[str], failure: str) -> None:
    if subprocess.run(command, check=False).returncode:
        raise LaunchError(f"{failure}; see above")
