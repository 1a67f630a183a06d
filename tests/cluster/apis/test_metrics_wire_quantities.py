"""The fast path of quantities is the slow one."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hpabatch.cluster.apis.metrics import milli_of
from hpabatch.model.quantity import Quantity
from tests.effort import effort

_SUFFIXES = ["", "n", "u", "m", "k", "M", "Ki", "Mi", "Gi", "Ti", "e3", "E", "i", "K", "nn", " "]
_DIGITS = st.text("0123456789", min_size=0, max_size=22)
_LIKELY = st.builds(
    lambda sign, whole, point, suffix: f"{sign}{whole}{point}{suffix}",
    st.sampled_from(["", "", "", "-", "+", " "]),
    _DIGITS,
    st.sampled_from(["", "", ".", ".5", ".000001"]),
    st.sampled_from(_SUFFIXES),
)


def _outcome(read: object, value: object) -> object:
    try:
        return read(value)  # type: ignore[operator]
    except ValueError as error:
        return str(error)


def _slow(value: str | int | float) -> int:
    return Quantity.parse(value).milli()


@settings(max_examples=effort(600))
@given(_LIKELY | st.text(max_size=6) | st.integers() | st.floats(allow_nan=False))
@example("999999999999999999n")
@example("1000000000000000000n")
@example("999999999999999")
@example("9999999999999999")
@example("99999999999Ki")
@example("100000000000Ki")
@example("99999999Mi")
@example("100000000Mi")
@example("99999Gi")
@example("100000Gi")
@example("0007")
@example("٣m")
@example("²m")
@example("1٣")
@example("")
def test_fast_is_slow(value: str | int | float) -> None:
    assert _outcome(milli_of, value) == _outcome(_slow, value)


@pytest.mark.parametrize(
    ("text", "milli"),
    [("163471123n", 164), ("1500u", 2), ("52m", 52), ("131372Ki", 134_524_928_000), ("0", 0),
     ("104857600", 104_857_600_000), ("8Ei", -1000), ("-1500u", -2)],
)  # fmt: skip
def test_known(text: str, milli: int) -> None:
    assert milli_of(text) == milli
