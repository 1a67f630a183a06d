"""Quantities: every sentence of the rules has its vectors here; hypothesis covers the rest."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.model.quantity import (
    FORMAT_ERROR,
    SUFFIX_ERROR,
    Format,
    Quantity,
    json_number,
)
from tests.reference import quantity as reference

parse = Quantity.parse


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        # suffixes
        ("1n", 1), ("1u", 1), ("1m", 1), ("1", 1000), ("1k", 10**6), ("1M", 10**9),
        ("1G", 10**12), ("1T", 10**15), ("1P", 10**18), ("1Ki", 1_024_000), ("1Mi", 1_048_576_000),
        ("1e3", 10**6), ("1E3", 10**6), ("1E-3", 1), ("1e+2", 100_000), ("12e0", 12_000),
        # blanks around, signs, bare points
        (" 5 ", 5000), ("+5", 5000), ("-5", -5000), ("1.", 1000), (".5", 500), ("0", 0), ("-0", 0),
        ("000", 0), ("0007", 7000),
        # int64 form, finer than milli: away from zero
        ("-1u", -1), ("1500u", 2), ("-1500u", -2), ("1.50", 1500), ("2000n", 1),
        # int64 form, overflow: wrapped for one-step powers, else 0
        ("9223372036854775807", -1000), ("1e18", 0), ("1E", 0), ("1000P", 0), ("1e15", 10**18),
        ("9007199254740993", 9007199254740993000),
        ("999999999999999999", 999999999999999999000 - 54 * 2**64),
        ("0e40", 0), ("1e40", 0),
        # big form: truncated, plus 1 for a remainder
        ("8Ei", -1000), ("-8Ei", 1000), ("9223372036854775807m", 9223372036854775807),
        ("-0.0001Ki", -101), ("0.0001Ki", 103), ("1.0000000000000000001", 1001),
        ("-1.0000000000000000001", -999), ("0.0000000000000000000", 0),
        ("0.00000000000000000001", 1), ("-0.00000000000000000001", 1),
        # |nano| at least MaxInt64: floor plus 1
        ("-12345678901.0000000001", -12345678901000), ("12345678901.0000000001", 12345678901001),
    ],
)  # fmt: skip
def test_milli(text: str, milli: int) -> None:
    assert parse(text).milli() == milli
    assert reference.milli(text.strip()) == milli


@pytest.mark.parametrize(
    ("milli", "printed"),
    [
        (500, "500m"), (1000, "1"), (1500, "1500m"), (2_000_000, "2k"), (0, "0"),
        (-(2**63), "-9223372036854775808m"), (10**18, "1P"), (10**21, "1E"),
    ],
)  # fmt: skip
def test_printing_decimal_si(milli: int, printed: str) -> None:
    assert str(Quantity.from_milli(milli)) == printed


@pytest.mark.parametrize(
    ("milli", "printed"),
    [
        (1_000_000, "1k"), (1_023_000, "1023"), (1_024_000, "1Ki"), (1_024_500, "1024500m"),
        (1_536_000, "1536"), (94_371_840_000, "90Mi"), (130_752_000_000, "130752000"),
        (11_372_544_853, "11372544853m"), (-1_024_000, "-1Ki"), (2**60 * 1000, "1Ei"),
        (2**70 * 1000, "1024Ei"),
    ],
)  # fmt: skip
def test_printing_memory_from_milli(milli: int, printed: str) -> None:
    assert str(Quantity.from_milli(milli, binary=True)) == printed


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1000m", "1"), ("1000", "1k"), ("1.5Gi", "1536Mi"), ("0.5Ki", "512"), ("1024Mi", "1Gi"),
        ("0.0001Ki", "102400u"), ("10e3", "10e3"), ("100e2", "10e3"), ("1e21", "1e21"),
        ("12e-10", "2e-9"), ("1000E", "1e21"), ("0Mi", "0"), ("-1.5", "-1500m"), ("5e0", "5"),
        ("99999999999999999999999E", "99999999999999999999999E"), ("8Ei", "9223372036854775807"),
    ],
)  # fmt: skip
def test_canonical_text(text: str, canonical: str) -> None:
    assert parse(text).canonical() == canonical


@pytest.mark.parametrize(
    ("text", "printed"),
    [("1.500", "1.500"), ("+1", "+1"), ("1Ki", "1Ki"), ("1024Ki", "1Mi"), ("0.100", "100m"),
     ("1.000", "1"), ("1E3", "1E3"), ("08", "08"), ("2000", "2k")],
)  # fmt: skip
def test_print_keeps_what_parsing_took_for_canonical(text: str, printed: str) -> None:
    assert str(parse(text)) == printed


def test_a_binary_amount_below_one_becomes_decimal() -> None:
    assert parse("0.0001Ki").format is Format.decimal_si
    assert parse("0.5Ki").format is Format.binary_si


@pytest.mark.parametrize("text", ["", " ", "+", "-", ".", "m", "Ki", "1 Gi", "1_000", "NaN", "Inf",
                                  "１", "1..2", "--1", "1Zi", "0x1", "1e1.5", "1e3m"])  # fmt: skip
def test_not_a_quantity(text: str) -> None:
    with pytest.raises(ValueError) as error:
        parse(text)
    assert str(error.value) == FORMAT_ERROR


@pytest.mark.parametrize("text", ["1K", "1i", "1e", "1eE", "1mm", "1Kim", "1ki", "1m3",
                                  "1e99999999999999999999"])  # fmt: skip
def test_not_a_suffix(text: str) -> None:
    with pytest.raises(ValueError) as error:
        parse(text)
    assert str(error.value) == SUFFIX_ERROR


def test_numbers() -> None:
    assert str(parse(5)) == "5"
    assert str(parse(1.5)) == "1500m"
    assert str(parse(1000.0)) == "1k"
    for value in (True, math.nan, math.inf):
        with pytest.raises(ValueError):
            parse(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1"), (1.0, "1"), (0.0, "0"), (0.1, "0.1"), (1e20, "100000000000000000000"),
     (1e21, "1e+21"), (1e-6, "0.000001"), (1e-7, "1e-7"), (1.5e-7, "1.5e-7"), (-2.5, "-2.5"),
     (10.0, "10")],
)  # fmt: skip
def test_numbers_as_go_writes_json(value: float, text: str) -> None:
    assert json_number(value) == text


def test_guards_against_vast_numbers() -> None:
    with pytest.raises(ValueError, match="too long"):
        parse("1" * 1001)
    with pytest.raises(ValueError, match="exponent 1001"):
        parse("1234567890123456789e1001")
    with pytest.raises(ValueError, match="too far apart"):
        parse("1") + parse("1e20000")
    assert parse("1e-1000000000").milli() == 1  # smallest unit is nano
    assert parse("-1e-1000000000").unscaled == -1
    assert parse("0e-1000").milli() == 0
    assert parse("1e1000000000").milli() == parse("0e1000000000").milli() == 0
    assert parse("1e4294967296") == parse("1")  # the exponent is cut to int32
    assert parse("1e1000000000") > parse("1e999999999")
    assert str(parse("1e1000000000")) == "10e999999999"


@pytest.mark.parametrize(
    ("text", "value"),
    [("0.3", 0.30000000000000004), ("300m", 0.3), ("50m", 0.05), ("0.05", 0.05), ("2", 2.0),
     ("1e400", math.inf), ("0.0000000000000000001", 1e-9), ("1Ki", 1024.0)],
)  # fmt: skip
def test_approx_float(text: str, value: float) -> None:
    assert parse(text).approx_float() == value


def test_approx_float_beyond_doubles() -> None:
    assert parse("1" * 320).approx_float() == math.inf
    assert parse("-" + "1" * 320).approx_float() == -math.inf
    assert math.isnan(parse("0e400").approx_float())


def test_order_and_equality_go_by_value() -> None:
    assert parse("1") == parse("1000m") == parse("1e0")
    assert hash(parse("1")) == hash(parse("1000m"))
    assert parse("1") != parse("2")
    assert parse("1") != "1"
    assert parse("1500m") < parse("2")
    assert parse("-1") < parse("0") < parse("1n")
    assert parse("-2") < parse("-1")
    assert parse("-10") < parse("-9")
    assert parse("12").compare(parse("13")) == -1
    assert parse("13").compare(parse("12")) == 1
    assert parse("12").compare(parse("12000m")) == 0
    assert max(parse("1Ki"), parse("1k")) == parse("1024")
    assert [parse(text).sign() for text in ("-1n", "0", "1n")] == [-1, 0, 1]


def test_sums_keep_upstreams_form() -> None:
    total = parse("100u") + parse("100u")
    assert (total.milli(), total.big) == (1, False)
    assert (parse("0") + parse("1Ki")).format is Format.binary_si
    assert str(parse("1Ki") + parse("0")) == "1Ki"
    over = parse("9e18") + parse("900000000000000000")
    assert over.big is True
    assert (parse("1.0000000000000000001") + parse("1")).big
    assert str(parse("1") + parse("1m")) == "1001m"


def test_a_vast_big_sum_scales_as_go_does() -> None:
    total = Quantity(10**18, 19, big=True)
    assert total.milli() == 0  # even times MinInt64
    assert Quantity(1, 19, big=True).milli() == -(2**63)
    assert Quantity(7, -3, big=True).milli() == 7


def test_repr_shows_the_text() -> None:
    assert repr(parse("1.5")) == "Quantity('1500m')"


DIGITS = st.text("0123456789", max_size=22)
TEXTS = st.builds(
    lambda sign, whole, point, fraction, suffix: (
        f"{sign}{whole}{point}{fraction}{suffix}" if point else f"{sign}{whole}{suffix}"
    ),
    st.sampled_from(["", "+", "-"]),
    DIGITS,
    st.sampled_from(["", "."]),
    DIGITS,
    st.sampled_from(["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-7", "e21"]),
)


@settings(deadline=None)
@given(TEXTS)
def test_agrees_with_the_reference(text: str) -> None:
    try:
        quantity = parse(text)
    except ValueError:
        with pytest.raises(ValueError):
            reference.parse(text)
        return
    assert quantity.milli() == reference.milli(text)
    assert quantity.approx_float() == reference.approx_float(text)
    assert quantity.sign() == (quantity.unscaled > 0) - (quantity.unscaled < 0)


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_sums_and_order_agree_with_the_reference(left: str, right: str) -> None:
    try:
        mine, theirs = (parse(left), parse(right)), (reference.parse(left), reference.parse(right))
    except ValueError:
        return
    total = mine[0] + mine[1]
    assert total.milli() == reference.milli_of(reference.add(*theirs))
    assert mine[0].compare(mine[1]) == reference.compare(*theirs)
    assert (mine[0] == mine[1]) == (reference.compare(*theirs) == 0)


def _parsed(text: str) -> Quantity | None:
    try:
        return parse(text)
    except ValueError:
        return None


@settings(deadline=None)
@given(TEXTS)
def test_printing_round_trips_and_canonical_is_idempotent(text: str) -> None:
    quantity = _parsed(text)
    if quantity is None:
        return
    assert parse(str(quantity)) == quantity
    again = parse(quantity.canonical())
    assert again == quantity
    assert again.canonical() == quantity.canonical()


@settings(deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.booleans())
def test_a_status_quantity_keeps_its_milli(milli: int, binary: bool) -> None:
    quantity = Quantity.from_milli(milli, binary)
    assert quantity.milli() == milli
    assert parse(str(quantity)) == quantity
