"""A copy of this repository in which `./portal` can be run as a person would, and a look at what it leaves running."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gpuportal.launcher.folders import SYSTEM_DATA, path_key
from gpuportal.launcher.http import get_json

ROOT = Path(__file__).resolve().parents[2]
NOT_INHERITED = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "PYTEST_CURRENT_TEST")
DAYS = "1"


def copy_of_the_repository(folder: Path) -> Path:
    """What git knows or would add, and the packages that are installed already."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    stamp = ROOT / ".venv" / ".portal-run"
    sums = subprocess.run(
        ["cksum"], stdin=(ROOT / "requirements.txt").open(), capture_output=True, text=True, check=True
    )
    # Otherwise the copy would make .venv anew, through the link.
    assert stamp.exists()
    assert stamp.read_text() == sums.stdout, "run the tests with ./portal test"
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


@dataclass
class Checkout:
    """`portal(...)` runs the launcher to its end, `start(...)` leaves it running."""

    root: Path
    port: int = field(default_factory=lambda: free_port())
    environment: dict[str, str] = field(default_factory=dict)

    def command(self, *arguments: str) -> list[str]:
        return [str(self.root / "portal"), *arguments]

    def env(self, **more: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k not in NOT_INHERITED and not k.startswith("PORTAL_")}
        return {**kept, **self.environment, **more}

    def portal(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            cwd=self.root,
            env=self.env(**more),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def up(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return self.portal("up", "--port", str(self.port), "--demo-days", DAYS, *arguments, **more)

    def start(self, **more: str) -> Running:
        out = self.root / "out"
        with out.open("wb") as file:
            process = subprocess.Popen(
                self.command("up", "--port", str(self.port), "--demo-days", DAYS),
                cwd=self.root,
                env=self.env(**more),
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        running = Running(self, process, out)
        running.wait_for(lambda: "Ctrl-C stops everything" in out.read_text(), 120)
        return running

    def processes(self) -> dict[int, str]:
        """pid → command line of every process that works for this checkout."""
        marks = {os.fsencode(self.root), os.fsencode(SYSTEM_DATA / path_key(self.root / "var"))}
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                text = (entry / "cmdline").read_bytes() + b"\0" + os.fsencode((entry / "cwd").readlink())
                text += (entry / "environ").read_bytes()
            except OSError:
                continue
            if any(mark in text for mark in marks):
                found[int(entry.name)] = (
                    text.split(b"\0/", 1)[0].replace(b"\0", b" ").decode(errors="replace")
                )
        return found

    def nothing_runs(self, seconds: float = 10) -> bool:
        return happens(lambda: not self.processes(), seconds)

    def clean(self) -> None:
        shutil.rmtree(SYSTEM_DATA / path_key(self.root / "var"), ignore_errors=True)


@dataclass
class Running:
    """A portal that was started and has not been stopped."""

    checkout: Checkout
    process: subprocess.Popen[bytes]
    out: Path

    @property
    def said(self) -> str:
        return self.out.read_text()

    def wait_for(self, true: Callable[[], bool], seconds: float) -> None:
        assert happens(lambda: self.process.poll() is not None or true(), seconds), self.said
        assert self.process.poll() is None, self.said

    def child(self, words: str) -> int:
        """The pid of the process that leads the group of this child."""
        own = {p: c for p, c in self.checkout.processes().items() if words in c and os.getpgid(p) == p}
        assert len(own) == 1, own
        return next(iter(own))

    def newest_good(self) -> float:
        """Seconds since the last pull that brought data; infinite when the portal cannot say."""
        body = get_json(f"http://127.0.0.1:{self.checkout.port}/healthz/ready")[1] or {}
        age = (body.get("collection") or {}).get("newest_good_seconds")
        return float("inf") if age is None else float(age)

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(40)


def happens(true: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.1)
    return true()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
