"""One child process: started with its output in a log, stopped by the signal it understands.

Invariants: every child leads a process group of its own, so that Ctrl-C reaches only the launcher, which then
stops them in order; on Linux the kernel signals a child when the launcher dies, however it dies; after `stop`
nothing of the child's group is left.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PR_SET_PDEATHSIG = 1
LOG_LIMIT = 20 * 1024 * 1024
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass(frozen=True)
class Spec:
    """How to run a child. `stop_tier`: lower ones stop first; `user`: whom to run it as, when we are root;
    `death_signal`: what it gets when the launcher died, by default the `stop_signal`."""

    name: str
    command: Sequence[str]
    log: Path
    cwd: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    death_signal: signal.Signals | None = None
    stop_seconds: float = 8.0
    stop_tier: int = 1


def _follow_parent(number: int) -> Callable[[], None] | None:
    """For the child, before exec: be signalled when the launcher dies."""
    if _libc is None:
        return None
    launcher = os.getpid()

    def prepare() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, number)
        if os.getppid() != launcher:
            os._exit(1)

    return prepare


class Child:
    """A running (or ended) process of a Spec."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.started = time.monotonic()
        identity: dict[str, object] = {}
        if spec.user is not None:
            import pwd

            entry = pwd.getpwnam(spec.user)
            identity = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        with open_log(spec.log) as log:
            self.process = subprocess.Popen(
                list(spec.command),
                cwd=spec.cwd,
                env={**os.environ, **spec.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_follow_parent(spec.death_signal or spec.stop_signal),
                **identity,  # type: ignore[call-overload]
            )

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def age(self) -> float:
        return time.monotonic() - self.started

    def ended_how(self) -> str:
        code = self.process.returncode
        if code is not None and code < 0:
            with suppress(ValueError):
                return f"was ended by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    def ask_to_stop(self) -> None:
        if self.alive:
            with suppress(ProcessLookupError):
                self.process.send_signal(self.spec.stop_signal)

    def kill_group(self) -> None:
        """End whatever is left of the group, for example the pool of a worker that was killed."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(5)


def stop_all(children: Sequence[Child]) -> None:
    """Stop tier by tier; the members of a tier together. Who does not listen in time is killed."""
    for tier in sorted({child.spec.stop_tier for child in children}):
        members = [child for child in children if child.spec.stop_tier == tier]
        for child in members:
            child.ask_to_stop()
        deadline = time.monotonic() + max(child.spec.stop_seconds for child in members)
        while time.monotonic() < deadline and any(child.alive for child in members):
            time.sleep(0.03)
        for child in members:
            child.kill_group()


def open_log(path: Path):  # type: ignore[no-untyped-def]
    """The log opened for appending; one that has grown too long is kept once as `<name>.1`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > LOG_LIMIT:
        path.replace(path.with_suffix(path.suffix + ".1"))
    return path.open("ab")
