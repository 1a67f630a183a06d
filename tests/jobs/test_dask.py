"""Dask workers as processes on loopback: the same parts, whatever dies, and who may connect."""

from __future__ import annotations

import logging
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpabatch.errors import UnfinishedError, UsageError
from hpabatch.inputs.workers import Spread
from hpabatch.jobs import dask_workers
from hpabatch.jobs.folder import count_kept
from hpabatch.jobs.job import Status
from tests.jobs.dask_cluster import QUIET, Cluster
from tests.jobs.squares import expected, run
from tests.jobs.test_contact import options, write_certificates
from tests.jobs.test_workers import contents

pytestmark = QUIET
SLOW = {"count": 30, "squares": {"seconds": 0.05}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a cluster that all tests but the last leave with a scheduler and two workers."""
    found = Cluster(tmp_path_factory.mktemp("dask"))
    yield found
    found.close()


def on(cluster: Cluster, **more: Any) -> Spread:
    return Spread(scheduler=cluster.address, **more)


def at(done: int, act: Any) -> Any:
    """Return a report that acts once, when so many parts are done."""
    left = [act]

    def report(status: Status) -> None:
        if status.done >= done and left:
            left.pop()()

    return report


def test_dask_workers_leave_the_parts_that_this_process_would(
    cluster: Cluster, tmp_path: Path
) -> None:
    run(tmp_path / "here", SLOW, Spread())
    assert run(tmp_path / "there", SLOW, on(cluster)) == expected(30)
    assert contents(tmp_path / "here") == contents(tmp_path / "there")
    spread = on(cluster, parts=str(tmp_path / "parts"))
    assert run(tmp_path / "sent", SLOW, spread) == expected(30)
    assert contents(tmp_path / "here") == contents(tmp_path / "sent")


def test_a_worker_may_die_at_any_time(cluster: Cluster, tmp_path: Path) -> None:
    assert run(tmp_path / "job", SLOW, on(cluster), at(5, cluster.kill_worker)) == expected(30)


def test_a_scheduler_that_stops_is_gone(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_workers, "_ASK_S", 2)
    monkeypatch.setattr(dask_workers, "_LEAVE_S", 1)
    pytest.importorskip("distributed")  # (sets its loggers' levels)
    level = logging.getLogger("distributed.client").level

    def stop() -> None:
        cluster.scheduler.send_signal(signal.SIGSTOP)

    begin = time.monotonic()
    with pytest.raises(
        UnfinishedError, match=r"the scheduler at tcp://.* is gone .*give the same comm"
    ):
        run(tmp_path / "job", SLOW, on(cluster), at(7, stop))
    assert time.monotonic() - begin < 30
    assert count_kept(tmp_path / "job") >= 7
    assert logging.getLogger("distributed.client").level == level
    cluster.scheduler.send_signal(signal.SIGCONT)


def test_the_scheduler_may_die_at_any_time(
    cluster: Cluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        UnfinishedError, match=r"the scheduler .* is gone .*workers end when.*give the same"
    ):
        run(tmp_path / "job", SLOW, on(cluster), at(7, cluster.scheduler.kill))
    assert count_kept(tmp_path / "job") >= 7
    assert capfd.readouterr().err == ""


_VERSION = """
import importlib.metadata as m
real = m.version
def version(name):
    if name != "hpabatch": return real(name)
    {}
m.version = version
"""
_NONE = """
import sys
class No:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "hpabatch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, No())
"""


@pytest.mark.parametrize(
    ("scheduler", "workers", "told"),
    [
        ("", _VERSION.format("return '0.0.1'"), r"tcp://.* has hpabatch 0\.0\.1, this command has"),
        (
            _NONE,
            "",
            r"tcp://.*, or its scheduler: expected hpabatch of .* version, got none; install",
        ),
    ],
)
def test_other_packages_are_refused(
    tmp_path: Path, scheduler: str, workers: str, told: str
) -> None:
    place = tmp_path / "dask"
    place.mkdir()
    for name, code in (("s", scheduler), ("w", workers)):
        (place / name).mkdir()
        (place / name / "sitecustomize.py").write_text(code)
    cluster = Cluster(place, 0, env={"PYTHONPATH": str(place / "s")})
    cluster.env = {"PYTHONPATH": str(place / "w")}
    cluster.add_worker()
    cluster.wait_for(1)
    try:
        with pytest.raises(UsageError, match=told):
            run(tmp_path / "job", SLOW, on(cluster))
    finally:
        cluster.close()


def test_certificates_let_the_command_in(tmp_path: Path) -> None:
    ours = write_certificates(tmp_path / "ours")
    (tmp_path / "dask").mkdir()
    cluster = Cluster(tmp_path / "dask", 1, options=options(ours), protocol="tls")
    try:
        spread = on(cluster, scheduler_tls=str(ours))
        assert run(tmp_path / "job", {"count": 3}, spread) == expected(3)
    finally:
        cluster.close()


def test_a_scheduler_without_workers_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(dask_workers, "NO_WORKER_S", 4.0)
    monkeypatch.setattr(dask_workers, "WARN_EVERY_S", 3.0)
    (tmp_path / "dask").mkdir()
    cluster = Cluster(tmp_path / "dask", 0)
    try:
        with pytest.raises(
            UnfinishedError, match=r"the scheduler has had no worker for 4 s; start som"
        ):
            run(tmp_path / "job", SLOW, on(cluster))
    finally:
        cluster.close()
    (told,) = caplog.messages
    assert re.fullmatch(r"the scheduler has no worker: waiting for one, [34] s of 4 s", told)


@pytest.mark.parametrize(
    ("spread", "told"),
    [
        (
            Spread(scheduler="tcp://10.0.0.1:8786"),
            r"can run any code on its workers and in this command; use tls://",
        ),
        (Spread(scheduler="tls://dask:8786"), r"expected --scheduler-tls FOLDER with ca\.crt"),
    ],
)
def test_an_address_that_is_none_or_unsafe_is_refused(
    tmp_path: Path, spread: Spread, told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        run(tmp_path / "job", SLOW, spread)


def test_a_scheduler_that_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_workers, "_CONNECT_S", 1)
    spread = Spread(scheduler="tcp://dask.invalid:8786", scheduler_plain=True)
    with pytest.raises(UnfinishedError, match=r"tcp://dask\.invalid:8786 does not answer as a D"):
        run(tmp_path / "job", SLOW, spread)


def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"install hpabatch\[dask\], or use --workers"):
        run(tmp_path / "job", SLOW, Spread(scheduler="tcp://127.0.0.1:8786"))
    assert run(tmp_path / "job", {"count": 3}, Spread(workers=1)) == expected(3)
