"""Go's arithmetic as machine code: the same as in plain Python, which `tests/rules` proves."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from tests.compiled import compiled, numbers_of
from tests.rules.test_numbers import float64, int64

machine_numbers_of = compiled(numbers_of)


@given(int64, int64, float64)
def test_compiled_equals_interpreted(a: int, b: int, value: float) -> None:
    by_machine, by_python = np.full(10, -91, np.int64), np.full(10, -92, np.int64)
    machine_numbers_of(a, b, value, by_machine)
    numbers_of(a, b, value, by_python)
    assert by_machine.tolist() == by_python.tolist()
