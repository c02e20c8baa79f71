"""Whole amounts of resources as Kubernetes writes them: memory in the largest binary unit that fits exactly."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def amount_text(resource: str, amount: int) -> str:
    if resource != "memory" or amount == 0:
        return str(amount)
    for power, suffix in ((50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        if amount % (1 << power) == 0:
            return f"{amount >> power}{suffix}"
    return str(amount)
