"""Quality against a naive twin on random histories, and cases worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import date
from typing import Any, cast

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.engine.fleet.candidates import Candidate, SpecPeriod
from hpabatch.engine.quality.problems import COLUMNS as PROBLEM_COLUMNS
from hpabatch.engine.quality.problems import RULES, problems
from hpabatch.engine.quality.run import COLUMNS, SCHEMA, SHARD_ROWS, Look
from hpabatch.history.base import SIZES, History
from hpabatch.history.columns import TIME
from hpabatch.history.schema import TABLES, empty_frame
from hpabatch.model.objects.decode import hpa_from_json
from tests.effort import effort
from tests.engine import naive_quality as naive
from tests.engine.naive_quality import Row, Tables

MIDNIGHT = 1_791_417_600_000  # 2026-10-08T00:00:00Z
STEP = 20_000
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}
CPU["resource"]["target"]["averageUtilization"] = 50  # type: ignore[index]


class Stub:
    """The part of a history that quality uses, over frames."""

    def __init__(self, tables: Tables) -> None:
        self.frames = {name: frame_of(name, tables.get(name, [])) for name in TABLES}
        self.asked: list[tuple[str, date | None]] = []

    def select(
        self,
        table: str,
        cluster: str,
        places: Collection[tuple[str, str | None]],
        *,
        day: date | None = None,
        columns: Sequence[str] | None = None,
    ) -> pl.DataFrame:
        spec, frame = TABLES[table], self.frames[table]
        self.asked.append((table, day))
        time = pl.col(spec.day).dt.date() if spec.day else pl.lit(None, dtype=pl.Date())
        kept = [
            c == cluster and (n, p) in places and (day is None or not spec.day or d == day)
            for c, n, p, d in frame.select("cluster", "namespace", spec.place, day=time).iter_rows()
        ]
        wanted = [name for name in spec.names if columns is None or name in columns]
        return frame.filter(pl.Series(kept, dtype=pl.Boolean)).select(wanted)

    def distinct(self, table: str, columns: Sequence[str]) -> pl.DataFrame:
        return self.frames[table].select(columns).unique().sort(columns)

    def sizes(self, table: str) -> pl.DataFrame:
        spec, frame = TABLES[table], self.frames[table]
        day = pl.col(spec.day).dt.date() if spec.day else pl.lit(None, dtype=pl.Date())
        rows = frame.select("cluster", "namespace", place=spec.place, day=day)
        return rows.group_by(rows.columns).len("rows").cast(SIZES).sort(rows.columns)

    def span(self, table: str) -> pl.DataFrame:
        bare = pl.col("ts").filter(pl.col("fetched_at").is_null())
        return (
            self.frames[table]
            .group_by("cluster")
            .agg(
                fetched_first=pl.col("fetched_at").min(),
                fetched_last=pl.col("fetched_at").max(),
                unfetched_first=bare.min(),
                unfetched_last=bare.max(),
            )
        )


def frame_of(table: str, rows: Sequence[Row]) -> pl.DataFrame:
    """Return rows as a frame of a table, sorted by its key; what is left out is null."""
    spec = TABLES[table]
    if not rows:
        return empty_frame(table)
    columns = [
        pl.Series(
            c.name, [row.get(c.name) for row in rows], pl.Int64() if c.dtype == TIME else c.dtype
        ).cast(c.dtype)
        for c in spec.columns
    ]
    return pl.DataFrame(columns).sort(spec.key, maintain_order=True)


def candidate(name: str = "web", *metrics: Row, target: str = "web") -> Candidate:
    spec = {
        "scaleTargetRef": {"kind": "Deployment", "name": target},
        "maxReplicas": 9,
        "metrics": list(metrics) or [CPU],
    }
    hpa, _ = hpa_from_json(json.dumps(spec))
    return Candidate("c1", "shop", name, (SpecPeriod(0, 2**62, hpa.spec),))


def stub(tables: Tables) -> History:
    return cast(History, Stub(tables))


SHOP: Row = {"cluster": "c1", "namespace": "shop"}
times = st.integers(-45, 45).map(lambda k: MIDNIGHT + k * STEP)
maybe_time = st.none() | times
OWNERS = ["web", "api", None]


@st.composite
def pods(draw: st.DrawFn) -> list[Row]:
    found = []
    for k in range(draw(st.integers(0, 6))):
        owner = draw(st.sampled_from(OWNERS))
        found.append(
            SHOP
            | {
                "uid": f"u{k}",
                "pod": draw(st.sampled_from(["p0", "p1", f"q{k}"])),
                "target": owner,
                "labels": json.dumps({"app": draw(st.sampled_from([owner or "x", "web"]))}),
                "created": MIDNIGHT - 10**6,
                "started": draw(maybe_time),
                "deletion_requested": draw(st.none() | maybe_time),
                "gone": draw(st.none() | maybe_time),
                "origin": draw(st.sampled_from(["recorded", "recorded", "generated"])),
            }
        )
    return found


@st.composite
def histories(draw: st.DrawFn) -> Tables:
    everyone = draw(pods())
    uids = [p["uid"] for p in everyone] + ["stranger"]
    owner = {p["uid"]: p["target"] for p in everyone} | {"stranger": "web"}

    def many(build: Any, key: tuple[str, ...], most: int) -> list[Row]:
        rows = draw(st.lists(st.sampled_from(uids).flatmap(build), max_size=most))
        return list({tuple(row[c] for c in key): row for row in rows}.values())

    def usage(uid: str) -> st.SearchStrategy[Row]:
        def row(
            ts: int,
            off: int,
            container: str,
            cpu: int | None,
            memory: int | None,
            delay: int | None,
        ) -> Row:
            ts += off
            fetched = None if delay is None else ts + delay
            numbers = {"ts": ts, "cpu_milli": cpu, "fetched_at": fetched, "memory_bytes": memory}
            return (
                SHOP
                | {"uid": uid, "target": owner[uid], "pod": uid, "container": container}
                | numbers
            )

        return st.builds(
            row,
            times,
            st.sampled_from([0, 0, 0, 5_000]),
            st.sampled_from(["app", "proxy"]),
            st.none() | st.sampled_from([50, 94, 95, 200]),
            st.sampled_from([1, 1, None]),
            st.sampled_from([None, None, 0, -5_000, 30_000, 90_000]),
        )

    def state(uid: str) -> st.SearchStrategy[Row]:
        return st.fixed_dictionaries(
            {
                **{name: st.just(value) for name, value in SHOP.items()},
                "uid": st.just(uid),
                "target": st.sampled_from(["", owner[uid] or ""]),
                "ts": times,
                "phase": st.sampled_from(["Running", "Running", "Running", "Failed"]),
                "ready": st.sampled_from(["True", "False", None]),
            }
        )

    def request(uid: str) -> st.SearchStrategy[Row]:
        kinds = st.sampled_from(
            [("app", "app"), ("proxy", "sidecar"), ("setup", "init"), ("", "pod")]
        )
        amount = st.none() | st.integers(1, 9)
        return st.builds(
            lambda kind, since, cpu, memory, limit: (
                SHOP
                | {"uid": uid, "target": owner[uid] or "", "container": kind[0], "kind": kind[1]}
                | {"index": 0, "valid_from": since, "cpu_milli": cpu, "memory_milli": memory}
                | {"cpu_limit_milli": limit}
            ),
            kinds,
            times,
            amount,
            amount,
            st.sampled_from([None, 0, 100]),
        )

    scales = [
        SHOP
        | {"target_kind": "Deployment", "target": target, "ts": MIDNIGHT + k}
        | {"spec_replicas": 1, "status_replicas": 1, "selector": selector}
        for target in ("web", "api")
        for k, selector in enumerate(
            draw(st.lists(st.sampled_from([None, f"app={target}", "app=web"]), max_size=2))
        )
    ]
    return {
        "pods": everyone,
        "pod_metrics": many(usage, ("uid", "ts", "container"), 40),
        "pod_states": many(state, ("uid", "ts"), 12),
        "pod_requests": many(request, ("uid", "valid_from", "kind", "container"), 10),
        "scales": scales,
    }


def agree(found: pl.DataFrame, tables: Tables) -> None:
    for row in found.iter_rows(named=True):
        expected = naive.quality(tables, "shop", row["target"])
        row |= {
            name: row[name] and int(row[name].timestamp() * 1000)
            for name in ("first_ts", "last_ts")
        }
        for name, value in expected.items():
            about = pytest.approx(value) if isinstance(value, float) else value
            assert row[name] == about, (row["target"], name)
        rest = set(COLUMNS) - set(expected)
        assert rest == {
            "cluster",
            "namespace",
            "hpa",
            "target_kind",
            "target",
            "reads",
            "utilization_of",
            "behavior",
        }


def quality(
    history: History, candidates: Sequence[Candidate], shard_rows: int = SHARD_ROWS
) -> pl.DataFrame:
    look = Look(history, candidates, shard_rows)
    return look.joined([look.part(k) for k in range(len(look.shards))])


@settings(max_examples=effort(30), deadline=None)
@given(histories())
def test_equals_the_naive_twin(tables: Tables) -> None:
    hpas = [
        candidate("b"),
        candidate("a", target="api"),
        candidate("c"),
        candidate("d", target="no"),
    ]
    found = quality(stub(tables), hpas)
    assert found.schema == SCHEMA
    assert found.columns == list(COLUMNS)
    assert found["hpa"].to_list() == ["a", "b", "c", "d"]
    agree(found, tables)
    # Each shard on its own.
    assert quality(stub(tables), hpas, shard_rows=1).equals(found)


def test_only_days_with_samples_are_read_and_nothing_whole() -> None:
    history = Stub(steady())
    quality(cast(History, history), [candidate()])
    days = [day for table, day in history.asked if table == "pod_metrics"]
    assert days == [date(2026, 10, 7), date(2026, 10, 8)]


def steady(pod_count: int = 2, step: int = 15_000, **changes: Any) -> Tables:
    """Return an hour around midnight of a workload without faults."""
    ticks = range(MIDNIGHT - 1_800_000, MIDNIGHT + 1_800_000 + 1, step)
    own = [SHOP | {"uid": f"u{k}", "pod": f"p{k}", "target": "web"} for k in range(pod_count)]
    since = {"created": ticks[0], "started": ticks[0], "labels": '{"app":"web"}'}
    asked = {"container": "app", "kind": "app", "index": 0, "valid_from": ticks[0]}
    amounts = {"cpu_milli": 100, "memory_milli": 100, "cpu_limit_milli": 200}
    used = {"container": "app", "cpu_milli": 50, "memory_bytes": 1}
    scale = {"target_kind": "Deployment", "target": "web", "ts": ticks[0], "spec_replicas": 2}
    return {
        "pods": [pod | since | {"origin": "recorded"} | changes for pod in own],
        "pod_requests": [pod | asked | amounts for pod in own],
        "pod_states": [pod | {"ts": ticks[0], "phase": "Running", "ready": "True"} for pod in own],
        "pod_metrics": [pod | used | {"ts": ts, "fetched_at": None} for pod in own for ts in ticks],
        "scales": [SHOP | scale | {"status_replicas": 2, "selector": "app=web"}],
    }


def one(tables: Tables, *metrics: Row) -> Row:
    return quality(stub(tables), [candidate("web", *metrics)]).row(0, named=True)


def told(tables: Tables, *metrics: Row) -> dict[str, str]:
    found = problems(quality(stub(tables), [candidate("web", *metrics)]))
    assert found.columns == list(PROBLEM_COLUMNS)
    return dict(found.select("rule", "why").iter_rows())


def test_a_steady_recording_has_nothing_to_tell() -> None:
    row = one(steady())
    assert (row["coverage"], row["interval_ms"], row["jitter_ms"], row["gaps"]) == (
        1.0,
        15_000,
        0,
        0,
    )
    assert (row["pod_hours"], row["samples"], row["max_age_ms"]) == (2.0, 482, 60_000)
    assert (row["reads"], row["utilization_of"], row["membership"]) == (
        "pod_metrics",
        "cpu",
        "selector",
    )
    assert told(steady()) == {}


def test_beyond_the_rows_of_an_imported_workload_nothing_is_missed() -> None:
    """Nobody looked there: another workload's samples alone go on."""
    tables = steady()
    first, last = MIDNIGHT - 1_200_000, MIDNIGHT + 600_000
    other = {"target": "api", "uid": "v", "pod": "q"}
    beside = [row | other for row in tables["pod_metrics"]]
    own = [row for row in tables["pod_metrics"] if first <= row["ts"] <= last]
    tables["pod_metrics"] = [*own, *beside]
    assert one(tables)["coverage"] < 0.6
    told_rows = {"name": "web", "subject": "scales", "method": "rows"}
    tables["provenance"] = [SHOP | told_rows | {"valid_from": first, "valid_to": last + 1}]
    row = one(tables)
    assert (row["coverage"], row["gaps"], row["never_sampled"], row["pod_hours"]) == (
        1.0,
        0,
        0,
        1.0,
    )
    # A gap within its rows stays one.
    tables["pod_metrics"] = [r for r in tables["pod_metrics"] if abs(r["ts"] - MIDNIGHT) > 300_000]
    assert one(tables)["gaps"] == 1


WRONG: dict[str, Row] = {
    "no_samples": {"samples": 0},
    "no_scale": {"membership": None},
    "requests_unknown": {"unknown_requests_share": 0.5},
    "without_cpu_request": {"without_cpu_request_share": 0.01},
    "without_memory_request": {"without_memory_request_share": 1.0, "utilization_of": "memory"},
    "coverage": {"coverage": 0.5},
    "gap": {"gaps": 2, "gap_longest_ms": 4_000_000},
    "foreign_pods": {"foreign_pods": 1},
    "synthetic": {"synthetic_share": 1.0},
    "at_limit": {"at_limit_share": 0.25},
    "behavior_unknown": {"behavior": "absent, manifest"},
    "owner_assumed": {"membership": "owner"},
    "unmatched_pods": {"unmatched_pods": 1},
    "clock_skew": {"skewed_samples": 3, "skew_max_ms": 4_000},
    "late": {"late_samples": 100, "lateness_max_ms": 90_000},
    "stray": {"stray_rows": 10},
    "never_sampled": {"never_sampled": 1},
    "overtaken": {"overtaken_samples": 50},
    "slow_interval": {"interval_ms": 120_000},
    "jitter": {"jitter_ms": 5_000},
    "unready_again": {"unready_again": 2},
    "recreated": {"recreated": 1},
}


def test_every_rule_is_tried() -> None:
    assert list(WRONG) == [rule.name for rule in RULES]


@pytest.mark.parametrize("rule", WRONG)
def test_each_rule_speaks_of_its_fault_alone(rule: str) -> None:
    fine = quality(stub(steady()), [candidate()])
    values = {name: pl.lit(v, dtype=SCHEMA[name]) for name, v in WRONG[rule].items()}
    found = problems(fine.with_columns(**values))
    assert found["rule"].to_list() == [rule]
    assert len(found["why"][0]) > 30
    assert "null" not in found["why"][0]


def test_shares_near_nothing_and_all_are_not_shown_as_such() -> None:
    fine = quality(stub(steady()), [candidate()])
    for share, text in ((0.00001, "0.1 %"), (0.99999, "99.9 %"), (1.0, "100 %")):
        found = problems(fine.with_columns(without_cpu_request_share=pl.lit(share)))
        assert found["why"][0].startswith(f"{text} of its pods")
