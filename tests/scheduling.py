"""Which tests stay in one process when there are several. Each file does; those about one real cluster do so together: they
take turns at it anyway, and a process that waits for its turn does nothing."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

TOGETHER = ("tests/cluster/",)


def scope_of(nodeid: str) -> str:
    """What stays together with the test."""
    path = nodeid.split("::", 1)[0]
    return next((folder for folder in TOGETHER if path.startswith(folder)), path)


class FilesAndFolders(LoadFileScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)
