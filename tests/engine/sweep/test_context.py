"""Context of HPAs: the last recorded one, as columns of a sweep and back."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from hpabatch.engine.sweep.context import Context, context_of, contexts
from hpabatch.history.reader import open_history
from hpabatch.history.schema import table_named
from hpabatch.history.store.writer import write_table
from hpabatch.model.availability import Availability, Budget, Spread
from hpabatch.model.owners import Metadata

KEY = ("east", "shop", "web")
FLUX = "kustomize.toolkit.fluxcd.io/name"


def at(hour: int) -> datetime:
    return datetime(2026, 10, 7, hour, tzinfo=UTC)


def spec(hour: int, until: int | None, **metadata: Any) -> dict[str, Any]:
    return {
        "uid": "u", "valid_from": at(hour), "valid_to": None if until is None else at(until),
        "spec": "{}", "labels": None, "annotations": None,
    } | metadata  # fmt: skip


def history(folder: Path, **tables: list[dict[str, Any]]) -> Path:
    names = dict(zip(("cluster", "namespace", "name"), KEY, strict=True))
    for table, rows in tables.items():
        known = table_named(table).schema
        frame = pl.DataFrame([names | row for row in rows], infer_schema_length=None)
        frame = frame.cast({name: known[name] for name in frame.columns})
        write_table(frame, folder / f"{table}.parquet", table)
    return folder


def found(folder: Path) -> Context:
    return contexts(open_history(folder))[KEY]


def test_a_history_may_say_nothing(tmp_path: Path) -> None:
    history(tmp_path, hpas=[spec(1, None)])
    assert found(tmp_path) == Context()


def test_the_last_labels_and_the_last_context_count(tmp_path: Path) -> None:
    texts = [json.dumps({FLUX: name, "team": "shop"}) for name in ("old", "new")]
    rows: list[dict[str, Any]] = [
        {"ts": at(3), "owner": None, "budgets": "[]", "spreads": "[]"},
        {"ts": at(1), "owner": "Canary/web", "budgets": None, "spreads": None},
    ]
    history(
        tmp_path,
        hpas=[spec(1, 2, labels=texts[0]), spec(2, None, labels=texts[1], annotations="{}")],
        hpa_context=rows,
    )
    assert found(tmp_path) == Context(Metadata({FLUX: "new"}), Availability())


def test_what_a_later_row_leaves_open_is_as_it_was(tmp_path: Path) -> None:
    """Owners are recorded alone; objects may be listed without budgets or nodes."""
    budgets = json.dumps([{"name": "web", "minAvailable": "2"}])
    zone = {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    counted = json.dumps([{**zone, "domains": 3}])
    rows: list[dict[str, Any]] = [
        {"ts": at(1), "owner": "Canary/web", "budgets": budgets, "spreads": counted},
        {"ts": at(2), "owner": "ScaledObject/web", "budgets": None, "spreads": None},
        {"ts": at(3), "owner": None, "budgets": None, "spreads": json.dumps([zone])},
    ]
    known = Availability((Budget("web", "2"),), (Spread("zone", domains=3),))
    for count, owner in ((2, "ScaledObject/web"), (3, "")):
        folder = tmp_path / str(count)
        folder.mkdir()
        history(folder, hpas=[spec(1, None)], hpa_context=rows[:count])
        assert found(folder) == Context(Metadata(owner=owner), known)


def test_needs_and_owner_of_the_objects(tmp_path: Path) -> None:
    budgets, spreads = [{"name": "web", "minAvailable": "2"}], [{"topologyKey": "zone"}]
    row = {"ts": at(1), "owner": "ScaledObject/web"}
    told = {"budgets": json.dumps(budgets), "spreads": json.dumps(spreads)}
    history(tmp_path, hpas=[spec(1, None)], hpa_context=[row | told])
    known = Availability((Budget("web", "2"),), (Spread("zone"),))
    assert found(tmp_path) == Context(Metadata(owner="ScaledObject/web"), known)


def test_columns_and_back() -> None:
    known = Availability((Budget("web", "2"),), (Spread("zone", False, 2, 3),))
    for context in (
        Context(),
        Context(Metadata({FLUX: "a"}, {"argocd.argoproj.io/tracking-id": "b"}, "C/d"), known),
    ):
        columns = context.columns()
        assert tuple(columns) == ("metadata", "availability")
        assert context_of(columns) == context
    assert context_of({"metadata": None, "availability": None}) == Context()
