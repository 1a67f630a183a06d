"""Tests of a source's rows and its exports, in plain Python, without a server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from tests.real.openmetrics import expose
from tests.real.openmetrics_cadvisor import CPU
from tests.real.openmetrics_case import START_MS, hard_case, source
from tests.real.openmetrics_family import Family
from tests.real.openmetrics_history import comparable, quantized
from tests.real.openmetrics_site import FOREVER, Outage, Restart, Site, write_tables
from tests.real.openmetrics_status import with_status
from tests.real.openmetrics_text import time_texts


def test_times_survive_a_reader_that_multiplies_and_cuts() -> None:
    instants = [START_MS + ms for ms in range(1000)]
    assert [int(float(text) * 1000) for text in time_texts(instants)] == instants


def test_what_is_told_is_exported_the_same_again() -> None:
    tables, site = hard_case()
    tables, site = with_status(tables), replace(site, replicas=())
    told = quantized(tables, site) | {"controller": tables["controller"]}
    first = {family.name: family for family in expose(tables, site)}
    again = {family.name: family for family in expose(told, site)}
    assert set(first) == set(again)
    for name in first:
        # usage misses what no difference tells, and a deletion is later by up to a scrape
        if name.startswith("kube") and name != "kube_pod_deletion_timestamp":
            one, other = _sorted(first[name]), _sorted(again[name])
            assert one == other, name


def _sorted(family: Family) -> list[tuple[str, int, float]]:
    keys = [json.dumps(labels, sort_keys=True) for labels in family.label_sets()]
    found = [(keys[s], int(t), float(v))
             for s, t, v in zip(family.series, family.ts, family.values, strict=True)]  # fmt: skip
    return sorted(found)


def test_what_is_told_is_told_the_same_again() -> None:
    tables, site = hard_case()
    undisturbed = replace(site, restarts=(), outages=(), start_ms=None)
    once = quantized(tables, undisturbed, longest_window_ms=FOREVER)
    twice = quantized(once, undisturbed, longest_window_ms=FOREVER)
    for name in once:
        assert once[name].sort(pl.all()).equals(twice[name].sort(pl.all())), name


def test_what_is_told_is_a_history(tmp_path: Path) -> None:
    tables, site = hard_case()
    write_tables(quantized(with_status(tables), site), str(tmp_path))
    assert (tmp_path / "hpa_status.parquet").exists()


def test_tables_that_differ_in_what_nobody_tells_are_the_same() -> None:
    tables = with_status(source())
    hpas, status = tables["hpas"], tables["hpa_status"]
    specs = [json.dumps(dict(reversed(json.loads(text).items()))) for text in hpas["spec"]]
    other = tables | {
        "hpas": hpas.with_columns(
            pl.Series("spec", specs), uid=pl.lit("x"), labels=pl.lit(None, pl.String)
        ),
        "hpa_status": status.with_columns(
            pl.col("current_metrics").replace("[]", None), uid=pl.lit("x")
        ).reverse(),
    }
    one, two = comparable(tables), comparable(other)
    assert all(one[name].equals(two[name]) for name in one)
    changed = hpas.with_columns(pl.col("spec").str.replace("minReplicas", "maxReplicas"))
    assert not comparable({"hpas": changed})["hpas"].equals(one["hpas"])


def test_usage_over_an_outage_is_the_mean() -> None:
    tables = source()
    row = tables["pod_metrics"].row(100, named=True)
    mine = tables["pod_metrics"].filter(
        pl.col("uid") == row["uid"], pl.col("container") == row["container"]
    ).sort("ts")  # fmt: skip
    times, usage = mine["ts"].to_list(), mine["cpu_milli"].to_list()
    at = times.index(row["ts"])
    site = Site(outages=(Outage(times[at] - 1, times[at + 2]),))
    told = quantized(tables, site)["pod_metrics"].filter(
        pl.col("uid") == row["uid"], pl.col("container") == row["container"]
    )
    found = told.filter(pl.col("ts") == times[at + 3]).row(0, named=True)
    work = sum(usage[k] * (times[k] - times[k - 1]) for k in range(at, at + 4))
    assert found["window_ms"] == times[at + 3] - times[at - 1]
    assert found["cpu_milli"] == -(-work // found["window_ms"])
    assert told.filter(pl.col("ts").is_between(times[at], times[at + 2])).is_empty()


@pytest.mark.parametrize("new_series", [True, False])
def test_a_restart_costs_the_cpu_of_one_sample(new_series: bool) -> None:
    tables = source()
    row = tables["pod_metrics"].row(100, named=True)
    restart = Restart(row["uid"], row["container"], row["ts"] - 1000, new_series)
    told = quantized(tables, Site(restarts=(restart,)))["pod_metrics"]
    whole = quantized(tables, Site())["pod_metrics"]
    changed = told.join(whole, on=whole.columns, how="anti", nulls_equal=True)
    silent = row | {"window_ms": None, "cpu_milli": None}
    assert changed.rows(named=True) == [silent]
    assert (
        quantized(tables, Site(restarts=(restart,)), memory_alone=False)["pod_metrics"].height
        == whole.height - 1
    )
    series = next(f for f in expose(tables, Site(restarts=(restart,))) if f.name == CPU)
    plain = next(f for f in expose(tables, Site()) if f.name == CPU)
    assert series.labels.height - plain.labels.height == int(new_series)


def test_a_site_without_honor_labels() -> None:
    families = {f.name: f for f in expose(source(), Site(exported=True, traps=False))}
    labels = families["kube_pod_info"].label_sets()[0]
    assert {"exported_namespace", "exported_pod", "namespace", "pod"} <= set(labels)
    assert labels["namespace"] == "monitoring"
    assert "exported_container" in families["kube_pod_container_info"].labels.columns


def test_a_site_with_systemd_cgroups() -> None:
    family = next(f for f in expose(source(), Site(cgroups="systemd")) if f.name == CPU)
    ids = {labels["id"] for labels in family.label_sets()}
    assert any(text.endswith(".scope") and "_" in text for text in ids)
