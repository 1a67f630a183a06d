"""Judge of `make test-cluster`: it finds faults in sizes of either side."""

from __future__ import annotations

import pytest

from tests.live_cluster.recording import Decision
from tests.live_cluster.sequences import changes, compare_sequences
from tests.live_cluster.truth import Hpa


@pytest.mark.parametrize(
    ("ours_between", "theirs", "faults"),
    [
        (5, [2], [("passes 5", "does not")]),
        (2, [2, 3], [("do not", "passes 3")]),
    ],
    ids=["a size of ours that lasted", "a size of theirs that we never came to"],
)
def test_a_size_of_one_side_is_a_fault(
    ours_between: int, theirs: list[int], faults: list[tuple[str, str]]
) -> None:
    sizes = {k: ours_between if 2000 <= k < 6000 else 2 for k in range(0, 9000, 250)}
    ours = {
        k: Decision(2, size, size, failed=False, why="", reasons={}) for k, size in sizes.items()
    }
    their_ms = list(range(0, 9000, 1000))
    said = changes(list(zip(their_ms, theirs, strict=False)))
    found = compare_sequences(Hpa("shop", "web"), ours, said, their_ms, 8000, 1000)
    assert [(one.ours, one.theirs) for one in found if not one.why] == faults
