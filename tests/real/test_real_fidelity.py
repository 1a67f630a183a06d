"""Both scores of real HPAs. ScalerEval's runs are short: too few changes for a plant score."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hpabatch.engine.fidelity.request import FidelityParameters
from hpabatch.engine.fidelity.run import Fidelity
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.history.reader import open_history
from tests.engine.scored import fidelity
from tests.real.replays import K8S, import_map, phase_ms
from tests.real.settings import VARIABLE

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get(VARIABLE), reason=f"{VARIABLE} does not name the folder of the traces"
    ),
    pytest.mark.compiled,
]
RUNS = [(app, target) for app in ("hipster", "sockshop") for target in (20, 50, 80)]
DEFAULTS = FidelityParameters()
# More of the hour is judged, and by less of what follows: more changes can be used.
MORE = replace(DEFAULTS, split_share=0.2, horizon_ms=120_000)

EXPECTED = {
    # run: (rescales recorded, matched, changes judged, used, the same with MORE)
    ("hipster", 20): (35, 11, 7, 5, 11, 8),
    ("hipster", 50): (19, 6, 4, 2, 7, 4),
    ("hipster", 80): (23, 4, 5, 3, 7, 5),
    ("sockshop", 20): (19, 6, 6, 4, 6, 5),
    ("sockshop", 50): (25, 10, 5, 3, 6, 3),
    ("sockshop", 80): (19, 4, 8, 2, 10, 4),
}


def scores(folder: Path, choices: FidelityParameters) -> Fidelity:
    history = open_history(folder)
    parameters = ReplayParameters(K8S, phase_ms=phase_ms(history.read("scales")))
    return fidelity(history, parameters, choices)


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Path]:
    root = tmp_path_factory.mktemp("scalereval")
    found = {}
    for app, target in RUNS:
        found[app, target] = root / f"{app}-{target}"
        import_map(f"scalereval-{app}-KHPA-{target}", found[app, target])
    return found


@pytest.mark.parametrize("run", RUNS)
def test_an_hour_is_too_short_for_a_plant_score(
    histories: dict[tuple[str, int], Path], run: tuple[str, int]
) -> None:
    half, more = (scores(histories[run], choices) for choices in (DEFAULTS, MORE))
    recorded, matched, *counts = EXPECTED[run]
    controller = half.totals.controller
    assert (controller.recorded_events, controller.matched_events) == (recorded, matched)
    found = [n for f in (half, more) for n in (f.totals.changes, f.totals.used)]
    assert found == counts
    for scored in (half, more):
        assert (scored.totals.plant_scored, scored.totals.advice) == (0, 0)
        assert scored.skipped == ()
        for row in scored.hpas.iter_rows(named=True):
            assert row["plant_skill"] is None
            if row["plant_changes"] == 0:
                assert "the number of ready pods never changed" in row["plant_unscored"]
            else:
                assert "at least 5 are needed" in row["plant_unscored"]
        # An hour identifies no base. And usage of the sidecars, which the HPA saw, is missing.
        assert "fitted" not in scored.signals.filter(pl.col("base") > 0)["base_source"].to_list()
        assert "plant" in str(scored.hpas["why_not"][0])


def test_all_changes_together_speak_for_divisible_work_with_a_base(
    histories: dict[tuple[str, int], Path],
) -> None:
    changes = pl.concat([scores(histories[run], MORE).changes for run in RUNS])
    used = changes.filter(pl.col("counts") & pl.col("error").is_not_null())
    assert used.height == sum(counts[-1] for counts in EXPECTED.values()) == 29
    own, other = (np.abs(used[n].to_numpy()).mean() for n in ("error", "persistence_error"))
    assert 0.3 < 1 - own / other < 0.5
    # Without a base too little is predicted after a scale-up.
    up = used.filter(pl.col("pods_after") > pl.col("pods_before"))
    assert up.height == 21
    assert -0.3 < float(up["error"].to_numpy().mean()) < -0.15
