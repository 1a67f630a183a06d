"""Imports into the same store: what changed is done again, and HPAs follow each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hpabatch.errors import HistoryError, RefusedError, UnfinishedError, UsageError
from hpabatch.history.columns import TIME
from hpabatch.history.store.append import open_writer
from hpabatch.history.store.catalog import LogEntry
from hpabatch.importers.common.work import locked, work_folder
from tests.importers.tables import (
    BEGIN_S,
    POD_MAP,
    WORKLOAD_MAP,
    import_table,
    merged,
    read_tables,
    run_import,
    write_csv,
    write_map,
)

HEAD = "ts,app,pod,cpu,mem\n"
DAY_S = 86_400


def rows(day: int = 0, count: int = 3) -> str:
    return HEAD + "".join(
        f"{BEGIN_S + day * DAY_S + 60 * k},web,web-1,0.1,1000\n" for k in range(count)
    )


def template(most: int) -> dict[str, Any]:
    return merged(POD_MAP, {"hpas": {"template": {"min": 1, "max": most, "cpu": "50%"}}})


def test_specs_of_replaced_rows_do_not_remain(tmp_path: Path) -> None:
    """Of a later day and of an earlier one the store has specs of its own."""
    for day in (1, 0, 2):
        run_import(tmp_path, template(10 + day), rows(day), replace=True)
    _, tables = run_import(tmp_path, template(30), rows(1), replace=True)
    hpas = tables["hpas"].sort("valid_from")
    most = hpas.select(pl.col("spec").str.json_path_match("$.maxReplicas")).to_series().to_list()
    assert most == ["10", "30", "30"]
    assert hpas["valid_to"].to_list() == [*hpas["valid_from"][1:], None]


@pytest.mark.parametrize("level", ["pod", "workload"])
def test_two_kinds_of_one_name_are_refused_before_writing(tmp_path: Path, level: str) -> None:
    pods = level == "pod"
    said = merged(POD_MAP if pods else WORKLOAD_MAP, {"columns": {"kind": "kind"}})
    frame = pl.DataFrame(
        {
            "ts": [BEGIN_S, BEGIN_S],
            "app": ["web", "web"],
            "kind": ["Deployment", "StatefulSet"],
            "pod": ["w1", "w2"],
            "size": [2, 7],
            "cpu": [0.1, 0.1],
            "mem": [1, 1],
        }
    )
    with pytest.raises(RefusedError, match="shop has Deployment/web and StatefulSet/web, and"):
        run_import(tmp_path, said, frame)
    assert not list((tmp_path / "history").rglob("*.parquet"))


def test_rows_before_the_first_replicas_are_counted(tmp_path: Path) -> None:
    data = "ts,app,size,cpu\n" + "".join(
        f"{BEGIN_S + 60 * k},{app},{size if k == 2 else ''},100\n"
        for k in range(4)
        for app, size in (("web", "2"), ("api", ""))
    )
    result, _ = run_import(tmp_path, WORKLOAD_MAP, data)
    reason = "no replicas, nor did an earlier row of the workload say any"
    assert result.dropped == {reason: 6}
    with pytest.raises(RefusedError, match="none of 8 rows has a number of replicas"):
        run_import(tmp_path / "history", WORKLOAD_MAP, data.replace(",2,", ",,"))


def test_a_pods_metric_that_its_containers_contradict_is_told(tmp_path: Path) -> None:
    said = merged(POD_MAP, {"columns": {"metrics": {"rps": "rps"}, "container": "c"}})
    frame = pl.DataFrame(
        {
            "ts": [BEGIN_S] * 2 + [BEGIN_S + 60] * 2 + [BEGIN_S + 120] * 2,
            "app": ["web"] * 6, "pod": ["web-1"] * 6, "c": ["b", "a"] * 3,
            "cpu": [0.1] * 6, "mem": [1 << 20] * 6,
            "rps": [10, 30, 20, 20, 5, None],
        }
    )  # fmt: skip
    result, tables = run_import(tmp_path, said, frame)
    told = "1 value: rows of one time and pod (or namespace) say different values of a metric"
    assert result.warnings == (f"{told}: the last one counts",)
    # The last one in the order of the containers' names, at any grouping.
    assert tables["pod_custom_metrics"].sort("ts")["value_milli"].to_list() == [
        10_000,
        20_000,
        5000,
    ]


def test_two_equal_imports_at_once_are_refused(tmp_path: Path) -> None:
    source, path = write_csv(tmp_path, rows()), write_map(tmp_path, POD_MAP)
    seen: list[str] = []

    def again(message: str, share: float) -> None:
        if seen:
            return
        with pytest.raises(UnfinishedError, match="the same import is running already") as found:
            import_table([source], path, tmp_path / "h")
        seen.append(str(found.value))

    import_table([source], path, tmp_path / "h", progress=again)
    assert seen
    assert not list(tmp_path.glob(".h.import-*"))
    assert read_tables(tmp_path / "h")["pod_metrics"].height == 3


@pytest.mark.parametrize(("before", "written"), [(False, False), (True, False), (False, True)])
def test_what_is_refused_leaves_nothing_unless_it_is_needed(
    tmp_path: Path, before: bool, written: bool
) -> None:
    folder, store = tmp_path / "new" / "work", open_writer(tmp_path / "store")
    if before:  # another run's, which was killed
        folder.mkdir(parents=True, mode=0o700)
        (folder / "rows").touch()

    def refuse() -> None:
        with locked(folder, store):
            (folder / "more").touch()
            if written:
                store.commit(LogEntry())
            raise RefusedError("no")

    with pytest.raises(RefusedError, match="no"):
        refuse()
    assert folder.exists() == (tmp_path / "new").exists() == (before or written)
    assert not folder.exists() or (folder / "more").exists()


def test_a_full_or_absent_work_folder_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, path = write_csv(tmp_path, rows()), write_map(tmp_path, POD_MAP)
    with pytest.raises(UsageError, match=r"/proc/nope.* cannot be used: .*another with --work"):
        import_table([source], path, tmp_path / "h", work=Path("/proc/nope"))
    with pytest.raises(UsageError, match="/ is no place for a history"):
        work_folder("/", "0" * 64)

    def full(self: pl.DataFrame, *given: Any, **named: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(UsageError, match="No space left on device; make room"):
        import_table([source], path, None)


def test_a_store_with_overlapping_hpas_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    store = open_writer(tmp_path / "history")
    with store.part("broken") as part:
        row = {"cluster": "c", "namespace": "n", "name": "a", "uid": "a", "spec": "{}"}
        for since in (BEGIN_S * 1000, BEGIN_S * 1000 + 1):
            frame = pl.DataFrame([{**row, "valid_from": since, "valid_to": None}])
            part.add("hpas", frame.cast(dict.fromkeys(("valid_from", "valid_to"), TIME)))
    with pytest.raises(HistoryError, match="begins before this one ends"):
        run_import(tmp_path, template(5), rows())
    assert store.refresh().parts == {"broken"}
