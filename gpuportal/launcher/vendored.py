"""Vendored front-end files are exactly those that were reviewed: `static/vendor/vendor.lock.json` has their hashes.

A file that is missing, changed or not listed fails; licence texts lie beside the files and are not hashed.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent.parent / "static" / "vendor"
LOCK = "vendor.lock.json"


def problems(folder: Path) -> list[str]:
    """One sentence for each file that is not as locked."""
    wanted = {entry["file"]: entry["sha256"] for entry in json.loads((folder / LOCK).read_text())}
    found = {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in {"LICENSE", LOCK}
    }
    return sorted(
        [
            *(f"{path}: missing" for path in wanted.keys() - found.keys()),
            *(f"{path}: not in {LOCK}" for path in found.keys() - wanted.keys()),
            *(f"{path}: changed" for path in found.keys() & wanted.keys() if found[path] != wanted[path]),
        ]
    )


def main() -> int:
    found = problems(FOLDER)
    print("\n".join(found) or "vendored files are as locked")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
