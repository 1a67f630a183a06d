"""Tests of prices: the pods that each one applies to."""

from __future__ import annotations

from hpabatch.inputs.prices import PriceList, PriceOverride, Prices

BASE = Prices(core_hour=0.03, gib_hour=0.004, pod_hour=0.0, currency="EUR")


def test_without_overrides_all_pay_the_same() -> None:
    assert PriceList(BASE).price_of("a", "b", "c") is BASE


def test_all_given_globs_must_match() -> None:
    override = PriceOverride(cluster="prod-*", namespace="batch", core_hour=0.01)
    prices = PriceList(BASE, (override,))
    assert prices.price_of("prod-1", "batch", "etl") == Prices("EUR", 0.01, 0.004, 0.0)
    assert prices.price_of("test", "batch", "etl") == BASE
    assert prices.price_of("prod-1", "shop", "etl") == BASE


def test_the_last_that_says_a_price_counts() -> None:
    prices = PriceList(
        BASE,
        (
            PriceOverride(namespace="batch", core_hour=0.02, pod_hour=1.0),
            PriceOverride(hpa="batch/e*", core_hour=0.01),
            PriceOverride(hpa="prod/batch/etl", gib_hour=0.5),
        ),
    )
    assert prices.price_of("test", "batch", "etl") == Prices("EUR", 0.01, 0.004, 1.0)
    assert prices.price_of("prod", "batch", "etl") == Prices("EUR", 0.01, 0.5, 1.0)
    assert prices.price_of("prod", "batch", "web") == Prices("EUR", 0.02, 0.004, 1.0)
