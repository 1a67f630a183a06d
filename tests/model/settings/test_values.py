"""Values as people write them, the one way to write them, and the sentence about all others."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.model.settings.fields import (
    FIELDS,
    SHIPPED,
    Field,
    canonical_value,
    field_order,
    find_field,
)
from hpabatch.model.settings.values import (
    AS_TODAY,
    Numbers,
    Shape,
    decimal_text,
    quantity_text,
    rounded,
    rounded_quantity,
)

# By field: what is written, and the one way to write it.
SPELLINGS = {
    "target": {
        "70": "70", "070": "70", "0.5": "500m", "1.0": "1000m", "500m": "500m", "2000m": "2000m",
        "1Gi": "1Gi", "1024Mi": "1Gi", "0.5Gi": "512Mi", "1k": "1k", "1000": "1000", "1e3": "1k",
        "1500": "1500", "x2": "x2", "x0.50": "x0.5", "+5": "+5", "-100m": "-100m", "+16Mi": "+16Mi",
        "x1": "today", "+0": "today", "-0": "today", "Today": "today", " 70 ": "70",
    },
    "min": {"0": "0", "12": "12", "x1.5": "x1.5", "-1": "-1", "100000": "100000"},
    "scaleDown.window": {"300": "300", "5m": "300", "1h": "3600", "90s": "90", "0": "0",
                         "+1m": "+60", "-60": "-60", "2000ms": "2", "x10": "x10"},
    "tolerance": {"0.05": "0.05", "5%": "0.05", "50m": "0.05", "0": "0", "1": "1", "0.5%": "0.005",
                  "+2%": "+0.02", "-0.010": "-0.01"},
    "sync": {"15s": "15s", "15": "15s", "1500ms": "1s500ms", "60": "1m", "1h": "1h"},
    "scaleUp.select": {"max": "Max", "DISABLED": "Disabled"},
    "combine": {"MEAN": "mean", "max": "today"},
    "percentage-of": {"limit": "limit", "request": "today"},
    "policies": {"fast": "fast"},
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_each_value_has_one_spelling(name: str) -> None:
    field = find_field(name)[1]
    for written, canonical in SPELLINGS[name].items():
        assert canonical_value(field, written, SHIPPED) == canonical
        assert canonical_value(field, canonical, SHIPPED) == canonical


SENTENCES = {
    ("target", "70%"): "'70%' is not a whole percentage such as 70, or a quantity such as 500m or "
    "100Mi: 70 alone means percent",
    ("target", "0"): "'0' is not at least 1m",
    ("target", "abc"): "'abc' is not a whole percentage such as 70, or a quantity",
    ("target", "1e999999999"): "'1e999999999' is impossibly large: at most 9,007,199,254,740",
    ("target", "1u"): "'1u' is finer than 1m, which the controller cannot tell apart",
    ("target", "--1"): "'-1' is not a whole percentage",
    ("target", "x0"): "'x0' is not a factor such as x0.8: a number above 0, at most 1000, of at",
    ("target", "x1001"): "'x1001' is not a factor",
    ("target", "x-1"): "'x-1' is not a factor",
    ("target", "x1e3"): "'x1e3' is not a factor",
    ("target", "x0.1234567"): "'x0.1234567' is not a factor",
    ("min", "1.5"): "'1.5' is not a whole number of replicas from 0 to 100,000",
    ("min", "100001"): "'100001' is not from 0 to 100000",
    ("max", "0"): "'0' is not from 1 to 100000",
    ("max", "١"): "'١' is not a whole number of replicas",
    ("scaleUp.window", "3601"): "'3601' is not from 0 to 3600",
    ("scaleUp.window", "61m"): "'61m' is not from 0 to 3600",
    ("scaleUp.window", "500ms"): "'500ms' is not whole seconds from 0 to 3600, or a duration such",
    ("scaleUp.window", "-5000"): "'-5000' cannot lead to a value from 0 to 3600, whatever today's",
    ("scaleUp.window", "soon"): "'soon' is not whole seconds",
    ("tolerance", "5"): "'5' is not from 0 to 1",
    ("tolerance", "0.05x"): "'0.05x' is not a share from 0 to 1 such as 0.05 or 5%",
    ("tolerance", "0.000001%"): "'0.000001%' is not a share",
    ("sync", "0"): "'0' is not from 1s to 1h",
    ("sync", "2h"): "'2h' is not from 1s to 1h",
    ("sync", "+5s"): "'+5s' is relative to today's, which this field cannot be",
    ("scaleUp.select", "Most"): "'Most' is not one of Max, Min, Disabled",
    ("policies", "slow"): "'slow' is not the name of a policy set (known: gentle, default, fast)",
    ("policies", "x2"): "'x2' is not the name of a policy set",
}  # fmt: skip


@pytest.mark.parametrize("case", SENTENCES)
def test_sentences(case: tuple[str, str]) -> None:
    name, text = case
    with pytest.raises(ValueError) as caught:
        canonical_value(find_field(name)[1], text, SHIPPED)
    assert str(caught.value).startswith(SENTENCES[case])


@given(st.sampled_from(FIELDS), st.text("0123456789.xX+-%mMGigkhse today", max_size=8))
def test_any_text_has_one_spelling_or_a_sentence_that_quotes_it(field: Field, text: str) -> None:
    told = ""
    try:
        found = canonical_value(field, text, SHIPPED)
    except ValueError as error:
        found, told = AS_TODAY, str(error)
    assert canonical_value(field, found, SHIPPED) == found
    assert not told or text.strip().lstrip("+-") in told


@pytest.mark.parametrize("field", [f for f in FIELDS if isinstance(f.kind, Numbers)])
def test_the_bounds_themselves_are_fine(field: Field) -> None:
    kind = field.kind
    assert isinstance(kind, Numbers)
    for bound in (kind.low, kind.high):
        if bound is not None:
            text = kind.write(Fraction(bound), "plain")
            assert canonical_value(field, text, ()) == text


def test_fields_are_found_by_all_their_names() -> None:
    for field in FIELDS:
        for name in (field.name, *field.aliases, field.name.upper()):
            if field.name != "target.NAME":
                assert find_field(name) == (field.name, field)
    assert find_field("TARGET.Queue-Length")[0] == "target.Queue-Length"
    for name in ("", "foo", "target.", "target.NAME", "target.a b", "scaleUp", "scaleup.min"):
        with pytest.raises(ValueError, match=r"is not a field|names no metric"):
            find_field(name)


def test_fields_have_an_order() -> None:
    names = ["sync", "target.b", "min", "target.a", "scaleUp.window", "target", "policies"]
    assert sorted(names, key=field_order) == [
        "target", "target.a", "target.b", "min", "scaleUp.window", "policies", "sync",
    ]  # fmt: skip


def test_rounding() -> None:
    assert [int(rounded(Fraction(n, 2))) for n in (1, 2, 3, -1, -3)] == [1, 1, 2, 0, -1]
    assert rounded(Fraction("0.12345"), Fraction(1, 1000)) == Fraction("0.123")
    assert decimal_text(Fraction(3, 2)) == "1.5"
    assert decimal_text(Fraction("-0.25")) == "-0.25"


QUANTITIES: tuple[tuple[str, Shape, str], ...] = (
    ("0.6", "decimal", "600m"),
    ("23.1", "decimal", "23100m"),
    ("266.4444", "decimal", "266"),
    ("13579.5", "decimal", "13580"),
    ("0.00001", "decimal", "1m"),
    (f"{819.2 * 2**20}", "binary", "819Mi"),
    (f"{33.3 * 2**20}", "binary", "34099Ki"),
    ("0.1", "binary", "1000m"),
)


@pytest.mark.parametrize(("number", "shape", "text"), QUANTITIES)
def test_products_are_rounded_to_units_of_which_there_are_a_hundred(
    number: str, shape: Shape, text: str
) -> None:
    found = rounded_quantity(Fraction(number), shape)
    assert quantity_text(found, shape) in (text, f"{text}000m")


@given(st.fractions(1, 10**9), st.sampled_from(("decimal", "binary")))
def test_a_rounded_product_is_half_a_percent_off_at_most(number: Fraction, shape: Shape) -> None:
    found = rounded_quantity(number, shape)
    if number >= 100:
        assert abs(found - number) * 200 <= number
    assert rounded_quantity(found, shape) == found
