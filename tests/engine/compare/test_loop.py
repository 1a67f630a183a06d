"""A comparison in a closed loop is that of two simulations on the same plants."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpabatch.engine.compare.causes import ALONE
from hpabatch.engine.compare.frames import schema_of
from hpabatch.engine.compare.loop import COLUMNS, TOLD, compare_simulated
from hpabatch.engine.compare.run import SPECS, VERSIONS, Comparison
from hpabatch.engine.compare.sides import Side
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.simulate.loop import simulate
from hpabatch.engine.simulate.run import PROPOSED, RECORDED, Loop, LoopOptions, prepare_loop
from hpabatch.history.reader import History, open_history
from hpabatch.inputs.manifests import check_manifests, load_manifests
from hpabatch.model.objects.hpa import (
    HPA,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    PodsMetricSource,
)
from hpabatch.model.quantity import Quantity
from hpabatch.model.versions import profile_for
from tests.cli.histories import MANIFESTS, edit_spec, small

OPTIONS = LoopOptions(length_ms=8 * 60_000)
NEVER_RECORDED = MetricSpec(
    type="Pods",
    pods=PodsMetricSource(
        MetricIdentifier("never_recorded"),
        MetricTarget("AverageValue", average_value=Quantity.parse("5")),
    ),
)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return open_history(small(tmp_path_factory.mktemp("loop") / "history", minutes=30))


def side(k8s: str, gates: str = "") -> Side:
    return Side(k8s + gates, ReplayParameters(k8s, gates, events="decided"))


def manifests(name: str, **changes: Any) -> Side:
    """Return the demo's manifests, with changes of the one of `worker`."""
    entries = load_manifests([str(MANIFESTS / "batch.yaml")]).entries
    found = [item.hpa for item in check_manifests(entries, profile_for("1.38"))]
    hpas = [
        replace(hpa, spec=replace(hpa.spec, **changes)) if hpa.name == "worker" else hpa
        for hpa in found
        if hpa is not None and hpa.name in ("worker", "render")
    ]
    return of(name, *hpas)


def of(name: str, *hpas: HPA) -> Side:
    return Side(name, ReplayParameters("1.38", events="decided"), hpas)


def sizes(loop: Loop, setting: str, hpa: str) -> list[int]:
    cases = [c for c in loop.cases if c.setting == setting and c.workload.hpa == hpa]
    points = simulate(cases, profile_for("1.38"), keep_points=True).points
    assert points is not None
    return list(points["desired"])


def only(comparison: Comparison) -> dict[str, Any]:
    assert comparison.differences.height == 1
    return comparison.differences.row(0, named=True)


def test_it_is_that_of_two_simulations(history: History) -> None:
    recorded = Side("recorded", ReplayParameters("1.38", events="decided"))
    after = manifests("new", max_replicas=3)
    found = compare_simulated(history, recorded, after, OPTIONS)
    options = replace(OPTIONS, manifests=after.manifests)
    loop = prepare_loop(history, after.parameters, options)
    ours, theirs = (sizes(loop, setting, "worker") for setting in (RECORDED, PROPOSED))
    differ = [k for k, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b]
    row = only(found)
    assert differ
    assert (found.compared, found.hpas, found.ticks) == (SPECS, 2, 2 * len(ours))
    assert (row["hpa"], row["ticks_decided"]) == ("worker", len(differ))
    assert (row["desired_from"], row["desired_to"]) == (ours[differ[0]], theirs[differ[0]])
    largest = max((b - a for a, b in zip(ours, theirs, strict=True)), key=abs)
    assert row["most"] == largest
    hours = sum(b - a for a, b in zip(ours, theirs, strict=True)) * 15 / 3600
    assert row["replica_hours"] == pytest.approx(hours)
    assert (row["cause"], row["how"]) == ("maxReplicas", ALONE)
    assert row["rule"] == "maxReplicas 10 -> 3"
    assert list(row) == [*schema_of(TOLD), *COLUMNS]
    assert found.evidence["simulation"].startswith("closed loop")
    assert {i.hpa for i in found.left_out} == {"etl", "reports", "thumbnails"}


def test_versions_in_a_closed_loop(tmp_path: Path) -> None:
    folder = small(tmp_path / "history", minutes=30)
    rules = {"scaleUp": {"tolerance": "0.9"}}
    edit_spec(folder, "worker", behavior=rules)
    history = open_history(folder)
    gate = "HPAConfigurableTolerance=false"
    found = compare_simulated(history, side("1.36"), side("1.36", gate), OPTIONS)
    row = only(found)
    assert (found.compared, found.names[1]) == (VERSIONS, f"1.36{gate}")
    assert (row["hpa"], row["cause"], row["how"]) == (
        "worker",
        "gate_configurable_tolerance",
        ALONE,
    )
    assert row["desired_to"] > row["desired_from"]
    assert found.evidence["to"] == f"1.36{gate}"


def test_what_cannot_be_simulated_is_left_out(history: History) -> None:
    before, after = manifests("today"), manifests("new", metrics=(NEVER_RECORDED,))
    found = compare_simulated(history, before, after, OPTIONS)
    assert [(i.hpa, i.side) for i in found.left_out] == [("worker", "new")]
    assert found.hpas == 1
