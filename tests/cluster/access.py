"""Which cluster the tests in this folder run against, and kubeconfigs derived from its own.

Nothing is assumed of it but a Kubernetes API; what needs Kueue, or the right to create something, is skipped with
the reason where it is missing. What is written has names that begin with "portal-test-" or "rules-" and is removed: a
WorkloadPriorityClass and a HyperNode that nobody uses, queues and cohorts to which edits are tried, and, where fake
nodes are kept alive, what `stage` provokes.
"""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

KUBECONFIG = os.environ.get("PORTAL_TEST_KUBECONFIG", "")
CONTEXT = os.environ.get("PORTAL_TEST_CONTEXT", "")


def require_cluster() -> None:
    """Skip the calling module when no cluster is named."""
    if not KUBECONFIG:
        pytest.skip(
            "set PORTAL_TEST_KUBECONFIG=<kubeconfig file> (and PORTAL_TEST_CONTEXT) to enable",
            allow_module_level=True,
        )


def derived(
    folder: Path, *, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None
) -> str:
    """A copy of the kubeconfig with other credentials or another view of the server."""
    source = Path(KUBECONFIG)
    content = copy.deepcopy(yaml.safe_load(source.read_text(encoding="utf-8")))
    for entry in content["clusters"]:
        authority = entry["cluster"].get("certificate-authority")
        if authority:
            entry["cluster"]["certificate-authority"] = str((source.parent / authority).resolve())
        if cluster is not None:
            for name in ("certificate-authority", "certificate-authority-data"):
                entry["cluster"].pop(name, None)
            entry["cluster"].update(cluster)
    if user is not None:
        for entry in content["users"]:
            entry["user"] = user
    path = folder / "derived.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return str(path)
