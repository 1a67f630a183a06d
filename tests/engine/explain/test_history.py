"""Explanations out of histories: which sync, which HPA, whose pods, under which assumptions."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.engine.explain.facts import Explanation
from hpabatch.engine.explain.run import explain_history
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.errors import HistoryError, RefusedError, UsageError
from hpabatch.history.reader import open_history
from tests.effort import effort
from tests.engine.made import replay_history
from tests.engine.naive_align import Row, Tables
from tests.engine.small_history import (
    METRICS,
    STEP,
    T0,
    distinct,
    empty_tables,
    histories,
    hpa_row,
    other_cluster,
    pod_row,
    request_row,
    scale_row,
    state_row,
    status_row,
    usage_row,
    write_history,
)


def web(*metrics: Row, samples: int = 12, **more: Any) -> Tables:
    """Return the tables of three pods, the last of which has two samples only, and an HPA `web`."""
    tables = empty_tables()
    for k in range(3):
        pod = f"web-{k}"
        tables["pods"].append(pod_row(pod))
        tables["pod_states"].append(state_row(pod))
        tables["pod_requests"].append(request_row(pod))
        tables["pod_metrics"] += [
            usage_row(pod, T0 + s * STEP, 30) for s in range(samples if k < 2 else 2)
        ]
    tables["scales"] = [scale_row("web", T0 - 1000, 3)]
    tables["hpas"] = [hpa_row("web", "web", list(metrics) or METRICS[:1], **more)]
    return tables


def explain(
    tables: Tables,
    folder: Path,
    at_ms: int | None = None,
    name: str = "shop/web",
    manifests: Any = None,
    **more: Any,
) -> Explanation:
    folder.mkdir(exist_ok=True)
    parameters: Any = {"k8s": "1.38", "sync_period_ms": STEP, "max_age_ms": 60_000} | more
    history = open_history(write_history(tables, folder))
    asked = ReplayParameters(**parameters, until=at_ms)
    return explain_history(history, asked, name, manifests)


def behavior(**rules: Any) -> Row:
    return {"behavior": rules}


# ---- which sync ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "sync"), [(45_000, 40_000), (40_000, 40_000), (39_999, 30_000), (60_000, 60_000)]
)
def test_the_last_sync_at_or_before_an_instant(tmp_path: Path, asked: int, sync: int) -> None:
    # T0 is a minute before midnight: the last case is a day's first instant.
    found = explain(web(), tmp_path, T0 + asked)
    assert (found.asked_ms, found.sync_ms) == (T0 + asked, T0 + sync)
    assert found.windows is not None
    # What the window holds is from before the sync: the first size, and one proposal a sync.
    assert [r.at_ms - T0 for r in found.windows.recommendations] == [0, *range(0, sync, STEP)]


def test_the_syncs_of_an_hpa_end_with_it(tmp_path: Path) -> None:
    found = explain(web(valid_to=T0 + 35_000), tmp_path)
    assert found.sync_ms == T0 + 30_000
    with pytest.raises(UsageError, match=r"no sync at or before .*00:00:10Z; its spec is in force"):
        explain(web(valid_from=T0 + 75_000), tmp_path / "later", T0 + 70_000)


# ---- the scale -----------------------------------------------------------------------------------


def test_the_recorded_scale_and_its_next_change(tmp_path: Path) -> None:
    tables = web()
    tables["scales"] += [
        scale_row("web", T0 + 20_000, 3, status_replicas=2),
        scale_row("web", T0 + 65_000, 4),
    ]
    found = explain(tables, tmp_path, T0 + 40_000).scale
    assert (found.kind, found.name, found.selector) == ("Deployment", "web", "app=web")
    assert (found.replicas, found.status_replicas, found.since_ms) == (3, 2, T0 + 20_000)
    assert (found.next_ms, found.next_replicas) == (T0 + 65_000, 4)
    after = explain(tables, tmp_path / "after", T0 + 70_000).scale
    assert (after.replicas, after.next_ms) == (4, None)


# ---- what it rests on ----------------------------------------------------------------------------

UP_1 = behavior(scaleUp={"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]})


def test_recorded_changes_spend_the_budget(tmp_path: Path) -> None:
    tables = web(max_replicas=9, spec=UP_1)
    for row in tables["pod_metrics"]:
        row["cpu_milli"] = 90
    tables["scales"].append(scale_row("web", T0 + 15_000, 5))
    recorded = explain(tables, tmp_path, T0 + 20_000)
    assert recorded.limits is not None
    # Two pods more at 15 s: 5 - 2 + 1, and never below the current 5.
    (policy,) = recorded.limits.policies
    assert [(e.at_ms - T0, e.change) for e in policy.events] == [(15_000, 2)]
    assert (policy.start, policy.limit, recorded.limits.limited) == (3, 4, 5)
    assert (recorded.assumed["events"], recorded.outcome.stored_change) == ("recorded", None)
    decided = explain(tables, tmp_path / "decided", T0, events="decided")
    assert decided.outcome.stored_change == 1


def test_what_is_assumed_is_told(tmp_path: Path) -> None:
    found = explain(web(), tmp_path, k8s="1.36", feature_gates="HPAScaleToZero=true", delay_ms=5000)
    told = found.assumed
    assert (told["k8s"], told["k8s_source"], told["k8s_evidence"]) == ("1.36", "given", "proved")
    assert "HPAScaleToZero=true" in told["gates"]
    assert told["syncs"] == "every 10s (given), 0s after full periods (assumed)"
    assert (told["delay"], told["max_age"], told["flags"]) == (
        "5s (given)",
        "1m (given)",
        "default",
    )
    assert (told["cpu_initialization_period"], told["initial_readiness_delay"]) == ("5m", "30s")


def test_an_estimated_clock(tmp_path: Path) -> None:
    tables = web(samples=20)
    tables["hpa_status"] = [
        status_row("web", T0 + 3000 + k * STEP) | {"current_replicas": k} for k in range(18)
    ]
    found = explain(tables, tmp_path, T0 + 95_000)
    assert found.sync_ms == T0 + 93_000
    assert found.assumed["syncs"].startswith("every 10s, estimated from 17 recorded instants")
    tables["hpa_status"] = tables["hpa_status"][:6]
    found = explain(tables, tmp_path / "few", T0 + 95_000)
    assert found.assumed["syncs"].startswith("every 10s (given), its phase estimated from 5 rec")


# ---- which HPA -----------------------------------------------------------------------------------


def named() -> Tables:
    tables = web()
    other_cluster(tables)
    tables["hpas"].append(hpa_row("web", "web", METRICS[:1], cluster="c2"))
    tables["hpas"].append(hpa_row("broken", "web", METRICS[:1], spec={"maxReplicas": 0}))
    tables["hpas"].append(hpa_row("lost", "nowhere", METRICS[:1]))
    return tables


def test_a_name_is_as_long_as_it_has_to_be(tmp_path: Path) -> None:
    tables = named()
    assert explain(tables, tmp_path, name="c1/shop/web").cluster == "c1"
    assert explain(tables, tmp_path, name="one").hpa == "one"  # the other cluster's only
    with pytest.raises(UsageError, match="2 HPAs are called so; name one of c1/shop/web, c2/shop/"):
        explain(tables, tmp_path, name="shop/web")


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("shop/wep", UsageError, "no such HPA; did you mean shop/web"),
        ("shpo/web", UsageError, "did you mean"),
        ("zz/yy/xx", UsageError, "no such HPA; there is c1/shop/"),
        ("shop/broken", RefusedError, "shop/broken: .*maxReplicas"),
        ("c1/shop/lost", RefusedError, "has no row in the scales table"),
    ],
)
def test_names_that_are_nobodys(
    tmp_path: Path, name: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        explain(named(), tmp_path, name=name)


# ---- it is the replay's decision -----------------------------------------------------------------


@given(histories(), st.sampled_from(["1.20", "1.36", "1.38"]), st.booleans(), st.data())
@settings(max_examples=effort(8), deadline=None)
def test_an_explanation_ends_with_the_replays_decision(
    tables: Tables, k8s: str, recorded: bool, data: st.DataObject
) -> None:
    # Half of the targets and samples are as they should be, or hardly a metric would have its say.
    if data.draw(st.booleans()):
        tables = _sound(tables)
    options: Any = {"k8s": k8s, "sync_period_ms": STEP}
    options["events"] = "recorded" if recorded else "decided"
    with tempfile.TemporaryDirectory() as folder:
        history = open_history(write_history(tables, Path(folder)))
        try:
            decisions = replay_history(history, ReplayParameters(**options)).decisions
        except HistoryError:
            return  # nothing to replay at all
        if decisions.is_empty():
            return
        rows = decisions.with_columns(ms=pl.col("ts").to_physical()).rows(named=True)
        for row in data.draw(st.lists(st.sampled_from(rows), min_size=1, max_size=2)):
            until = row["ms"] + data.draw(st.integers(0, STEP - 1))
            name = f"{row['cluster']}/{row['namespace']}/{row['hpa']}"
            found = explain_history(history, ReplayParameters(**options, until=until), name)
            decision = found.decision
            assert found.sync_ms == row["ms"]
            size = decision.desired if decision.rescaled else found.scale.replicas
            if decision.binding == "scale_read":
                size = None  # (as it was before: this sync read none)
            assert (size, decision.rescaled) == (row["desired"], row["rescaled"])
            assert (decision.binding, decision.reason) == (row["binding"], row["reason"])


def _sound(tables: Tables) -> Tables:
    """Return the tables with one spec for all time and, after the drawn ones, sound rows."""
    sound = web(samples=12)
    sound["hpas"] = [row | {"valid_from": T0 - 90_000, "valid_to": None} for row in tables["hpas"]]
    sound["hpas"] = distinct(sound["hpas"], "cluster", "name")
    keys = {"pods": ("cluster", "uid"), "pod_states": ("cluster", "uid", "ts")}
    for table, rows in tables.items():
        if table in ("hpas", "scales"):
            continue
        sound[table] = rows + sound[table]
        key = keys.get(table, ("cluster", "uid", "ts", "container"))
        if table in ("pods", "pod_states", "pod_metrics"):
            sound[table] = distinct(sound[table], *key)
    sound["scales"] += [scale_row("api", T0 - 1000, 2)]
    sound["scales"] += [scale_row("web", T0 - 1000, 2, cluster="c2")]
    return sound
