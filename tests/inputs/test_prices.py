"""Price files: what they mean, and the sentence about everything that they cannot mean."""

from __future__ import annotations

from pathlib import Path

from hpabatch.inputs.prices import PriceList, PriceOverride, Prices, read_price_file
from tests.inputs.parsed import parse_price_file

DATA = Path(__file__).parents[2] / "data"

FULL = """
currency: EUR
core_hour: 0.031
gib_hour: 0.004
pod_hour: 1
overrides:
- {cluster: prod-*, namespace: batch, hpa: batch/*, core_hour: 0.01, gib_hour: 0, pod_hour: 0.5}
"""


def test_every_key_means_what_the_page_says() -> None:
    prices = parse_price_file(FULL)
    assert prices.prices == Prices("EUR", 0.031, 0.004, 1.0)
    assert prices.overrides == (PriceOverride("prod-*", "batch", "batch/*", 0.01, 0.0, 0.5),)
    assert prices.overrides[0].place == "price file, line 7: overrides[0]"
    assert prices.price_of("prod-1", "batch", "etl") == Prices("EUR", 0.01, 0.0, 0.5)
    assert parse_price_file("{currency: $, pod_hour: 2}").prices == Prices("$", 0.0, 0.0, 2.0)


def test_the_example_is_fine() -> None:
    prices = read_price_file(DATA / "prices.yaml")
    assert prices.price_of("demo", "batch", "etl").core_hour < prices.prices.core_hour
    assert prices.price_of("demo", "media", "transcoder").pod_hour > 0


BASE = Prices(core_hour=0.03, gib_hour=0.004, pod_hour=0.0, currency="EUR")


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
