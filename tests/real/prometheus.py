"""A real Prometheus 2.42 over blocks made from text, for the tests that import from it.

Its programs are no part of the project: they lie in usr/bin of the folder `root` in
HPABATCH_CLUSTER (else ~/.cache/hpabatch-cluster).
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.real.cluster import build_folder

READY_S: Final = 60
STOP_S: Final = 20


def program(name: str) -> Path:
    """Return where a program is, `prometheus` or `promtool`."""
    return build_folder() / "root/usr/bin" / name


def missing() -> str:
    """Return why there can be no Prometheus here, "" if there can."""
    for name in ("prometheus", "promtool"):
        if not os.access(program(name), os.X_OK):
            return f"{program(name)} is not there: HPABATCH_CLUSTER names no folder that has it"
    return ""


def backfill(files: Path | Iterable[Path], data_dir: Path) -> None:
    """Make blocks of OpenMetrics text; each file is read once for every two hours of its span.

    Raises:
        RuntimeError: promtool refused; the message is what it said.
    """
    for file in [files] if isinstance(files, Path) else files:
        done = subprocess.run(
            [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", file, data_dir],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"promtool refused {file}: {done.stderr.strip()}")


@contextmanager
def running_prometheus(
    folder: Path, data_dir: Path, *, extra_flags: Sequence[str] = (), config: str = ""
) -> Iterator[str]:
    """Serve blocks on a free port of 127.0.0.1; yields the URL, stops the server at the end.

    The blocks stay as they are: none is compacted, none is too old.

    Args:
        folder: gets prometheus.yml and prometheus.log.
        data_dir: what `backfill` filled; a new folder is an empty server.
        extra_flags: e.g. `--query.max-samples=1000`, `--web.enable-remote-write-receiver`.
        config: contents of prometheus.yml; it scrapes nothing by itself.

    Raises:
        RuntimeError: it ended, or was not ready within a minute; the message is its log.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text(config)
    process, url = _ready_server(folder, data_dir, extra_flags)
    try:
        yield url
    finally:
        stop_process(process)


def _ready_server(
    folder: Path, data_dir: Path, flags: Sequence[str]
) -> tuple[subprocess.Popen[bytes], str]:
    for attempt in range(3):  # somebody else may take the port before the server does
        process, url = _started(folder, data_dir, flags)
        ready = False
        try:
            ready = _is_ready(process, url)
        finally:
            if not ready:
                stop_process(process)
        if ready:
            return process, url
        said = (folder / "prometheus.log").read_text()
        if "address already in use" not in said or attempt == 2:
            raise RuntimeError(f"Prometheus is not ready: {said[-4000:]}")
    raise AssertionError("unreachable")


def _started(
    folder: Path, data_dir: Path, flags: Sequence[str]
) -> tuple[subprocess.Popen[bytes], str]:
    address = f"127.0.0.1:{_free_port()}"
    command = [
        str(program("prometheus")),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={data_dir}",
        "--storage.tsdb.retention.time=100y",
        "--storage.tsdb.min-block-duration=2h",
        "--storage.tsdb.max-block-duration=2h",
        f"--web.listen-address={address}",
        *flags,
    ]
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    return process, f"http://{address}"


def stop_process(process: subprocess.Popen[bytes]) -> None:
    """End it, by force if it does not end by itself."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as item:
        item.bind(("127.0.0.1", 0))
        return int(item.getsockname()[1])


def _is_ready(process: subprocess.Popen[bytes], url: str) -> bool:
    """Wait until a server answers; return whether it does."""
    until = time.monotonic() + READY_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=5):
                return True
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.05)
    return False


def ask(url: str, path: str, **parameters: str | float | Sequence[str]) -> Any:
    """Return `data` of an answer of the HTTP API, e.g. ask(url, "query", query="up", time=1.5).

    Raises:
        RuntimeError: the server answered with an error; the message is its answer.
    """
    body = urllib.parse.urlencode(parameters, doseq=True)
    whole = f"{url}/api/v1/{path}"
    # /labels and /series take a form too; /label/x/values and /status do not
    posted = path in ("query", "query_range", "series", "labels")
    try:
        if posted:
            answer = urllib.request.urlopen(whole, body.encode())
        else:
            answer = urllib.request.urlopen(f"{whole}?{body}" if body else whole)
        with answer:
            return json.loads(answer.read())["data"]
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{error.code}: {error.read().decode()}") from error


def matrix(url: str, selector: str, time_s: float) -> dict[str, list[tuple[int, float]]]:
    """Return the samples of a range selector by series: its labels as JSON -> [(ms, value)]."""
    found = ask(url, "query", query=selector, time=time_s)
    assert found["resultType"] == "matrix"
    return {
        json.dumps(series["metric"], sort_keys=True): [
            (round(seconds * 1000), float(value)) for seconds, value in series["values"]
        ]
        for series in found["result"]
    }
