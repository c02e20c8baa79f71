"""Kubernetes taints and tolerations. Input: mappings as served; output: whether one tolerates the other. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Toleration = Mapping[str, Any]
KEEPS_AWAY = ("NoSchedule", "NoExecute")
"""Effects that keep work away from a node; PreferNoSchedule only asks."""


def tolerates(tolerations: Iterable[Toleration], taint: Mapping[str, Any]) -> bool:
    """Kubernetes' rule: operator Exists (an empty key matches all) or Equal; an empty effect matches all."""
    for toleration in tolerations:
        effect, key = toleration.get("effect") or "", toleration.get("key") or ""
        if effect and effect != taint.get("effect"):
            continue
        exists = toleration.get("operator") == "Exists"
        if not key and exists:
            return True
        if key == taint.get("key") and (
            exists or (toleration.get("value") or "") == (taint.get("value") or "")
        ):
            return True
    return False
