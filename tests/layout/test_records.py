"""The building blocks of all columns."""

from __future__ import annotations

import numpy as np
import pytest

from hpabatch.layout import records as layout
from hpabatch.layout import results
from hpabatch.layout.records import canonical
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
