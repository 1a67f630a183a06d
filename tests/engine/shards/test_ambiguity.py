"""Ambiguous selectors: their times and groups of HPAs beside a naive look at each tick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.shards.ambiguity import NOT_RECORDED
from tests.effort import effort
from tests.engine import naive_align as naive
from tests.engine.naive_align import Row, Tables
from tests.engine.small_history import (
    METRICS,
    STEP,
    T0,
    histories,
    hpa_row,
    pass_row,
    pod_row,
    scale_row,
    start_row,
)
from tests.engine.told import CPU, Told, tell, told_of_all, web
from tests.engine.ways import Way, cut, ways, written

CLOCK: Row = {"delay": 0, "max_age": 60_000, "period": STEP, "phase": 0, "recorded": False}
GIVEN: dict[str, Any] = {"sync_period_ms": STEP, "phase_ms": 0, "max_age_ms": 60_000}
WORDS = "are controlled by multiple HPAs: "


def group_at(tables: Tables, hpa: Row, now: int) -> list[str]:
    """Return the HPAs that have a pod of an HPA's selector too, itself included, sorted."""
    scale = naive.scale_read(naive.scale_rows(tables, hpa), now)
    pods = naive.selected_pods(tables, hpa, scale, now)
    names = {r["name"] for r in tables["hpas"] if naive.same(r, hpa, naive.PLACE)} - {hpa["name"]}
    found = [hpa["name"]]
    for name in names:
        theirs = naive.registered_scale(tables, hpa | {"name": name}, CLOCK, (now, hpa["name"]))
        if theirs is not None and any(naive.is_selected(theirs, pod) for pod in pods):
            found.append(name)
    return sorted(f"{hpa['namespace']}/{name}" for name in found)


def words_at(tables: Tables, hpa: Row, now: int) -> str | None:
    """Return what is said of an HPA's selector at a tick, None: it is not ambiguous."""
    scale = naive.reached_scale(tables, hpa, now)
    group = [] if scale is None else group_at(tables, hpa, now)
    if scale is None or len(group) < 2:
        return None
    text = NOT_RECORDED if scale["selector"] is None else scale["selector"]
    return f"pods by selector {text} {WORDS}[{' '.join(group)}]"


@st.composite
def crowded(draw: st.DrawFn) -> Tables:
    """Draw a history of up to four HPAs on two workloads, whose selectors mostly overlap."""
    tables = draw(histories())
    texts = st.sampled_from([*naive.SELECTORS, None])
    for row in tables["scales"]:
        row["selector"] = draw(texts)
    for name in draw(st.lists(st.sampled_from(["b", "zwei"]), unique=True)):
        workload = draw(st.sampled_from(["web", "api"]))
        end = draw(st.sampled_from([None, T0 + 50_000]))
        tables["hpas"].append(hpa_row(name, workload, METRICS[:1], valid_to=end))
    return tables


@given(tables=crowded(), way=ways)
@settings(max_examples=effort(8, kernel=True))
def test_who_is_named_is_who_shares_a_pod(tables: Tables, way: Way) -> None:
    assume(any(naive.instants_of(tables, hpa, CLOCK) for hpa in tables["hpas"]))
    with written(tables, way) as history, cut(way):
        found = told_of_all(history, ReplayParameters("1.36", **GIVEN))
    for (cluster, namespace, name), ticks in found.items():
        hpa = {"cluster": cluster, "namespace": namespace, "name": name}
        for now, told in ticks.items():
            said = [text for _, reason, text in told.events if reason == "AmbiguousSelector"]
            assert said == [text for text in [words_at(tables, hpa, now)] if text is not None]


def overlapping(**more: Any) -> Tables:
    """Return three HPAs: `a` has the pods of `b` and those of `c`, which share none."""
    return web(
        pods=[pod_row("web-0"), pod_row("api-0")],
        hpas=[hpa_row(name, name, [CPU]) for name in ("a", "b", "c")],
        scales=[
            scale_row("a", T0 - STEP, 2, selector="app in (api,web)"),
            scale_row("b", T0 - STEP, 2, selector="app=web"),
            scale_row("c", T0 - STEP, 2, selector="app=api"),
        ],
        **more,
    )


def groups(tables: Tables, folder: Path, **given: Any) -> dict[str, list[str]]:
    """Return by HPA the group of each tick, "" where none is named, "?": its scale is not read."""

    def group(tick: Told) -> str:
        if not tick.events:
            return ""
        _, reason, text = tick.events[0]
        unread = reason == "FailedGetScale"
        return "?" if unread else text.partition(WORDS)[2].strip("[]").replace("shop/", "")

    found = tell(tables, folder, "1.36", **given)
    return {name: [group(tick) for tick in ticks] for name, ticks in found.items()}


def test_at_passes_the_first_of_a_loop_is_first(tmp_path: Path) -> None:
    passes = [pass_row(T0 + k * STEP + 7, start=k in (0, 3)) for k in range(5)]
    tables = overlapping(passes=passes, controller=[start_row(T0 + 2 * STEP)])
    # What a loop that began anew does not know yet, it does not find ambiguous.
    assert groups(tables, tmp_path, instants="passes") == {
        "a": ["", "a b c", "a b c", "", "a b c"],
        "b": ["a b"] * 5,
        "c": ["a c"] * 5,
    }


def test_at_passes_an_object_made_anew_is_forgotten_and_one_read_anew_is_not(
    tmp_path: Path,
) -> None:
    turn = T0 + 2 * STEP
    for uid, gap, second in (("u", 3, "a b"), ("z", 0, ""), ("u", STEP, "")):
        tables = overlapping(passes=[pass_row(T0 + k * STEP + 7, start=k == 0) for k in range(5)])
        tables["hpas"] = [
            hpa_row("a", "a", [CPU]),
            hpa_row("b", "b", [CPU], valid_to=turn, uid="u"),
            hpa_row("b", "b", [CPU], valid_from=turn + gap, uid=uid),
        ]
        found = groups(tables, tmp_path / f"{uid}{gap}", instants="passes")["a"]
        # (those of lesser names come first: `b` is known to `a` one pass later)
        assert found == (
            ["", "a b", second, "a b", "a b"] if gap < STEP else ["", "a b", "", "", "a b"]
        )
