"""`./portal lint`: every static check, each with its time; the exit code says whether all passed.

.pre-commit-config.yaml runs the same checks, the quick ones on the changed files only.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .errors import LaunchError

# Settings want a database; none of the checks needs to reach it.
ENVIRONMENT = {
    "DATABASE_URL": "postgresql://lint@127.0.0.1:1/lint",
    "PORTAL_SECRET_KEY": "only-for-lint-" + "x" * 40,
    "PORTAL_PROCESS": "test",
    "PYTHONWARNINGS": "ignore",
}


@dataclass(frozen=True)
class Result:
    name: str
    code: int
    seconds: float
    output: str


def checks(root: Path) -> dict[str, list[str]]:
    """Name → command of every check."""
    python = sys.executable
    bin_folder = Path(python).parent
    templates = sorted(
        str(path.relative_to(root))
        for folder in ("templates", "apps")
        for path in (root / folder).rglob("*.html")
    )
    return {
        "types": [python, "-m", "mypy", "apps", "worker", "gpuportal", "simcluster", "tests", "conftest.py"],
        "style": [python, "-m", "ruff", "check", "."],
        "format": [python, "-m", "ruff", "format", "--check", "."],
        "layers": [str(bin_folder / "lint-imports"), "--no-cache"],
        "templates": [str(bin_folder / "djade"), "--target-version", "5.2", "--check", *templates],
        "settings": [python, "manage.py", "check", "--fail-level", "WARNING"],
        "migrations": [python, "manage.py", "makemigrations", "--check", "--dry-run"],
        "vendored": [python, "-m", "gpuportal.launcher.vendored"],
    }


def lint(root: Path, names: list[str] | None = None) -> int:
    """Run all (or the named) checks, two at a time; print what failed with its output."""
    unknown = set(names or ()) - set(checks(root))
    if unknown:
        raise LaunchError(f"no check {sorted(unknown)[0]!r}; there are: {', '.join(checks(root))}")
    chosen = {name: command for name, command in checks(root).items() if not names or name in names}
    with ThreadPoolExecutor(max_workers=2) as pool:
        results = list(pool.map(lambda item: _run(root, *item), chosen.items()))
    for result in results:
        print(f"{'ok  ' if result.code == 0 else 'FAIL'} {result.name} ({result.seconds:.1f} s)")
        if result.code:
            print(result.output.rstrip())
    failed = [result.name for result in results if result.code]
    print(f"lint: {len(results) - len(failed)} of {len(results)} checks passed")
    return 1 if failed else 0


def _run(root: Path, name: str, command: list[str]) -> Result:
    started = time.monotonic()
    done = subprocess.run(
        command,
        cwd=root,
        env={**os.environ, **ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Result(name, done.returncode, time.monotonic() - started, done.stdout)
