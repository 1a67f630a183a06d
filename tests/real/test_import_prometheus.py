"""Tests of imports from a real Prometheus: its source's rows come back, whatever happens."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hpabatch.history.store.upkeep import compact
from tests.cluster.fake_api import Got
from tests.importers.prometheus.faulty_proxy import FaultyProxy
from tests.real.imports import (
    NEVER_TOLD,
    bring,
    calm_source,
    content,
    decisions,
    differences,
    serve,
    wanted,
    write_manifests,
)
from tests.real.openmetrics_history import both
from tests.real.openmetrics_site import Site, Tables, write_tables
from tests.real.prometheus import missing, running_prometheus

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

DAY_MS = 1_791_158_400_000  # 2026-10-05
HOUR_MS = 3_600_000
IMPORT_S = 600.0  # how long an import may take on a busy machine


@dataclass(frozen=True)
class Bench:
    tables: Tables
    site: Site
    url: str
    manifests: Path


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Two clusters, a quarter of a day, nothing wrong."""
    folder = tmp_path_factory.mktemp("calm")
    tables = both(calm_source(5), calm_source(6, "b", hpas=2))
    site = Site(offset_ms=17_123, end_ms=DAY_MS + 6 * HOUR_MS).placed(tables)
    data = serve(tables, site, folder)
    manifests = write_manifests(tables, folder)
    with running_prometheus(folder, data) as url:
        yield Bench(tables, site, url, manifests)


@pytest.fixture(scope="module")
def calm_import(calm: Bench, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("import") / "history"
    bring(calm.url, calm.site, out, cluster_label="cluster", hpas=(str(calm.manifests),))
    return out


@pytest.fixture(scope="module")
def first_hours(calm: Bench) -> dict[str, Any]:
    """What is imported, again and again, where it only matters that it stays the same."""
    assert calm.site.start_ms is not None
    end_ms = calm.site.start_ms + 3 * HOUR_MS
    return {"cluster_label": "cluster", "hpas": (str(calm.manifests),), "end_ms": end_ms}


@pytest.fixture(scope="module")
def first_import(
    calm: Bench, first_hours: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Tables:
    out = tmp_path_factory.mktemp("hours") / "history"
    bring(calm.url, calm.site, out, **first_hours)
    found = content(out)
    assert found["pod_metrics"].height > 5_000
    return found


@pytest.mark.parametrize("table", ["pod_metrics", "pods", "pod_states", "pod_requests", "scales"])
def test_tables_equal_the_source(calm: Bench, calm_import: Path, table: str) -> None:
    want, got = wanted(calm.tables, calm.site)[table], content(calm_import)[table]
    if table == "pod_states":
        want, got = _without_first_transition(want), _without_first_transition(got)
    assert not differences(want, got, table, {"pods": ("labels",)}.get(table, ()))


def _without_first_transition(states: pl.DataFrame) -> pl.DataFrame:
    """Return states as far as anybody tells them: a new pod is not Ready since some time."""
    first = pl.col("ts") == pl.col("ts").min().over("uid")
    unknown = first & (pl.col("ready") == "False")
    return states.with_columns(last_transition=pl.when(~unknown).then("last_transition"))


def test_specs_and_sizes_lead_to_the_same_decisions(
    calm: Bench, calm_import: Path, tmp_path: Path
) -> None:
    want = wanted(calm.tables, calm.site)
    assert not differences(want["hpas"], content(calm_import)["hpas"], "hpas", NEVER_TOLD)
    source = tmp_path / "source"
    write_tables(want, str(source))
    decided = [decisions(folder) for folder in (source, calm_import)]
    assert decided[0].height > 7_000
    assert decided[0].equals(decided[1])


def test_two_windows_and_an_appended_one_are_as_one(
    calm: Bench, calm_import: Path, tmp_path: Path
) -> None:
    begin, end = calm.site.start_ms, calm.site.end_ms
    assert begin is not None
    assert end is not None
    middle = begin + 5 * HOUR_MS + 123_456
    options: dict[str, Any] = {"cluster_label": "cluster", "hpas": (str(calm.manifests),)}
    parts = tmp_path / "parts"
    bring(calm.url, calm.site, parts, end_ms=middle, **options)
    second = bring(calm.url, calm.site, parts, start_ms=None, resume=True, **options)
    assert second.earlier == 4  # the minute before the day, and its first hours
    one, other = content(calm_import), content(parts)
    assert one.keys() == other.keys()
    for table in one:
        assert not differences(one[table], other[table], table)


def test_a_killed_import_goes_on_to_the_same_bytes(calm: Bench, tmp_path: Path) -> None:
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    with Halting(calm.url, rate=0) as proxy:
        assert ended(run(proxy.url, calm, undisturbed)) == 0
        usual, dice = proxy.seen.requests, random.Random(7)
        for kill in range(kills := 2):
            # Half of the times while a response is waited for, then amid what is done with the
            # responses; by then the import may come to its end before it is killed.
            with proxy.halt(5 + dice.randrange(usual // 8), hold=2 * kill < kills):
                process = run(proxy.url, calm, killed, "--resume")
                try:
                    until = time.monotonic() + IMPORT_S
                    while not proxy.reached.wait(0.02) and process.poll() is None:
                        assert time.monotonic() < until
                    time.sleep(dice.uniform(0, 0.3))
                    assert 2 * kill >= kills or process.poll() is None
                finally:
                    process.kill()
                    code = process.wait()
                assert code in (-signal.SIGKILL, 0)
        assert ended(run(proxy.url, calm, killed, "--resume")) == 0
    assert not list(tmp_path.glob(".killed*"))
    for out in (undisturbed, killed):
        compact(out, grace_s=-1)
    assert data_files(killed) == data_files(undisturbed)


class Halting(FaultyProxy):
    """A proxy that says when so many requests have come, and may let the last of them wait.

    Attributes:
        reached: they have come.
    """

    def __init__(self, upstream: str, **options: Any) -> None:
        """Prepare; no request waits."""
        super().__init__(upstream, **options)
        self.reached, self._free = threading.Event(), threading.Event()
        self._left, self._hold = 0, False

    @contextmanager
    def halt(self, requests: int, hold: bool) -> Iterator[None]:
        """Wait for the so many-th request from now on."""
        self.reached.clear()
        self._free.clear()
        self._left, self._hold = requests, hold
        try:
            yield
        finally:
            self._free.set()

    def _fault(self, path: str, body: bytes) -> str:
        self._left -= 1
        if not self._left:
            self.reached.set()
        return super()._fault(path, body)

    def forward(self, got: Got) -> tuple[int, dict[str, str], bytes]:
        """Hold what comes since then back until the client is dead."""
        if self._hold and self.reached.is_set():
            self._free.wait(60)
        return super().forward(got)


def run(url: str, bench: Bench, out: Path, *more: str) -> subprocess.Popen[bytes]:
    """Start an import as its users do."""
    command = [
        sys.executable, "-c", "from hpabatch.cli import main; main()", "import", "prometheus",
        "--url", url, "--start", "2026-10-05", "--end", "2026-10-05 03:00",
        "--cluster-label", "cluster",
        "--hpas", str(bench.manifests), "--out", str(out), *more,
    ]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ended(process: subprocess.Popen[bytes]) -> int:
    """Return the code with which an import ends by itself."""
    try:
        return process.wait(IMPORT_S)
    finally:
        process.kill()
        process.wait()


def data_files(store: Path) -> dict[str, bytes]:
    """Return the bytes of all tables' files; their names are those of their contents."""
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in sorted(store.rglob("*.parquet"))
        # Unfinished files of a writer that was killed stay there for a day.
        if path.relative_to(store).parts[0] != "_work"
    }


def test_faults_on_the_way_change_nothing(
    calm: Bench, first_hours: dict[str, Any], first_import: Tables, tmp_path: Path
) -> None:
    out = tmp_path / "history"
    with FaultyProxy(calm.url, seed=1, rate=0.3) as proxy:
        found = bring(proxy.url, calm.site, out, **first_hours)
        assert len(proxy.seen.faults) > 5
        assert proxy.seen.most_at_once <= 2
    assert found.figures["retries"]
    one, other = first_import, content(out)
    for table in one:
        assert not differences(one[table], other[table], table)
