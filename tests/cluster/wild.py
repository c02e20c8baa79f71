"""Edits by chance, of which many break a rule: what the edit language would be sent by somebody in a hurry."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

FLAVORS = ("h100", "a100", "spot", "H100", "h100-", "a.b", "a_b", "any")
RESOURCES = (
    "cpu",
    "memory",
    "nvidia.com/gpu",
    "amd.com/gpu",
    "a gpu",
    "a/b/c",
    "UP.example/x",
    "example.com/Up",
)
AMOUNTS = (
    "0",
    "1",
    "8",
    "9",
    "6",
    "8000m",
    "64Gi",
    "1n",
    "0.5n",
    "1e3",
    "-0",
    "+2",
    ".5",
    "16",
    "1e36",
    4,
    0.25,
)
WEIGHTS = ("0", "1", "1n", "2n", "0.9n", "500m", "3", "1e30", 2)
PARENTS = (None, "{p}-org", "{p}-other", "Org", "a_b", "-a", "a.b", "x" * 253)
amounts = st.sampled_from(AMOUNTS)
_mostly = st.sampled_from([False, False, True])


@st.composite
def wild_sets(draw: st.DrawFn, kind: str, prefix: str) -> dict[str, Any]:
    """The "set" of an edit of a ClusterQueue or Cohort."""
    wanted: dict[str, Any] = {}
    if draw(_mostly):
        parent = draw(st.sampled_from(PARENTS))
        wanted["cohort" if kind == "ClusterQueue" else "parent"] = parent and parent.replace("{p}", prefix)
    if draw(_mostly):
        wanted["fair_weight"] = draw(st.sampled_from(WEIGHTS))
    if kind == "ClusterQueue":
        wanted |= draw(_policies())
    pairs = st.tuples(st.sampled_from(FLAVORS), st.sampled_from(RESOURCES))
    for flavor, resource in draw(st.lists(pairs, max_size=2, unique=True)):
        quota: dict[str, Any] = {"flavor": flavor, "resource": resource}
        if draw(st.booleans()):
            quota["nominal"] = draw(amounts)
        for name in ("borrowing_limit", "lending_limit"):
            if draw(_mostly):
                quota[name] = draw(st.none() | amounts)
        wanted.setdefault("quotas", []).append(quota)
    if draw(_mostly):
        gone = [{"flavor": "h100"}, {"resource": "cpu"}, {"flavor": "a100"}, {"resource": "nvidia.com/gpu"}]
        wanted["remove"] = [draw(st.sampled_from(gone))]
    return wanted or {"fair_weight": draw(st.sampled_from(WEIGHTS))}


@st.composite
def _policies(draw: st.DrawFn) -> dict[str, Any]:
    wanted: dict[str, Any] = {}
    if draw(_mostly):
        wanted["stop_policy"] = draw(st.sampled_from(["None", "Hold", "HoldAndDrain"]))
    if draw(_mostly):
        wanted["strategy"] = draw(st.sampled_from(["BestEffortFIFO", "StrictFIFO"]))
    preemption: dict[str, list[Any]] = {
        "within_cluster_queue": ["Never", "LowerPriority", "LowerOrNewerEqualPriority"],
        "reclaim_within_cohort": ["Never", "LowerPriority", "Any"],
        "borrow_within_cohort": [
            None,
            {"policy": "Never"},
            {"policy": "LowerPriority"},
            {"policy": "LowerPriority", "max_priority_threshold": -5},
        ],
    }
    fungibility: dict[str, list[Any]] = {
        "when_can_borrow": ["MayStopSearch", "TryNextFlavor"],
        "when_can_preempt": ["MayStopSearch", "TryNextFlavor"],
        "preference": ["", "BorrowingOverPreemption", "PreemptionOverBorrowing"],
    }
    for group, fields in (("preemption", preemption), ("fungibility", fungibility)):
        chosen = {name: draw(st.sampled_from(values)) for name, values in fields.items() if draw(_mostly)}
        if chosen:
            wanted[group] = chosen
    return wanted
