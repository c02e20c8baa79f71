"""Prices of groups of clusters: which price is the closest, written down first; who is in which group stays as published."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction
from hypothesis import given
from hypothesis import strategies as st

from apps.admissions.tests.builders import make_cluster
from apps.chargeback.models import RateGroupCluster, RatePrice
from apps.chargeback.rate_cards import draft, draft_like, load_tariff, publish
from apps.chargeback.tariff import Price, Use, Version

D = Decimal
START = datetime(2026, 1, 1, tzinfo=UTC)
CARD: list[dict[str, Any]] = [
    {"model": "H100", "amount": D(5)},
    {"model": "H100", "sharing_mode": "mig", "amount": D(4)},
    {"model": "H100", "group": "training", "amount": D(3)},
    {"model": "A100", "amount": D(2)},
    {"model": "A100", "group": "training", "sharing_mode": "mig", "profile": "1g.10gb", "amount": D("0.3")},
]


def cost(version: Version, cluster_id: int, model: str, mode: str = "", profile: str = "") -> Fraction | None:
    """Of one unit-hour."""
    applied = version.applied_to(Use("reserved", cluster_id, model, mode, profile, Fraction(1)))
    return None if applied is None else applied.amount(D(3600))


@pytest.mark.django_db
def test_the_clusters_own_price_comes_before_its_groups_and_that_before_any() -> None:
    east, west, lab = (make_cluster(slug) for slug in ("east", "west", "lab"))
    card = draft(
        valid_from=START, currency="USD", groups={"training": [east, west], "unpriced": [lab]},
        prices=[*CARD, {"model": "H100", "cluster": east, "amount": D(1)}],
    )  # fmt: skip
    publish(card.pk, by=None, now=START)
    version = load_tariff().at(START)
    assert version is not None
    # Its own, its group's, any cluster's: also where a farther one knows the sharing mode and the closer one does not.
    assert [cost(version, one.pk, "H100", "mig") for one in (east, west, lab)] == [1, 3, 4]
    assert [cost(version, one.pk, "H100") for one in (east, west, lab)] == [1, 3, 5]
    # The group prices one profile; for others nothing of the group fits.
    assert [cost(version, west.pk, "A100", "mig", name) for name in ("1g.10gb", "2g.20gb", "")] == [
        Fraction(3, 10), 2, 2,
    ]  # fmt: skip
    assert cost(version, lab.pk, "A100", "mig", "1g.10gb") == 2
    assert cost(version, west.pk, "L40S") is None


NAMES = st.sampled_from(["a", "b"])
WHERE = st.one_of(st.none(), st.sampled_from([1, 2, 3]), st.sampled_from(["odd", "even"]))
KEYS = st.tuples(WHERE, NAMES, st.sampled_from(["", "mig", "slice"]), st.sampled_from(["", "1g", "2g"]))


@given(
    keys=st.lists(KEYS, unique=True, max_size=20),
    groups=st.dictionaries(st.sampled_from([1, 2, 3]), st.sampled_from(["odd", "even"])),
    use=st.tuples(
        st.sampled_from([1, 2, 3]), NAMES, st.sampled_from(["", "mig"]), st.sampled_from(["", "1g"])
    ),
)
def test_as_by_looking_at_all_prices(keys: list[Any], groups: dict[int, str], use: Any) -> None:
    prices = [
        Price(
            number, "reserved", model, D(number),
            cluster_id=where if isinstance(where, int) else None,
            group=where if isinstance(where, str) else "", sharing_mode=mode, profile=profile,
        )
        for number, (where, model, mode, profile) in enumerate(keys, 1)
        if mode or not profile  # a profile is one of a sharing mode
    ]  # fmt: skip
    cluster_id, model, mode, profile = use

    def rank(price: Price) -> tuple[int, int] | None:
        """How far it is from the use, None where it does not fit."""
        own, of_group = price.cluster_id == cluster_id, price.group and groups.get(cluster_id) == price.group
        anywhere = price.cluster_id is None and not price.group
        alike = (price.model, price.sharing_mode or mode, price.profile or profile) == (model, mode, profile)
        if not alike or not (own or of_group or anywhere):
            return None
        return (0 if own else 1 if of_group else 2), 2 - bool(price.sharing_mode) - bool(price.profile)

    if profile and not mode:
        return
    ranked = sorted((found, price.id) for price in prices if (found := rank(price)) is not None)
    version = Version(1, START, "USD", tuple(prices), groups=groups)
    applied = version.applied_to(Use("reserved", cluster_id, model, mode, profile, None))
    assert (applied and applied.price.id) == (ranked[0][1] if ranked else None)


@pytest.mark.django_db
def test_a_group_that_no_cluster_is_in_is_not_published() -> None:
    card = draft(valid_from=START, currency="USD", prices=CARD, groups={"trainings": [make_cluster()]})
    with pytest.raises(ValidationError, match="No cluster is in the group training, which has prices"):
        publish(card.pk, by=None, now=START)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("made", "constraint"),
    [
        (
            lambda card, east: RatePrice(version=card, cluster=east, group="a", model="x", amount=1),
            "cluster_or",
        ),
        (lambda card, east: RateGroupCluster(version=card, cluster=east, group="b"), "group_cluster_once"),
        (lambda card, _: RateGroupCluster(version=card, cluster=make_cluster("w"), group=""), "has_a_name"),
        (lambda card, _: RatePrice(version=card, group="training", model="H100", amount=1), "group_once"),
    ],
)
def test_the_database_refuses(made: Any, constraint: str) -> None:
    east = make_cluster()
    card = draft(valid_from=START, currency="USD", prices=CARD, groups={"training": [east]})
    with pytest.raises(IntegrityError, match=constraint):
        made(card, east).save()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE chargeback_rategroupcluster SET \"group\" = 'other'",
        "DELETE FROM chargeback_rategroupcluster",
        'INSERT INTO chargeback_rategroupcluster (version_id, cluster_id, "group")'
        " SELECT g.version_id, c.id, 'training' FROM chargeback_rategroupcluster g, fleet_cluster c"
        " WHERE c.slug = 'west'",
        "UPDATE chargeback_rateprice SET \"group\" = 'other'",
    ],
)
def test_groups_of_a_published_card_stay(statement: str) -> None:
    make_cluster("west")
    card = draft(valid_from=START, currency="USD", prices=CARD, groups={"training": [make_cluster("east")]})
    publish(card.pk, by=None, now=START)
    with (
        pytest.raises(IntegrityError, match="refused on a published rate card"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)


@pytest.mark.django_db
def test_a_draft_like_a_card_says_all_that_it_says() -> None:
    east, west = make_cluster("east"), make_cluster("west")
    old = draft(
        valid_from=START, currency="EUR", prices=[*CARD, {"model": "H100", "cluster": east, "amount": D(1)}],
        groups={"training": [west, east]}, borrowed_factor=D("0.5"), priority_factors={"low": "0.1"}, note="2026",
    )  # fmt: skip
    publish(old.pk, by=None, now=START)
    later = datetime(2026, 7, 1, tzinfo=UTC)
    new = draft_like(old.pk, valid_from=later)
    assert (new.state, new.valid_from, new.published_at) == ("draft", later, None)
    publish(new.pk, by=None, now=START)
    tariff = load_tariff()
    first, second = tariff.at(START), tariff.at(later)
    assert first is not None
    assert second is not None
    assert second.groups == first.groups == {east.pk: "training", west.pk: "training"}
    assert [(price.key, price.amount) for price in second.prices] == [
        (price.key, price.amount) for price in first.prices
    ]
    for name in ("currency", "borrowed_factor", "priority_factors", "idle"):
        assert getattr(second, name) == getattr(first, name)
