"""The building blocks of all columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hpabatch.layout import records as layout
from hpabatch.layout import results
from hpabatch.layout.records import LANE, POD_STATE, POLICY, SPEC, canonical, records, records_from
from hpabatch.layout.results import DECISION, METRIC_DECISION, empty_results

DTYPES = {
    name: value
    for module in (layout, results)
    for name, value in vars(module).items()
    if isinstance(value, np.dtype)
}


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_no_field_is_hidden_behind_an_attribute_of_numpy(name: str) -> None:
    # A record's field is read as an attribute; numpy's own attributes come first when interpreted.
    taken = set(dir(np.recarray)) | set(dir(np.record))
    assert not taken & set(DTYPES[name].names or ())


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_fields_are_numbers_or_short_codes(name: str) -> None:
    dtype = DTYPES[name]
    kinds = {field: dtype[field] for field in dtype.names or ()}
    allowed = {np.dtype("i8"), np.dtype("f8"), np.dtype("i1")}
    if name in ("DECISION", "METRIC_DECISION", "DETAIL", "STATUS", "POINT"):
        # replica counts and percents are int32 upstream, positions of metrics short, and there
        # are not that many ticks at once
        allowed |= {np.dtype("i4"), np.dtype("i2")}
    assert set(kinds.values()) <= allowed
    assert dtype.isalignedstruct


def test_floats_are_where_ratios_are() -> None:
    floats = {
        (name, field)
        for name, dtype in DTYPES.items()
        for field in dtype.names or ()
        if dtype[field] == np.dtype("f8")
    }
    assert floats == {
        ("SPEC", "up_tolerance"),
        ("SPEC", "down_tolerance"),
        ("METRIC_DECISION", "ratio"),
        ("MEASURES", "under_ratio"),
        ("MEASURES", "over_ratio"),
    }


def test_records_of_rows() -> None:
    policies = records(POLICY, [(1, 10, 60_000), [0, 4, 15_000]])
    assert isinstance(policies, np.recarray)
    assert policies.value.tolist() == [10, 4]
    assert int(policies[1].period_ms) == 15_000
    assert records(POLICY, []).shape == (0,)
    assert records(POLICY, np.array([[1, 2, 3]])).tolist() == [(1, 2, 3)]


def test_records_from_columns_and_scalars() -> None:
    lanes = records_from(LANE, 3, first_tick=[0, 5, 7], cpu_initialization_ms=9)
    assert lanes.first_tick.tolist() == [0, 5, 7]
    assert lanes.cpu_initialization_ms.tolist() == [9, 9, 9]
    assert lanes.last_tick.tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="no field"):
        records_from(SPEC, 1, minimum=1)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int32).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(12).reshape(2, 6)[:, ::2] // 2,
        [[0, 1, 2], [3, 4, 5]],
    ],
)
def test_canonical_arrays_are_writable_and_in_c_order(array: Any) -> None:
    result = canonical(array)
    assert result.dtype == np.int64
    assert result.flags.c_contiguous
    assert result.flags.writeable
    assert result.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_canonical_copies_read_only_arrays_and_only_those() -> None:
    array = np.arange(3)
    assert canonical(array) is array
    array.flags.writeable = False
    copy = canonical(array)
    copy[0] = 7
    assert array[0] == 0
    assert canonical(np.array([1.5]), np.float64).dtype == np.float64


def test_results_start_as_poison() -> None:
    results = empty_results(2, 3)
    assert results.decisions.shape == (2,)
    assert results.metrics.shape == (3,)
    assert results.decisions.tobytes() == b"\xa5" * (2 * DECISION.itemsize)
    assert results.metrics.tobytes() == b"\xa5" * (3 * METRIC_DECISION.itemsize)


def test_head_positions_are_distinct_and_the_four_conditions_have_room() -> None:
    heads = {n: v for n, v in vars(layout).items() if n.startswith("HEAD_")}
    length = heads.pop("HEAD_LENGTH")
    taken = set(heads.values()) | {layout.HEAD_CONDITIONS + k for k in range(4)}
    assert taken == set(range(length))
    assert len(heads) + 3 == length
    assert POD_STATE.names is not None
    assert len(POD_STATE.names) == 3
