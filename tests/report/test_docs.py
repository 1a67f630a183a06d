"""docs/output.md names every column and every binding that a user can meet."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.quality import run as quality
from hpabatch.engine.replay import score, sensitivity
from hpabatch.engine.replay.run import replay_history
from hpabatch.engine.replay.summary import COLUMNS
from hpabatch.engine.simulate import columns as simulate_columns
from hpabatch.history.reader import open_history
from hpabatch.layout.codes import BINDINGS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "output.md").read_text()


def test_every_column_and_binding_is_explained() -> None:
    for columns in (
        COLUMNS,
        score.COLUMNS,
        sensitivity.COLUMNS,
        quality.COLUMNS,
        simulate_columns.COLUMNS,
        simulate_columns.POINT_COLUMNS,
    ):
        for name, meaning in columns.items():
            assert f"| `{name}` | {meaning} |" in TEXT
    for words in BINDINGS.values():
        assert f"| `{words.name}` | {words.sentence} |" in TEXT


@pytest.mark.compiled
def test_every_decision_column_is_explained() -> None:
    history = open_history(ROOT / "data" / "demo")
    result = replay_history(history, ReplayParameters(k8s="1.38"), select=lambda f: f.head(1))
    decisions, _, _ = TEXT.partition("### binding")
    for name in result.decisions.columns:
        assert f"`{name}`" in decisions
