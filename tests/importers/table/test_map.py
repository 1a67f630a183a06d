"""Map files: what is understood, what is refused and how that is said, what is assumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hpabatch.errors import HistoryError, UsageError
from hpabatch.importers.table.decode import read_map
from tests.importers.mutations import says
from tests.importers.tables import BEGIN_S, POD_MAP, WORKLOAD_MAP, merged, run_import, write_map

COLUMNS = POD_MAP["columns"]

BAD_MAPS: list[tuple[dict[str, Any] | str, str]] = [
    ("", "expected one document, got 0"),
    ("level: [", "not YAML"),
    ("- a", "expected a mapping, got a list"),
    ("level: pod\nlevel: pod\n", "expected the key 'level' once, got it twice"),
    (
        {"columns": {}},
        "level: expected pod (a row per pod) or workload (a row per workload), got nothin",
    ),
    ({"colums": {}}, "level: expected pod (a row per pod) or workload (a row per workload), got"),
    (
        {"level": "pod"},
        "columns: expected a mapping of at least time, namespace, workload and cpu, got n",
    ),
    (
        merged(POD_MAP, {"columns": {"time": None}}),
        "columns.time: expected the column with the time of the sample, got nothing",
    ),
    (
        merged(POD_MAP, {"columns": {"workload": None}}),
        "columns.workload: expected the column with the name of the workload (or --objects FILE, "
        "which says whose pod it is), got nothing",
    ),
    (
        merged(POD_MAP, {"columns": {"pod": None}}),
        "columns.pod: expected the column with the name of the pod, got nothing",
    ),
    (
        merged(POD_MAP, {"columns": {"cpu": None, "memory": None}}),
        "columns.cpu: expected cpu, memory or metrics, got nothing",
    ),
    (
        merged(POD_MAP, {"columns": {"cpu": {"unit": "core"}}}),
        "columns.cpu.unit: expected one of cores, millicores, microcores, nanocores, cpu_seconds",
    ),
    (
        merged(POD_MAP, {"columns": {"cpu": 5}}),
        "columns.cpu: expected a column, or a mapping with column, sql or value, got 5",
    ),
    (merged(POD_MAP, {"columns": {"cpu": False}}), "put the name in quotes"),
    (
        merged(POD_MAP, {"columns": {"workload": {"column": "pod", "pattern": "("}}}),
        "columns.workload.pattern: '(': expected a regular expression, got unclosed group",
    ),
    (
        merged(POD_MAP, {"columns": {"workload": {"column": "pod", "pattern": "(?:" * 999}}}),
        "expected a pattern of at most 1000 characters, got 2,997",
    ),
    (
        merged(POD_MAP, {"columns": {"workload": {"column": "pod", "pattern": "a+"}}}),
        "columns.workload.pattern: expected a group in (brackets), got none in 'a+'",
    ),
    (
        merged(POD_MAP, {"columns": {"time": {"zone": "Europe/Berln", "unit": None}}}),
        "did you mean Europe/Berlin?",
    ),
    (
        merged(POD_MAP, {"columns": {"time": {"format": "%Y"}}}),
        "columns.time.format: expected no format of times in s; only text has one",
    ),
    (
        merged(POD_MAP, {"where": "cpu >"}),
        "where: 'cpu >' is not an expression: expected a value, got the end at character 6",
    ),
    (
        merged(POD_MAP, {"limits": {"cpu": "0.5 cores"}}),
        "limits.cpu: expected a quantity such as 500m or 1Gi, got '0.5 cores': quantities",
    ),
    (merged(POD_MAP, {"limits": {"cpu": "-1"}}), "limits.cpu: expected 0 or more, got '-1'"),
    (merged(POD_MAP, {"limits": {"cpu": 1e30}}), "limits.cpu: expected at most 4.6e+15, got 1e+30"),
    (
        merged(POD_MAP, {"limits": {"cpu": {"of_limit": 0.5}}}),
        "limits.cpu.of_limit: expected an amount, got a share of the limit itself",
    ),
    (
        merged(POD_MAP, {"limits": {"cpu": {}}}),
        "limits.cpu: expected one of value, default, column, sql, workloads, file, got no",
    ),
    (merged(POD_MAP, {"limits": {"cpu": {"file": "no.yaml"}}}), "no.yaml cannot be read"),
    (
        merged(POD_MAP, {"requests": {"memory": {"of_limit": 0.5}}}),
        "requests.memory: expected limits.memory for of_limit, got no such limit",
    ),
    (
        merged(POD_MAP, {"lives": {"grace": "5s"}}),
        "lives.grace: expected one of ready_after, keep, edge, ran_before, before, gap, g",
    ),
    (
        merged(POD_MAP, {"lives": {"ready_after": "5s"}, "columns": {"ready": "r"}}),
        "lives.ready_after: expected one of it and columns.ready",
    ),
    (
        merged(POD_MAP, {"hpas": {}}),
        "hpas: expected template or workloads, got neither",
    ),
    (
        merged(POD_MAP, {"hpas": {"template": {"max": 3}}}),
        "hpas.template.cpu: expected a target such as `cpu: 50%`, or metrics, got nothing",
    ),
    (
        merged(POD_MAP, {"hpas": {"template": {"max": 3, "cpu": 50}}}),
        "hpas.template.cpu: expected 50% or a quantity such as 500m, got 50",
    ),
    (
        merged(POD_MAP, {"hpas": {"template": {"max": 3, "min": 5, "cpu": "50%"}}}),
        "the API server would refuse this HPA: spec.maxReplicas",
    ),
    (
        merged(POD_MAP, {"format": {"separator": ";"}}),
        "format.separator: expected one of comma, semicolon, tab, pipe, space, got ';'",
    ),
    (
        merged(WORKLOAD_MAP, {"columns": {"cpu": {"of": None}}}),
        "columns.cpu.of: expected one of mean, sum, max (of the usage over the pods), got",
    ),
    (
        merged(WORKLOAD_MAP, {"columns": {"replicas": None}}),
        "columns.replicas: expected the column with the number of pods, got nothing",
    ),
    (merged(WORKLOAD_MAP, {"columns": {"replicas": {"value": -1}}}), "a whole number of pods"),
    (
        merged(WORKLOAD_MAP, {"columns": {"pod": "p"}}),
        "columns.pod: expected no pod with level workload",
    ),
    (
        merged(WORKLOAD_MAP, {"columns": {"container": "p"}}),
        "columns.container: expected one container per pod",
    ),
]


MANY_MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"requests": {"cpu": {"colum": "x", "unit": "cores"}}},
        ["requests.cpu.colum: expected one of value, default, column, sql, workloads, file, "
         "of_limit, unit, got 'colum'", "did you mean column?"],
    ),
    (
        {"limits": {"cpu": {"column": "x", "default": 1, "value": "x"}},
         "requests": {"cpu": {"of_limits": 0.5}}},
        ["limits.cpu.default: expected one of column, sql, value, unit, got 'default'",
         "limits.cpu.value: expected", "did you mean of_limit?"],
    ),
    (
        {"columns": {"cpu": {"uint": "s", "value": "x"}, "time": {"unit": "d"}}},
        ["did you mean unit?", "columns.cpu.value: expected", "columns.time.unit: expected one"],
    ),
    (
        {"columns": {"metrics": {"d": {"column": "c", "sql": "d", "object": "Ingress/web",
                                       "selector": "a=b"}}}},
        ["columns.metrics.d: expected exactly one of column, sql and value, got column, sql",
         "columns.metrics.d.object: expected no object of a Pods metric",
         "columns.metrics.d.selector: expected no selector of a Pods metric"],
    ),
    (
        {"colour": 1, "window": 15, "limits": {"cpu": "x"}, "columns": {"tme": "x"},
         "hpas": {"template": {"max": "x", "cpu": 5}}},
        ["colour: expected one of", "window: expected a duration", "limits.cpu: expected",
         "did you mean time?", "hpas.template.max: expected a whole number",
         "hpas.template.cpu: expected 50% or", "there are 6 mistakes"],
    ),
    (
        {"scales": {"from": "replicas"}, "rounding": {"replicas": "up"},
         "requests": {"memory": {"of_limit": 1}}, "hpas": {"template": {"cpu": "50%"}}},
        ["scales.from: expected one of pods, most_common, got 'replicas'",
         "rounding.replicas: expected columns.replicas, got none", "no such limit",
         "hpas.template.max: expected the largest size", "there are 4 mistakes"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "told"), MANY_MISTAKES)
def test_mistakes_are_told_together(
    tmp_path: Path, changes: dict[str, Any], told: list[str]
) -> None:
    with pytest.raises(UsageError) as caught:
        read_map(write_map(tmp_path, merged(POD_MAP, changes)))
    assert [text for text in told if not says(str(caught.value), text)] == []


@pytest.mark.parametrize(("content", "told"), BAD_MAPS)
def test_a_wrong_map_is_a_sentence_with_the_path(
    tmp_path: Path, content: dict[str, Any] | str, told: str
) -> None:
    path = write_map(tmp_path, content)
    with pytest.raises(UsageError) as caught:
        read_map(path)
    assert says(str(caught.value), told)
    assert str(path) in str(caught.value) or "no.yaml" in told


@pytest.mark.parametrize(
    "zone", ["localtime", "posixrules", "Factory", "posix/UTC", "right/UTC", "utc", "x" * 300]
)
def test_zones_that_polars_does_not_know_are_refused(tmp_path: Path, zone: str) -> None:
    path = write_map(tmp_path, merged(POD_MAP, {"columns": {"time": {"zone": zone}}}))
    with pytest.raises(UsageError, match=r"expected a time zone such as UTC .*columns.time.zone"):
        read_map(path)


def test_the_largest_amount_that_fits_is_kept(tmp_path: Path) -> None:
    largest = str(2**62 // 1000)
    table = read_map(write_map(tmp_path, merged(POD_MAP, {"limits": {"memory": largest}})))
    assert table.limits["memory"].constant == 2**62 // 1000 * 1000


def test_texts_that_mean_nothing_are_written_as_the_page_says(tmp_path: Path) -> None:
    said = (tmp_path / "said.yaml", "level: pod\nformat: {missing: [x, '']}\n")
    columns = "columns: {time: t, workload: w, pod: p, cpu: c}\n"
    assert read_map(write_map(tmp_path, said[1] + columns)).format.missing == ("x", "")


def test_what_is_left_open_is_named(tmp_path: Path) -> None:
    table = read_map(write_map(tmp_path, merged(POD_MAP, {"columns": {"cpu": {"unit": None}}})))
    told = " | ".join(table.assumed)
    for text in (
        "columns.cpu is in cores",
        "cluster 'default'",
        "container 'app'",
        "kind 'Deployment'",
        "no `window`",
        "cpu requests are the limits",
        "lives.keep 60s",
        "a pod's life ends in a silence of over 10 min",
        "sizes are the number of pods alive",
        "the history has no HPA",
    ):
        assert text in told
    assert "lives.edge" not in told  # the map says it


def test_a_map_that_says_everything_assumes_nothing(tmp_path: Path) -> None:
    said = {
        "columns": {"cluster": {"value": "c"}, "kind": {"value": "K"}, "container": {"value": "x"}},
        "window": "15s",
        "requests": {"cpu": {"of_limit": 0.5}},
        "lives": {"before": "0s", "ready_after": 0, "keep": "1m", "gap": "never"},
        "scales": {"from": "most_common"},
        "hpas": {"template": {"min": 1, "max": 3, "cpu": "50%", "behavior": {}}},
    }
    table = read_map(write_map(tmp_path, merged(POD_MAP, said)))
    assert table.assumed == ()
    assert table.lives.gap_ms == 1 << 62
    assert table.used_columns() == ["ts", "pod", "app", "cpu", "mem"]


def test_columns_of_sql_are_found_and_the_time_is_not_a_column(tmp_path: Path) -> None:
    sql = "CASE WHEN _time_ms < 5 THEN a ELSE b * 2 END"
    said = {
        "columns": {"cpu": {"column": None, "sql": sql}},
        "where": "zone = 'x' AND _time_ms > 1",
    }
    table = read_map(write_map(tmp_path, merged(POD_MAP, said)))
    assert sorted(table.used_columns()) == ["a", "app", "b", "mem", "pod", "ts", "zone"]


def test_amounts_by_workload_prefer_the_most_exact_key(tmp_path: Path) -> None:
    (tmp_path / "limits.json").write_text('{"cart": "300m", "shop/cart": 1}')
    listed = {"file": "limits.json", "workloads": {"shop/cart/proxy": "50m"}, "default": "10m"}
    table = read_map(write_map(tmp_path, merged(POD_MAP, {"limits": {"cpu": listed}})))
    limit = table.limits["cpu"]
    assert limit.named("shop", "cart", "proxy") == 50
    assert limit.named("shop", "cart", "app") == 1000
    assert limit.named("other", "cart", "app") == 300
    assert limit.named("other", "x", "app") is None
    assert limit.constant == 10


def test_types_are_checked_at_the_first_rows(tmp_path: Path) -> None:
    row = f"ts,app,pod,cpu,mem\n{BEGIN_S},web,web-1,0.5,1000\n"
    said = {"where": "cpu > 0", "columns": {"cpu": {"column": None, "sql": "cpu * 2"}}}
    refused = {
        "where": "where 'cpu > 0': cannot compare a string with a number at character 5",
        "columns": "cpu: sql 'cpu [*] 2': expected a number, got a string",
    }
    for key, told in refused.items():
        with pytest.raises(HistoryError, match=told + ".*; write CAST.*columns of a CSV are strin"):
            run_import(tmp_path, merged(POD_MAP, {key: said[key]}), row)


def test_a_column_of_any_name_can_be_used(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"ts": [BEGIN_S], "_row": ["web"], "!time": ["web-1"], "!row": [0.25], "_found": [1000]}
    )
    columns = {"workload": "_row", "pod": "!time", "cpu": {"column": "!row"},
               "memory": {"column": "_found"}}  # fmt: skip
    _, tables = run_import(tmp_path, merged(POD_MAP, {"columns": columns}), frame)
    assert tables["pod_metrics"].select("target", "pod", "cpu_milli").rows() == [
        ("web", "web-1", 250)
    ]


KEYS: list[tuple[dict[str, Any], str, str]] = [
    ({"columns": {"cpu": None, "memory": None, "cpus": "cpu"}}, "columns.cpus", "cpu"),
    ({"columns": {"pod": None, "pods": "pod"}}, "columns.pods", "pod"),
    ({"level": None, "levle": "pod"}, "levle", "level"),
]


@pytest.mark.parametrize(("change", "path", "meant"), KEYS)
def test_an_unknown_key_is_told_as_such_and_not_as_a_missing_one(
    tmp_path: Path, change: dict[str, Any], path: str, meant: str
) -> None:
    with pytest.raises(UsageError) as error:
        read_map(write_map(tmp_path, merged(POD_MAP, change)))
    text = str(error.value)
    assert f": {path}); did you mean {meant}?" in text
    assert "mistakes" not in text
    assert "got nothing" not in text
