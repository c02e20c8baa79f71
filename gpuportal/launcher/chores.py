"""The small commands: manage, backup, bench, lock."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from . import postgres, servers
from .errors import LaunchError
from .folders import folders_for
from .lock import installation_lock, running_environment
from .supervisor import Supervisor
from .testing import temporary_folder


@contextmanager
def portal_environment(root: Path) -> Iterator[Mapping[str, str]]:
    """The environment of the portal that runs here, else of its servers, started for as long as this takes."""
    folders = folders_for(root)
    running = running_environment(folders.var)
    if running is not None:
        yield running
        return
    supervisor = Supervisor(lambda text: print(text, file=sys.stderr))
    with installation_lock(folders.var, "a chore"):
        try:
            plan = servers.plan(folders, database_of(folders.var))
            plan.start(supervisor)
            plan.wait()
            yield plan.environment()
        finally:
            supervisor.stop()


def database_of(var: Path) -> str:
    """The embedded database of the last `up`: the demo's unless a real cluster was named."""
    remembered = var / "database"
    return remembered.read_text() if remembered.exists() else "portal_demo"


def manage(root: Path, arguments: list[str]) -> int:
    """Django's own command line."""
    with portal_environment(root) as environment:
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=root,
            env={**os.environ, **environment},
            check=False,
        ).returncode


def backup(root: Path, target: Path) -> int:
    """A dump for pg_restore, written beside the target first so that a broken one never takes its place."""
    partial = target.with_name(target.name + ".part")
    with portal_environment(root) as environment:
        command = [
            str(postgres.package_binaries() / "pg_dump"),
            "--format=custom",
            environment["DATABASE_URL"],
        ]
        try:
            with partial.open("wb") as file:
                done = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, text=True, check=False)
        except OSError as error:
            raise LaunchError(f"{partial}: {error.strerror}") from error
    if done.returncode:
        partial.unlink()
        raise LaunchError(f"pg_dump: {done.stderr.strip()}")
    partial.replace(target)
    print(f"{target}: {target.stat().st_size} bytes; restore with pg_restore")
    return 0


def bench(root: Path, name: str | None, *, as_json: bool) -> int:
    """Run `bench/<name>.py` (default: each of them) on servers of its own."""
    names = sorted(path.stem for path in (root / "bench").glob("*.py") if not path.stem.startswith("_"))
    if name is not None and name not in names:
        raise LaunchError(f"no benchmark {name!r}; there are: {', '.join(names) or 'none'}")
    supervisor = Supervisor(lambda text: print(text, file=sys.stderr))
    with temporary_folder() as folder:
        try:
            plan = servers.plan(folders_for(root, folder), "portal_bench")
            plan.start(supervisor)
            plan.wait()
            environment = {**os.environ, **plan.environment(), "PORTAL_PROCESS": "bench"}
            codes = [
                subprocess.run(
                    [sys.executable, "-m", f"bench.{each}", *(["--json"] if as_json else [])],
                    cwd=root,
                    env=environment,
                    check=False,
                ).returncode
                for each in ([name] if name else names)
            ]
        finally:
            supervisor.stop()
    return max(codes, default=0)


def lock(root: Path) -> int:
    """Lock the requirements with hashes, for every platform and Python that we support (the last: that it supports)."""
    for name, python in (
        ("requirements", "3.11"),
        ("requirements-dev", "3.11"),
        ("requirements-focus", "3.12"),
    ):
        command = [
            *(sys.executable, "-m", "uv", "pip", "compile", f"{name}.in", "--generate-hashes"),
            *("--python-version", python, "--universal", "--quiet", "-o", f"{name}.txt"),
        ]
        code = subprocess.run(command, cwd=root, check=False).returncode
        if code:
            return code
        print(f"{name}.txt locked")
    return 0
