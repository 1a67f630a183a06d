"""Tests of the answer on stated settings: its parts, and known controllers in a round trip."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.answers_truth import Source, answered, import_source, record
from hpabatch.engine.fidelity.answer import (
    Evidence,
    Judge,
    _decided,
    _unexplained,
    sign_p,
)
from hpabatch.engine.fidelity.trials import (
    METRIC,
    STATED,
    Deviation,
    Episodes,
    Recording,
    Sizes,
    Trial,
    Window,
    _change_metrics,
    episodes_of,
)
from hpabatch.engine.shards.shard import ScaleColumns
from hpabatch.model.objects.hpa import MetricSpec, ResourceMetricSource

MINUTE = 60_000


def scale(*changes: tuple[int, int]) -> ScaleColumns:
    ts_ms, sizes = (np.array(part, np.int64) for part in zip(*changes, strict=True))
    none = np.zeros(ts_ms.size, np.int64)
    return ScaleColumns(ts_ms, sizes, sizes, none, ("app=web",), none, ("",))


def test_changes_of_one_direction_within_the_window_are_one_episode() -> None:
    window = Window(30_000, 0, 30_000)
    rows = scale((0, 2), (600_000, 4), (620_000, 6), (640_000, 5), (900_000, 3))
    found = episodes_of(rows, window, 0, 1_200_000)
    assert found.first_ms.tolist() == [600_000, 640_000, 900_000]
    assert found.last_ms.tolist() == [620_000, 640_000, 900_000]
    assert (found.before.tolist(), found.after.tolist()) == ([2, 6, 5], [6, 5, 3])
    assert found.up.tolist() == [1, -1, -1]
    assert episodes_of(rows, window, 0, 910_000).count == 2  # its window is not recorded


def judged(sizes: Sizes, window: Window) -> Evidence:
    """Return what a setting makes of a recording without any change of size."""
    none, nobody = np.zeros(0, np.int64), None
    episodes = Episodes(none, none, none, none, none)
    known: Any = (nobody, (), sizes.now_ms, window, 0, 300_000, episodes, ())
    return Judge(Recording(*known)).evidence(Trial(STATED, sizes, ()))


@pytest.mark.parametrize(("ticks", "found"), [(2, 0), (3, 1)])
def test_a_wish_that_stands_longer_than_the_window(ticks: int, found: int) -> None:
    now_ms, seen = np.arange(20, dtype=np.int64) * 15_000, np.full(20, 4)
    wished = seen.copy()
    wished[5 : 5 + ticks] = 5
    assert judged(Sizes(now_ms, seen, wished), Window(30_000, 0, 30_000)).standing == found


@pytest.mark.parametrize(
    ("wished", "found"),
    [
        ([4, 4, 4, 4], (False, False)),
        ([4, 6, 6, 4], (True, True)),
        ([4, 7, 4, 4], (True, True)),  # one beside: a sample's own noise
        ([4, 9, 4, 4], (True, False)),
        ([3, 3, 4, 4], (False, False)),  # the other direction
        ([9, 6, 4, 4], (True, True)),  # before the window
    ],
)
def test_a_held_change_is_decided_in_its_window(wished: list[int], found: Any) -> None:
    now_ms, at = np.arange(4, dtype=np.int64) * 15_000, np.array([30_000], np.int64)
    episode = Episodes(at, at, at * 0 + 4, at * 0 + 6, at * 0 + 6)
    sizes = Sizes(now_ms, np.full(4, 4, np.int64), np.array(wished, np.int64))
    decided, fits = _decided(episode, Window(15_000, 0, 15_000), sizes)
    assert (decided.tolist(), fits.tolist()) == ([found[0]], [found[1]])


@pytest.mark.parametrize(
    ("held", "matched", "chance", "late_s", "found"),
    [
        (0, 0, 0, 30, False),  # nothing to see
        (40, 2, 0, 30, True),
        (40, 2, 2, 30, True),
        (40, 30, 2, 30, False),
        (4, 0, 0, 30, False),  # too few to say so
        (40, 2, 40, 30, False),  # all of them by chance
        (40, 2, 0, 600, False),  # too long a window for it
    ],
)
def test_hardly_any_change_is_explained(
    held: int, matched: int, chance: int, late_s: int, found: bool
) -> None:
    recording: Any = SimpleNamespace(window=Window(late_s * 1000, 0, 30_000))
    evidence = Evidence(held, matched, matched, 0, chance, np.zeros(1, np.int64))
    assert _unexplained(recording, evidence) is found


def test_a_large_target_is_left_out_without_wrapping() -> None:
    pct, milli = np.array([80, 0, 70], np.int64), np.array([0, 16 << 40, 0], np.int64)
    table = SimpleNamespace(target_pct=pct, target_milli=milli)
    spec = SimpleNamespace(first_metric=0, last_metric=3)
    shard: Any = SimpleNamespace(fleet=SimpleNamespace(metrics=table, specs=[spec]))
    metrics = [
        MetricSpec("Resource", resource=ResourceMetricSource(name))
        for name in ("cpu", "cpu", "memory")
    ]
    _change_metrics(shard, 0, metrics, Deviation(METRIC, "", 0, "resource/cpu"))
    assert pct.tolist() == [80_000, 0, 70]
    assert 16 << 40 < milli[1] <= 1 << 53


def test_chance_of_so_many_wins() -> None:
    assert sign_p(0, 0) == sign_p(0, 9) == 1.0
    assert sign_p(7, 0) == pytest.approx(2**-7)
    assert sign_p(2, 1) == pytest.approx(0.5)


@pytest.mark.compiled
def test_right_settings_are_not_called_wrong_nor_wrong_ones_right(tmp_path: Path) -> None:
    known, tables = record(8, 3, 2, tmp_path / "raw")
    history = import_source(tables, known, Source(MINUTE), tmp_path / "minute")
    for by, never in (("", "wrong"), ("target +10", "right"), ("window halved", "right")):
        found = answered(history, known, by)
        assert never not in found["answer"].to_list(), (by, found)
    assert (answered(history, known, "target +10")["answer"] == "wrong").sum() >= 3
    assert (answered(history, known, "")["answer"] == "right").sum() >= 2  # of 8
