"""Lives of HPAs that are only known from tables, beside what plain Python finds in the rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from hpabatch.engine.fleet.candidates import EDGE_MS
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import plan_replay
from hpabatch.history.reader import open_history
from hpabatch.history.store.append import open_writer
from tests.importers.tables import BEGIN_S, WORKLOAD_MAP, import_table, merged, write_map

MINUTE = 60
MAP = merged(WORKLOAD_MAP, {"hpas": {"template": {"min": 1, "max": 9, "cpu": "50%"}}})
Row = tuple[int, str, int, float]


def runs(draw: random.Random, count: int, length: int = 30, apart: int = 200) -> list[Row]:
    """Return a row a minute of runs that begin `apart` minutes after each other, about."""
    rows = []
    for number in range(count):
        begin = number * apart + draw.randrange(20)
        for minute in range(begin, begin + length):
            rows.append((BEGIN_S + minute * MINUTE, f"run-{number:02}", 2, 150.0))
    return rows


def load(folder: Path, rows: Sequence[Row], name: str = "day", where: str = "store") -> Path:
    """Import rows; return the store."""
    frame = pl.DataFrame(list(rows), schema=["ts", "app", "size", "cpu"], orient="row")
    frame.write_parquet(folder / f"{name}.parquet")
    out = folder / where
    import_table([str(folder / f"{name}.parquet")], write_map(folder, MAP), out)
    return out


def naive_ticks(rows: Sequence[Row], ticks_ms: Sequence[int]) -> dict[str, list[int]]:
    """Return at which ticks each HPA lives: from its first to its last row, edges stay open."""
    spans: dict[str, tuple[int, int]] = {}
    for ts, app, _, _ in rows:
        first, last = spans.get(app, (ts, ts))
        spans[app] = min(first, ts), max(last, ts)
    begin, end = min(first for first, _ in spans.values()), max(last for _, last in spans.values())
    found = {}
    for app, (first, last) in spans.items():
        if first - begin <= EDGE_MS // 1000:
            first = begin - 600  # (the map's ran_before)
        if end - last <= EDGE_MS // 1000:
            last = 2**40
        found[app] = [ms for ms in ticks_ms if first * 1000 <= ms <= last * 1000]
    return found


def planned_ticks(store: Path) -> tuple[dict[str, list[int]], list[int]]:
    """Return the ticks of each HPA, and those of the grid."""
    plan = plan_replay(open_history(store), ReplayParameters())
    instants = plan.clocks.grid.instants(plan.clocks.from_ms, plan.clocks.to_ms)
    found = {c.name: instants[c.spec_of(instants) >= 0].tolist() for c in plan.chosen}
    return found, instants.tolist()


def check(store: Path, rows: Sequence[Row]) -> None:
    found, ticks = planned_ticks(store)
    assert found == naive_ticks(rows, ticks)


def test_hpas_of_tables_live_from_their_first_to_their_last_row(tmp_path: Path) -> None:
    draw = random.Random(7)
    rows = runs(draw, 8)
    end = max(row[0] for row in rows)
    # One with a gap in the middle, one that is at 0 for hours and says so, one of all the time.
    rows += [(ts, "gap", 3, 90.0) for ts, app, _, _ in rows if app in ("run-01", "run-05")]
    rows += [(BEGIN_S + m * MINUTE, "idle", 4 if m < 15 else 0, 40.0) for m in range(120, 900)]
    rows += [(ts, "always", 1, 50.0) for ts in range(BEGIN_S, end, 5 * MINUTE)]
    check(load(tmp_path, rows), rows)
    found, _ = planned_ticks(tmp_path / "store")
    assert found["idle"][-1] - found["idle"][0] > 12 * 3_600_000
    assert len(found["always"]) == max(map(len, found.values()))
    draw.shuffle(rows)
    check(load(tmp_path, rows, where="shuffled"), rows)


def test_an_hpa_whose_specs_lie_outside_of_the_data_is_left_out(tmp_path: Path) -> None:
    store = load(tmp_path, runs(random.Random(1), 4))
    alone = open_history(store).read("hpas")
    moved = [
        (pl.col(name) - pl.duration(days=9)).cast(alone.schema[name]).alias(name)
        for name in ("valid_from", "valid_to")
    ]
    ended = alone.filter(name="run-01").with_columns(
        valid_to=(pl.col("valid_from") + pl.duration(hours=1)).cast(alone.schema["valid_from"])
    )
    late = alone.filter(name="run-02").with_columns(
        valid_from=(pl.col("valid_from") + pl.duration(hours=2)).cast(alone.schema["valid_from"])
    )
    with open_writer(store).part("recorded") as part:
        part.add("hpas", ended.with_columns(moved).with_columns(name=pl.lit("before")))
        part.add("hpas", late.with_columns(name=pl.lit("after")))
    plan = plan_replay(open_history(store), ReplayParameters())
    assert sorted(c.name for c in plan.chosen) == [f"run-0{k}" for k in range(4)]
    reasons = {s.hpa: s.reason for s in plan.skipped}
    assert "target Deployment/run-01 has no rows" in reasons["before"]
    assert "target Deployment/run-02 has no rows" in reasons["after"]
