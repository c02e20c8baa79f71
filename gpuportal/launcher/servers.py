"""The two servers everything needs, embedded or named by the environment, and what their users have to know.

Input: DATABASE_URL and REDIS_URL of the environment; output: the environment of the processes that use them.
A given server is asked whether it answers before anything else starts; an embedded one is started.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import redis

from gpuportal.environment import BadSetting, Environment

from . import postgres, redis_server
from .children import Child
from .errors import LaunchError
from .folders import Folders
from .supervisor import Supervisor

SECONDS = 5


@dataclass
class Servers:
    """`database`/`redis`: plans of the embedded ones, None when the environment names a server."""

    folders: Folders
    database_name: str
    database_url: str
    redis_url: str
    database: postgres.Postgres | None
    redis: redis_server.Redis | None
    _started: dict[str, Child] = field(default_factory=dict)

    def start(self, supervisor: Supervisor) -> None:
        """Start the embedded ones, together."""
        if self.redis is not None:
            self._started["redis"] = supervisor.start(self.redis.spec())
        if self.database is not None:
            postgres.prepare(self.database)
            self._started["postgres"] = supervisor.start(self.database.spec())

    def wait(self) -> None:
        """Until both can be used; a given one that does not answer is named with what it said."""
        if self.database is not None:
            postgres.wait_ready(self.database, self._started["postgres"])
            postgres.ensure_database(self.database, self.database_name)
        if self.redis is not None:
            redis_server.wait_ready(self.redis, self._started["redis"])

    def environment(self) -> dict[str, str]:
        return {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "PORTAL_VAR": str(self.folders.var),
            "PORTAL_STATIC_ROOT": str(self.folders.var / "staticfiles"),
            "PYTHONUNBUFFERED": "1",
            "DJANGO_SETTINGS_MODULE": "gpuportal.settings",
            **secret_key_setting(self.folders.var),
        }


def plan(folders: Folders, database_name: str, *, durable: bool = True) -> Servers:
    """What is given by the environment is checked here; what is not will be embedded."""
    env = Environment()
    try:
        database_url = env.url("DATABASE_URL", "", {"postgres", "postgresql"})
        redis_url = env.url("REDIS_URL", "", {"redis", "rediss"})
    except BadSetting as error:
        raise LaunchError(str(error)) from error
    if database_url:
        _ask_database(database_url)
    if redis_url:
        _ask_redis(redis_url)
    database = None if database_url else postgres.plan(folders, durable=durable)
    embedded_redis = None if redis_url else redis_server.plan(folders)
    return Servers(
        folders=folders,
        database_name=database_name,
        database_url=database_url or (database.url(database_name) if database else ""),
        redis_url=redis_url or (embedded_redis.url() if embedded_redis else ""),
        database=database,
        redis=embedded_redis,
    )


def secret_key_setting(var: Path) -> dict[str, str]:
    """The installation's own secret key: made once, readable by its owner only."""
    if os.environ.get("PORTAL_SECRET_KEY") or os.environ.get("PORTAL_SECRET_KEY_FILE"):
        return {}
    return {"PORTAL_SECRET_KEY_FILE": str(write_secret(var / "secret-key", secrets.token_urlsafe(50)))}


def write_secret(path: Path, text: str) -> Path:
    """Write `text` unless the file exists."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path
    with os.fdopen(handle, "w") as file:
        file.write(text)
    return path


def _ask_database(url: str) -> None:
    try:
        psycopg.connect(url, connect_timeout=SECONDS).close()
    except (psycopg.Error, UnicodeError, ValueError) as error:
        raise LaunchError(f"DATABASE_URL: PostgreSQL cannot be used: {_said(error, url)}") from error


def _ask_redis(url: str) -> None:
    try:
        client = redis.Redis.from_url(url, socket_connect_timeout=SECONDS, socket_timeout=SECONDS)
        client.ping()
        client.close()
    except (redis.RedisError, OSError, ValueError) as error:
        raise LaunchError(f"REDIS_URL: Redis cannot be used: {_said(error, url)}") from error


def _said(error: BaseException, url: str) -> str:
    """The last thing that was said, without the address, which may hold a password."""
    lines = [line.strip() for line in str(error).replace(url, "(hidden)").splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
