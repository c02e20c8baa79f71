"""Specs and edits of every kind by chance, as the API serves them. Legal objects only where `valid` says so."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from apps.changes.edits import AMOUNTS, Edit, parse_edits
from apps.changes.specs import ObjectSeen

FLAVORS = ("h100", "a100", "spot")
RESOURCES = ("cpu", "memory", "nvidia.com/gpu")
QUANTITIES = ("0", "1", "2", "8", "8000m", "64Gi", "65536Mi", "1k", "16")
quantities = st.sampled_from(QUANTITIES)
Api = st.sampled_from(["kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"])
PARENTS = {
    ("ClusterQueue", "v1beta1"): "cohort",
    ("ClusterQueue", "v1beta2"): "cohortName",
    ("Cohort", "v1beta1"): "parentName",
    ("Cohort", "v1beta2"): "parentName",
}


@st.composite
def cells(draw: st.DrawFn, resource: str, *, limits: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"name": resource, "nominalQuota": draw(quantities)}
    for name in ("borrowingLimit", "lendingLimit"):
        if limits and draw(st.booleans()):
            found[name] = draw(quantities)
    return found


@st.composite
def groups(draw: st.DrawFn, *, limits: bool) -> list[dict[str, Any]]:
    split = draw(st.integers(0, 2))
    parts = (
        [(RESOURCES[:split], FLAVORS[:1]), (RESOURCES[split:], FLAVORS[1:])]
        if split
        else [(RESOURCES, FLAVORS)]
    )
    found = []
    for covered, flavors in parts:
        chosen = draw(st.lists(st.sampled_from(flavors), min_size=1, unique=True))
        found.append(
            {
                "coveredResources": list(covered),
                "flavors": [
                    {
                        "name": name,
                        "resources": [draw(cells(resource, limits=limits)) for resource in covered],
                    }
                    for name in chosen
                ],
            }
        )
    return found


@st.composite
def kueue_seen(draw: st.DrawFn, kind: str) -> ObjectSeen:
    api = draw(Api)
    spec: dict[str, Any] = {}
    parent = draw(st.sampled_from(["", "org", "lab"]))
    if parent:
        spec[PARENTS[kind, api.rpartition("/")[2]]] = parent
    if draw(st.booleans()):
        spec["resourceGroups"] = draw(groups(limits=bool(parent)))
    if draw(st.booleans()):
        spec["fairSharing"] = {"weight": draw(st.sampled_from(["1", "2", "500m"]))}
    if kind == "ClusterQueue":
        spec["namespaceSelector"] = {}
        if draw(st.booleans()):
            spec["stopPolicy"] = draw(st.sampled_from(["None", "Hold", "HoldAndDrain"]))
        if draw(st.booleans()):
            spec["preemption"] = {"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "Never"}}
    has_spec = bool(spec) or draw(st.booleans())
    return ObjectSeen(kind, "", "q", "u", "7", api, "/p", spec, has_spec=has_spec)


@st.composite
def kueue_edits(draw: st.DrawFn, kind: str) -> Edit:
    wanted: dict[str, Any] = {}
    if draw(st.booleans()):
        wanted["cohort" if kind == "ClusterQueue" else "parent"] = draw(
            st.sampled_from([None, "org", "other"])
        )
    if draw(st.booleans()):
        wanted["fair_weight"] = draw(st.sampled_from(["0", "1", "3"]))
    if kind == "ClusterQueue" and draw(st.booleans()):
        wanted["stop_policy"] = draw(st.sampled_from(["None", "Hold", "HoldAndDrain"]))
        wanted["preemption"] = {
            "reclaim_within_cohort": draw(st.sampled_from(["Never", "Any"])),
            "borrow_within_cohort": draw(
                st.sampled_from([None, {"policy": "LowerPriority", "max_priority_threshold": 5}])
            ),
        }
        wanted["fungibility"] = {
            "when_can_borrow": "TryNextFlavor",
            "preference": draw(st.sampled_from(["", "BorrowingOverPreemption"])),
        }
    pairs = st.tuples(st.sampled_from((*FLAVORS, "new")), st.sampled_from((*RESOURCES, "amd.com/gpu")))
    for flavor, resource in draw(st.lists(pairs, max_size=3, unique=True)):
        quota: dict[str, Any] = {"flavor": flavor, "resource": resource, "nominal": draw(quantities)}
        for name in ("borrowing_limit", "lending_limit"):
            if draw(st.booleans()):
                quota[name] = draw(st.none() | quantities)
        wanted.setdefault("quotas", []).append(quota)
    if draw(st.booleans()):
        wanted["remove"] = [
            draw(st.sampled_from([{"flavor": "h100"}, {"resource": "cpu"}, {"flavor": "spot"}]))
        ]
    if not wanted:
        wanted["fair_weight"] = "5"
    return parse_edits([{"kind": kind, "name": "q", "set": wanted}])[0]


amounts = st.dictionaries(st.sampled_from(RESOURCES), quantities, max_size=3)


@st.composite
def volcano_seen(draw: st.DrawFn) -> ObjectSeen:
    spec: dict[str, Any] = {"weight": draw(st.integers(1, 3)), "reclaimable": True}
    for part in AMOUNTS:
        if draw(st.booleans()):
            spec[part] = {"resource": draw(amounts)} if part == "guarantee" else draw(amounts)
    if "guarantee" in spec and draw(st.booleans()):
        spec["guarantee"] = {}
    return ObjectSeen("VolcanoQueue", "", "q", "u", "7", "scheduling.volcano.sh/v1beta1", "/p", spec)


@st.composite
def volcano_edits(draw: st.DrawFn) -> Edit:
    wanted: dict[str, Any] = {"weight": draw(st.integers(1, 5))}
    for part in AMOUNTS:
        if draw(st.booleans()):
            wanted[part] = draw(
                st.dictionaries(st.sampled_from(RESOURCES), st.none() | quantities, min_size=1)
            )
    if draw(st.booleans()):
        wanted["state"] = draw(st.sampled_from(["Open", "Closed"]))
    return parse_edits([{"kind": "VolcanoQueue", "name": "q", "set": wanted}])[0]


@st.composite
def local_pairs(draw: st.DrawFn) -> tuple[ObjectSeen, Edit]:
    spec: dict[str, Any] = {"clusterQueue": "q"}
    policies = st.sampled_from(["None", "Hold", "HoldAndDrain"])
    if draw(st.booleans()):
        spec["stopPolicy"] = draw(policies)
    edit = {"kind": "LocalQueue", "namespace": "n", "name": "q", "set": {"stop_policy": draw(policies)}}
    seen = ObjectSeen("LocalQueue", "n", "q", "u", "7", "kueue.x-k8s.io/v1beta2", "/p", spec)
    return seen, parse_edits([edit])[0]


pairs_of_every_kind = st.one_of(
    st.tuples(kueue_seen("ClusterQueue"), kueue_edits("ClusterQueue")),
    st.tuples(kueue_seen("Cohort"), kueue_edits("Cohort")),
    st.tuples(volcano_seen(), volcano_edits()),
    local_pairs(),
)
