"""Price files: what they mean, and the sentence about everything that they cannot mean."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.inputs.prices import PRICE_LIST, PriceOverride, Prices, read_price_file
from tests.importers.mutations import check_mutations, complaint, given_keys, keys_of, refusal, says
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


def test_the_full_file_gives_every_key() -> None:
    assert given_keys(yaml.safe_load(FULL)) >= {name for _, name in keys_of(PRICE_LIST)}


def test_every_mutation_is_fine_or_refused_by_its_key() -> None:
    assert check_mutations(parse_price_file, yaml.safe_load(FULL), set()) > 250


def test_the_example_is_fine() -> None:
    prices = read_price_file(DATA / "prices.yaml")
    assert prices.price_of("demo", "batch", "etl").core_hour < prices.prices.core_hour
    assert prices.price_of("demo", "media", "transcoder").pod_hour > 0


SENTENCES = {
    "": "file f.yaml: expected one document, got 0",
    "[]": "expected a mapping with the keys currency, core_hour, gib_hour, pod_hour, over",
    "core_hour: 1": "currency: expected a currency such as EUR, got nothing",
    "currency: EUR": "expected one or more of core_hour, gib_hour, pod_hour, got no price",
    "{currency: 3, core_hour: 1}": "currency: expected a currency such as EUR, got 3",
    "{currency: ' ', core_hour: 1}": "currency: expected a currency such as EUR, got an empty stri",
    "{currency: EUR, core_hour: -1}": "core_hour: expected a price: a number from 0 to 1,000,000, ",
    "{currency: EUR, core_hour: '1'}": "core_hour: expected a price: a number from 0 to 1,000,000,",
    "{currency: EUR, core_hour: .nan}": "core_hour: expected a price: a number from 0 to 1,000,000",
    "{currency: EUR, core_hour: true}": "core_hour: expected a price: a number from 0 to 1,000,000",
    "{currency: EUR, cpu_hour: 1}": "; did you mean pod_hour?",
    "{currency: EUR, core_hour: 1, overrides: {}}": "overrides: expected a list of overrides, each",
    "{currency: EUR, core_hour: 1, overrides: [{core_hour: 2}]}": "overrides[0]: expected one or m",
    "{currency: EUR, core_hour: 1, overrides: [{hpa: a/b}]}": "overrides[0]: expected one or more ",
    "{currency: EUR, core_hour: 1, overrides: [{namespace: a/b, pod_hour: 1}]}": "overrides"
    "[0].namespace: expected the name of a namespace, such as shop or team-*",
}


@pytest.mark.parametrize("text", SENTENCES)
def test_sentences(text: str) -> None:
    found = refusal(parse_price_file, text)
    assert "file f.yaml" in found
    assert says(found, SENTENCES[text])


@given(st.text(max_size=60))
def test_no_text_gives_a_traceback(text: str) -> None:
    complaint(parse_price_file, text)
