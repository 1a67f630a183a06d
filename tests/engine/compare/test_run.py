"""Tests of comparisons: each is that of two replays, and names its cause."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from hpabatch.engine.compare.causes import (
    ALONE,
    SWITCHES,
    TOGETHER,
    changed_switches,
    part_words,
    parts_that_differ,
    sentence,
    switch_words,
    with_part,
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
)
from hpabatch.engine.compare.sides import BOTH
from hpabatch.engine.fleet.request import ChosenHpas
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.errors import UsageError
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.versions import GATES, PROFILES, SINCE, Profile, profile_for
from tests.engine.compared import (
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


def test_a_decision_counts_before_an_explanation() -> None:
    before = tick_frame(range(4), desired=[1] * 4, binding=["metric", "max", "max", "max"])
    after = tick_frame(range(4), desired=[1, 1, 5, 3], binding=["min", "max", "max", "max"])
    (row,), _ = (f.to_dicts() for f in find_differences(side_by_side(before, after)))
    assert (row["differs"], row["ticks_decided"], row["ticks_explained"]) == (DECIDES, 2, 1)
    assert (row["first_ts"], row["most"]) == (before["ts"][2], 4)
    alone, _ = find_differences(side_by_side(before.head(2), after.head(2)))
    assert alone["differs"].to_list() == [EXPLAINS]
    assert alone["most"].to_list() == [None]


def test_causes_in_words() -> None:
    words = {"a": "a off -> on", "b": "b 1 -> 2"}
    assert sentence(ALONE, ["a"], words) == "a off -> on"
    assert sentence(ALONE, ["a", "b"], words) == "each alone: a off -> on; b 1 -> 2"
    assert sentence(TOGETHER, ["a"], words) == "a off -> on, but not alone"
    assert sentence(TOGETHER, ["a", "b"], words) == "only together: a off -> on; b 1 -> 2"


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
