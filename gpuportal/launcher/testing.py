"""`./portal test`: pytest on a PostgreSQL and a Redis of its own.

Input: pytest's arguments; output: pytest's exit code. Invariants: the portal that may run in this folder is not
touched; both servers and their data are gone afterwards. DATABASE_URL and REDIS_URL name other servers.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from . import servers
from .errors import Interrupted
from .folders import folders_for
from .signals import Signals
from .supervisor import Supervisor

# By file: fixtures of a module are costly here. In our order: the longest files come first.
PARALLEL = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")


def run_tests(root: Path, arguments: list[str], more: Mapping[str, str] | None = None) -> int:
    """`more`: of the environment."""
    signals = Signals()
    supervisor = Supervisor(lambda text: print(text, file=sys.stderr))
    try:
        with temporary_folder() as folder:
            try:
                try:
                    return _run_on_servers(root, arguments, folder, supervisor, more or {})
                finally:
                    signals.stopping()
            finally:
                supervisor.stop()
    except Interrupted:
        return 130


def _run_on_servers(
    root: Path, arguments: list[str], folder: Path, supervisor: Supervisor, more: Mapping[str, str]
) -> int:
    plan = servers.plan(folders_for(root, folder), "portal", durable=False)
    plan.start(supervisor)
    plan.wait()
    environment = {**os.environ, **plan.environment(), "PORTAL_PROCESS": "test", "PATH": _path(), **more}
    environment.pop("PORTAL_VAR")
    return _run_pytest(root, arguments, environment)


def _path() -> str:
    """The commands of .venv first, as in an activated one."""
    return f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"


def _run_pytest(root: Path, arguments: list[str], environment: dict[str, str]) -> int:
    command = [sys.executable, "-m", "pytest", *default_arguments(arguments), *arguments]
    with subprocess.Popen(command, cwd=root, env=environment) as process:
        try:
            return process.wait()
        except Interrupted:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise


def default_arguments(arguments: list[str]) -> list[str]:
    """Two processes, unless a number was asked for or only a file or a single test is wanted."""
    if any(re.match(r"-n\d*$|--numprocesses|--dist|--pdb|-s$", argument) for argument in arguments):
        return []
    chosen = [a for a in arguments if ".py" in a]
    return [] if len(chosen) == 1 and chosen == arguments[-1:] else list(PARALLEL)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that the servers' user may enter, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="gpu-portal-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
