"""Imports in Python."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from hpabatch.api.imports import import_prometheus, import_table
from hpabatch.errors import UsageError
from hpabatch.importers.prometheus.request import PrometheusRequest
from hpabatch.model.options import keyword
from hpabatch.report.imported import TableMap
from tests.importers.tables import BEGIN_S, WORKLOAD_MAP, read_tables, write_csv, write_map

ROWS = f"ts,app,size,cpu\n{BEGIN_S},web,2,100\n{BEGIN_S + 60},web,3,100\n"


def test_a_table_becomes_a_history(tmp_path: Path) -> None:
    source, path = write_csv(tmp_path, ROWS), write_map(tmp_path, WORKLOAD_MAP)
    dry = import_table(source, map=path, dry_run=True)
    assert dry.verdict.startswith("nothing is written (dry run); it would be ")
    assert dry.frame["target"].to_list() == ["web"]
    done = import_table([source], map=path, out=tmp_path / "history")
    assert done.verdict.startswith(f"{tmp_path / 'history'}: ")
    assert done.verdict.endswith(" from 2 rows")
    assert repr(done) == f"<TableImport: {done.verdict}>"
    assert done.assumed == dry.assumed
    assert read_tables(tmp_path / "history")["scales"].height


def test_a_proposed_map_is_text_or_a_file(tmp_path: Path) -> None:
    source = tmp_path / "usage.csv"
    source.write_text("time,pod,cpu\n2026-10-07T10:00:00Z,web-0,0.5\n")
    found = import_table(source, init=True)
    assert isinstance(found, TableMap)
    assert (found.path, found.verdict) == (None, "a map: 4 assumptions")
    assert found.frame["assumed"].to_list() == list(found.assumed)
    written = import_table(source, init=True, map=tmp_path / "map.yaml")
    assert isinstance(written, TableMap)
    assert (tmp_path / "map.yaml").read_text() == written.text == found.text
    assert import_table(source, map=tmp_path / "map.yaml", dry_run=True).frame.height == 1


@pytest.mark.parametrize("places", [{}, {"out": "history", "dry_run": True}])
def test_an_import_writes_or_looks(places: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="--out and --dry-run: expected one of them"):
        import_table("usage.csv", map="map.yaml", **places)


def test_options_are_checked() -> None:
    with pytest.raises(UsageError, match=r"map: expected a map file, got none"):
        import_table("usage.csv", dry_run=True)
    with pytest.raises(UsageError, match="unknown option replaze: did you mean replace"):
        import_table("usage.csv", map="map.yaml", replaze=True)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="max_gap: expected a duration of at least 3m, got 1m"):
        import_prometheus("http://127.0.0.1:9", out="history", max_gap="1m")


def test_the_signature_is_that_of_the_request() -> None:
    names = set(inspect.signature(import_prometheus).parameters)
    assert names == {keyword(name) for name in PrometheusRequest.options()}


def test_an_import_needs_a_begin(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected --start"):
        import_prometheus("http://127.0.0.1:9", out=tmp_path / "history")
