"""Where neighbouring rows differ."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.kernels.runs import count_changes, write_changes


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0, 1, 2**62])), max_size=12))
def test_changes_are_where_either_word_differs(words: list[tuple[int, int]]) -> None:
    rows = np.array(words, np.int64).reshape(-1, 2)
    found = np.full(count_changes(rows), -91, np.int64)
    write_changes(rows, found)
    assert found.tolist() == [k for k in range(1, len(words)) if words[k] != words[k - 1]]
