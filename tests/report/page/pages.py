"""Small pages: a history of some minutes, and a folder of advice on one of its HPAs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl

from hpabatch.engine.advise.objective import RecommendOptions, parse_goal
from hpabatch.engine.advise.run import recommend
from hpabatch.report.recommend_files import recommendation_files
from tests.cli.histories import START
from tests.sweeps import SweepMaker, put, weeks

CALM = {0: weeks([100] * 6), 1: weeks([80] * 6)}


def advice(folder: Path, *names: str, skipped: Mapping[str, str] | None = None) -> Path:
    """Write advice on HPAs of the namespace shop, some without a plant; return the folder."""
    maker = SweepMaker([{"target": "70"}])
    for name in names:
        maker.add(name, CALM, cluster="demo", recorded={"saturated_minutes": [0.5] * 6})
    goal = parse_goal(["saturated_minutes<10/week"], "pod_hours")
    result = maker.result()
    left_out = [("demo", "shop", name, why) for name, why in (skipped or {}).items()]
    result = replace(result, parameters={**result.parameters, "skipped": left_out})
    files, review = recommendation_files(recommend(result, RecommendOptions(goal), put))
    for place, some in (("patches", files), ("review", review)):
        (folder / place).mkdir(parents=True)
        for name, text in some.items():
            (folder / place / name).write_text(text)
    return folder


def trajectories(place: Path, **hpas: Mapping[str, Sequence[tuple[int, int]]]) -> None:
    """Write the changes of sizes of a folder of advice: by HPA and setting seconds and sizes."""
    rows = [
        {"cluster": "demo", "namespace": "shop", "hpa": hpa, "setting": setting}
        | {"ts": START + timedelta(seconds=at), "replicas": size, "desired": size}
        for hpa, settings in hpas.items()
        for setting, sizes in settings.items()
        for at, size in sizes
    ]
    frame = pl.DataFrame(rows, schema_overrides={"ts": pl.Datetime("ms", "UTC")})
    frame.write_parquet(place / "trajectories.parquet")


def embedded(page: str, name: str) -> Any:
    """Return the JSON that a page embeds under an id."""
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page)
    assert found is not None
    return json.loads(found[1])
