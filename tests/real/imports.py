"""Imports from a real server and what must come out of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import yaml

import hpabatch
from benchmarks.fleet.draw import FleetRequest
from hpabatch.history.schema import TABLES
from hpabatch.importers.prometheus.client.http import Limits
from hpabatch.importers.prometheus.client.login import Login
from hpabatch.importers.prometheus.request import PrometheusRequest
from hpabatch.importers.prometheus.result import ImportResult
from hpabatch.importers.prometheus.run import import_prometheus
from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.encode import spec_to_json
from hpabatch.model.times import show_instant
from tests.real.openmetrics import expose
from tests.real.openmetrics_history import jittered, quantized
from tests.real.openmetrics_site import Site, Tables, read_tables, synthetic
from tests.real.openmetrics_text import write_openmetrics
from tests.real.prometheus import backfill

NEVER_TOLD = ("uid", "created", "generation", "annotations", "labels")
"""Columns of `hpas` that kube-state-metrics has nothing of."""


def calm_source(seed: int, cluster: str = "a", days: int = 1, hpas: int = 4) -> Tables:
    """Return a fleet whose pods are looked at at times of their own."""
    settings = FleetRequest(
        hpas=hpas, pods=4, step_ms=60_000, containers=2, seed=seed, days=days,
        start="2026-10-05", cluster=cluster,
    )  # fmt: skip
    return jittered(synthetic(settings), 40_000, 900, seed, by_pod=True)


def serve(tables: Tables, site: Site, folder: Path) -> Path:
    """Return the data of a server that holds what a site told of tables."""
    backfill(write_openmetrics(expose(tables, site), folder / "text"), folder / "data")
    return folder / "data"


def write_manifests(tables: Tables, folder: Path) -> Path:
    """Write the last spec of every HPA as a manifest."""
    documents = [
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": row["name"], "namespace": row["namespace"]},
            "spec": json.loads(row["spec"]),
        }
        for row in tables["hpas"].sort("valid_from").iter_rows(named=True)
        if row["valid_to"] is None
    ]
    path = folder / "hpas.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return path


PATIENT = Limits(first_wait_s=0.01)


def bring(
    url: str, site: Site, out: Path, limits: Limits = PATIENT, **options: Any
) -> ImportResult:
    """Import all that a site told, a little more on either side."""
    assert site.start_ms is not None
    assert site.end_ms is not None
    span = {"start_ms": site.start_ms - 60_000, "end_ms": site.end_ms + 60_000}
    given = {**span, **options}
    for name in ("start", "end"):
        at_ms = given.pop(f"{name}_ms")
        given[name] = None if at_ms is None else show_instant(at_ms)
    request = PrometheusRequest(url=url, out=str(out), **given)
    return import_prometheus(request, Login(), limits=limits)


def wanted(tables: Tables, site: Site) -> Tables:
    """Return what a faultless import gives back."""
    return quantized(tables, site)


def differences(
    want: pl.DataFrame, got: pl.DataFrame, table: str, without: Sequence[str] = ()
) -> list[str]:
    """Return what is different in two tables, in words; empty: nothing."""
    columns = [c for c in want.columns if c not in without]
    key = [c for c in TABLES[table].key if c not in without]
    one, other = (_same_texts(frame.select(columns).sort(key), table) for frame in (want, got))
    if one.equals(other):
        return []
    told = [f"{table}: {one.height} rows wanted, {other.height} found"]
    for name, left, right in (("lacks", one, other), ("has besides", other, one)):
        lone = left.join(right, on=key, how="anti", nulls_equal=True)
        told += [f"{name} {row}" for row in lone.head(3).to_dicts()]
    both = one.join(other, on=key, how="inner", nulls_equal=True, suffix=" found")
    for column in set(columns) - set(key):
        wrong = both.filter(pl.col(column).ne_missing(pl.col(f"{column} found")))
        told += [
            f"{column}: {row}"
            for row in wrong.select(*key, column, f"{column} found").head(2).rows()
        ]
    return told


def _same_texts(rows: pl.DataFrame, table: str) -> pl.DataFrame:
    """Return rows whose JSON says the same in the same words."""
    columns = [c.name for c in TABLES[table].columns if c.json and c.name in rows.columns]

    def sorted_keys(text: str) -> str:
        return json.dumps(json.loads(text), sort_keys=True)

    def defaulted(text: str) -> str:
        document = {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "x", "namespace": "x"},
            "spec": json.loads(text),
        }
        return spec_to_json(default_hpa(decode_hpa(document)[0]))

    return rows.with_columns(
        pl.col(name).map_elements(
            defaulted if name == "spec" else sorted_keys, return_dtype=pl.String
        )
        for name in columns
    )


def content(out: Path) -> Tables:
    """Return all rows of a store."""
    return {name: frame.sort(TABLES[name].key) for name, frame in read_tables(str(out)).items()}


def decisions(history: Path) -> pl.DataFrame:
    """Return what the rules decide at every tick, without what names the HPA's uid."""
    found = hpabatch.open(history).replay(k8s="1.37").decisions
    return found.sort("cluster", "namespace", "hpa", "ts").drop("uid", strict=False)
