"""The bench is right: what a real server holds is what the source's tables say, by plain Python."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.real.openmetrics import expose
from tests.real.openmetrics_cadvisor import CPU, MEMORY
from tests.real.openmetrics_case import END_MS, HOUR_MS, START_MS, hard_case
from tests.real.openmetrics_family import Family
from tests.real.openmetrics_history import quantized
from tests.real.openmetrics_site import FOREVER, Site, Tables
from tests.real.openmetrics_text import write_openmetrics
from tests.real.openmetrics_write import remote_write, with_stale_ends, write_blocks
from tests.real.prometheus import ask, backfill, matrix, missing, running_prometheus

Row = dict[str, Any]

needs_prometheus = pytest.mark.skipif(bool(missing()), reason=missing())


@dataclass(frozen=True)
class Bench:
    tables: Tables
    site: Site
    families: dict[str, Family]
    url: str

    def samples(self, selector: str) -> list[tuple[Row, list[tuple[int, float]]]]:
        """Return labels and samples of all series of one replica and job."""
        wanted = f"{selector}[{END_MS - START_MS + HOUR_MS}ms]"
        found = matrix(self.url, wanted, (END_MS + 60_000) / 1000)
        return [(json.loads(labels), samples) for labels, samples in found.items()]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("bench")
    tables, site = hard_case()
    families = expose(tables, site)
    backfill(write_openmetrics(families, folder / "text"), folder / "data")
    with running_prometheus(folder, folder / "data") as url:
        yield Bench(tables, site, {family.name: family for family in families}, url)


@needs_prometheus
def test_a_server_gives_back_every_sample(bench: Bench) -> None:
    for name, family in bench.families.items():
        bounds = np.searchsorted(family.series, np.arange(family.labels.height + 1))
        wanted = {}
        for place, labels in enumerate(family.label_sets()):
            chosen = slice(bounds[place], bounds[place + 1])
            key = json.dumps(labels | {"__name__": name}, sort_keys=True)
            wanted[key] = list(
                zip(family.ts[chosen].tolist(), family.values[chosen].tolist(), strict=True)
            )
        found = {json.dumps(k, sort_keys=True): v for k, v in bench.samples(name)}
        assert found == {key: samples for key, samples in wanted.items() if samples}, name


@needs_prometheus
def test_neighbouring_counters_give_back_the_usage(bench: Bench) -> None:
    usage = {
        (row["cluster"], row["uid"], row["container"], row["ts"]): row["cpu_milli"]
        for row in bench.tables["pod_metrics"].iter_rows(named=True)
    }
    checked, fallen = 0, 0
    chosen = f'{CPU}{{container!="",container!="POD",job="kubelet",prometheus_replica="p-0"}}'
    for labels, samples in bench.samples(chosen):
        uid = labels["id"].split("/")[3].removeprefix("pod")
        for (before, low), (ts, high) in pairwise(samples):
            micros = round(high * 1e6) - round(low * 1e6)
            if micros < 0:
                fallen += 1
            elif ts - before < 62_000:  # nothing is between: what the source says
                assert -(-micros // (ts - before)) == usage[
                    labels["cluster"], uid, labels["container"], ts
                ]  # fmt: skip
                checked += 1
    assert fallen == 1
    assert checked > 5_000


@needs_prometheus
def test_the_tables_that_a_site_tells_are_those_that_its_server_holds(bench: Bench) -> None:
    told = quantized(bench.tables, bench.site, longest_window_ms=FOREVER, memory_alone=False)[
        "pod_metrics"
    ]
    rows: dict[tuple[str, ...], list[tuple[int, int, int]]] = {}
    chosen = f'{CPU}{{container!="",container!="POD",job="kubelet",prometheus_replica="p-0"}}'
    for labels, samples in bench.samples(chosen):
        uid = labels["id"].split("/")[3].removeprefix("pod")
        for (before, low), (ts, high) in pairwise(samples):
            if high >= low:
                milli = -((round(low * 1e6) - round(high * 1e6)) // (ts - before))
                key = labels["cluster"], uid, labels["container"]
                rows.setdefault(key, []).append((ts, ts - before, milli))
    wanted: dict[tuple[str, ...], list[tuple[int, int, int]]] = {}
    for row in told.iter_rows(named=True):
        wanted.setdefault((row["cluster"], row["uid"], row["container"]), []).append(
            (row["ts"], row["window_ms"], row["cpu_milli"])
        )
    assert {key: sorted(found) for key, found in rows.items()} == {
        key: sorted(found) for key, found in wanted.items()
    }


@needs_prometheus
def test_memory_is_that_of_the_source(bench: Bench) -> None:
    source_rows = {
        (row["cluster"], row["pod"], row["container"], row["ts"]): row["memory_bytes"]
        for row in bench.tables["pod_metrics"].iter_rows(named=True)
    }
    count = 0
    chosen = f'{MEMORY}{{container=~"main|sidecar.*",job="kubelet",prometheus_replica="p-0"}}'
    for labels, samples in bench.samples(chosen):
        for ts, value in samples:
            key = labels["cluster"], labels["pod"], labels["container"], ts
            assert value == source_rows[key]
            count += 1
    assert count > 1_000


@needs_prometheus
def test_every_scrape_shows_the_state_of_its_instant(bench: Bench) -> None:
    grid = bench.site.grid().tolist()
    states: dict[tuple[str, str], list[Row]] = {}
    for row in bench.tables["pod_states"].sort("ts").iter_rows(named=True):
        states.setdefault((row["cluster"], row["uid"]), []).append(row)
    ends = {
        (row["cluster"], row["uid"]): row["gone"] or math.inf
        for row in bench.tables["pods"].iter_rows(named=True)
    }
    wanted: dict[tuple[str, str], dict[int, tuple[str, str | None]]] = {}
    for key, rows in states.items():
        for at in grid:
            seen = [row for row in rows if row["ts"] <= at]
            if seen and at < ends[key]:
                wanted.setdefault(key, {})[at] = (seen[-1]["phase"], seen[-1]["ready"])
    phases: dict[tuple[str, str], dict[int, str]] = {}
    ready: dict[tuple[str, str], dict[int, str]] = {}
    for name, label, into in (
        ("kube_pod_status_phase", "phase", phases),
        ("kube_pod_status_ready", "condition", ready),
    ):
        for labels, samples in bench.samples(f'{name}{{prometheus_replica="p-0"}}'):
            for ts, value in samples:
                if value == 1:
                    into.setdefault((labels["cluster"], labels["uid"]), {})[ts] = labels[label]
    found = {
        key: {
            ts: (phase, ready.get(key, {}).get(ts, "").capitalize() or None)
            for ts, phase in times.items()
        }
        for key, times in phases.items()
    }
    assert found == wanted


@needs_prometheus
def test_changes_that_are_told_are_those_that_the_server_shows(bench: Bench) -> None:
    told = quantized(bench.tables, bench.site)
    changes: dict[tuple[str, str], list[tuple[int, int]]] = {}
    series: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for labels, samples in bench.samples('kube_deployment_spec_replicas{prometheus_replica="p-0"}'):
        series.setdefault((labels["cluster"], labels["deployment"]), []).extend(samples)
    for key, samples in series.items():
        last = None
        for ts, value in sorted(samples):
            if value != last:
                changes.setdefault(key, []).append((ts, int(value)))
            last = value
    wanted: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for row in told["scales"].sort("ts").iter_rows(named=True):
        listed = wanted.setdefault((row["cluster"], row["target"]), [])
        if not listed or listed[-1][1] != row["spec_replicas"]:  # else the status changed
            listed.append((row["ts"], row["spec_replicas"]))
    assert changes == wanted


@needs_prometheus
def test_a_life_is_shown_from_creation_until_it_is_gone(bench: Bench) -> None:
    told = quantized(bench.tables, bench.site)["pods"]
    grid = bench.site.grid().tolist()
    shown: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for labels, samples in bench.samples('kube_pod_created{prometheus_replica="p-0"}'):
        shown.setdefault((labels["cluster"], labels["uid"]), []).extend(samples)
    assert set(shown) == {(row["cluster"], row["uid"]) for row in told.iter_rows(named=True)}
    for row in told.iter_rows(named=True):
        samples = sorted(shown[row["cluster"], row["uid"]])
        assert {value * 1000 for _, value in samples} == {row["created"]}
        gone = math.inf if row["gone"] is None else row["gone"]
        assert [ts for ts, _ in samples] == [t for t in grid if row["created"] <= t < gone]


@needs_prometheus
def test_the_traps_are_there(bench: Bench) -> None:
    at = {"time": (START_MS + 30 * 60_000) / 1000}

    def count(query: str) -> int:
        return len(ask(bench.url, "query", query=query, **at)["result"])

    assert count(f'{CPU}{{container="POD"}}') > 0
    assert count(f'{CPU}{{container="",pod!=""}}') > 0
    assert count(f'{CPU}{{id="/"}}') > 0
    assert count(f'group by (job, prometheus_replica) ({CPU}{{container="main"}})') in (0, 4)
    assert count(f'group by (job, prometheus_replica) ({CPU}{{container="app"}})') == 4
    assert count("group by (cluster) (kube_pod_info)") == 2
    down = ask(bench.url, "query", query="up == 0", time=(START_MS + 2 * HOUR_MS + 450_000) / 1000)
    assert {series["metric"]["job"] for series in down["result"]} == {"kubelet"}


@needs_prometheus
def test_what_this_server_does_at_the_edges(bench: Bench) -> None:
    """Facts on which the import and its stand-in rest; version 3 leaves the left end out."""
    grid = bench.site.grid()
    heartbeat = 'kube_namespace_created{cluster="a",namespace="default",prometheus_replica="p-0"}'
    first, last = int(grid[3]), int(grid[6])
    found = matrix(bench.url, f"{heartbeat}[{last - first}ms]", last / 1000)
    assert [ts for samples in found.values() for ts, _ in samples] == grid[3:7].tolist()
    assert matrix(bench.url, f"{heartbeat}[1ms]", (last + 1000) / 1000) == {}
    named = ask(bench.url, "query", query=f"last_over_time({heartbeat}[5m])", time=last / 1000)
    assert "__name__" in named["result"][0]["metric"]
    bare = ask(bench.url, "query", query=f"max_over_time({heartbeat}[5m])", time=last / 1000)
    assert "__name__" not in bare["result"][0]["metric"]
    with pytest.raises(RuntimeError, match="bad_data"):
        ask(bench.url, "query", query="up[1m", time=1)


@needs_prometheus
def test_series_end_at_stale_markers(tmp_path: Path) -> None:
    grid = np.arange(START_MS, START_MS + HOUR_MS + 1, 60_000)
    lives = {"short": grid[:20], "whole": grid, "gap": np.delete(grid, slice(30, 40))}
    family = Family(
        "kube_pod_created",
        pl.DataFrame({"pod": list(lives)}),
        np.repeat(np.arange(3), [len(ts) for ts in lives.values()]),
        np.concatenate(list(lives.values())),
        np.ones(sum(map(len, lives.values()))),
    )
    other = Family("up", pl.DataFrame({"job": ["x"]}), np.zeros(61, np.int64), grid, np.ones(61))
    backfill(write_openmetrics([other], tmp_path / "text"), tmp_path / "data")
    sent = write_blocks([with_stale_ends(family, grid)], tmp_path / "server", tmp_path / "data")
    assert sent == len(family.ts) + 2
    with running_prometheus(tmp_path, tmp_path / "data") as url:

        def there(place: int) -> set[str]:
            found = ask(url, "query", query="kube_pod_created", time=grid[place] / 1000)
            return {series["metric"]["pod"] for series in found["result"]}

        assert there(19) == {"short", "whole", "gap"}
        assert there(20) == {"whole", "gap"}
        assert there(32) == {"whole"}
        assert there(45) == {"whole", "gap"}
        # raw samples do not show the markers
        found = matrix(url, "kube_pod_created[2h]", grid[-1] / 1000)
        assert {json.loads(k)["pod"]: [ts for ts, _ in v] for k, v in found.items()} == {
            pod: ts.tolist() for pod, ts in lives.items()
        }
        assert len(matrix(url, "up[2h]", grid[-1] / 1000)) == 1
        assert ask(url, "label/__name__/values") == ["kube_pod_created", "up"]


@needs_prometheus
def test_a_refused_text_and_a_refused_write_are_told(tmp_path: Path) -> None:
    bad = tmp_path / "bad.om"
    bad.write_text("up 1\n# EOF\n")
    with pytest.raises(RuntimeError, match="expected timestamp"):
        backfill(bad, tmp_path / "data")
    wrong = running_prometheus(tmp_path, tmp_path / "data", extra_flags=["--no-such-flag"])
    with pytest.raises(RuntimeError, match="Prometheus is not ready"), wrong:
        pass
    with running_prometheus(tmp_path, tmp_path / "data") as url:
        family = Family("up", pl.DataFrame({"job": ["x"]}), np.zeros(1, np.int64),
                        np.array([START_MS]), np.ones(1))  # fmt: skip
        with pytest.raises(RuntimeError, match="404"):
            remote_write(url, [family])
