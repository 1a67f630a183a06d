"""Tests of comparisons: each is that of two replays, and names its cause."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hpabatch.engine.compare.causes import (
    ALONE,
    TOGETHER,
    Cause,
    Change,
    Key,
    Trial,
    find_causes,
    sentence,
)
from hpabatch.engine.compare.frames import (
    DECIDES,
    EXPLAINS,
    find_differences,
    side_by_side,
)
from hpabatch.engine.compare.run import (
    SPECS,
    VERSIONS,
    compare_history,
    joined_texts,
)
from hpabatch.engine.compare.sides import BOTH, Side
from hpabatch.engine.compare.trials import (
    SWITCHES,
    changed_switches,
    part_words,
    parts_that_differ,
    switch_words,
    with_part,
)
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.request import ChosenHpas
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.engine.replay.summary import KEY
from hpabatch.errors import UsageError
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.version_table import GATES, SINCE
from hpabatch.model.versions import PROFILES, Profile, profile_for
from tests.engine.compared import (
    CPU_60,
    SYNC,
    manifest,
    nonempty,
    only,
    opened,
    seconds,
    set_of,
    side,
    tick_frame,
    together,
    workload,
)
from tests.engine.naive_align import Row
from tests.engine.small_history import (
    T0,
    hpa_row,
)

# ---- versions, by hand ---------------------------------------------------------------------------


def test_the_tolerance_is_found_at_its_tick_with_its_switch(tmp_path: Path) -> None:
    # 66% of a target of 60% is 1.1: within the tolerance from 1.33 on, above it before, for
    # abs(1 - 1.1) is 0.10000000000000009. Its 2 at 30 s then stays in the window at 45 s.
    history = opened(workload("web", [60, 60, 66, 60, 66, 66]), tmp_path)
    found = compare_history(history, side("1.32"), side("1.33"))
    row = only(found)
    assert (found.compared, found.hpas, found.ticks) == (VERSIONS, 1, 6)
    assert (found.decide, found.explain, found.left_out) == (1, 0, ())
    assert (row["differs"], row["ticks"], row["ticks_decided"]) == (DECIDES, 6, 4)
    assert seconds(row) == 30
    assert (row["replicas"], row["desired_from"], row["desired_to"]) == (1, 2, 1)
    assert (row["binding_from"], row["binding_to"]) == ("metric", "tolerance")
    assert (row["rescaled_from"], row["rescaled_to"]) == (True, False)
    assert row["reason_to"] == ""
    assert row["ratio_from"] == pytest.approx(1.1)
    assert (row["most"], seconds(row, "most_ts")) == (-1, 30)
    assert row["replica_hours"] == pytest.approx(-4 * 15 / 3600)
    assert (row["cause"], row["how"]) == ("tolerance_by_bounds", ALONE)
    assert row["rule"].startswith("tolerance_by_bounds off -> on (within the tolerance is 1-t")


def test_two_hpas_on_the_same_pods(tmp_path: Path) -> None:
    tables = workload("web", [90] * 6)
    tables["hpas"].append(hpa_row("other", "web", [CPU_60]))
    found = compare_history(opened(tables, tmp_path), side("1.20"), side("1.38"))
    assert found.differences["cause"].to_list() == ["ambiguity_checked"] * 2
    assert found.differences["binding_to"].to_list() == ["selector"] * 2
    # In the order of names the first one to sync acts once.
    assert [seconds(row) for row in found.differences.iter_rows(named=True)] == [15, 0]


def test_what_one_version_refuses_is_left_out(tmp_path: Path) -> None:
    lag: Row = {
        "type": "External",
        "external": {"metric": {"name": "lag"}, "target": {"type": "Value", "value": "1"}},
    }
    tables = together(
        workload("web", [60] * 3), workload("api", [60] * 3, lag, spec={"minReplicas": 0})
    )
    history = opened(tables, tmp_path)
    found = compare_history(history, side("1.36"), side("1.37"))
    (item,) = found.left_out
    assert (item.cluster, item.namespace, item.hpa, item.side) == ("c1", "shop", "api", "1.36")
    assert "refuses it: spec.minReplicas" in item.reason
    assert found.hpas == 1
    back = compare_history(history, side("1.37"), side("1.36"))
    assert [i.side for i in back.left_out] == ["1.36"]
    refused = compare_history(
        history, side("1.36"), side("1.37"), lambda f: nonempty(f.filter(pl.col("hpa") == "api"))
    )
    assert [(i.hpa, i.side) for i in refused.left_out] == [("api", "1.36")]
    neither = compare_history(history, side("1.35"), side("1.36"))
    assert [i.side for i in neither.left_out if "1.35" in i.reason] == ["1.35"]
    same = compare_history(history, side("1.36"), side("1.36"))
    assert [i.side for i in same.left_out] == [BOTH]
    by_name = selection_of(ChosenHpas(names=("shop/web",)))
    assert compare_history(history, side("1.36"), side("1.37"), by_name).left_out == ()
    by_name = selection_of(ChosenHpas(names=("shop/api",)))
    named = compare_history(history, side("1.36"), side("1.37"), by_name)
    assert [(i.hpa, i.side) for i in named.left_out] == [("api", "1.36")]
    unknown = selection_of(ChosenHpas(names=("shop/wbe",)))
    with pytest.raises(UsageError, match=r"shop/wbe: there is no such HPA; did you mean shop/web"):
        compare_history(history, side("1.36"), side("1.37"), unknown)


# ---- manifests, by hand --------------------------------------------------------------------------


def test_a_changed_field_is_named(tmp_path: Path) -> None:
    history = opened(workload("web", [60, 200, 200, 300]), tmp_path)
    before = set_of("today", manifest("web", maxReplicas=5))
    found = compare_history(history, before, set_of("new", manifest("web", maxReplicas=3)))
    row = only(found)
    assert (found.compared, found.names) == (SPECS, ("today", "new"))
    assert (seconds(row), row["desired_from"], row["desired_to"]) == (15, 4, 3)
    assert (row["binding_from"], row["binding_to"]) == ("metric", "max")
    assert (row["cause"], row["how"]) == ("maxReplicas", ALONE)
    assert row["rule"] == "maxReplicas 5 -> 3"


def test_of_several_changed_fields_the_one_that_matters_is_named(tmp_path: Path) -> None:
    history = opened(workload("web", [60, 200, 200]), tmp_path)
    behavior = {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}]}}
    before = set_of("today", manifest("web", maxReplicas=5))
    after = set_of("new", manifest("web", maxReplicas=9, minReplicas=2, behavior=behavior))
    row = only(compare_history(history, before, after))
    # 1 is below the new minReplicas at once.
    assert (seconds(row), row["cause"], row["rule"]) == (0, "minReplicas", "minReplicas 1 -> 2")
    after = set_of("new", manifest("web", maxReplicas=9, behavior=behavior))
    row = only(compare_history(history, before, after))
    assert (seconds(row), row["cause"], row["how"]) == (15, "behavior", ALONE)
    assert row["rule"].startswith("behavior none -> {scaleUp: {")


def test_fields_that_only_matter_together(tmp_path: Path) -> None:
    # 300% of 60% asks for 5; no limit but maxReplicas 3 and the policies' 3 = 1 + 2.
    history = opened(workload("web", [60, 300]), tmp_path)

    def hpa(most: int, value: int) -> HPA:
        policies = [{"type": "Pods", "value": value, "periodSeconds": 15}]
        return manifest("web", maxReplicas=most, behavior={"scaleUp": {"policies": policies}})

    row = only(compare_history(history, set_of("a", hpa(3, 2)), set_of("b", hpa(5, 4))))
    assert (row["desired_from"], row["desired_to"]) == (3, 5)
    assert (row["cause"], row["how"]) == ("maxReplicas, behavior", TOGETHER)
    assert row["rule"] == (
        "only together: maxReplicas 3 -> 5; behavior.scaleUp.policies[0].value 2 -> 4"
    )
    back = only(compare_history(history, set_of("b", hpa(5, 4)), set_of("a", hpa(3, 2))))
    assert (back["cause"], back["how"]) == ("maxReplicas, behavior", ALONE)
    assert back["rule"].startswith("each alone: maxReplicas 5 -> 3; behavior.")


def test_recorded_hpas_against_manifests(tmp_path: Path) -> None:
    # The recorded HPA begins with tick 2, and lowers its maxReplicas at tick 4.
    tables = workload("web", [200] * 6, valid_from=T0 + 2 * SYNC, valid_to=T0 + 4 * SYNC)
    tables["hpas"].append(hpa_row("web", "web", [CPU_60], max_replicas=3, valid_from=T0 + 4 * SYNC))
    recorded = Side("recorded", ReplayParameters("1.38"))
    found = compare_history(
        opened(tables, tmp_path), recorded, set_of("new", manifest("web", maxReplicas=5))
    )
    row = only(found)
    assert (row["ticks"], row["ticks_decided"], seconds(row)) == (4, 2, 60)
    assert row["rule"] == "maxReplicas 3 -> 5"


def test_hpas_that_are_not_on_both_sides(tmp_path: Path) -> None:
    tables = together(workload("web", [60] * 3), workload("api", [60] * 3))
    before = set_of("today", manifest("web"), manifest("old", workload="api"), manifest("moved"))
    after = set_of(
        "new",
        manifest("web"),
        manifest("api"),
        manifest("moved", workload="api"),
    )
    moved = set_of("today", *(before.manifests or ())[:2], manifest("moved", workload="web"))
    history = opened(tables, tmp_path)
    found = compare_history(history, moved, after)
    told = {(i.hpa, i.side): i.reason for i in found.left_out}
    assert told == {
        ("old", "today"): "new has no such HPA",
        ("api", "new"): "today has no such HPA",
        ("moved", BOTH): "its target is another one: Deployment/web, then Deployment/api",
    }
    # A target that was not recorded: one reason is enough.
    found = compare_history(history, before, after)
    told = {(i.hpa, i.side): i.reason for i in found.left_out if i.hpa == "moved"}
    assert list(told) == [("moved", "today")]
    assert "Deployment/moved is not in the history's scales table" in told["moved", "today"]


def test_hpas_that_share_no_tick_are_left_out(tmp_path: Path) -> None:
    tables = workload("web", [60] * 3, valid_from=T0 + SYNC * 50)
    found = compare_history(
        opened(tables, tmp_path),
        Side("recorded", ReplayParameters("1.38")),
        set_of("new", manifest("web")),
    )
    (item,) = found.left_out
    assert (item.side, found.hpas) == ("recorded", 0)
    assert "none of its specs was in force" in item.reason


def test_the_first_side_is_asked_which_hpas(tmp_path: Path) -> None:
    tables = together(*(workload(name, [200] * 3) for name in ("web", "api", "new")))
    before = set_of("a", manifest("web", maxReplicas=5), manifest("api", maxReplicas=2))
    after = set_of(
        "b", *(manifest(name, maxReplicas=most) for name, most in [("web", 2), ("api", 5)])
    )
    new = manifest("new", maxReplicas=9)
    history = opened(tables, tmp_path)

    def large(frame: pl.DataFrame) -> pl.DataFrame:
        return nonempty(frame.filter(pl.col("max_replicas") > 4))

    found = compare_history(history, before, after, large)
    assert found.differences["hpa"].to_list() == ["web"]
    assert found.left_out == ()
    more = set_of("b", *(after.manifests or ()), new)
    found = compare_history(history, before, more, large)
    assert [(i.hpa, i.side) for i in found.left_out] == [("new", "b")]
    with pytest.raises(UsageError, match="none"):
        compare_history(history, after, before, lambda f: large(f.clear()))


# ---- parts ---------------------------------------------------------------------------------------


def test_ticks_of_one_side_only_are_not_compared() -> None:
    before = tick_frame(range(4), desired=[1, 2, 3, 4])
    after = tick_frame(range(1, 5), desired=[2, 4, 4, 9])
    (row,), ticks = (f.to_dicts() for f in find_differences(side_by_side(before, after)))
    assert (row["ticks"], row["ticks_decided"], row["most"]) == (3, 1, 1)
    assert [tick["ticks"] for tick in ticks] == [3]


def test_an_unknown_size_differs_from_a_known_one() -> None:
    before = tick_frame(range(2), desired=[None, None])
    after = tick_frame(range(2), desired=[None, 4])
    (row,), _ = (f.to_dicts() for f in find_differences(side_by_side(before, after)))
    assert (row["ticks_decided"], row["most"], row["replica_hours"]) == (1, None, None)


def test_a_decision_counts_before_an_explanation() -> None:
    before = tick_frame(range(4), desired=[1] * 4, binding=["metric", "max", "max", "max"])
    after = tick_frame(range(4), desired=[1, 1, 5, 3], binding=["min", "max", "max", "max"])
    (row,), _ = (f.to_dicts() for f in find_differences(side_by_side(before, after)))
    assert (row["differs"], row["ticks_decided"], row["ticks_explained"]) == (DECIDES, 2, 1)
    assert (row["first_ts"], row["most"]) == (before["ts"][2], 4)
    alone, _ = find_differences(side_by_side(before.head(2), after.head(2)))
    assert alone["differs"].to_list() == [EXPLAINS]
    assert alone["most"].to_list() == [None]


def difference(**values: Any) -> pl.DataFrame:
    before, after = tick_frame([0], desired=[1]), tick_frame([0], desired=[3])
    found, _ = find_differences(side_by_side(before, after))
    return found.with_columns(**values)


def causes(**sizes: tuple[int, int] | None) -> dict[Key, Cause]:
    """Return the causes where changes decide these sizes, alone and taken back; None: no tick."""
    plan: Any = None

    def run(side: int, change: Change, _: pl.DataFrame) -> pl.DataFrame:
        decided: Any = change(plan)
        return tick_frame([0], desired=[decided[side]]) if decided else tick_frame([], desired=[])

    changes: dict[str, Any] = {name: lambda _, pair=pair: pair for name, pair in sizes.items()}
    trials = [Trial(name, change, change) for name, change in changes.items()]
    return find_causes(difference(), trials, (partial(run, 0), partial(run, 1)))


def test_which_changes_make_a_difference() -> None:
    key = tuple(difference().select(KEY).row(0))
    # 1 becomes 3. Nothing (1), makes it (3), something else (2).
    assert causes(a=(3, 1), b=(1, 3), c=(3, 3)) == {key: Cause(("a", "c"), ALONE)}
    assert causes(a=(1, 1), b=(2, 1), c=(2, 2)) == {key: Cause(("a", "b"), TOGETHER)}
    assert causes(a=(2, 2)) == causes(a=None) == causes() == {}


def test_causes_in_words() -> None:
    words = {"a": "a off -> on", "b": "b 1 -> 2"}
    assert sentence(None, words) is None
    assert sentence(Cause(("a",), ALONE), words) == "a off -> on"
    assert sentence(Cause(("a", "b"), ALONE), words) == "each alone: a off -> on; b 1 -> 2"
    assert sentence(Cause(("a",), TOGETHER), words) == "a off -> on, but not alone"
    assert sentence(Cause(("a", "b"), TOGETHER), words) == "only together: a off -> on; b 1 -> 2"


def test_texts_of_both_sides() -> None:
    found = joined_texts(("1.32", "1.37"), ["both", "ours"], ["both", "theirs"])
    assert found == ("both", "1.32: ours", "1.37: theirs")


def test_what_differs_in_specs() -> None:
    rules = {"stabilizationWindowSeconds": 60}
    before = manifest("web", behavior={"scaleDown": rules}).spec
    after = manifest("web", behavior={"scaleDown": rules | {"selectPolicy": "Min"}}).spec
    assert parts_that_differ(before, after) == ("behavior",)
    words = "behavior.scaleDown.selectPolicy Max -> Min"
    assert part_words(before, after, "behavior") == words
    assert with_part(before, "behavior", after) == after
    other = replace(after, metrics=())
    assert parts_that_differ(before, other) == ("metrics", "behavior")
    assert part_words(after, other, "metrics") == (
        "metrics [{type: Resource, resource: {name: cpu, target: {type: Utilization, "
        "averageUtilization: 60}}}] -> none"
    )


def test_switches_and_their_words() -> None:
    before, after = profile_for("1.32"), profile_for("1.33")
    assert "tolerance_by_bounds" in changed_switches(before, after)
    assert not {"name", "proof", "evidence", "notes"} & set(changed_switches(before, after))
    assert changed_switches(before, before) == ()
    retries = replace(after, scale_conflict_retries=7)
    changed = f"scale_conflict_retries {after.scale_conflict_retries} -> 7"
    assert switch_words("scale_conflict_retries", after, retries) == changed
    # Words of a switch that is gone or has another name would never be told.
    assert set(SWITCHES) <= set(Profile.__dataclass_fields__)


def test_neighbors_differ_in_what_the_newer_one_brought() -> None:
    for (_, before), (name, after) in pairwise(PROFILES.items()):
        brought = {switch for switch, since in SINCE.items() if since.minor == after.minor}
        brought |= {gate.field for gate in GATES.values() if gate.on == after.minor}
        assert set(changed_switches(before, after)) == brought, name
    assert changed_switches(PROFILES["1.30"], PROFILES["1.31"]) == ()
