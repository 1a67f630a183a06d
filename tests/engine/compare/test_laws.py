"""Laws of comparisons, for any history and any two versions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hpabatch.engine.compare.causes import ALONE, SWITCHES, with_switch
from hpabatch.engine.compare.frames import (
    DECIDES,
    DECISION,
    EXPLAINS,
    EXPLANATION,
    TOLD,
)
from hpabatch.engine.compare.run import (
    VERSIONS,
    Comparison,
    compare_history,
)
from hpabatch.engine.compare.run import compare_sides as compare_planned
from hpabatch.engine.compare.sides import Side, plan_sides, under_versions
from hpabatch.engine.fleet import plan as planning
from hpabatch.engine.replay.summary import KEY
from hpabatch.errors import HistoryError
from hpabatch.history.reader import History
from hpabatch.model.versions import PROFILES, profile_for
from tests.effort import effort
from tests.engine.compared import (
    drawn,
    eventful,
    side,
)
from tests.engine.made import replay_history
from tests.engine.naive_align import Tables
from tests.engine.small_history import (
    histories,
)

VERSION = st.sampled_from(list(PROFILES))
# Edges of the alignment, where versions seldom differ, and fleets in which they nearly always do.
TABLES = histories() | st.builds(partial(eventful, hpas=3, ticks=8), st.integers(0, 999))


@settings(max_examples=effort(6))
@given(TABLES, VERSION, VERSION, st.sampled_from(["recorded", "decided"]))
def test_a_comparison_is_that_of_two_replays(
    tables: Tables, first: str, second: str, events: str
) -> None:
    with drawn(tables) as history:
        pair = [side(version, events=events) for version in (first, second)]
        found = compared(history, *pair)
        runs = [replay_history(history, each.parameters) for each in pair]
    ticks = [
        {tuple(row[name] for name in (*KEY, "ts")): row for row in run.decisions.to_dicts()}
        for run in runs
    ]
    told: dict[tuple[Any, ...], list[tuple[Any, str]]] = {}
    for key, ours in ticks[0].items():
        theirs = ticks[1].get(key)
        for kind, names in ((DECIDES, DECISION), (EXPLAINS, EXPLANATION)):
            if theirs is not None and any(ours[name] != theirs[name] for name in names):
                told.setdefault(key[:3], []).append((key[3], kind))
                break
    rows = {tuple(row[name] for name in KEY): row for row in found.differences.to_dicts()}
    assert set(rows) == set(told)
    for key, differ in told.items():
        row = rows[key]
        decided = [ts for ts, kind in differ if kind == DECIDES]
        explained = [ts for ts, kind in differ if kind == EXPLAINS]
        assert (row["ticks_decided"], row["ticks_explained"]) == (len(decided), len(explained))
        assert row["first_ts"] == min(decided or explained)
        for name in TOLD:
            if name == "ratio":
                continue
            values = [run[(*key, row["first_ts"])][name] for run in ticks]
            assert [row[f"{name}_from"], row[f"{name}_to"]] == values
    assert found.ticks == len(set(ticks[0]) & set(ticks[1]))


def compared(history: History, before: Side, after: Side) -> Comparison:
    try:
        return compare_history(history, before, after)
    except HistoryError as error:
        assume("nothing to replay" not in str(error) and "no sync falls" not in str(error))
        raise


@settings(max_examples=effort(4))
@given(TABLES, VERSION, VERSION, st.integers(0, 999))
def test_order_of_sides_rows_and_shards_changes_nothing(
    tables: Tables, first: str, second: str, seed: int
) -> None:
    with drawn(tables) as history:
        there = compared(history, side(first), side(second))
        back = compared(history, side(second), side(first))
    with (
        drawn(tables, seed) as history,
        mock.patch.object(planning, "SHARD_DECISIONS", 1 + seed % 20),
    ):
        other = compared(history, side(first), side(second))
    assert other.differences.equals(there.differences)
    assert other.left_out == there.left_out
    same = [*KEY, "differs", "ticks", "ticks_decided", "ticks_explained", "first_ts", "most_ts"]
    assert there.differences.select(same).equals(back.differences.select(same))
    assert there.differences["most"].equals((-back.differences["most"]).alias("most"))
    assert there.differences["error_from"].to_list() == back.differences["error_to"].to_list()


def test_a_single_switch_is_always_found() -> None:
    base = profile_for("1.38")
    found = set()
    with drawn(eventful(2)) as history:
        planned = plan_sides(history, side("1.38"), side("1.38"))
        versions = planned.after.versions
        for name in SWITCHES:
            off: dict[str, Any] = {name: False}
            older = replace(versions, default=replace(base, **off))
            after = under_versions(planned.after, with_switch(versions, older, name, ()))
            comparison = compare_planned(VERSIONS, replace(planned, after=after))
            rows = comparison.differences.select("cause", "how").rows()
            assert set(rows) <= {(name, ALONE)}
            found |= {cause for cause, _ in rows}
    assert len(found) >= 8
