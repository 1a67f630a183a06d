"""The comparison itself: a planted difference is found, told and made small."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import harness
from tests.fuzz.harness import (
    AGREE,
    CASE,
    DIFFER,
    GROUP,
    KINDS,
    OURS_FAILED,
    REFERENCE_FAILED,
    TIMELINE,
    Batch,
    Figures,
    compare,
    draw,
    plan,
    run_batch,
    run_batches,
)
from tests.fuzz.shrink import shrink
from tests.reference.profiles import VERSIONS

Json = dict[str, Any]


def _has_pod(row: Json) -> bool:
    return any(tick["pods"] for tick in row["ticks"])


def test_batches_are_drawn_again_by_their_name() -> None:
    first, again = (run_batch(Batch(CASE, 3, 1000, 4)) for _ in range(2))
    assert first == again
    assert first.inputs == {CASE: 4}
    assert sum(first.decisions.values()) == 12
    assert first.decisions[CASE, "1.38"] == first.decisions[CASE, "1.36"] == 4


def test_a_plan_has_every_kind_in_turns() -> None:
    batches = plan(7, cases=10_000, timelines=1000)
    sizes = {kind: sum(b.size for b in batches if b.kind == kind) for kind in KINDS}
    assert sizes == {"calculator": 10_000, "timeline": 400, "behavior_timeline": 400, "group": 200}
    assert {batch.kind for batch in batches[:4]} == set(KINDS)
    assert len(set(batches)) == len(batches)
    assert plan(7, cases=1, timelines=3)[0] == Batch(CASE, 7, 0, 1)


def test_figures_say_what_was_compared() -> None:
    figures = Figures()
    for batch in (Batch(CASE, 1, 0, 2), Batch(GROUP, 1, 0, 1)):
        figures.add(run_batch(batch))
    assert "2 calculator, 0 timeline, 0 behavior_timeline, 1 group" in str(figures)
    assert "0 differences" in str(figures)
    header, *rows = figures.by_version().splitlines()
    assert header.split() == ["version", *KINDS]
    assert [row.split()[0] for row in rows] == list(VERSIONS)
    total = sum(int(n.replace(",", "")) for row in rows for n in row.split()[1:])
    assert total == sum(figures.decisions.values())


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(harness, "FAILURES", tmp_path)
    return tmp_path


def _planted(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Json], bool], fails: bool = False
) -> None:
    """Let the package's answer be wrong for some inputs."""
    right = harness.ours

    def ours(row: Json, k8s: str) -> list[Any]:
        if not wrong(row):
            return right(row, k8s)
        if fails:
            raise KeyError("planted")
        return [*right(row, k8s), "planted"]

    monkeypatch.setattr(harness, "ours", ours)


def test_a_difference_is_told_with_its_seed_and_written(
    monkeypatch: pytest.MonkeyPatch, failures: Path
) -> None:
    _planted(monkeypatch, lambda row: len(row.get("pods", ())) > 2)
    lines: list[str] = []
    figures = run_batches([Batch(CASE, 5, 0, 40)], 1, lines.append)
    assert tuple(lines) == figures.differences
    assert lines
    assert "differ under 1.38, drawn with SEED=5: calculator number " in lines[0]
    report = json.loads(Path(lines[0].partition(":")[0]).read_text())
    assert len(report["input"]["pods"]) == 3
    assert report["k8s"] == "1.38"
    assert report["way"] == DIFFER
    assert report["hpabatch"] == [*report["reference"], "planted"]
    # A few differences of one batch are enough.
    assert len(lines) < 40
    assert list(failures.iterdir())


def test_a_failure_of_the_package_is_a_difference(
    monkeypatch: pytest.MonkeyPatch, failures: Path
) -> None:
    _planted(monkeypatch, lambda row: True, fails=True)
    row = draw(CASE, random.Random(1))
    assert compare(row, "1.38") == OURS_FAILED
    line = harness.report_difference(row, "1.38", "here")
    report = json.loads(Path(line.partition(":")[0]).read_text())
    assert report["hpabatch"] == "KeyError('planted')"
    assert isinstance(report["reference"], list)


def test_what_the_reference_refuses_is_no_smaller_input() -> None:
    group = draw(GROUP, random.Random(3), 10)
    assert compare(group, "1.38") == AGREE
    gone = group | {"ticks": [{**group["ticks"][0], "delete": ["nobody"]}]}
    assert compare(gone, "1.38") == REFERENCE_FAILED


def test_timelines_lose_ticks_and_what_is_in_them() -> None:
    row = draw(TIMELINE, random.Random(12), 40)
    assert _has_pod(row)
    smallest = shrink(row, _has_pod)
    assert [len(tick["pods"]) for tick in smallest["ticks"]] == [1]
    assert not {"selector", "restart", "scale_get_error"} & set(smallest["ticks"][0])


def test_groups_lose_hpas_ticks_and_syncs() -> None:
    rng = random.Random(8)
    row = next(r for r in (draw(GROUP, rng, 40) for _ in range(50)) if _deleted(r))
    smallest = shrink(row, _deleted)
    assert len(smallest["hpas"]) == 1
    assert len(smallest["ticks"]) == 1
    assert smallest["ticks"][0]["hpas"] == smallest["ticks"][0]["pods"] == []
    failing = shrink(
        row, lambda group: any("metrics" in r for t in group["ticks"] for r in t["hpas"])
    )
    assert [len(tick["hpas"]) for tick in failing["ticks"]] == [1]


def _deleted(row: Json) -> bool:
    return any(tick.get("delete") for tick in row["ticks"])


def test_cases_lose_pods_and_samples() -> None:
    case = {
        "pods": [{"name": "a"}, {"name": "b"}],
        "pod_metrics": {"a": {}, "b": {}},
        "external_values": ["1", "2"],
    }

    def is_failing(row: Json) -> bool:
        return "b" in row["pod_metrics"] and "2" in row["external_values"]

    assert shrink(case, is_failing) == {
        "pods": [],
        "pod_metrics": {"b": {}},
        "external_values": ["2"],
    }
    assert shrink(case, is_failing, attempts=1)["pods"] == [{"name": "b"}]
