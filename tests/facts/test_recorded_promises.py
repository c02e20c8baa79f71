"""What queues promise on pools: Kueue's nominal, reserved and admitted, Volcano's shares beside them, by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal as D
from fractions import Fraction
from typing import Any

import pytest

from apps.capacity.facts import load_fleet
from apps.capacity.promised import Promises, promises
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, Node, Presence, Source, SourceState, Workload

from .recorded import collected
from .test_recorded_capacity import A100, FILES, GPU, H100, forget, not_installed, read_source
from .test_recorded_quotas import VOLCANO

AT = datetime(2026, 12, 2, 3, 5, tzinfo=UTC)
WHOLE = (GPU, "", Fraction(1))

pytestmark = pytest.mark.django_db


@pytest.fixture
def kueue() -> Cluster:
    found = collected("prod", FILES, at=AT)
    for source in (Source.NODES, Source.PODS, Source.KUEUE):
        read_source(found, source)
    not_installed(found, Source.VOLCANO)
    return found


@pytest.fixture
def volcano() -> Cluster:
    found = collected("volcano", VOLCANO, at=AT)
    for source in (Source.NODES, Source.PODS, Source.VOLCANO):
        read_source(found, source)
    not_installed(found, Source.KUEUE)
    return found


def promised() -> Promises:
    return promises(load_fleet(now=AT))


def test_admitted_is_the_part_of_reserved_whose_checks_have_passed(kueue: Cluster) -> None:
    found = promised()
    pool = (kueue.pk, H100, "exclusive")
    assert (found.reserved_of(pool, WHOLE), found.admitted_of(pool, WHOLE)) == (D(26), D(26))
    row = Workload.objects.filter(state="admitted", usage__contains=[{"flavor": "h100"}])[0]
    amount = sum(D(part["quantity"]) for part in row.usage if part["resource"] == GPU)
    Workload.objects.filter(pk=row.pk).update(state="reserved")  # quota is held, a check is pending
    found = promised()
    assert (found.reserved_of(pool, WHOLE), found.admitted_of(pool, WHOLE)) == (D(26), D(26) - amount)
    assert amount > 0


def test_what_waits_for_checks_in_the_recordings(kueue: Cluster) -> None:
    waiting = Workload.objects.filter(state="reserved").exclude(usage=[])
    by_flavor: dict[str, D] = {}
    for work in waiting:
        for part in work.usage:
            if part["resource"] == GPU:
                by_flavor[part["flavor"]] = by_flavor.get(part["flavor"], D(0)) + D(part["quantity"])
    found = promised()
    pool = (kueue.pk, A100, "exclusive")
    reserved, admitted = found.reserved_of(pool, WHOLE), found.admitted_of(pool, WHOLE)
    assert reserved is not None
    assert admitted is not None
    assert reserved == D(22)
    assert reserved - admitted == by_flavor.get("a100", D(0))


def test_the_flavors_that_promise_on_a_pool_the_most_first(kueue: Cluster) -> None:
    # 8 + 8 + 0 + 4 of the cohort = 20, 8 on spot, 40 for topology-aware work over the same nodes: 68
    assert promised().sources[kueue.pk, H100, "exclusive"] == [
        ("h100-tas", GPU, D(40)),
        ("h100", GPU, D(20)),
        ("h100-spot", GPU, D(8)),
    ]


def test_nothing_is_known_where_queues_were_never_read(kueue: Cluster) -> None:
    forget(kueue, Source.KUEUE)
    found = promised()
    pool = (kueue.pk, H100, "exclusive")
    assert (found.reserved_of(pool, WHOLE), found.admitted_of(pool, WHOLE)) == (None, None)
    assert (found.reserved, found.admitted) == (None, None)


def test_volcano_shares_of_the_recorded_queues(volcano: Cluster) -> None:
    # guarantee: eng 16 (production 8 and research 4 lie within); deserved: eng 40 + dormant 2 + vgpu 8;
    # capability: eng 56 + vgpu 16, the others have none
    (promise, pools) = promised().loose[volcano.pk, "", GPU]
    assert (promise.guarantee, promise.deserved, promise.capability) == (D(16), D(50), D(72))
    assert promise.nominal == D(50)
    assert len(pools) > 1  # Volcano's shares name no model


def only_pool(cluster: Cluster) -> tuple[Any, Promises]:
    """Leave the whole A100 nodes alone in the cluster: then every share is theirs."""
    Node.objects.exclude(name__startswith="a100").delete()
    found = promised()
    return found.by_unit[(cluster.pk, A100, "exclusive"), WHOLE], found


def test_volcano_shares_are_a_pools_where_there_is_only_one(volcano: Cluster) -> None:
    promise, found = only_pool(volcano)
    assert (promise.guarantee, promise.deserved, promise.capability, promise.nominal) == (
        D(16),
        D(50),
        D(72),
        D(50),
    )
    assert found.nominal == Fraction(50)


def test_a_queue_without_shares_speaks_through_its_children(volcano: Cluster) -> None:
    eng = ClusterObject.objects.get(kind="VolcanoQueue", name="eng")
    eng.spec = {**eng.spec, "guarantee": {}, "deserved": {}, "capability": {}}
    eng.save()
    promise, _found = only_pool(volcano)
    # guarantee production 8 + research 4; deserved 24 + 16 + 0 + 2 + 8; capability 40 + 24 + 4 + 16
    assert (promise.guarantee, promise.deserved, promise.capability) == (D(12), D(50), D(84))


def test_kueue_says_nothing_of_volcanos_shares(kueue: Cluster) -> None:
    promise = promised().by_unit[(kueue.pk, H100, "exclusive"), WHOLE]
    assert (promise.guarantee, promise.deserved, promise.capability) == (None, None, None)
    assert SourceState.objects.get(source=Source.VOLCANO).presence == Presence.ABSENT
