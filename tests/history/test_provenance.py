"""Provenance of a history: summed up, named per HPA, and continued over imports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.history.info import describe_history
from hpabatch.history.provenance import (
    BEHAVIOR,
    METRICS,
    SUMMARY,
    Methods,
    behavior_methods,
    continued,
    summarise,
    unrecorded,
)
from hpabatch.history.reader import open_history
from hpabatch.history.schema import empty_frame
from hpabatch.history.store.append import open_writer
from hpabatch.history.store.writer import write_table
from hpabatch.report.forms import json_text, table_text
from hpabatch.report.history import InfoResult
from tests.history.frames import minute, write_all

Row = dict[str, Any]
HPAS = [("demo", "shop", "cart"), ("demo", "shop", "web"), ("demo", "batch", "jobs")]


def row(name: str, method: str, subject: str = BEHAVIOR, **changes: Any) -> Row:
    """Return a row; `name` is namespace/name, namespace/ or empty."""
    namespace, _, name = name.partition("/")
    return {
        "cluster": "demo", "namespace": namespace, "name": name, "subject": subject,
        "valid_from": minute(0), "valid_to": None, "method": method, "detail": None,
    } | changes  # fmt: skip


def table(*rows: Row) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=empty_frame("provenance").schema)


def test_the_narrowest_rows_count() -> None:
    rows = table(
        row("", "absent"),
        row("shop/", "manifest"),
        row("shop/web", "events"),
        row("shop/web", "absent", valid_from=minute(1)),
        row("shop/cart", "status", "hpas.spec.metrics"),
    )
    methods = Methods(rows, BEHAVIOR)
    assert methods.of("demo", "shop", "web") == {"events", "absent"}
    assert methods.of("demo", "shop", "cart") == {"manifest"}
    assert methods.of("demo", "batch", "jobs") == {"absent"}
    assert methods.of("other", "shop", "web") == frozenset()
    assert methods.named == [("demo", "shop", "web")]
    found = unrecorded(rows, HPAS)
    assert found == {BEHAVIOR: [HPAS[2], HPAS[1]], METRICS: []}


def test_hpas_that_were_left_out_are_those_that_the_history_does_not_hold() -> None:
    rows = table(
        row("shop/cart", "absent", METRICS),
        row("shop/gone", "absent", METRICS),
        row("shop/known", "manifest", METRICS),
        row("", "absent", METRICS),
    )
    assert unrecorded(rows, HPAS) == {BEHAVIOR: [], METRICS: [("demo", "shop", "gone")]}


def test_the_summary_has_a_row_per_subject_and_method() -> None:
    rows = table(
        row("", "counter", "pod_metrics.cpu_milli", detail="raw"),
        row("shop/", "rate", "pod_metrics.cpu_milli", valid_to=minute(5), detail="one"),
        row("batch/", "rate", "pod_metrics.cpu_milli", valid_to=minute(7), detail="two"),
        row("shop/cart", "absent", valid_to=minute(1)),
        row("shop/cart", "absent", valid_from=minute(2)),
        row("shop/web", "absent", valid_from=minute(-3)),
    )
    found = summarise(rows)
    assert found.schema == SUMMARY
    assert found.drop("cluster").rows() == [
        (BEHAVIOR, "absent", "names", 2, minute(-3), None, None),
        ("pod_metrics.cpu_milli", "counter", "all", 0, minute(0), None, "raw"),
        ("pod_metrics.cpu_milli", "rate", "namespaces", 0, minute(0), minute(7), None),
    ]
    assert summarise(table()).equals(pl.DataFrame(schema=SUMMARY))


def test_info_names_the_hpas_without_behavior(tmp_path: Path) -> None:
    folder = write_all(tmp_path)
    many = [row(f"shop/gone{k:02}", "absent", METRICS) for k in range(12)]
    write_table(
        table(row("shop/cart", "absent"), *many), folder / "provenance.parquet", "provenance"
    )
    info = describe_history(open_history(folder))
    assert info.remarks[0].startswith(
        "behavior not recorded (Kubernetes' defaults assumed) for 1 HPA: shop/cart; import again"
    )
    assert "leaves out 12 HPAs: shop/gone00, shop/gone01, " in info.remarks[1]
    assert "shop/gone09 and 2 more; " in info.remarks[1]
    text = table_text(InfoResult(info))
    heads = next(line for line in text.splitlines() if line.startswith("SUBJECT")).split()
    assert heads == ["SUBJECT", "METHOD", "OF", "FROM", "TO", "DETAIL"]
    assert text.endswith(info.remarks[1] + "\n")
    assert '"hpas.spec.behavior": [\n      {\n        "cluster": "demo"' in json_text(
        InfoResult(info)
    )


def test_an_illegible_table_is_a_problem_among_others(tmp_path: Path) -> None:
    with open_writer(tmp_path).part() as part:
        part.add("provenance", table(row("shop/cart", "absent")))
    next((tmp_path / "provenance").rglob("*.parquet")).unlink()
    info = describe_history(open_history(tmp_path))
    assert "is missing, though the log names it" in info.problems[0]
    assert "provenance cannot be read: " in info.problems[1]
    assert info.provenance.is_empty()


# -- carried on


def test_what_goes_on_as_it_was_has_one_row() -> None:
    stored = table(row("shop/cart", "absent"), row("shop/web", "manifest", valid_to=minute(10)))
    new = [
        row("shop/cart", "absent", valid_from=minute(10)),
        row("shop/web", "manifest", valid_from=minute(10)),
        row("batch/jobs", "absent", valid_from=minute(10)),
    ]
    found = continued(table(*new), stored)
    assert sorted(found.rows(named=True), key=lambda one: one["name"]) == [
        row("batch/jobs", "absent", valid_from=minute(10)),
        row("shop/web", "manifest"),
    ]
    assert continued(table(*new), None).equals(table(*new))


METHODS = st.sampled_from(["absent", "manifest"])


@given(st.lists(METHODS, min_size=1, max_size=8))
def test_days_one_by_one_say_what_all_at_once_says(days: list[str]) -> None:
    stored = table()
    for day, method in enumerate(days):
        added = continued(table(row("shop/cart", method, valid_from=minute(day))), stored)
        stored = pl.concat([stored, added])
    kept = [m for k, m in enumerate(days) if k == 0 or days[k - 1] != m]
    assert stored["method"].to_list() == kept


def test_a_store_knows_how_behaviors_are_known(tmp_path: Path) -> None:
    with open_writer(tmp_path).part("first") as part:
        part.add("provenance", table(row("shop/cart", "absent")).drop("detail"))
    with open_writer(tmp_path).part("again") as part:
        part.add("provenance", table(row("shop/cart", "events")))
    assert behavior_methods(open_history(tmp_path)).of("demo", "shop", "cart") == {"events"}
