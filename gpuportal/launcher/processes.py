"""The commands of the portal's processes: what `up` runs, and what the compose file runs under its own names."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from .children import Spec
from .folders import Folders

THREADS = 8


def manage(folders: Folders, name: str, environment: Mapping[str, str], *arguments: str) -> Spec:
    """A manage.py command as a child."""
    return Spec(
        name=name,
        command=[sys.executable, "manage.py", *arguments],
        log=folders.log(name),
        cwd=folders.root,
        environment={**environment, "PORTAL_PROCESS": "manage"},
    )


def web(folders: Folders, environment: Mapping[str, str], port: int) -> Spec:
    return Spec(
        name="web",
        command=[
            *(sys.executable, "-m", "gunicorn", "gpuportal.wsgi", "--bind", f"127.0.0.1:{port}"),
            *("--workers", "1", "--worker-class", "gthread", "--threads", str(THREADS)),
            *("--timeout", "60", "--graceful-timeout", "3", "--no-control-socket", "--access-logfile", "-"),
        ],
        log=folders.log("web"),
        cwd=folders.root,
        environment={**environment, "PORTAL_PROCESS": "web"},
        stop_tier=2,
    )


def worker(folders: Folders, environment: Mapping[str, str]) -> Spec:
    return Spec(
        name="worker",
        command=[
            *(sys.executable, "-m", "celery", "-A", "gpuportal", "worker", "-Q", "collect,rollup,edits"),
            *("--hostname", "portal@%h", "--loglevel", "INFO", "--without-gossip", "--without-mingle"),
        ],
        log=folders.log("worker"),
        cwd=folders.root,
        environment={**environment, "PORTAL_PROCESS": "worker"},
        # Ends at once: an unfinished pull leaves nothing behind and is repeated at the next tick.
        stop_signal=signal.SIGQUIT,
        # With the broker gone as well it would wait for it for ever; its pool follows it.
        death_signal=signal.SIGKILL,
        stop_seconds=6.0,
        stop_tier=2,
    )


def beat(folders: Folders, environment: Mapping[str, str]) -> Spec:
    return Spec(
        name="beat",
        command=[
            *(sys.executable, "-m", "celery", "-A", "gpuportal", "beat", "--loglevel", "INFO"),
            *("--pidfile", "", "--schedule", str(folders.var / "celerybeat-schedule")),
        ],
        log=folders.log("beat"),
        cwd=folders.root,
        environment={**environment, "PORTAL_PROCESS": "beat"},
        stop_tier=1,
    )


def simcluster(folders: Folders, state: Path, port: int, days: int) -> Spec:
    return Spec(
        name="simcluster",
        command=[
            *(sys.executable, "-m", "simcluster", "serve", "--port", str(port)),
            *("--state", str(state), "--days", str(days)),
        ],
        log=folders.log("simcluster"),
        cwd=folders.root,
        environment={"PYTHONUNBUFFERED": "1"},
        stop_tier=3,
    )
