"""Requests of a workload's pods, out of the table of requests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl

from hpabatch.engine.fleet.requested import requested_of


def rows(*given: tuple[object, ...]) -> pl.DataFrame:
    columns = ["uid", "kind", "index", "container", "valid_from", "cpu_milli", "memory_milli"]
    frame = pl.DataFrame(list(given), schema=columns, orient="row", infer_schema_length=None)
    return frame.with_columns(namespace=pl.lit("n"), target=pl.lit("web"))


def test_requests_are_those_of_the_newest_pod() -> None:
    old = ("a", "app", 0, "main", 1, 900, 900)
    new = [("b", "app", 0, "main", 5, 200, 64_000), ("b", "sidecar", 0, "proxy", 5, 50, None)]
    init = ("b", "init", 0, "setup", 5, 4000, 1)
    overhead = ("b", "overhead", 0, "", 5, 10, None)
    table = rows(old, *new, init, overhead)
    plan: Any = SimpleNamespace(requests_of=lambda cluster, places: table)
    target = ("c", "n", "Deployment", "web")
    candidate: Any = SimpleNamespace(cluster="c", target=target)
    assert requested_of(plan, [candidate]) == {target: (260, 64_000)}
