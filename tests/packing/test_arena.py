"""Memory that is used again."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.layout.records import TICK
from hpabatch.packing.arena import Arena

TYPES = (np.int64, np.int8, np.int32, TICK)


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 40), st.sampled_from(TYPES)), max_size=8
    )
)
def test_arrays_have_their_length_and_type_and_names_do_not_share(
    wanted: list[tuple[str, int, type]],
) -> None:
    arena, last = Arena(), {}
    for name, length, dtype in wanted:
        array = arena.take(name, length, dtype)
        assert (array.size, array.dtype) == (length, np.dtype(dtype))
        assert array.ctypes.data % 8 == 0
        assert array.flags.writeable
        array.view(np.uint8).fill(ord(name))
        last[name] = array
    for name, array in last.items():
        assert (array.view(np.uint8) == ord(name)).all()


def test_memory_is_handed_out_again_and_grows() -> None:
    arena = Arena()
    first = arena.take("a", 10, np.int64)
    assert np.shares_memory(first, arena.take("a", 10, np.int64))
    assert np.shares_memory(first, arena.take("a", 3, np.int32))
    assert not np.shares_memory(first, arena.take("b", 10, np.int64))
    assert not np.shares_memory(first, arena.take("a", 10_000, np.int64))


def test_records_are_read_by_name() -> None:
    ticks = Arena().take("ticks", 2, TICK)
    ticks.now_ms = [5, 6]
    assert ticks[1].now_ms == 6
