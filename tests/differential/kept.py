"""The recordings that are kept (tests/data/settled): one gzip file of JSON lines per way of sharing, a setup a line.

To record anew, against a cluster with Kueue that runs without waitForPodsReady and that nobody else uses:
    KUBECONFIG=… python -m tests.differential.kept classic 0 112
once with and once without fair sharing configured ("fair" instead of "classic").
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .compare import Agreement, compare
from .setups import generate

FOLDER = Path(__file__).resolve().parents[1] / "data" / "settled"
SIDE_BY_SIDE = 28


def recordings(way: str) -> Iterator[dict[str, Any]]:
    """`way`: "classic" or "fair"."""
    with gzip.open(FOLDER / f"{way}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def keep(way: str, found: list[dict[str, Any]]) -> None:
    """Written so that the same recordings give the same bytes."""
    text = "".join(json.dumps(one, sort_keys=True, separators=(",", ":")) + "\n" for one in found)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{way}.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def agreement(*ways: str) -> Agreement:
    """All kept recordings compared."""
    found = Agreement()
    for way in ways or ("classic", "fair"):
        for recording in recordings(way):
            compare(recording, found)
    return found


def main(way: str, first: int, last: int) -> None:
    from kubernetes import config

    from .real import run_setups

    client = config.new_client_from_config()  # type: ignore[no-untyped-call]
    found = []
    for start in range(first, last, SIDE_BY_SIDE):
        setups = [
            generate(seed, fair=way == "fair") for seed in range(start, min(last, start + SIDE_BY_SIDE))
        ]
        found += run_setups(client, setups, prefix=f"d{way[0]}{start}")
    keep(way, found)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
