"""Tests of work that is done ahead: order, errors in their place, no more than said ahead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hpabatch.importers.table.spill import ahead


def test_items_are_taken_only_a_few_ahead() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for k in range(10):
            taken.append(k)
            yield k

    found = ahead(int, items(), 2)
    assert next(found) == 0
    assert taken == [0, 1, 2]
    assert list(found) == list(range(1, 10))


def test_an_error_comes_where_its_result_would() -> None:
    found = ahead(lambda k: 1 // (2 - k), range(5), 1)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(found)
