"""Owners of HPAs in a recording: written when they change, and gone with their HPA."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from hpabatch.cluster.objects.types import Change, HpaObject, Kind
from hpabatch.history.reader import open_history
from hpabatch.live.record.objects import Hpas
from hpabatch.live.record.recorder import Recorder
from hpabatch.live.record.rows import Rows
from hpabatch.live.record.segments import Segment
from hpabatch.model.objects.hpa import HPA

KEY = ("shop", "web")
BEGAN_MS = 1_790_000_000_000


def seen(owner: str, generation: int = 1) -> HpaObject:
    return HpaObject(*KEY, HPA("web", "shop", uid="u", owner=owner, generation=generation))


def owners(segment: Segment) -> list[tuple[int, str | None]]:
    frames = dict(segment.frames())
    if "hpa_context" not in frames:
        return []
    rows = frames["hpa_context"]
    assert rows["budgets"].null_count() == rows["spreads"].null_count() == rows.height
    times = rows["ts"].dt.timestamp("ms").to_list()
    return list(zip(times, rows["owner"].to_list(), strict=True))


def named(segment: Segment) -> list[tuple[str, int, str | None]]:
    rows = dict(segment.frames())["hpa_context"].with_columns(pl.col("ts").to_physical())
    return list(rows.select("name", "ts", "owner").iter_rows())


def test_an_owner_is_written_when_it_changes() -> None:
    rows = Rows("east")
    hpas = Hpas(rows)
    hpas.put(seen("ScaledObject/web"), 1)
    hpas.put(seen("ScaledObject/web", 2), 2)
    hpas.put(seen("Canary/web", 2), 3)
    hpas.put(seen("", 2), 4)
    assert owners(rows.segment) == [(1, "ScaledObject/web"), (3, "Canary/web"), (4, None)]


def test_owners_that_went_while_nothing_was_recorded() -> None:
    stored = {KEY: "ScaledObject/web", ("shop", "api"): "Canary/api", ("shop", "old"): "Canary/old"}
    rows = Rows("east")
    hpas = Hpas(rows, owners=stored)
    hpas.put(seen(""), 1)
    api = HPA("api", "shop", uid="v", owner="Canary/api")
    hpas.put(HpaObject("shop", "api", api), 2)
    hpas.close_unseen(3)
    assert named(rows.segment) == [("web", 1, None), ("old", 3, None)]


def test_a_recorder_knows_the_owners_of_its_store(tmp_path: Path) -> None:
    told = ((BEGAN_MS, "Canary/web"), (BEGAN_MS + 60_000, "Canary/web"), (BEGAN_MS + 120_000, ""))
    for now_ms, owner in told:
        recorder = Recorder(tmp_path, "east", segment_s=1e9)
        recorder.apply([Change(Kind.hpa, KEY, seen(owner), now_ms)])
        recorder.pass_done(now_ms)
        assert recorder.close()
    rows = open_history(tmp_path).read("hpa_context").sort("ts")
    times = rows["ts"].dt.timestamp("ms").to_list()
    assert list(zip(times, rows["owner"].to_list(), strict=True)) == [
        (BEGAN_MS, "Canary/web"),
        (BEGAN_MS + 120_000, None),
    ]
