"""What claims hold: six hours of two nodes worked out by hand, what is written of a claim from one look to the next, and that one
look more or less changes nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.db import transaction
from django.db.models import F, Sum
from hypothesis import given
from hypothesis import strategies as st

from apps.admissions.tests.builders import bind, hours, local_queue, make_team
from apps.capacity.facts import load_fleet
from apps.capacity.tests import builders
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, Node, Pod, Source, SourceState
from apps.usage.allocation_loading import fill_held, spells
from apps.usage.allocation_rollup import rollup_allocation
from apps.usage.claims import ClaimNow, On, Step, Whose, new_steps
from apps.usage.claims_noting import drop_old_claims, note_claims
from apps.usage.models import (
    ALLOCATION,
    AllocationHour,
    ClaimSeen,
    SupplyHour,
    UnitSeen,
    UnseenStretch,
    Watermark,
)
from apps.usage.remembering import watched_by
from apps.usage.supply import imbalances

FILE = Path(__file__).parents[3] / "tests" / "data" / "chargeback" / "claims.yaml"
D = Decimal
CARD, OTHER = On("n1", "gpu.nvidia.com/gpu"), On("n2", "gpu.nvidia.com/gpu")
MAIN, NOBODY = Whose("Workload", "main"), Whose()


@cache
def case() -> Mapping[str, Any]:
    found: Mapping[str, Any] = yaml.safe_load(FILE.read_text())
    return found


def make_nodes() -> Cluster:
    cluster = builders.make_cluster()
    for name, cards in case()["nodes"].items():
        builders.make_node(cluster, name, offers={})
        builders.make_slice(cluster, name, cards=cards)
    Node.objects.update(first_seen_at=hours(0))
    for kind, names in case()["bindings"].items():
        for name, team in names.items():
            bind(make_team(team), cluster, name, kind=kind)
    for name, queue in case()["local_queues"].items():
        local_queue(cluster, "ml", name, queue)
    return cluster


def look(cluster: Cluster, at: float) -> None:
    """The objects as they stand at that hour, read just now."""
    SourceState.objects.update(last_ok_at=hours(at), last_run_at=hours(at))
    for pod in case()["pods"]:
        if pod["bound"] <= at:
            show_pod(cluster, pod, at)
    for claim in case()["claims"]:
        begun = [part for part in claim["held"] if part["from"] <= at]
        if begun:
            show_claim(cluster, claim, begun[-1], at)


def show_pod(cluster: Cluster, pod: Mapping[str, Any], at: float) -> None:
    over = hours(pod["finished"]) if pod["finished"] <= at else None
    Pod.objects.update_or_create(
        cluster=cluster,
        uid=pod["uid"],
        defaults={
            "namespace": "ml", "name": pod["uid"], "queue_name": pod["queue"], "node_name": pod["node"],
            "claims": [{"claim": "any", "resources": []}], "bound_at": hours(pod["bound"]), "finished_at": over,
            "first_seen_at": hours(pod["bound"]), "observed_at": over or hours(pod["bound"]),
        },
    )  # fmt: skip


def show_claim(cluster: Cluster, claim: Mapping[str, Any], part: Mapping[str, Any], at: float) -> None:
    over, first = part["until"] <= at, claim["held"][0]["from"]
    goes = over and claim.get("gone", False) and part is claim["held"][-1]
    running = {pod["uid"] for pod in case()["pods"] if pod["finished"] > at or goes}
    result = {
        "request": "r", "driver": builders.DRIVER, "pool": part["node"], "device": part["device"],
        "admin": claim.get("admin", False), "share_id": "", "consumed": {},
    }  # fmt: skip
    held = not over or goes
    ClusterObject.objects.update_or_create(
        cluster=cluster,
        uid=claim["uid"],
        defaults={
            "kind": "ResourceClaim", "namespace": "ml", "name": claim["uid"], "first_seen_at": hours(first),
            "observed_at": hours(part["until"] if over else part["from"]),
            "gone_at": hours(part["until"]) if goes else None,
            "spec": {"requests": [], "extended": False, "pod_claim_name": ""},
            "status": {
                "allocated": held,
                "node": part["node"],
                "results": [result] if held else [],
                "reserved_for": [
                    {"kind": "Pod", "name": uid, "uid": uid} for uid in part["pods"] if uid in running
                ],
                "allocated_at": hours(part["from"]).isoformat() if held and claim.get("said") else None,
            },
        },
    )  # fmt: skip


def note(cluster: Cluster, at: float) -> datetime | None:
    return note_claims(cluster, load_fleet(now=hours(at), clusters=[cluster]), hours(at))


def held_by_team() -> dict[str, Decimal]:
    found: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in AllocationHour.objects.filter(basis="pod", seen="observed").select_related("team"):
        assert (row.resource, row.model) == (CARD.resource, "NVIDIA-H100-80GB-HBM3")
        found[row.team.slug if row.team else ""] += row.unit_seconds
    return dict(found)


@pytest.mark.django_db
def test_six_hours_by_hand() -> None:
    cluster, end = make_nodes(), case()["hours"]
    for half in range(2 * end + 1):
        look(cluster, half / 2)
        rollup_allocation(cluster=cluster, now=hours(half / 2))
    expected = case()["expected"]
    assert held_by_team() == expected["teams"]
    buckets: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in SupplyHour.objects.all():
        buckets[row.bucket] += row.unit_seconds
    assert buckets == {"held": expected["held"], "idle": expected["idle"]}
    assert imbalances(start=hours(0), end=hours(end), clusters=[cluster.pk]) == []
    by_node: defaultdict[str, Decimal] = defaultdict(Decimal)
    until = dict.fromkeys(("Workload", "PodGroup", "Pod", "ResourceClaim"), hours(end))
    with transaction.atomic():
        fill_held(cluster=cluster, start=hours(0), end=hours(end), until=until)
        for one in spells(cluster):
            by_node[one.on] += one.quantity * D((one.end - one.start).total_seconds())
    assert by_node == expected["by_node"]


@pytest.mark.django_db
def test_a_node_has_the_units_that_its_driver_lists() -> None:
    cluster = make_nodes()
    look(cluster, 0)
    rollup_allocation(cluster=cluster, now=hours(0))
    rows = UnitSeen.objects.filter(basis="pod").values_list("on", "resource", "capacity")
    assert set(rows) == {(name, CARD.resource, D(cards)) for name, cards in case()["nodes"].items()}


@pytest.mark.django_db
def test_what_claims_hold_beyond_their_node_is_not_charged() -> None:
    """Three claims on a node of which two cards are known; nothing new is noted of a cluster that is switched off."""
    cluster = make_nodes()
    look(cluster, 0)
    rollup_allocation(cluster=cluster, now=hours(0))
    UnitSeen.objects.filter(on="n1").update(capacity=D(2))
    cluster.enabled = False
    SourceState.objects.update(last_ok_at=hours(0.5))
    rollup_allocation(cluster=cluster, now=hours(0.5))
    rows = AllocationHour.objects.filter(basis="pod").order_by("seen")
    assert list(rows.values_list("seen", "unit_seconds")) == [("beyond", D(1800)), ("observed", D(3600))]
    assert imbalances(start=hours(0), end=hours(1), clusters=[cluster.pk]) == []


# {units of a card by plugin: (seconds held of its units, GPU-seconds)}, of one card for two hours.
ALSO_BY_PLUGIN = {1: (D(7200), D(7200)), 4: (D(28800), D(7200))}


@pytest.mark.django_db
@pytest.mark.parametrize("slices", ALSO_BY_PLUGIN)
@pytest.mark.parametrize("goes", [False, True])
def test_where_the_plugin_offers_the_same_cards_a_claim_holds_its_units(slices: int, goes: bool) -> None:
    """Supply has the cards once, as the plugin's units: two cards, of which the claim holds one from 0 to 2."""
    cluster = builders.make_cluster()
    shared = {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": str(slices)}
    builders.make_node(cluster, "n1", shared if slices > 1 else {}, offers={builders.GPU: str(2 * slices)})
    Node.objects.update(
        first_seen_at=hours(0), labels=Node.objects.get().labels | {"nvidia.com/gpu.count": "2"}
    )
    builders.make_slice(cluster, "n1", cards=2)
    part = {"node": "n1", "device": "gpu-0", "from": 0, "until": 2, "pods": []}
    claim = {"uid": "c", "said": True, "gone": goes, "held": [part]}
    for at in (0, 2) if goes else (0, 1, 2):
        SourceState.objects.update(last_ok_at=hours(at), last_run_at=hours(at))
        if not goes or at == 2:
            show_claim(cluster, claim, part, at)
        rollup_allocation(cluster=cluster, now=hours(at))
    found = AllocationHour.objects.filter(basis="pod", resource=builders.GPU)
    gpus = F("unit_seconds") * F("weight_over") / F("weight_under")
    assert (
        tuple(found.aggregate(units=Sum("unit_seconds"), gpus=Sum(gpus)).values()) == ALSO_BY_PLUGIN[slices]
    )
    assert set(SupplyHour.objects.values_list("resource", flat=True)) == {builders.GPU}
    assert imbalances(start=hours(0), end=hours(2), clusters=[cluster.pk]) == []


# From → until, in hours, of one card each; nobody saw claims from 2 to 3, and nobody pods from 4 to 5.
IN_AN_OUTAGE = {
    "before and after": (0, 6, {"observed": 5, "bridged": 1}),
    "begun inside": (2.5, 6, {"observed": 3, "left_out": 0.5}),
    "gone inside": (0, 2.5, {"observed": 2, "left_out": 0.5}),
    "only the pods' outage": (4, 5, {"observed": 1}),
}


@pytest.mark.django_db
@pytest.mark.parametrize("name", IN_AN_OUTAGE)
def test_claims_are_unseen_when_claims_could_not_be_read_and_not_when_pods_could_not(name: str) -> None:
    cluster = make_nodes()
    SourceState.objects.update(last_ok_at=hours(6), last_run_at=hours(6))
    cluster.enabled = False  # what is noted stands below
    begun, over, expected = IN_AN_OUTAGE[name]
    ClusterObject.objects.create(
        cluster=cluster, uid="c", kind="ResourceClaim", namespace="ml", name="c", status={"allocated": False},
        first_seen_at=hours(0), observed_at=hours(6),
    )  # fmt: skip
    for at, units in ((begun, D(1)), (over, D(0))):
        ClaimSeen.objects.create(
            cluster=cluster, uid="c", namespace="ml", node=CARD.node, resource=CARD.resource, kind="Workload",
            queue_name="main", units=units, seen_from=hours(at),
        )  # fmt: skip
    for kind, low, high in (("ResourceClaim", 2, 3), ("Pod", 4, 5)):
        UnseenStretch.objects.create(cluster=cluster, kind=kind, started_at=hours(low), ended_at=hours(high))
    rollup_allocation(cluster=cluster, now=hours(6))
    found: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in AllocationHour.objects.filter(basis="pod"):
        found[row.seen] += row.unit_seconds / 3600
    assert found == expected


@pytest.mark.django_db
def test_claims_are_known_as_far_as_they_were_read() -> None:
    """Pods were read until six, claims until four: nobody knows of the last two hours, and they are done again later."""
    cluster = make_nodes()
    look(cluster, 3.5)
    SourceState.objects.update(last_ok_at=hours(6))
    SourceState.objects.filter(source=Source.DEVICES).update(last_ok_at=hours(4))
    rollup_allocation(cluster=cluster, now=hours(6))
    rows = AllocationHour.objects.filter(basis="pod")
    assert rows.exists()
    assert not rows.filter(ends_at__gt=hours(4)).exists()
    assert Watermark.objects.get(cluster=cluster, rollup=ALLOCATION).done_until == hours(4)


@pytest.mark.django_db
def test_where_there_are_no_claims_their_source_holds_nothing_back() -> None:
    cluster = make_nodes()
    SourceState.objects.update(last_ok_at=hours(6))
    SourceState.objects.filter(source=Source.DEVICES).update(last_ok_at=hours(1))
    assert "ResourceClaim" not in watched_by(cluster)
    claim = case()["claims"][0]
    show_claim(cluster, claim, claim["held"][0], claim["held"][0]["from"])
    assert watched_by(cluster)["ResourceClaim"] == Source.DEVICES


@pytest.mark.django_db
def test_a_claim_that_comes_late_takes_the_hours_back() -> None:
    """Allocated at two, told at half past four: the hours from two on are done again."""
    cluster = make_nodes()
    look(cluster, 0.5)
    rollup_allocation(cluster=cluster, now=hours(0.5))
    SourceState.objects.update(last_ok_at=hours(4.5), last_run_at=hours(4.5))
    rollup_allocation(cluster=cluster, now=hours(4.5))
    part = {"node": "n2", "device": "gpu-0", "from": 2, "until": 9, "pods": []}
    show_claim(cluster, {"uid": "c-late", "said": True, "held": [part]}, part, 4.5)
    assert rollup_allocation(cluster=cluster, now=hours(4.5)).from_hour == hours(2)
    of_red = AllocationHour.objects.filter(basis="pod", team__slug="red", starts_at=hours(2))
    assert sum(of_red.values_list("unit_seconds", flat=True)) == 3600


@pytest.mark.django_db
def test_looking_twice_writes_once_and_old_steps_go(settings: Any) -> None:
    cluster = make_nodes()
    look(cluster, 0)
    assert note(cluster, 0) == hours(0)
    assert note(cluster, 0.5) is None
    for at in (2, 3):
        look(cluster, at)
        note(cluster, at)
    settings.GONE_RETENTION_DAYS = 1
    assert drop_old_claims(now=hours(24 + 2.6)) == 4
    left = ClaimSeen.objects.order_by("uid", "seen_from").values_list("uid", "units")
    assert list(left) == [
        *(("c-a", D(1)), ("c-kept", D(1)), ("c-kept", D(0)), ("c-moved", D(1)), ("c-shared", D(1))),
    ]


# ---- from one look to the next --------------------------------------------------------------------------------------


def claim_now(units: str, since: float, changed: float, **fields: Any) -> ClaimNow:
    held = {CARD: D(units)} if units else {}
    return ClaimNow("c", "ml", held, hours(since), hours(changed), **{"users": {MAIN}, **fields})


def step(on: On, units: int, at: float, whose: Whose = MAIN) -> Step:
    return Step("c", "ml", on, whose, D(units), hours(at))


def steps(known: Collection[Step], *present: ClaimNow, now: float) -> list[Step]:
    return list(new_steps({"c": known} if known else {}, present, hours(now)))


def test_it_begins_when_the_cluster_says() -> None:
    assert steps([], claim_now("1", 1, 2), now=3) == [step(CARD, 1, 1)]


def test_it_ends_when_it_was_seen_released() -> None:
    assert steps([step(CARD, 1, 1)], claim_now("", 2, 2, users=()), now=3) == [step(CARD, 0, 2)]


def test_it_ends_when_it_is_gone_without_a_word() -> None:
    assert steps([step(CARD, 1, 1)], now=3) == [step(CARD, 0, 3)]


def test_it_moves_when_it_was_allocated_anew() -> None:
    moved = ClaimNow("c", "ml", {OTHER: D(1)}, hours(2), hours(2), users={MAIN})
    assert steps([step(CARD, 1, 1)], moved, now=3) == [step(CARD, 0, 2), step(OTHER, 1, 2)]


def test_a_second_queue_makes_it_the_namespaces() -> None:
    shared = claim_now("1", 1, 2, users={MAIN, Whose("PodGroup", "main")})
    assert steps([step(CARD, 1, 1)], shared, now=3) == [step(CARD, 1, 3, NOBODY)]


def test_what_was_shared_stays_the_namespaces_until_it_is_allocated_anew() -> None:
    known = [step(CARD, 1, 3, NOBODY)]
    assert steps(known, claim_now("1", 1, 4), now=5) == []
    assert steps(known, claim_now("1", 4, 4), now=5) == [step(CARD, 1, 4)]


def test_it_stays_whose_it_was_without_pods() -> None:
    assert steps([step(CARD, 1, 1)], claim_now("1", 1, 2, users=()), now=3) == []


def test_what_went_and_is_written_is_not_written_again() -> None:
    gone = claim_now("1", 1, 2, gone_at=hours(2))
    assert steps([], gone, now=3) == [step(CARD, 1, 1), step(CARD, 0, 2)]
    assert steps([step(CARD, 0, 2)], gone, now=4) == []


looks = st.lists(st.integers(0, 40), max_size=8, unique=True)


@given(looks=looks, since=st.integers(1, 19), length=st.integers(1, 19))
def test_it_does_not_matter_when_one_looks(looks: list[int], since: int, length: int) -> None:
    """A claim that is said to be allocated at one moment and goes at another holds from the one to the other."""
    gone, last = since + length, 41
    newest: list[Step] = []
    found: list[tuple[Decimal, datetime]] = []
    for at in [*sorted(looks), last]:
        over = at >= gone
        present = [claim_now("1", since, since, gone_at=hours(gone) if over else None)] if at >= since else []
        for one in steps(newest, *present, now=at):
            newest = [one]
            found.append((one.units, one.at))
    assert found == [(D(1), hours(since)), (D(0), hours(gone))]
