"""However a history is stored and cut, what the engine sees and decides is the same."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from hpabatch.engine.fleet.parameters import ReplayParameters
from tests.effort import effort
from tests.engine import naive_align as naive
from tests.engine.observed import observed
from tests.engine.shards.test_align import check_seen
from tests.engine.small_history import STEP, histories, recorder_rows
from tests.engine.ways import Way, cut, replayed, ways, written


@given(
    tables=histories(),
    way=ways,
    other=ways,
    events=st.sampled_from(["recorded", "decided"]),
    clock=st.fixed_dictionaries(
        {
            "delay": st.sampled_from([0, 1, 5_000, 10_000]),
            "max_age": st.sampled_from([10_001, 35_000, 500_000, None]),
            "period": st.sampled_from([STEP, STEP, 7_001]),
            "phase": st.sampled_from([0, 0, 2_001]),
        }
    ),
    instants=st.sampled_from(["grid", "grid", "recorded", "passes", "passes"]),
    k8s=st.sampled_from([*["1.38"] * 4, "1.36", "1.32", "1.26", "1.20"]),
)
@settings(max_examples=effort(16, kernel=True))
def test_the_engine_sees_what_the_naive_twin_sees(
    tables: naive.Tables,
    way: Way,
    other: Way,
    events: str,
    clock: naive.Row,
    instants: str,
    k8s: str,
) -> None:
    """It decides each tick on that, also where it is stored and cut in another way."""
    clock |= {name: instants == name for name in ("recorded", "passes")}
    if clock["max_age"] is None:
        tables["provenance"] = recorder_rows("c1", "c2", "c3")
    assume(not clock["recorded"] or tables["metric_fetches"] or tables["hpa_status"])
    assume(any(naive.instants_of(tables, hpa, clock) for hpa in tables["hpas"]))
    parameters = ReplayParameters(
        k8s,
        events=events,
        sync_period_ms=clock["period"],
        phase_ms=clock["phase"],
        delay_ms=clock["delay"],
        max_age_ms=clock["max_age"],
        instants=instants,
    )
    with written(tables, way) as history, cut(way):
        seen, decisions = observed(history, parameters)
    if k8s == "1.38":  # the version whose pods' requests and selectors the twin knows
        check_seen(seen, tables, clock)
    with written(tables, other) as history:
        found = replayed(history, parameters, other)
    assert_frame_equal(found.decisions, decisions, check_exact=True)


@given(
    tables=histories(),
    some=ways,
    others=ways,
    phase=st.sampled_from([None, 0]),
    max_age=st.sampled_from([None, 35_000]),
)
@settings(max_examples=effort(6, kernel=True))
def test_no_way_of_storing_or_cutting_matters(
    tables: naive.Tables, some: Way, others: Way, phase: int | None, max_age: int | None
) -> None:
    parameters = ReplayParameters("1.38", sync_period_ms=STEP, phase_ms=phase, max_age_ms=max_age)
    results = []
    for way in (some, others):
        with written(tables, way) as history:
            results.append(replayed(history, parameters, way))
    one, other = results
    assert_frame_equal(one.decisions, other.decisions, check_exact=True)
    assert_frame_equal(one.hpas, other.hpas)
    assert one.skipped == other.skipped
    # Digests are those of the files.
    assert [(k, v) for k, v in one.evidence.items() if "sha256" not in k] == [
        (k, v) for k, v in other.evidence.items() if "sha256" not in k
    ]
