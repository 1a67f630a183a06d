"""`hpabatch live --record` before a gateway that repeats tokens, and on a disk that is full."""

from __future__ import annotations

import base64
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import polars as pl
import pytest

from hpabatch.history.reader import open_history
from tests.real.api_writes import Writer
from tests.real.cluster import missing, running_cluster
from tests.real.faulty_proxy import ADMIN, Exchange, FaultyProxy, metrics, watches
from tests.real.live_place import KCM_ARGS, PROGRAM, QUEUE, RPS, Live, Place

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

RIGHT = {"shop/web": 2, "shop/cart": 3, "shop/queue": 4}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    controllers = "deployment,replicaset,horizontalpodautoscaling"
    flags = ["--stub", "--fake-kubelet", "--controllers", controllers]
    folder = tmp_path_factory.mktemp("hostile")
    with running_cluster(folder, flags=flags, more={"KCM_ARGS": KCM_ARGS}) as cluster:
        found = Place(Writer(cluster))
        found.writer.namespace("shop")
        found.levels(
            cpu_total_m={"shop/web": 100}, custom={"shop/cart/rps": 30.0}, external={"queue": 40}
        )
        found.app("shop", "web")
        found.app("shop", "cart", RPS)
        found.app("shop", "queue", QUEUE)
        found.until(RIGHT)
        yield found


@pytest.fixture
def proxy(place: Place) -> Iterator[FaultyProxy]:
    found = FaultyProxy(place.writer.cluster)
    yield found
    found.close()


@contextmanager
def recording(folder: Path, config: Path, store: Path) -> Iterator[Live]:
    live = Live(folder, config, "--record", str(store), "--segment", "1s")
    try:
        yield live
    finally:
        live.kill()


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(PROGRAM), *words], capture_output=True, text=True, check=False)


def texts_of(store: Path) -> str:
    return "".join(pl.read_parquet(one).write_ndjson() for one in store.rglob("*.parquet"))


def texts_yet(store: Path) -> str:
    """Return the rows of all files; nothing if one is removed or still written meanwhile."""
    with suppress(FileNotFoundError, pl.exceptions.ComputeError):
        return texts_of(store)
    return ""


def page_of(live: Live) -> str:
    with urllib.request.urlopen(live._metrics, timeout=60) as answer:
        text: str = answer.read().decode()
        return text


def test_a_gateway_that_repeats_the_token(proxy: FaultyProxy, tmp_path: Path) -> None:
    """Nothing shows it: no line, no WHY, no metric, no row of the record."""
    config, store = proxy.kubeconfig(tmp_path / "kubeconfig"), tmp_path / "history"

    def unwell(path: str) -> bool:
        return metrics(path) or watches(path)

    with recording(tmp_path / "live", config, store) as live:
        live.until(lambda: live.desired() == RIGHT)
        with proxy.fault(unwell, Exchange.echo):
            proxy.cut(watches)
            live.until(lambda: _told(live) >= 6)  # three watches, three metrics APIs
            shown = [page_of(live)]
            once = run("live", "--kubeconfig", str(config), "--once", "--output", "wide")
            live.until(lambda: "***" in texts_yet(store))  # errors of metrics are recorded
        assert live.end()[0] == 0
    shown += [once.stdout, once.stderr]
    shown += [(live.folder / name).read_text() for name in ("out", "err")]
    shown.append(texts_of(store))
    assert all("***" in text for text in (once.stdout, once.stderr, shown[-1]))
    packed = base64.b64encode(ADMIN.encode()).decode()[:8]
    for text in shown:
        assert ADMIN not in text
        assert packed not in text


def _told(live: Live) -> int:
    return sum("***" in one.get("text", "") for one in live.since(0, "problem"))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB, with nothing else on it."""
    at = tmp_path / "disk"
    at.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(at)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("only root may mount a small disk")
    yield at
    subprocess.run(["umount", "-l", str(at)], check=True)


def fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as stream, suppress(OSError):
        while True:
            stream.write(bytes(512))


def of_the_record(live: Live) -> list[str]:
    return [one["text"] for one in live.since(0, "note") if "recording:" in one["text"]]


def passes(live: Live) -> float:
    return next(v for k, v in live.metrics().items() if k.startswith("hpabatch_passes_total"))


def test_a_full_disk_is_told_once_and_loses_nothing(
    place: Place, disk: Path, tmp_path: Path
) -> None:
    config, store = place.writer.folder / "kubeconfig", disk / "history"
    with recording(tmp_path / "live", config, store) as live:
        live.until(lambda: live.desired() == RIGHT)
        live.until(lambda: live.metrics()["hpabatch_recorder_parts_total"] >= 2)
        fill(disk / "ballast")
        live.until(lambda: bool(of_the_record(live)))
        done = passes(live)
        place.levels(cpu_total_m={"shop/web": 300})
        live.until(lambda: live.desired()["shop/web"] > 2 and passes(live) >= done + 2)
        (disk / "ballast").unlink()
        live.until(lambda: len(of_the_record(live)) > 1)
        fill(disk / "ballast")
        live.until(lambda: len(of_the_record(live)) > 2)
        code, seconds = live.end()
        assert code == 3
        assert seconds < 25  # of the 30 that a pod is given
    place.levels(cpu_total_m={"shop/web": 100})
    waits, goes_on, again, ended = of_the_record(live)
    assert "rows wait, they cannot be written" in waits
    assert "rows wait, they cannot be written" in again
    assert goes_on == "recording: rows are written again"
    assert ended.startswith("recording: rows were not written before the end: ")
    assert (live.folder / "err").read_text() == ""
    # What waited while the disk was full is there.
    recorded = open_history(store).read("passes")["ts"]
    assert recorded.len() > done
    assert recorded.diff().drop_nulls().dt.total_milliseconds().max() < 10_000  # type: ignore[operator]
    (disk / "ballast").unlink()
    checked = run("history", "check", str(store))
    assert checked.returncode == 0, checked.stdout + checked.stderr
