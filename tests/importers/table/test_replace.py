"""Imports onto rows of others: refused, or in their place; added where nothing is in the way."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hpabatch.errors import HistoryError, RefusedError, UsageError
from hpabatch.history.columns import AFTER_MS
from hpabatch.history.reader import open_history
from hpabatch.history.store.append import open_writer
from hpabatch.history.store.upkeep import compact
from hpabatch.importers.common.work import Sink
from hpabatch.importers.table.run import ImportResult
from tests.importers.tables import (
    BEGIN_S,
    POD_MAP,
    WORKLOAD_MAP,
    import_table,
    merged,
    read_tables,
    write_csv,
    write_map,
)

HOUR_S = 3600
AFTER = timedelta(milliseconds=AFTER_MS)
HPAS = {"hpas": {"template": {"min": 1, "max": 9, "cpu": "50%"}}}
PODS, WORKLOADS = merged(POD_MAP, HPAS), merged(WORKLOAD_MAP, HPAS)


class KilledError(BaseException):
    """An end that nothing catches."""


@contextmanager
def at_part(number: int, do: Callable[[], object]) -> Iterator[list[int]]:
    """Do something before an import's part of that number; yield a list with an item a part."""
    real, calls = Sink.part, list[int]()

    def part(*arguments: Any, **more: Any) -> object:
        calls.append(1)
        if len(calls) == number:
            do()
        return real(*arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sink, "part", part)
        yield calls


def kill() -> None:
    raise KilledError


def usage(hours: Sequence[int], apps: str = "ab", cpu: float = 0.1, level: str = "pod") -> str:
    """Return a row a minute of some hours."""
    lines = ["ts,app,pod,cpu,mem" if level == "pod" else "ts,app,size,cpu"]
    for hour in hours:
        for minute in range(60):
            ts = BEGIN_S + hour * HOUR_S + minute * 60
            if level == "pod":
                lines += [f"{ts},{app},{app}-{hour},{cpu},1000" for app in apps]
            else:
                lines += [f"{ts},{app},{1 + hour % 3},{cpu * 1000}" for app in apps]
    return "\n".join(lines) + "\n"


def load(
    folder: Path, text: str, *, level: str = "pod", out: str | None = None, replace: bool = False,
    rows: int = 500,
) -> ImportResult:  # fmt: skip
    folder.mkdir(exist_ok=True)
    place = folder / "history" if out is None else out
    source = write_map(folder, PODS if level == "pod" else WORKLOADS)
    return import_table([write_csv(folder, text)], source, place, replace=replace, group_rows=rows)


def contents(out: Path) -> dict[str, pl.DataFrame]:
    """Return the tables of a store; of the provenance without the imports' names."""
    tables = read_tables(out)
    return tables | {"provenance": tables["provenance"].drop("detail")}


def assert_same(one: Path, other: Path) -> None:
    left, right = contents(one), contents(other)
    assert sorted(left) == sorted(right)
    for name, frame in left.items():
        assert frame.equals(right[name]), name


def state(out: Path) -> dict[str, bytes]:
    return {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}


@pytest.mark.parametrize("level", ["pod", "workload"])
def test_other_content_is_refused_and_changes_nothing(tmp_path: Path, level: str) -> None:
    load(tmp_path, usage([0, 1], level=level), level=level)
    before = state(tmp_path / "history")
    with pytest.raises(RefusedError) as refused:
        load(tmp_path, usage([1, 2], cpu=0.3, level=level), level=level)
    assert refused.value.exit_code == 3
    told = str(refused.value)
    assert re.search(r"\d+ samples of shop/a, shop/b from 2026-09-21T", told)
    assert "nothing is written" in told
    assert told.endswith("replace them with --replace")
    assert state(tmp_path / "history") == before
    # The same again is there already; what is of others is added.
    again = load(tmp_path, usage([0, 1], level=level), level=level)
    assert "imported with this map before" in again.warnings[0]
    assert state(tmp_path / "history") == before
    with pytest.raises(RefusedError, match="--replace"):
        load(tmp_path, usage([7], level=level), level=level)
    load(tmp_path, usage([0], apps="c", level=level), level=level)


def test_what_replaces_all_is_as_if_it_were_alone(tmp_path: Path) -> None:
    level = "workload"
    load(tmp_path, usage([0, 1], level=level), level=level)
    compact(tmp_path / "history")
    new = usage([0, 1], cpu=0.4, level=level).replace("a-1", "a-7")
    load(tmp_path, new, level=level, replace=True)
    load(tmp_path / "alone", new, level=level)
    assert_same(tmp_path / "history", tmp_path / "alone" / "history")
    # What was replaced can be imported again.
    with pytest.raises(RefusedError, match="--replace"):
        load(tmp_path, usage([0, 1], level=level), level=level)
    load(tmp_path, usage([0, 1], level=level), level=level, replace=True)
    load(tmp_path / "old", usage([0, 1], level=level), level=level)
    assert_same(tmp_path / "history", tmp_path / "old" / "history")


@pytest.mark.parametrize("at", [1, 5])
def test_a_replacement_killed_in_the_middle_goes_on(tmp_path: Path, at: int) -> None:
    load(tmp_path, usage([0, 1]))
    new = usage([0, 1], cpu=0.4)
    with at_part(at, kill), pytest.raises(KilledError):
        load(tmp_path, new, replace=True, rows=50)
    if at > 1:
        # What is half there is nobody else's.
        with pytest.raises(RefusedError, match="--replace"):
            load(tmp_path, usage([0, 1], cpu=0.7))
    load(tmp_path, new, replace=True, rows=50)
    load(tmp_path / "alone", new)
    assert_same(tmp_path / "history", tmp_path / "alone" / "history")


def test_an_import_that_is_replaced_while_it_runs_ends(tmp_path: Path) -> None:
    """Calls: the claim, four groups, the end."""
    out, new = str(tmp_path / "store"), usage([0, 1], cpu=0.4)
    replacing = partial(load, tmp_path / "new", new, out=out, replace=True, rows=50)
    with (
        at_part(6, replacing) as calls,
        pytest.raises(RefusedError, match="took the place of this one"),
    ):
        load(tmp_path / "old", usage([0, 1]), out=out, rows=50)
    assert len(calls) > 6
    load(tmp_path / "alone", new)
    assert_same(Path(out), tmp_path / "alone" / "history")


def test_of_several_at_once_one_is_written(tmp_path: Path) -> None:
    out = str(tmp_path / "store")
    open_writer(out)
    done: list[object] = []

    def run(cpu: float) -> None:
        try:
            done.append(load(tmp_path / str(cpu), usage([0, 1], cpu=cpu), out=out, rows=50))
        except RefusedError as error:
            done.append(error)

    threads = [threading.Thread(target=run, args=(cpu,)) for cpu in (0.1, 0.2, 0.3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(item, ImportResult) for item in done) == 1, done
    assert sum(isinstance(item, RefusedError) for item in done) == 2, done
    samples = open_history(out).read("pod_metrics")
    assert samples["cpu_milli"].n_unique() == 1
    assert samples.height == 240


def test_a_workload_at_zero_is_in_the_way_too(tmp_path: Path) -> None:
    rows = "".join(f"{BEGIN_S + k * 60},a,0,0\n" for k in range(10))
    load(tmp_path, "ts,app,size,cpu\n" + rows, level="workload")
    with pytest.raises(RefusedError, match=r"an import of shop/a from"):
        load(tmp_path, "ts,app,size,cpu\n" + rows.replace(",0,0", ",2,9"), level="workload")


def test_a_killed_import_goes_on_without_its_work_folder(tmp_path: Path) -> None:
    """Calls: the claim, four groups, the end."""
    text = usage([0, 1])
    load(tmp_path / "whole", text, rows=50)
    for at in (3, 6):
        folder = tmp_path / str(at)
        with at_part(at, kill), pytest.raises(KilledError):
            load(folder, text, rows=50)
        (work,) = folder.glob(".history.import-*")
        shutil.rmtree(work)
        load(folder, text, rows=50)
        assert_same(folder / "history", tmp_path / "whole" / "history")


def test_what_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder" / "pods"
    with pytest.raises(RefusedError, match="is not a number"):
        load(tmp_path, usage([0]).replace(",0.1,", ",x,"), out=str(out))
    assert not (tmp_path / "new").exists()
    load(tmp_path, usage([0]), out=str(out))
    with pytest.raises(RefusedError, match="--replace"):
        load(tmp_path, usage([0], cpu=0.7), out=str(out))
    assert [path.name for path in out.parent.iterdir()] == ["pods"]
    # A history with a table's name is a history: nobody is told to remove it, or to migrate it.
    with pytest.raises(HistoryError, match=f"is a history itself; name {out}, or rename it"):
        open_history(out.parent)
    with pytest.raises(UsageError, match=r"holds other files \(pods/.*name a new or an empty"):
        load(tmp_path, usage([0]), out=str(out.parent))
