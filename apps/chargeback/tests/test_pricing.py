"""Rates and amounts: look-up, exactness, rounding once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from apps.chargeback.pricing import Priced, RateCard, RateLine, charge, exact_amount
from apps.core.money import minor_digits

D = Decimal
T0 = datetime(2026, 12, 1, tzinfo=UTC)
GPU = "nvidia.com/gpu"


def rate(
    number: int, price: str, cluster: int | None = None, flavor: str = "", day: int = 0, **more: str
) -> RateLine:
    values = {"resource": GPU, "currency": "USD", **more}
    return RateLine(
        number, cluster, flavor, price_per_hour=D(price), valid_from=T0 + timedelta(days=day), **values
    )


def test_the_most_specific_rate_wins() -> None:
    card = RateCard(
        [
            rate(1, "1"),
            rate(2, "2", cluster=7),
            rate(3, "3", flavor="h100"),
            rate(4, "4", cluster=7, flavor="h100"),
        ]
    )

    def found(cluster: int, flavor: str) -> int | None:
        line = card.rate_at(cluster_id=cluster, flavor=flavor, resource=GPU, at=T0)
        return line.id if line else None

    assert [found(7, "h100"), found(8, "h100"), found(7, "a100"), found(8, "a100")] == [4, 3, 2, 1]
    assert card.rate_at(cluster_id=7, flavor="h100", resource="cpu", at=T0) is None


def test_a_rate_starts_at_its_instant_and_ends_where_the_next_starts() -> None:
    card = RateCard([rate(2, "3", day=10), rate(1, "2", day=1)])

    def at(moment: datetime) -> int | None:
        line = card.rate_at(cluster_id=1, flavor="x", resource=GPU, at=moment)
        return line.id if line else None

    second = timedelta(seconds=1)
    assert at(T0 + timedelta(days=1) - second) is None
    assert at(T0 + timedelta(days=1)) == 1
    assert at(T0 + timedelta(days=10) - second) == 1
    assert at(T0 + timedelta(days=10)) == 2
    assert card.changes(T0, T0 + timedelta(days=10)) == [T0 + timedelta(days=1)]


def test_a_later_wide_rate_does_not_replace_a_specific_one() -> None:
    card = RateCard([rate(1, "3", flavor="h100"), rate(2, "9", day=5)])
    line = card.rate_at(cluster_id=1, flavor="h100", resource=GPU, at=T0 + timedelta(days=6))
    assert line is not None
    assert line.id == 1


def test_hand_computed_amounts() -> None:
    # 8 GPUs for 10 minutes at 2.50 per GPU-hour: 4800 s / 3600 × 2.50 = 3.3333…
    assert exact_amount(D(4800), D("2.5")).quantize(D("1e-10")) == D("3.3333333333")
    lines, totals = charge([Priced(D(4800), rate(1, "2.5"))] * 3)
    assert [line.amount for line in lines] == [D("3.34"), D("3.33"), D("3.33")]
    assert totals == {"USD": D("10.00")}


def test_unpriced_is_not_zero_and_zero_is_a_price() -> None:
    lines, totals = charge([Priced(D(3600), None), Priced(D(3600), rate(1, "0"))])
    assert (lines[0].amount, lines[0].exact, lines[0].currency) == (None, None, "")
    assert (lines[1].amount, lines[1].currency) == (D("0.00"), "USD")
    assert totals == {"USD": D("0.00")}
    assert charge([]) == ([], {})


def test_currencies_round_each_to_its_own_minor_unit() -> None:
    pieces = [
        Priced(D(3600), rate(1, "1.0005", currency="KWD")),
        Priced(D(3600), rate(2, "100.5", currency="JPY")),
        Priced(D(3600), rate(3, "0.125", currency="CNY")),
    ]
    lines, totals = charge(pieces)
    assert totals == {"CNY": D("0.12"), "JPY": D(100), "KWD": D("1.000")}
    assert [line.amount for line in lines] == [D("1.000"), D(100), D("0.12")]


pieces = st.lists(
    st.builds(
        lambda units, price, currency: Priced(units, rate(1, str(price), currency=currency)),
        st.decimals(0, "1e12", places=3),
        st.decimals(0, 1000, places=6),
        st.sampled_from(["USD", "JPY", "KWD"]),
    ),
    max_size=30,
)


@given(pieces)
def test_rows_add_up_to_the_total_rounded_once(found: list[Priced]) -> None:
    lines, totals = charge(found)
    for currency, total in totals.items():
        amounts = [line.amount for line in lines if line.currency == currency and line.amount is not None]
        assert sum(amounts, D(0)) == total
        exact = sum(
            Fraction(piece.unit_seconds) * Fraction(piece.rate.price_per_hour) / 3600
            for piece in found
            if piece.rate is not None and piece.rate.currency == currency
        )
        scale = 10 ** minor_digits(currency)
        # Python rounds a Fraction half to even, exactly.
        assert Fraction(total) * scale == round(exact * scale)


@given(pieces)
def test_order_does_not_change_totals(found: list[Priced]) -> None:
    assert charge(found)[1] == charge(list(reversed(found)))[1]
