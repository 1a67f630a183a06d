"""Small pages: a history of some minutes, and a folder of advice on one of its HPAs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from hpabatch.engine.advise.objective import RecommendOptions, parse_goal
from hpabatch.engine.advise.run import recommend
from hpabatch.report.recommend_files import recommendation_files
from tests.sweeps import SweepMaker, put, weeks

CALM = {0: weeks([100] * 6), 1: weeks([80] * 6)}


def advice(folder: Path, *names: str) -> Path:
    """Write advice on HPAs of the namespace shop; return the folder."""
    maker = SweepMaker([{"target": "70"}])
    for name in names:
        maker.add(name, CALM, cluster="demo")
    goal = parse_goal(["saturated_minutes<10/week"], "pod_hours")
    files, review = recommendation_files(recommend(maker.result(), RecommendOptions(goal), put))
    for place, some in (("patches", files), ("review", review)):
        (folder / place).mkdir(parents=True)
        for name, text in some.items():
            (folder / place / name).write_text(text)
    return folder


def embedded(page: str, name: str) -> Any:
    """Return the JSON that a page embeds under an id."""
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page)
    assert found is not None
    return json.loads(found[1])
