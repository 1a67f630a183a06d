"""Price files: what they mean, and the sentence about everything that they cannot mean."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.inputs.prices import PRICE_LIST, parse_price_file, read_price_file
from hpabatch.model.prices import PriceOverride, Prices
from tests.importers.mutations import check_mutations, complaint, given_keys, keys_of, refusal

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
    assert prices.prices == Prices(0.031, 0.004, 1.0, "EUR")
    assert prices.overrides == (PriceOverride("prod-*", "batch", "batch/*", 0.01, 0.0, 0.5),)
    assert prices.overrides[0].place == "price file, line 7: overrides[0]"
    assert prices.price_of("prod-1", "batch", "etl") == Prices(0.01, 0.0, 0.5, "EUR")
    assert parse_price_file("{currency: $, pod_hour: 2}").prices == Prices(0.0, 0.0, 2.0, "$")


def test_the_full_file_gives_every_key() -> None:
    assert given_keys(yaml.safe_load(FULL)) >= {name for _, name in keys_of(PRICE_LIST)}


def test_every_mutation_is_fine_or_refused_by_its_key() -> None:
    assert check_mutations(parse_price_file, yaml.safe_load(FULL), set()) > 250


def test_the_example_is_fine() -> None:
    prices = read_price_file(DATA / "prices.yaml")
    assert prices.price_of("demo", "batch", "etl").core_hour < prices.prices.core_hour
    assert prices.price_of("demo", "media", "transcoder").pod_hour > 0


SENTENCES = {
    "": "holds 0 documents; one is wanted",
    "[]": "a list is not a mapping with the keys currency, core_hour, gib_hour, pod_hour, overrid",
    "core_hour: 1": "the key currency is missing: a currency such as EUR",
    "currency: EUR": "no price is given; give one or more of core_hour, gib_hour, pod_hour",
    "{currency: 3, core_hour: 1}": "currency: 3 is not a currency such as EUR: put it in quotes",
    "{currency: ' ', core_hour: 1}": "currency: an empty text is not a currency such as EUR",
    "{currency: EUR, core_hour: -1}": "core_hour: -1 is not a price: a number from 0 to 1,000,000",
    "{currency: EUR, core_hour: '1'}": "core_hour: '1' is not a price: a number from 0 to 1,000,0",
    "{currency: EUR, core_hour: .nan}": "core_hour: nan is not a price",
    "{currency: EUR, core_hour: true}": "core_hour: True is not a price",
    "{currency: EUR, cpu_hour: 1}": "cpu_hour: unknown key; did you mean pod_hour? (known here: ",
    "{currency: EUR, core_hour: 1, overrides: {}}": "overrides: a mapping is not a list of overri",
    "{currency: EUR, core_hour: 1, overrides: [{core_hour: 2}]}": "overrides[0]: it is for every "
    "HPA; say for which, with cluster, namespace, hpa",
    "{currency: EUR, core_hour: 1, overrides: [{hpa: a/b}]}": "overrides[0]: no price is given; ",
    "{currency: EUR, core_hour: 1, overrides: [{namespace: a/b, pod_hour: 1}]}": "overrides[0]."
    "namespace: 'a/b' is not the name of a namespace, such as shop or team-*",
}


@pytest.mark.parametrize("text", SENTENCES)
def test_sentences(text: str) -> None:
    found = refusal(parse_price_file, text)
    assert found.startswith("file f.yaml")
    assert SENTENCES[text] in found


@given(st.text(max_size=60))
def test_no_text_gives_a_traceback(text: str) -> None:
    complaint(parse_price_file, text)
