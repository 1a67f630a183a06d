"""Differences of a shadow run: lasting ones count, lags and short ones do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hpabatch.layout import codes
from hpabatch.live.passes.shadow import STATES, Comparison, Shadow
from tests.live.made_passes import NO_STATUS, pass_of

PERIOD_S = 15
START_S = 1_800_000_000


def run(ours: list[int], theirs: list[int], shadow: Shadow | None = None) -> list[Comparison]:
    """Compare a single HPA at every period."""
    shadow = shadow or Shadow(2 * PERIOD_S * 1000)
    return [
        shadow.compare(pass_of(START_S + PERIOD_S * k, [our], [their]))
        for k, (our, their) in enumerate(zip(ours, theirs, strict=True))
    ]


def states(found: list[Comparison]) -> list[str]:
    return [STATES[int(comparison.state[0])] for comparison in found]


def test_a_difference_that_lasts_counts_and_ends() -> None:
    found = run([3, 3, 5, 5, 5, 5, 5], [3, 3, 3, 3, 3, 3, 5])
    assert states(found) == ["same"] * 2 + ["settling"] * 2 + ["differs"] * 2 + ["same"]
    assert [len(c.begun) for c in found] == [0, 0, 0, 0, 1, 0, 0]
    assert [len(c.ended) for c in found] == [0, 0, 0, 0, 0, 0, 1]
    assert [int(c.since_ms[0]) for c in found[4:]] == [(START_S + 30) * 1000] * 2 + [-1]


def test_nothing_decided_is_no_disagreement() -> None:
    shadow = Shadow(30_000)
    unread = [codes.BOUND_BY_NO_SCALE]
    for k in range(4):
        found = shadow.compare(pass_of(START_S + 15 * k, [0], [4], binding=unread))
    assert found.counts()["undecided"] == 1


def test_hpas_may_come_go_and_change_their_order() -> None:
    shadow = Shadow(30_000)
    for k in range(3):
        shadow.compare(pass_of(START_S + 15 * k, [5, 4], [3, 4], names=["a", "b"]))
    found = shadow.compare(pass_of(START_S + 45, [9, 4, 5], [9, 4, 3], names=["c", "b", "a"]))
    assert [STATES[s] for s in found.state.tolist()] == ["same", "same", "differs"]
    assert found.fresh.tolist() == [0]
    assert found.moved.tolist() == [0]
    assert found.since_ms[2] == START_S * 1000
    shadow.compare(pass_of(START_S + 60, [4], [4], names=["b"]))
    again = shadow.compare(pass_of(START_S + 75, [5, 4], [3, 4], names=["a", "b"]))
    assert STATES[int(again.state[0])] == "settling"


def test_decisions_that_begin_and_cease_to_fail() -> None:
    shadow, found = Shadow(30_000), []
    for k, (names, errors) in enumerate(
        [("ab", [0, 2]), ("ba", [2, 2]), ("ab", [2, 0]), ("bc", [0, 1]), ("b", [0])]
    ):
        result = pass_of(START_S + 15 * k, [3] * len(names), [3] * len(names), names=list(names))
        compared = shadow.compare(replace(result, error=np.array(errors, np.int8)))
        found.append((compared.failing.tolist(), compared.working.tolist()))
    assert found == [([1], []), ([1], []), ([], [1]), ([1], []), ([], [])]


def test_against_a_plain_loop_over_random_passes() -> None:
    """The arrays' states equal those of the rule written down per HPA."""
    rng = np.random.default_rng(8)
    shadow, grace = Shadow(30_000), 30_000
    past: dict[str, list[tuple[int, int, int]]] = {}
    since: dict[str, int] = {}
    before: dict[str, str] = {}
    now = START_S * 1000
    for _ in range(200):
        now += int(rng.integers(1_000, 40_000))
        names = [f"h{k}" for k in rng.permutation(12)[: rng.integers(1, 12)]]
        ours = rng.integers(1, 4, len(names)).tolist()
        theirs = rng.choice([NO_STATUS, 1, 2, 3], len(names)).tolist()
        found = shadow.compare(pass_of(now / 1000, ours, theirs, names=names))
        for gone in set(past) - set(names):
            del past[gone], before[gone]
            since.pop(gone, None)
        for h, (name, our, their) in enumerate(zip(names, ours, theirs, strict=True)):
            seen = past.setdefault(name, [])
            if their in (our, NO_STATUS):
                since.pop(name, None)
                state = "same" if their == our else "unwritten"
            else:
                first = since.setdefault(name, now)
                # A value stood until the next pass.
                ends = [ms for ms, _, _ in [*seen, (now, 0, 0)][1:]]
                lag = any(
                    now - end < grace and (o == their or t == our)
                    for (_, o, t), end in zip(seen, ends, strict=True)
                )
                lasting = now - first >= grace and not lag
                state = "differs" if lasting or before.get(name) == "differs" else "settling"
            assert STATES[int(found.state[h])] == state
            assert found.since_ms[h] == since.get(name, -1)
            before[name] = state
            seen.append((now, our, their))
