"""Imports onto rows of others: refused, or in their place; appended where nothing is in the way."""

from __future__ import annotations

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
    count = 120 if level == "pod" else 2 * (60 * 2 - 1)  # (a pod that is new has none)
    assert f"{count} samples of shop/a, shop/b from 2026-09-21T" in told
    assert "nothing is written" in told
    assert told.endswith("replace them with --replace")
    assert state(tmp_path / "history") == before
    # The same again is there already; what is later, or of others, is appended.
    again = load(tmp_path, usage([0, 1], level=level), level=level)
    assert "imported with this map before" in again.warnings[0]
    assert state(tmp_path / "history") == before
    load(tmp_path, usage([2], level=level), level=level)
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


def test_hpas_of_several_replaced_imports_do_not_remain(tmp_path: Path) -> None:
    """Of the later hours the store has a spec of its own, as they came first."""
    for hour in (1, 0, 3):
        load(tmp_path, usage([hour]))
    wider = merged(POD_MAP, {"hpas": {"template": {"min": 1, "max": 20, "cpu": "50%"}}})
    source = write_map(tmp_path, wider)
    csv = write_csv(tmp_path, usage([0, 1, 2], cpu=0.4))
    import_table([csv], source, tmp_path / "history", replace=True)
    hpas = read_tables(tmp_path / "history")["hpas"].sort("name", "valid_from")
    most = hpas.select("name", most=pl.col("spec").str.json_path_match("$.maxReplicas"))
    assert most.rows() == [(name, "20") for name in "ab" for _ in range(2)]


def test_hours_between_others_are_replaced_alone(tmp_path: Path) -> None:
    for hour in range(3):
        load(tmp_path, usage([hour]))
    load(tmp_path, usage([1], apps="a", cpu=0.4), replace=True)
    load(tmp_path / "alone", usage([0]))
    load(tmp_path / "alone", usage([1], apps="b"))
    load(tmp_path / "alone", usage([1], apps="a", cpu=0.4))
    load(tmp_path / "alone", usage([2]))
    one, other = contents(tmp_path / "history"), contents(tmp_path / "alone" / "history")
    for name in ("pod_metrics", "provenance", "hpas"):
        assert one[name].equals(other[name]), name
    # Each pod has its samples within its life.
    pods = one["pods"].select("uid", "created", "gone")
    lives = one["pod_metrics"].join(pods, on="uid", how="left")
    assert lives["created"].null_count() == 0
    assert (lives["ts"] + AFTER >= lives["created"]).all()
    assert (lives["ts"] <= lives["gone"].fill_null(lives["ts"].max())).all()


def test_pods_that_go_on_cannot_be_cut_out(tmp_path: Path) -> None:
    load(tmp_path, usage([0, 1, 2]).replace("a-1", "a-0").replace("a-2", "a-0"))
    before = contents(tmp_path / "history")
    commits = sorted((tmp_path / "history" / "_log").iterdir())
    with pytest.raises(RefusedError, match=r"shop/a has pods .* there before these rows and after"):
        load(tmp_path, usage([1], cpu=0.4), replace=True)
    assert sorted((tmp_path / "history" / "_log").iterdir()) == commits
    after = contents(tmp_path / "history")
    assert all(after[name].equals(before[name]) for name in before)


def test_begin_and_end_are_cut(tmp_path: Path) -> None:
    text = usage([0, 1, 2]).replace("a-1", "a-0").replace("a-2", "a-0")
    load(tmp_path, text)
    load(tmp_path, usage([2], cpu=0.4), replace=True)
    (row,) = read_tables(tmp_path / "history")["pods"].filter(pl.col("pod") == "a-0").to_dicts()
    assert row["gone"].timestamp() == BEGIN_S + 2 * HOUR_S
    load(tmp_path, usage([0], cpu=0.5), replace=True)
    pods = read_tables(tmp_path / "history")["pods"].filter(pl.col("target") == "a")
    assert pods.height == 2  # (a-0 of the new first hour has the name, and so the uid, of the old)
    samples = read_tables(tmp_path / "history")["pod_metrics"]
    assert samples.group_by("cpu_milli").len().sort("cpu_milli").rows() == [
        (100, 120), (400, 120), (500, 120)
    ]  # fmt: skip


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


def append(folder: Path, text: str, level: str = "pod") -> None:
    """Import a table whose first and last pods had run before and go on."""
    content = merged(
        PODS if level == "pod" else WORKLOADS, {"lives": {"edge": "300s", "ran_before": "600s"}}
    )
    import_table(
        [write_csv(folder, text)], write_map(folder, content), folder / "history", group_rows=50
    )


def sizes_at(out: Path, target: str, minutes: Sequence[int]) -> list[int]:
    scales = read_tables(out)["scales"].filter(pl.col("target") == target).sort("ts")
    told = scales.select(pl.col("ts").dt.epoch("ms") - BEGIN_S * 1000, "spec_replicas").rows()
    return [[size for ms, size in told if ms <= minute * 60_000][-1] for minute in minutes]


@pytest.mark.parametrize(("level", "order"), [("pod", (2, 0, 1)), ("workload", (1, 2, 0))])
def test_appended_hours_have_the_sizes_and_pods_of_their_rows(
    tmp_path: Path, level: str, order: Sequence[int]
) -> None:
    """What a table before or after it told of a time does not count where a table has rows."""
    for hour in order:
        append(tmp_path, usage([hour], level=level).replace("a-1", "a-0"), level)
    wanted = [1] * 180 if level == "pod" else [1 + minute // 60 for minute in range(180)]
    for target in "ab":
        assert sizes_at(tmp_path / "history", target, range(180)) == wanted, target
    tables = read_tables(tmp_path / "history")
    lives = tables["pods"].with_columns(pl.col("created", "gone").dt.epoch("s") - BEGIN_S)
    for at_s in range(300, 3 * HOUR_S, 1500):
        there = lives.filter(
            (pl.col("created") <= at_s) & (pl.col("gone").is_null() | (pl.col("gone") > at_s))
        )
        assert sorted(there["target"]) == sorted("ab" * wanted[at_s // 60]), at_s
    samples = tables["pod_metrics"]
    both = samples.join(tables["pods"].select("uid", "created", "gone"), on="uid")
    assert both.height == samples.height
    assert (both["ts"] + AFTER >= both["created"]).all()
    assert (both["ts"] <= both["gone"].fill_null(both["ts"].max())).all()


def test_a_pod_of_all_hours_lives_on_in_any_order(tmp_path: Path) -> None:
    """One that is in none of the later tables ends, even if the store left it open."""
    for hour in (1, 0, 2):
        text = usage([hour]).replace("a-1", "a-0").replace("a-2", "a-0").replace("b-1", "b-0")
        append(tmp_path, text)
    pods = read_tables(tmp_path / "history")["pods"].sort("pod")
    assert pods["pod"].to_list() == ["a-0", "b-0", "b-2"]
    gone = [None if at is None else at.timestamp() - BEGIN_S for at in pods["gone"]]
    assert gone == [None, pytest.approx(2 * HOUR_S, abs=60), None]
    assert sizes_at(tmp_path / "history", "a", range(180)) == [1] * 180


def test_a_killed_import_goes_on_without_its_work_folder(tmp_path: Path) -> None:
    """Calls: the claim, three groups, the end."""
    texts = {
        hour: usage([hour], apps="ab").replace("a-1", "a-0").replace("a-2", "a-0")
        for hour in range(3)
    }
    texts[1] += usage([1], apps="a").replace("ts,app,pod,cpu,mem\n", "").replace("a-1", "a-9")
    base = tmp_path / "base"
    base.mkdir()
    for hour in (0, 2):
        append(base, texts[hour])
    whole = shutil.copytree(base, tmp_path / "whole")
    append(whole, texts[1])
    for at in (3, 5):
        killed = shutil.copytree(base, tmp_path / str(at))
        with at_part(at, kill), pytest.raises(KilledError):
            append(killed, texts[1])
        (work,) = killed.glob(".history.import-*")
        shutil.rmtree(work)
        append(killed, texts[1])
        assert_same(killed / "history", whole / "history")
    pods = read_tables(whole / "history")["pods"].sort("pod")
    assert pods["pod"].to_list() == ["a-0", "a-9", "b-0", "b-1", "b-2"]
    assert pods.filter(pod="a-0").select("created", "gone").null_count().row(0) == (0, 1)


def test_sizes_of_a_table_count_where_an_earlier_one_ended(tmp_path: Path) -> None:
    """Its pods seemed to be gone a minute after its last row, as others had rows then."""
    more = usage([0], apps="a").replace("a-0", "a-1") + usage([1], apps="b")
    append(tmp_path, usage([0]) + more.replace("ts,app,pod,cpu,mem\n", ""))
    minutes = [
        f"{BEGIN_S + HOUR_S - 30 + k * 60},a,a-{pod},0.1,1000" for k in range(59) for pod in "78"
    ]
    append(tmp_path, "ts,app,pod,cpu,mem\n" + "\n".join(minutes) + "\n")
    assert sizes_at(tmp_path / "history", "a", range(60, 118)) == [2] * 58


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
