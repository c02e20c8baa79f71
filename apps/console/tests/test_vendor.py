"""What browsers run is what was reviewed: every vendored file has the hash of the lock file, and no file is extra."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from django.conf import settings

VENDOR = Path(settings.BASE_DIR) / "static" / "vendor"
LOCK = json.loads((VENDOR / "vendor.lock.json").read_text())


def test_every_vendored_file_has_its_locked_hash() -> None:
    found = {
        entry["file"]: hashlib.sha256((VENDOR / entry["file"]).read_bytes()).hexdigest() for entry in LOCK
    }
    assert found == {entry["file"]: entry["sha256"] for entry in LOCK}


def test_no_file_is_vendored_without_a_lock_entry() -> None:
    files = {
        path.relative_to(VENDOR).as_posix()
        for path in VENDOR.rglob("*")
        if path.is_file() and path.name not in {"LICENSE", "vendor.lock.json"}
    }
    assert files == {entry["file"] for entry in LOCK}


def test_every_package_carries_its_licence() -> None:
    for entry in LOCK:
        assert entry["licence"]
        assert (VENDOR / entry["file"]).parent.joinpath("LICENSE").is_file()


def test_no_vendored_file_asks_for_a_source_map() -> None:
    assert not [
        entry["file"] for entry in LOCK if b"sourceMappingURL=" in (VENDOR / entry["file"]).read_bytes()
    ]
