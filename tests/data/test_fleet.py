"""Large fleets: lawful, independent of how they are cut, continued, plausible."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks.fleet.__main__ import app
from benchmarks.fleet.draw import FleetRequest
from benchmarks.fleet.large import fleet_parts, fleet_tables, write_fleet
from benchmarks.fleet.parts import DAY_MS
from hpabatch.errors import UsageError
from hpabatch.history.schema import TABLES
from hpabatch.history.store.append import StoreWriter, open_writer
from hpabatch.history.store.writer import prepare_rows
from tests.data.laws import assert_lawful
from tests.effort import effort

Tables = dict[str, pl.DataFrame]

SMALL = FleetRequest(hpas=6, pods=5, days=2, step_ms=300_000, metrics="mix", seed=3)


def prepared(tables: Tables) -> Tables:
    """Return tables checked against the registry and sorted."""
    return {name: prepare_rows(frame, TABLES[name], name) for name, frame in tables.items()}


def tables_of(request: FleetRequest) -> Tables:
    request.check()
    return prepared(fleet_tables(request))


def assert_same(tables: Tables, others: Tables) -> None:
    assert tables.keys() == others.keys()
    for table, frame in tables.items():
        assert frame.equals(others[table]), table


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def small() -> Tables:
    return tables_of(SMALL)


# -- laws


@settings(max_examples=effort(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    request=st.builds(
        FleetRequest,
        hpas=st.integers(1, 4),
        pods=st.integers(1, 6),
        days=st.integers(1, 3),
        step_ms=st.sampled_from([3_600_000, 600_000, 1_350_000]),
        seed=st.integers(0, 2**63 - 1),
        metrics=st.sampled_from(["cpu", "mix"]),
        gaps=st.sampled_from([0.0, 0.3, 0.9]),
        late=st.sampled_from([0.0, 0.5, 1.0]),
        jitter_ms=st.sampled_from([0, 1, 1_000, 599_999]),
        containers=st.integers(1, 4),
        clusters=st.integers(1, 2),
    ),
    block=st.integers(1, 4),
)
def test_every_fleet_is_lawful_however_it_is_cut(request: FleetRequest, block: int) -> None:
    tables = tables_of(request)
    assert_lawful({name: frame.lazy() for name, frame in tables.items()})
    end = request.start_ms + request.days * DAY_MS
    for table, frame in tables.items():
        if day := TABLES[table].day:
            ms = frame[day].dt.epoch("ms")
            assert ms.is_between(request.start_ms, end, closed="left").all(), table
    sizes = tables["scales"].join(tables["hpas"], left_on="target", right_on="name")
    for size, text in sizes["spec_replicas", "spec"].rows():
        spec = json.loads(text)
        assert spec["minReplicas"] <= size <= spec["maxReplicas"]
    parts: dict[str, list[pl.DataFrame]] = {}
    for _, frames in fleet_parts(request, block_hpas=block):
        for table, frame in frames:
            parts.setdefault(table, []).append(frame)
    assert_same(tables, prepared({name: pl.concat(frames) for name, frames in parts.items()}))


# -- a store


@pytest.mark.parametrize("frames", [3, 25])
def test_an_interrupted_run_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frames: int
) -> None:
    request = replace(SMALL, days=3)
    write_fleet(request, open_writer(tmp_path / "whole"))
    store = open_writer(tmp_path / "parts")
    part = type(store.part("x"))
    add, added = part.add, []

    def stop(self: Any, table: str, frame: pl.DataFrame) -> None:
        added.append(table)
        if len(added) == frames:
            raise KeyboardInterrupt
        add(self, table, frame)

    with monkeypatch.context() as patch:
        patch.setattr(part, "add", stop)
        with pytest.raises(KeyboardInterrupt):
            write_fleet(request, store)
    write_fleet(request, open_writer(tmp_path / "parts"))
    whole = files_of(tmp_path / "whole")
    assert files_of(tmp_path / "parts") == whole
    write_fleet(request, open_writer(tmp_path / "parts"))
    assert files_of(tmp_path / "parts") == whole


def test_a_store_of_something_else_is_refused(tmp_path: Path, small: Tables) -> None:
    def refused(store: StoreWriter, request: FleetRequest) -> None:
        with pytest.raises(UsageError, match="already holds a history"):
            write_fleet(request, store)

    store = open_writer(tmp_path / "other")
    with store.part() as part:
        part.add("controller", small["controller"])
    refused(store, SMALL)
    write_fleet(SMALL, open_writer(tmp_path / "fleet"))
    refused(open_writer(tmp_path / "fleet"), replace(SMALL, seed=8))


def test_the_command_takes_options_and_refuses_what_is_not_possible(
    tmp_path: Path, small: Tables
) -> None:
    options = ("--hpas", "6", "--pods", "5", "--days", "2", "--step", "5m", "--metrics", "mix")
    made = CliRunner().invoke(app, [str(tmp_path / "out"), *options, "--seed", "3"])
    assert (made.exit_code, made.stdout) == (0, "")
    files = (tmp_path / "out" / "pod_metrics").rglob("*.parquet")
    assert sum(pl.read_parquet(file).height for file in files) == small["pod_metrics"].height
    for wrong, message in (
        (("--step", "7s"), "--step 7s: expected a time of which a day has a whole number"),
        (("--jitter", "20m"), "--jitter 20m: expected less than --step"),
        (("--start", "2026-02-30"), "--start: expected a day such as 2026-10-05"),
        (("--gaps", "nan"), "--gaps: expected a finite number"),
    ):
        refused = CliRunner().invoke(app, [str(tmp_path / "no"), *wrong])
        assert message in str(refused.exception)
    assert not (tmp_path / "no").exists()
