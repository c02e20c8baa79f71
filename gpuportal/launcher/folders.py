"""Where the launcher keeps things.

Input: the checkout's folder; output: paths. Invariants: everything lies in `var/` of the checkout, unless the
servers run as another user (as root PostgreSQL refuses to run) who may not enter it: then the servers' data lies
in a folder of root's that is keyed by the checkout's path. No permission of a folder that we did not make is changed.
A Unix socket's path may have 107 bytes at most: longer ones move to a short folder.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .errors import LaunchError

SOCKET_NAME_LENGTH = 107
SYSTEM_DATA = Path("/var/lib/gpu-portal")


def others_may_enter(path: Path) -> bool:
    """Whether every folder above `path` lets any user pass; those that do not exist yet will be ours to make."""
    return all(p.stat().st_mode & stat.S_IXOTH for p in path.resolve().parents if p.exists())


def path_key(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]


def private_folder(path: Path, *, mode: int = 0o700) -> Path:
    """Make `path` ours; refuse one that somebody else made in a shared place."""
    path.mkdir(mode=mode, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in {os.getuid(), 0}:
        raise LaunchError(f"{path} belongs to somebody else; remove it and start again")
    return path


@dataclass(frozen=True)
class Folders:
    """`root`: the checkout; `var`: state of this installation; `data`: the embedded servers' folders."""

    root: Path
    var: Path
    data: Path

    @property
    def logs(self) -> Path:
        return self.var / "log"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def socket_folder(self, folder: Path, name: str) -> Path:
        """`folder` itself when a socket `name` in it is short enough, else a short one keyed by its path."""
        if len(os.fsencode(folder / name)) <= SOCKET_NAME_LENGTH:
            return folder
        return Path(tempfile.gettempdir()) / f"gpu-portal-{os.getuid()}-{path_key(folder)}"


def folders_for(root: Path, var: Path | None = None) -> Folders:
    """The folders of an installation, made when they do not exist."""
    var = (var or root / "var").resolve()
    try:
        (var / "log").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LaunchError(f"{error.filename}: cannot make this folder: {error.strerror}") from error
    data = var
    if os.geteuid() == 0 and not others_may_enter(var / "pg"):
        private_folder(SYSTEM_DATA, mode=0o755)
        data = private_folder(SYSTEM_DATA / path_key(var), mode=0o755)
    return Folders(root=root, var=var, data=data)
