"""Small random histories as rows, and the way to a folder of Parquet tables."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import strategies as st

from hpabatch.history.columns import TIME
from hpabatch.history.schema import TABLES
from hpabatch.history.store.writer import write_table
from tests.engine.naive_align import BROKEN_SELECTORS, SELECTORS, Row, Tables

MIDNIGHT = 1_791_331_200_000  # 2026-10-07T00:00:00Z, on the grid of ticks
T0 = MIDNIGHT - 60_000
STEP = 10_000
SHOP = {"cluster": "c1", "namespace": "shop"}
# A name with a stroke is that of a further pod of the same name.
PODS = ("web-0", "web-1", "web-2", "api-0", "web-0'")

# Half steps, so that events fall between ticks as often as on them, and now and then 1 ms beside.
instants = st.builds(
    lambda half, off: T0 + half * STEP // 2 + off,
    st.integers(-6, 26),
    st.sampled_from([0, 0, 0, -1, 1]),
)
maybe_instant = st.none() | instants
amounts = st.none() | st.integers(0, 400)
values = st.integers(-5, 9000) | st.integers(-5, 9000) | st.none()


def resource(kind: str, name: str, goal: Row, **more: str) -> Row:
    member = {"name": name, "target": goal} | more
    return {"type": kind, kind[0].lower() + kind[1:]: member}


QUEUE_A = {"matchLabels": {"queue": "a", "env": "x"}}
METRICS: list[Row] = [
    resource("Resource", "cpu", {"type": "Utilization", "averageUtilization": 50}),
    resource("Resource", "memory", {"type": "Utilization", "averageUtilization": 80}),
    resource("Resource", "memory", {"type": "AverageValue", "averageValue": "1Ki"}),
    resource(
        "ContainerResource",
        "cpu",
        {"type": "Utilization", "averageUtilization": 60},
        container="app",
    ),
    resource(
        "ContainerResource",
        "memory",
        {"type": "AverageValue", "averageValue": "2Ki"},
        container="proxy",
    ),
    {
        "type": "Pods",
        "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": 5}},
    },
    {
        "type": "Pods",
        "pods": {
            "metric": {"name": "rps", "selector": QUEUE_A},
            "target": {"type": "AverageValue", "averageValue": 5},
        },
    },
    {
        "type": "Object",
        "object": {
            "describedObject": {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "Ingress",
                "name": "front",
            },
            "metric": {"name": "hits"},
            "target": {"type": "Value", "value": "100m"},
        },
    },
    {
        "type": "Object",
        "object": {
            "describedObject": {"apiVersion": "v1", "kind": "Namespace", "name": "not-looked-at"},
            "metric": {"name": "hits"},
            "target": {"type": "AverageValue", "averageValue": "50m"},
        },
    },
    {
        "type": "External",
        "external": {
            "metric": {"name": "lag", "selector": QUEUE_A},
            "target": {"type": "AverageValue", "averageValue": "70m"},
        },
    },
    {
        "type": "External",
        "external": {
            "metric": {"name": "lag"},
            "target": {"type": "Value", "value": "70m"},
        },
    },
]


def hpa_row(name: str, workload: str, metrics: list[Row], **more: Any) -> Row:
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": workload},
        "minReplicas": 1,
        "maxReplicas": more.pop("max_replicas", 5),
        "metrics": metrics,
    }
    spec |= more.pop("spec", {})
    row = SHOP | {"name": name, "uid": f"hpa-{name}", "valid_from": T0 - 90_000, "valid_to": None}
    return row | {"spec": spec, "labels": None} | more


def scale_row(workload: str, ts: int, replicas: int, **more: Any) -> Row:
    row = SHOP | {"target_kind": "Deployment", "target": workload, "ts": ts}
    row |= {"spec_replicas": replicas, "status_replicas": replicas, "selector": f"app={workload}"}
    return row | more


def pod_row(pod: str, **more: Any) -> Row:
    workload = pod.split("-")[0]
    row: Row = SHOP | {"target": workload, "uid": f"uid-{pod}", "pod": pod.removesuffix("'")}
    row |= {"labels": {"app": workload}, "created": T0 - 90_000, "started": T0 - 85_000}
    return row | {"deletion_requested": None, "gone": None} | more


def request_row(pod: str, container: str = "app", **more: Any) -> Row:
    row: Row = SHOP | {"uid": f"uid-{pod}", "container": container, "kind": "app", "index": 0}
    row |= {"valid_from": T0 - 90_000, "cpu_milli": 100, "memory_milli": 1_024_000}
    return row | {"cpu_limit_milli": None, "memory_limit_milli": None} | more


def state_row(pod: str, **more: Any) -> Row:
    row = SHOP | {"uid": f"uid-{pod}", "ts": T0 - 80_000, "phase": "Running", "ready": "True"}
    return row | {"last_transition": T0 - 80_000} | more


def usage_row(pod: str, ts: int, cpu_milli: int | None, container: str = "app", **more: Any) -> Row:
    row = SHOP | {"target": pod.split("-")[0], "uid": f"uid-{pod}", "ts": ts}
    row |= {
        "pod": pod.removesuffix("'"),
        "container": container,
        "window_ms": 15_000,
        "cpu_milli": cpu_milli,
    }
    return row | {"memory_bytes": 1024, "fetched_at": None} | more


def start_row(ts: int, **more: Any) -> Row:
    return {"cluster": "c1", "ts": ts, "event": "start", "version": None, "flags": None} | more


def fetch_row(hpa: str, metric: int, ts: int, answer: str) -> Row:
    row = SHOP | {"name": hpa, "metric_index": metric, "ts": ts}
    return row | {"answer": answer, "error": None}


def status_row(hpa: str, ts: int) -> Row:
    row = SHOP | {"name": hpa, "uid": f"hpa-{hpa}", "ts": ts}
    return row | {"current_replicas": 1, "desired_replicas": 1}


def pass_row(ts: int, **more: Any) -> Row:
    return {"cluster": "c1", "ts": ts, "start": False, "k8s": None, "hpas": None} | more


def recorder_rows(*clusters: str) -> list[Row]:
    """Return what says that samples of clusters stand until they are replaced or withdrawn."""
    row = {"namespace": "", "name": "", "valid_from": T0 - 90_000, "valid_to": None}
    row |= {"subject": "pod_metrics", "method": "recorder", "detail": None}
    return [row | {"cluster": cluster} for cluster in clusters]


def empty_tables() -> Tables:
    return {name: [] for name in TABLES}


def other_cluster(tables: Tables) -> None:
    """Add a workload of the same names in another cluster: nothing of it may show in this one."""
    there = {"cluster": "c2"}
    tables["pods"].append(pod_row("web-0", **there))
    tables["pod_states"].append(state_row("web-0", **there))
    tables["pod_requests"].append(request_row("web-0", cpu_milli=1, **there))
    tables["pod_metrics"].append(usage_row("web-0", T0, 77_777, **there))
    tables["scales"].append(scale_row("web", T0, 3, **there))
    tables["hpas"].append(hpa_row("one", "web", METRICS[:1], **there))
    tables["controller"].append(start_row(T0 + 25_000, **there))
    tables["external_metrics"].append(
        {"metric": "lag", "selector": "", "series": "a", "ts": T0, "value_milli": 9}
        | SHOP
        | there
        | {"fetched_at": None}
    )


def to_frame(table: str, rows: list[Row]) -> pl.DataFrame:
    """Return the registered columns of some rows; dicts become JSON texts."""
    columns = {}
    for column in TABLES[table].columns:
        values = [row.get(column.name) for row in rows]
        values = [json.dumps(v) if isinstance(v, dict) else v for v in values]
        if column.dtype == TIME:
            columns[column.name] = pl.Series(values, dtype=pl.Int64).cast(TIME)
        else:
            columns[column.name] = pl.Series(values, dtype=column.dtype)
    return pl.DataFrame(columns)


def write_history(tables: Tables, folder: Path) -> Path:
    """Write every table that has rows."""
    for table, rows in tables.items():
        if rows:
            write_table(to_frame(table, rows), folder / f"{table}.parquet", table)
    return folder


def write_pieces(tables: Tables, folder: Path, seed: int) -> Path:
    """Write the same tables as any other writer might: rows in any order and files, some twice."""
    rng = random.Random(seed)
    for table, rows in tables.items():
        pieces: list[list[Row]] = [[] for _ in range(rng.randint(1, 3))]
        for row in rng.sample(rows, len(rows)):
            for piece in rng.sample(pieces, min(len(pieces), rng.choice([1, 1, 1, 2]))):
                piece.append(row)
        for k, piece in enumerate(pieces):
            if piece:
                path = folder / table / f"{rng.randint(0, 99)}-{k}.parquet"
                path.parent.mkdir(exist_ok=True)
                size = rng.choice([1, 3, 1000])
                to_frame(table, piece).write_parquet(
                    path, compression="uncompressed", row_group_size=size
                )
    return folder


def distinct(rows: list[Row], *key: str) -> list[Row]:
    """Return the rows without those whose key was there before."""
    return list({tuple(row[name] for name in key): row for row in rows}.values())


@st.composite
def pods(draw: st.DrawFn) -> list[Row]:
    found = []
    for pod in draw(st.lists(st.sampled_from(PODS), min_size=1, max_size=5, unique=True)):
        labels: Row = {"app": draw(st.sampled_from(["web", "web", "api"]))}
        if draw(st.booleans()):
            labels["tier"] = draw(st.sampled_from(["db", "front"]))
        created = draw(instants)
        life: Row = {"created": created, "started": draw(maybe_instant)}
        for end in ("deletion_requested", "gone"):  # no table may have one before the creation
            at = draw(maybe_instant)
            life[end] = None if at is None else max(at, created)
        workload = draw(st.sampled_from(["web", "api", None]))
        found.append(pod_row(pod, labels=labels, target=workload, **life))
    return found


@st.composite
def states(draw: st.DrawFn) -> list[Row]:
    rows = draw(
        st.lists(
            st.builds(
                lambda pod, ts, phase, ready, at: state_row(
                    pod, ts=ts, phase=phase, ready=ready, last_transition=at
                ),
                st.sampled_from(PODS),
                instants,
                st.sampled_from(["Pending", "Running", "Running", "Failed", "Succeeded", ""]),
                st.sampled_from([None, "True", "False", "Unknown"]),
                maybe_instant,
            ),
            max_size=8,
        )
    )
    return distinct(rows, "uid", "ts")


@st.composite
def requests(draw: st.DrawFn) -> list[Row]:
    kinds = [("app", "app", 0), ("app", "proxy", 1), ("sidecar", "mesh", 0), ("pod", "", 0)]
    rows = []
    for pod in PODS:
        for kind, container, index in draw(st.lists(st.sampled_from(kinds), unique=True)):
            for at in draw(st.lists(instants, min_size=1, max_size=2, unique=True)):
                amount = {"cpu_milli": draw(amounts), "memory_milli": draw(amounts)}
                rows.append(
                    request_row(pod, container, kind=kind, index=index, valid_from=at) | amount
                )
    return rows


@st.composite
def usages(draw: st.DrawFn) -> list[Row]:
    rows = []
    for pod in draw(st.lists(st.sampled_from([*PODS, "stray-0"]), max_size=14)):
        item = {
            "ts": draw(instants),
            "window_ms": draw(st.sampled_from([None, 0, 15_000])),
            "fetched_at": draw(st.none() | maybe_instant),
        }
        names = draw(st.sampled_from([["app"], ["app", "proxy"], ["proxy"], ["app", "mesh"]]))
        for container in names:
            used = {"cpu_milli": draw(amounts), "memory_bytes": draw(amounts)}
            used["fetched_at"] = draw(st.sampled_from([item["fetched_at"], None, T0 + 20_000]))
            rows.append(usage_row(pod, container=container, **(item | used)))
    return distinct(rows, "uid", "ts", "container")


@st.composite
def customs(draw: st.DrawFn) -> list[Row]:
    rows = [
        usage_row(pod, draw(instants), None, window_ms=draw(st.sampled_from([None, 30_000])))
        | {"metric": "rps", "selector": selector}
        | {"value_milli": draw(values), "fetched_at": draw(maybe_instant)}
        for pod, selector in draw(
            st.lists(
                st.tuples(st.sampled_from(PODS), st.sampled_from(["", "env=x,queue=a"])), max_size=8
            )
        )
    ]
    return distinct(rows, "uid", "selector", "ts")


@st.composite
def objects(draw: st.DrawFn) -> list[Row]:
    named = [("Ingress", "front"), ("Namespace", "shop"), ("Ingress", "shop"), ("Service", "front")]
    rows = [
        SHOP
        | {"kind": kind, "name": name, "metric": "hits", "selector": "", "ts": draw(instants)}
        | {"value_milli": draw(values), "fetched_at": draw(maybe_instant)}
        for kind, name in draw(st.lists(st.sampled_from(named), max_size=8))
    ]
    return distinct(rows, "kind", "name", "ts")


@st.composite
def externals(draw: st.DrawFn) -> list[Row]:
    rows = [
        SHOP
        | {"metric": "lag", "selector": selector, "series": series, "ts": draw(instants)}
        | {"value_milli": draw(values), "fetched_at": draw(maybe_instant)}
        for selector, series in draw(
            st.lists(
                st.tuples(
                    st.sampled_from(["", "env=x,queue=a", "queue=b"]),
                    st.sampled_from(["", "p0", "p1"]),
                ),
                max_size=10,
            )
        )
    ]
    return distinct(rows, "selector", "series", "ts")


@st.composite
def scales(draw: st.DrawFn) -> list[Row]:
    texts = st.sampled_from(["app=web", "app=web", *SELECTORS, *BROKEN_SELECTORS, "", None])
    rows = []
    for workload in ("web", "api"):
        for ts in draw(st.lists(instants, min_size=1, max_size=4, unique=True)):
            sizes = {
                "spec_replicas": draw(st.integers(0, 6)),
                "status_replicas": draw(st.integers(0, 4)),
            }
            more = {"selector": draw(texts), "error": draw(st.sampled_from(SCALE_ERRORS))}
            rows.append(scale_row(workload, ts, 0, **more, **sizes))
    return rows


SCALE_ERRORS = (
    *[None] * 5,
    'deployments.apps "web" not found',
    'no matches for kind "Web" in group "x.io"',
    "unexpected GroupVersion string: a/b/c",
)
BEHAVIOR: Row = {
    "scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 20}]},
    "scaleDown": {"stabilizationWindowSeconds": 30},
}


@st.composite
def hpas(draw: st.DrawFn) -> list[Row]:
    chosen = st.lists(st.sampled_from(METRICS), min_size=1, max_size=4)
    specs = st.sampled_from([{}, {}, {"behavior": BEHAVIOR}])
    ends = sorted(draw(st.lists(instants, min_size=3, max_size=3, unique=True)))
    rows = []
    first = {"valid_from": ends[0], "valid_to": ends[1]}
    again = {"valid_from": draw(st.sampled_from(ends[1:])), "max_replicas": 4}
    again["uid"] = draw(st.sampled_from(["hpa-one", "hpa-another"]))
    more = first if draw(st.booleans()) else {}
    rows.append(hpa_row("one", "web", draw(chosen), spec=draw(specs), **more))
    if rows[0]["valid_to"] is not None:
        rows.append(hpa_row("one", "web", draw(chosen), spec=draw(specs), **again))
    for name in draw(st.lists(st.sampled_from(["a", "two"]), max_size=2, unique=True)):
        workload = draw(st.sampled_from(["web", "api"]))
        rows.append(
            hpa_row(name, workload, draw(chosen), valid_to=draw(st.none() | st.just(ends[2])))
        )
    return rows


FLAGS: list[Row | None] = [
    None,
    {"tolerance": 0.5},
    {"--horizontal-pod-autoscaler-downscale-stabilization": "20s"},
    {"cpu-initialization-period": "40s", "initial-readiness-delay": "0s"},
]


@st.composite
def controllers(draw: st.DrawFn) -> list[Row]:
    rows = [
        start_row(ts, event=event, flags=flags, cluster=cluster)
        for ts, event, flags, cluster in draw(
            st.lists(
                st.tuples(
                    instants,
                    st.sampled_from(["start", "observed"]),
                    st.sampled_from(FLAGS),
                    st.sampled_from(["c1", "c1", "c2"]),
                ),
                max_size=3,
            )
        )
    ]
    return distinct(rows, "cluster", "ts", "event")


@st.composite
def fetches(draw: st.DrawFn) -> list[Row]:
    rows = [
        fetch_row(*row)
        for row in draw(
            st.lists(
                st.tuples(
                    st.sampled_from(["one", "two"]),
                    st.integers(0, 4),
                    instants,
                    st.sampled_from(["ok", "empty", "error"]),
                ),
                max_size=6,
            )
        )
    ]
    return distinct(rows, "name", "metric_index", "ts")


@st.composite
def passes(draw: st.DrawFn) -> list[Row]:
    rows = [
        pass_row(ts, start=start, cluster=cluster)
        for ts, start, cluster in draw(
            st.lists(
                st.tuples(instants, st.booleans(), st.sampled_from(["c1", "c1", "c1", "c2"])),
                min_size=1,
                max_size=12,
            )
        )
    ]
    return distinct(rows, "cluster", "ts")


@st.composite
def histories(draw: st.DrawFn) -> Tables:
    """Draw the tables of a small history; every edge of the alignment is near."""
    tables = empty_tables()
    tables["pods"] = draw(pods())
    tables["pod_states"] = draw(states())
    tables["pod_requests"] = draw(requests())
    tables["pod_metrics"] = draw(usages())
    tables["pod_custom_metrics"] = draw(customs())
    tables["object_metrics"] = draw(objects())
    tables["external_metrics"] = draw(externals())
    tables["scales"] = draw(scales())
    tables["hpas"] = draw(hpas())
    tables["controller"] = draw(controllers())
    tables["metric_fetches"] = draw(fetches())
    tables["passes"] = draw(passes())
    times = draw(st.lists(instants, max_size=5, unique=True))
    tables["hpa_status"] = [status_row("one", ts) for ts in times]
    # A pod's rows say the same of its target, or leave it out.
    targets = {pod["uid"]: pod["target"] for pod in tables["pods"]}
    for table in ("pod_metrics", "pod_custom_metrics"):
        for row in tables[table]:
            row["target"] = targets.get(row["uid"], "web")
    for table in ("pod_states", "pod_requests"):
        is_told = draw(st.booleans())
        for row in tables[table]:
            row["target"] = targets.get(row["uid"]) if is_told else None
    other_cluster(tables)
    tables["controller"] = distinct(tables["controller"], "cluster", "ts", "event")
    return tables
