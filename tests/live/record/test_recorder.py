"""The recorder: what a history shows at each pass is what that pass knew."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from hpabatch.history.reader import open_history
from hpabatch.history.store.verify import check_history
from hpabatch.live.record.recorder import Recorder
from hpabatch.live.record.segments import Upkeep
from tests.effort import effort
from tests.live.cluster_game import CLUSTER, Game, Shown, compare


def recorder_of(folder: Path, game: Game, **options: object) -> Recorder:
    """Return a recorder whose segments end when the test says so."""
    options.setdefault("segment_s", 1e9)
    return Recorder(folder, CLUSTER, clock=lambda: game.now_ms, **options)  # type: ignore[arg-type]


def check_clean(folder: Path) -> None:
    """Assert that `history check` finds nothing."""
    findings = check_history(open_history(folder))
    assert findings.is_empty(), findings.rows()


def check_pictures(folder: Path, game: Game) -> None:
    """Assert that the history shows every pass."""
    shown = Shown(open_history(folder))
    passes = [(row["ts"], row["start"]) for row in shown.tables["passes"]]
    assert passes == [(one.now_ms, one.started) for one in game.pictures]
    for picture in game.pictures:
        compare(picture, shown.at(picture.now_ms, picture.started))


@pytest.mark.parametrize("seed", range(effort(2)))
def test_a_history_shows_what_each_pass_knew(tmp_path: Path, seed: int) -> None:
    game, dice = Game(seed), random.Random(seed)
    recorder = recorder_of(tmp_path, game)
    game.stir(20)
    for number in range(25):
        game.play(recorder, started=number == 0)
        game.stir(dice.randrange(6))
        if dice.random() < 0.2:
            assert recorder.flush()
    assert recorder.close()
    check_clean(tmp_path)
    check_pictures(tmp_path, game)


@pytest.mark.parametrize("seed", range(100, 100 + effort(1)))
def test_so_it_does_when_recorders_come_and_go(tmp_path: Path, seed: int) -> None:
    game, dice = Game(seed), random.Random(seed)
    for _ in range(4):
        recorder = recorder_of(tmp_path, game)
        game.list_all()
        for number in range(6):
            game.stir(dice.randrange(8))
            game.play(recorder, started=number == 0)
        assert recorder.close()
        game.stir(10, quiet=True)
        game.now_ms += 60_000
    check_clean(tmp_path)
    check_pictures(tmp_path, game)
    rows = Shown(open_history(tmp_path)).tables["provenance"]
    gaps = [row for row in rows if row["subject"] == "passes"]
    assert len(gaps) == 3
    assert {row["method"] for row in rows if row["subject"] == "pods"} == {"recorder"}
    ends = [one.now_ms for one in game.pictures][5::6]
    assert [row["valid_from"] for row in gaps] == [ms + 1 for ms in ends[:3]]


def test_compaction_changes_nothing(tmp_path: Path) -> None:
    game = Game(7)
    recorder = recorder_of(tmp_path, game, upkeep=Upkeep(every_s=1e-9, parts=1))
    game.stir(20)
    for number in range(8):
        game.play(recorder, started=number == 0)
        game.stir(3)
        assert recorder.flush()
    assert recorder.close()
    assert recorder._writer.compactions > 2
    check_clean(tmp_path)
    check_pictures(tmp_path, game)
