"""Map files: what is understood, what is refused and how that is said, what is assumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpabatch.errors import UsageError
from hpabatch.importers.table.decode import read_map
from hpabatch.importers.table.values import Amount
from tests.importers.tables import POD_MAP, WORKLOAD_MAP, merged, write_map

COLUMNS = POD_MAP["columns"]

BAD_MAPS: list[tuple[dict[str, Any] | str, str]] = [
    ("", "holds 0 documents"),
    ("level: [", "not YAML"),
    ("- a", "a mapping is wanted, found a list"),
    ("level: pod\nlevel: pod\n", "the key 'level' stands twice, in lines 1 and 2"),
    ({"columns": {}}, "level: say `pod`"),
    ({"level": "pods"}, "level: 'pods' is not one of pod, workload; did you mean pod?"),
    ({"level": "pod"}, "columns: missing"),
    (merged(POD_MAP, {"colums": {}}), "colums: unknown key; did you mean columns?"),
    (merged(POD_MAP, {"columns": {"tme": "x"}}), "columns.tme: unknown key; did you mean time?"),
    (merged(POD_MAP, {"columns": {"time": None}}), "columns.time: missing"),
    (merged(POD_MAP, {"columns": {"workload": None}}), "columns.workload: missing"),
    (merged(POD_MAP, {"columns": {"pod": None}}), "columns.pod: missing"),
    (merged(POD_MAP, {"columns": {"cpu": None, "memory": None}}), "map cpu, memory or one of"),
    (
        merged(POD_MAP, {"columns": {"cpu": {"unit": "core"}}}),
        "columns.cpu.unit: 'core' is not one of cores, millicores, microcores, nanocores, "
        "quantity; did you mean cores?",
    ),
    (merged(POD_MAP, {"columns": {"cpu": {"sql": "cpu"}}}), "columns.cpu: say exactly one of"),
    (merged(POD_MAP, {"columns": {"cpu": 5}}), "columns.cpu: a mapping is wanted, found 5"),
    (merged(POD_MAP, {"columns": {"cpu": False}}), "put the name in quotes"),
    (merged(POD_MAP, {"columns": {"cpu": {"of": "mean"}}}), "columns.cpu.of: unknown key"),
    (merged(POD_MAP, {"columns": {"app": {"column": "x"}}}), "columns.app: unknown key"),
    (
        merged(POD_MAP, {"columns": {"workload": {"column": "pod", "pattern": "("}}}),
        "columns.workload.pattern: '(': expected a regular expression, got unclosed group",
    ),
    (
        merged(POD_MAP, {"columns": {"workload": {"column": "pod", "pattern": "(" * 999}}}),
        "(((…': expected a regular expression, got",
    ),
    (
        merged(POD_MAP, {"columns": {"workload": {"column": "pod", "pattern": "(a{9999999999})"}}}),
        "expected a regular expression, got",
    ),
    (
        merged(POD_MAP, {"columns": {"workload": {"column": "pod", "pattern": "(?:" * 999}}}),
        "expected a pattern of at most 1000 characters, got 2,997",
    ),
    (
        merged(POD_MAP, {"columns": {"workload": {"column": "pod", "pattern": "a+"}}}),
        "has no group",
    ),
    (
        merged(POD_MAP, {"columns": {"time": {"zone": "Europe/Berln", "unit": None}}}),
        "did you mean Europe/Berlin?",
    ),
    (merged(POD_MAP, {"columns": {"time": {"format": "%Y"}}}), "a format is for texts"),
    (merged(POD_MAP, {"columns": {"time": {"column": None, "value": 5}}}), "a constant is no time"),
    (
        merged(POD_MAP, {"columns": {"namespace": {"value": False}}}),
        "columns.namespace.value: a text or a number is wanted, found False: put it in quotes",
    ),
    (
        merged(POD_MAP, {"where": "cpu >"}),
        "where: 'cpu >' is not an expression: expected a value, got the end at character 6",
    ),
    (merged(POD_MAP, {"window": 15}), "window: 15 is not a duration"),
    (merged(POD_MAP, {"window": "900d"}), "longer than a year"),
    (
        merged(POD_MAP, {"window": "15s", "columns": {"window": {"column": "w", "unit": "s"}}}),
        "window: said here and in columns.window",
    ),
    (merged(POD_MAP, {"columns": {"window": "w"}}), "columns.window: say its unit"),
    (
        merged(POD_MAP, {"limits": {"cpu": "0.5 cores"}}),
        "limits.cpu: '0.5 cores' is not a quantity",
    ),
    (merged(POD_MAP, {"limits": {"cpu": "-1"}}), "limits.cpu: '-1' is negative"),
    (merged(POD_MAP, {"limits": {"cpu": "-1e30"}}), "limits.cpu: -1e+30 is negative"),
    (merged(POD_MAP, {"limits": {"cpu": 1e30}}), "limits.cpu: 1e+30 is impossibly large: at most"),
    (
        merged(POD_MAP, {"limits": {"memory": {"workloads": {"a": "9" * 40 + "E"}}}}),
        "limits.memory.workloads.a: '9999",
    ),
    (merged(POD_MAP, {"limits": {"cpu": {"of_limit": 0.5}}}), "a limit is no share of itself"),
    (merged(POD_MAP, {"limits": {"cpu": {"column": "x"}}}), "limits.cpu.unit: missing"),
    (merged(POD_MAP, {"limits": {"cpu": {}}}), "limits.cpu: say value, column, workloads, file"),
    (merged(POD_MAP, {"limits": {"cpu": {"file": "no.yaml"}}}), "no.yaml cannot be read"),
    (merged(POD_MAP, {"requests": {"memory": {"of_limit": 0.5}}}), "of_limit needs limits.memory"),
    (merged(POD_MAP, {"requests": {"cpu": {"of_limit": 2}}}), "2 is not between 1e-06 and 1"),
    (merged(POD_MAP, {"lives": {"grace": "5s"}}), "lives.grace: unknown key"),
    (
        merged(POD_MAP, {"lives": {"ready_after": "5s"}, "columns": {"ready": "r"}}),
        "columns.ready says it already",
    ),
    (merged(POD_MAP, {"scales": {"from": "replicas"}}), "'replicas' is not one of pods"),
    (merged(POD_MAP, {"scales": {"from": "pods", "replicas": 3}}), "said beside `from`"),
    (merged(POD_MAP, {"scales": {"replicas": True}}), "a whole number is wanted, found True"),
    (merged(POD_MAP, {"hpas": {}}), "hpas: say manifests, template or workloads"),
    (merged(POD_MAP, {"hpas": {"template": {"cpu": "50%"}}}), "hpas.template.max: missing"),
    (merged(POD_MAP, {"hpas": {"template": {"max": 3}}}), "hpas.template.cpu: missing"),
    (merged(POD_MAP, {"hpas": {"template": {"max": 3, "cpu": 50}}}), "write 50% or a quantity"),
    (
        merged(POD_MAP, {"hpas": {"template": {"max": 3, "min": 5, "cpu": "50%"}}}),
        "the API server would refuse this HPA: spec.maxReplicas",
    ),
    (
        merged(POD_MAP, {"hpas": {"workloads": {"cart": {"max": 3, "cpu": "50%", "x": 1}}}}),
        "hpas.workloads.cart.x: unknown key",
    ),
    (
        merged(POD_MAP, {"hpas": {"manifests": "x", "template": {"max": 3}}}),
        "hpas.manifests: said beside a template",
    ),
    (merged(POD_MAP, {"format": {"separator": ";"}}), "not one of comma, semicolon, tab"),
    (merged(POD_MAP, {"format": {"nul": "x"}}), "format.nul: unknown key (known here:"),
    (merged(POD_MAP, {"rounding": {"cpu": "upp"}}), "did you mean up?"),
    (merged(WORKLOAD_MAP, {"columns": {"cpu": {"of": None}}}), "columns.cpu.of: say what"),
    (merged(WORKLOAD_MAP, {"columns": {"replicas": None}}), "needs the number of pods"),
    (merged(WORKLOAD_MAP, {"columns": {"replicas": {"value": -1}}}), "a whole number of pods"),
    (merged(WORKLOAD_MAP, {"columns": {"pod": "p"}}), "`level: workload` has no pod"),
    (merged(WORKLOAD_MAP, {"columns": {"ready": "p"}}), "`level: workload` has no ready"),
    (merged(WORKLOAD_MAP, {"columns": {"container": "p"}}), "one container per pod: say a value"),
]


@pytest.mark.parametrize(("content", "told"), BAD_MAPS)
def test_a_wrong_map_is_a_sentence_with_the_path(
    tmp_path: Path, content: dict[str, Any] | str, told: str
) -> None:
    path = write_map(tmp_path, content)
    with pytest.raises(UsageError) as caught:
        read_map(path)
    assert told in str(caught.value)
    assert str(path) in str(caught.value) or "no.yaml" in told
    assert "\n" not in str(caught.value)


def test_an_absent_or_binary_map_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_map(tmp_path / "none.yaml")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(UsageError, match="cannot be read"):
        read_map(tmp_path / "b.yaml")


@pytest.mark.parametrize(
    "zone", ["localtime", "posixrules", "Factory", "posix/UTC", "right/UTC", "utc", "x" * 300]
)
def test_zones_that_polars_does_not_know_are_refused(tmp_path: Path, zone: str) -> None:
    path = write_map(tmp_path, merged(POD_MAP, {"columns": {"time": {"zone": zone}}}))
    with pytest.raises(UsageError, match=r"columns.time.zone: .* is not a time zone such as UTC"):
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
        "no silence ends a pod's life",
        "sizes are the number of pods alive",
        "the history has no HPA",
        "a millicore are rounded up",
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
        "rounding": {"cpu": "nearest", "memory": "down"},
    }
    table = read_map(write_map(tmp_path, merged(POD_MAP, said)))
    assert table.assumed == ()
    assert table.lives.gap_ms is None
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
    assert limit.find("shop", "cart", "proxy") == 50
    assert limit.find("shop", "cart", "app") == 1000
    assert limit.find("other", "cart", "app") == 300
    assert limit.find("other", "x", "app") == 10
    assert Amount(listed={"a": 1}).find("n", "b", "c") is None
    assert dict(table.describe())["cpu limit"] == "listed for 3 workloads, else 0.01 (core or byte)"
