"""The examples of docs/import.md are complete: they are imported and replayed as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.history.reader import open_history
from hpabatch.importers.table.decode import _map
from hpabatch.importers.table.map import Level
from hpabatch.importers.table.propose.run import propose_map
from hpabatch.importers.table.run import ImportResult
from hpabatch.inputs.document_keys import Record
from tests.engine.made import replay_history
from tests.importers.cluster_made import (
    HASH,
    START_MS,
    container,
    hpa,
    pod,
    replica_set,
    workload,
    write_objects,
)
from tests.importers.tables import import_table

PAGE = (Path(__file__).parents[3] / "docs" / "import.md").read_text()
FILES = dict(re.findall(r"```\w+ ([\w.]+)\n(.*?)```", PAGE, re.DOTALL))


def import_example(folder: Path, table: str, map_file: str) -> ImportResult:
    for name in (table, map_file):
        (folder / name).write_text(FILES[name])
    return import_table([str(folder / table)], folder / map_file, folder / "history")


def test_the_page_has_its_examples_and_a_proposed_map() -> None:
    maps = ["long.yaml", "map.yaml", "pods.yaml", "proposed.yaml", "services.yaml"]
    assert sorted(FILES) == sorted([*maps, "long.csv", "services.csv", "usage.csv"])


def test_the_proposed_map_is_that_of_the_first_table(tmp_path: Path) -> None:
    (tmp_path / "usage.csv").write_text(FILES["usage.csv"])
    assert propose_map([str(tmp_path / "usage.csv")]).text == FILES["proposed.yaml"]
    result = import_example(tmp_path, "usage.csv", "proposed.yaml")
    assert result.workloads["hpa"].to_list() == ["cart"]


def test_a_row_per_metric(tmp_path: Path) -> None:
    import_example(tmp_path, "long.csv", "long.yaml")
    samples = open_history(tmp_path / "history").read("pod_metrics").sort("ts")
    assert samples["cpu_milli"].to_list() == [120, 480]
    assert samples["memory_bytes"].to_list() == [210 << 20, 230 << 20]


def test_objects_complete_a_map(tmp_path: Path) -> None:
    owner = f"ReplicaSet/cart-{HASH}"
    containers = {"containers": [container("app", "400m"), container("proxy", None, "50m")]}
    items = [
        workload("cart", 1, containers),
        replica_set("cart", containers),
        pod(f"cart-{HASH}-x2x9k", owner, containers, START_MS),
        hpa("cart", "cart", START_MS),
    ]
    for name in ("usage.csv", "pods.yaml"):
        (tmp_path / name).write_text(FILES[name])
    result = import_table(
        [str(tmp_path / "usage.csv")],
        tmp_path / "pods.yaml",
        tmp_path / "history",
        objects=[write_objects(tmp_path, items)],
    )
    assert result.warnings == ()
    assert result.workloads["hpa"].to_list() == ["cart"]
    requests = open_history(tmp_path / "history").read("pod_requests").sort("index")
    assert requests["cpu_milli"].to_list() == [400, 50]


@pytest.mark.compiled
@pytest.mark.parametrize("example", [("usage.csv", "map.yaml"), ("services.csv", "services.yaml")])
def test_both_are_replayed(tmp_path: Path, example: tuple[str, str]) -> None:
    import_example(tmp_path, *example)
    result = replay_history(open_history(tmp_path / "history"), ReplayParameters("1.36"))
    assert result.hpas.height == 1
    assert result.skipped == ()
    assert result.decisions.filter(pl.col("invalid_metrics") == 0).height > 0


def test_every_key_of_a_map_is_on_the_page() -> None:
    taken: set[str] = set()
    for level in Level:
        for key in _map(level, beside=False, start_ms=None).keys:
            taken |= {key.name, *(key.kind.names if isinstance(key.kind, Record) else ())}
    assert {key for key in taken if not re.search(rf"`[^`]*\b{key}\b", PAGE)} == set()
