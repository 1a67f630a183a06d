"""A trace through `import table` and the replay.

    python -m tests.real.replays MAP [MAP...]

prints what was assumed, and per HPA how the decisions agree with what the cluster did.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

import polars as pl

from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.replay.run import ReplayResult
from hpabatch.history.reader import open_history
from hpabatch.importers.table.run import ImportResult
from tests.engine.made import replay_history, summarize
from tests.importers.tables import import_table
from tests.real.settings import traces_folder

MAPS = Path(__file__).parent / "maps"
FILES = {"nezha": "k8s_pods_nezha.parquet", "scalereval": "hpa_runs_scalereval.parquet"}
K8S = "1.36"
SYNC_MS = 15_000


def import_map(name: str, out: Path, change: tuple[str, str] | None = None) -> ImportResult:
    """Import the trace of a map of `maps/`; `change` replaces a text in the map first."""
    path = MAPS / f"{name}.yaml"
    if change is not None:
        text = path.read_text()
        assert change[0] in text
        path = out.with_name(f"{out.name}.yaml")
        path.write_text(text.replace(*change))
    return import_table([str(traces_folder() / FILES[name.split("-")[0]])], path, out)


def phase_ms(scales: pl.DataFrame) -> int:
    """Return the place within a sync period at which most recorded sizes changed."""
    keys = ["cluster", "namespace", "target"]
    ms = pl.col("ts").to_physical()
    changes = scales.sort([*keys, "ts"]).filter(pl.struct(keys).is_first_distinct().not_())
    places = Counter(changes.select(ms % SYNC_MS).to_series().to_list())
    return min(places, key=lambda place: (-places[place], place)) if places else 0


def replay(folder: Path) -> ReplayResult:
    """Replay a history at the phase of its own controller's size changes."""
    history = open_history(folder)
    parameters = ReplayParameters(K8S, phase_ms=phase_ms(history.read("scales")))
    return replay_history(history, parameters)


def summary_table(result: ReplayResult) -> pl.DataFrame:
    """Return one row per HPA: agreement, changes recorded and decided, ticks without a metric."""
    rows = summarize(result.decisions, result.hpas)
    return rows.select(
        "namespace",
        "hpa",
        "ticks",
        pl.col("agreement_share").round(4),
        "recorded_changes",
        "rescales",
        pl.col("applied_mean", "decided_mean").round(3),
        pl.col("invalid_share").round(4),
        pl.col("ratio_max").round(3),
    )


def main(names: list[str]) -> None:
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            found = import_map(name, Path(folder) / "history")
            result = replay(Path(folder) / "history")
        print(name, *(f"assumed: {text}" for text in found.assumed), sep="\n")  # noqa: T201
        with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=200):
            print(summary_table(result))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:] or sorted(path.stem for path in MAPS.glob("*.yaml")))
