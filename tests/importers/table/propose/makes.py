"""One fleet's usage as tables of different make: what an import of each must find again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

MINUTES = 30
BEGIN = datetime(2026, 10, 7, 10, tzinfo=UTC)
PODS = {
    "cart-7d4b9c6f5-x2x9k": "cart",
    "cart-7d4b9c6f5-bbq7t": "cart",
    "web-frontend-5f6585d649-fnmft": "web-frontend",
    "db-0": "db",
    "db-1": "db",
}
WORKLOADS = ("cart", "web-frontend", "db")


def cpu(pod: str, minute: int) -> int:
    """Return a pod's usage in millicores."""
    return 100 + 40 * list(PODS).index(pod) + (minute * 37) % 71


def memory(pod: str, minute: int) -> int:
    """Return a pod's memory in MiB."""
    return 200 + 10 * list(PODS).index(pod) + minute % 7


def total(workload: str, minute: int) -> int:
    """Return the usage of a workload's pods together, in millicores."""
    return sum(cpu(pod, minute) for pod, owner in PODS.items() if owner == workload)


def size(workload: str) -> int:
    """Return the number of a workload's pods."""
    return sum(owner == workload for owner in PODS.values())


def at(minute: int) -> datetime:
    """Return the time of a sample."""
    return BEGIN + timedelta(minutes=minute)


def lines(head: str, row: Callable[[int, str], str], names: Iterator[str] | None = None) -> str:
    """Return a CSV with a row for each minute and pod."""
    chosen = list(PODS if names is None else names)
    rows = [row(minute, name) for minute in range(MINUTES) for name in chosen]
    return "\n".join([head, *rows]) + "\n"


@dataclass(frozen=True)
class Make:
    """A table: its text, file name, level, and lines that its proposed map must have.

    `namespace` is the expected one; `edit` is the one change that a comment of the map asks for.
    """

    name: str
    text: str
    level: str
    expected: tuple[str, ...]
    namespace: str = "default"
    file: str = "usage.csv"
    edit: tuple[str, str] | None = None
    first: int = 0


def per_pod() -> Make:
    text = lines(
        "timestamp,namespace,pod,container,cpu_usage_millicores,memory_working_set_bytes,"
        "cpu_request_millicores",
        lambda m, p: f"{at(m).isoformat()},shop,{p},app,{cpu(p, m)},{memory(p, m) << 20},250",
    )
    expected = (
        "time: timestamp",
        "cpu: {column: cpu_usage_millicores, unit: millicores}",
        "memory: {column: memory_working_set_bytes, unit: bytes}",
        "cpu: {column: cpu_request_millicores, unit: millicores}",
        "WHEN \"pod\" ~ ''^.+-[0-9]{1,4}$'' THEN ''StatefulSet''",
    )
    return Make("per pod", text, "pod", expected, "shop")


def per_workload() -> Make:
    text = lines(
        "ts;service;replicas;cpu_total",
        lambda m, w: (
            f"{at(m):%d.%m.%Y %H:%M:%S};{w};{size(w)};"
            + f"{total(w, m) / 1000:.3f}".replace(".", ",")
        ),
        iter(WORKLOADS),
    )
    expected = (
        "format: {decimal: comma}",
        "time: {column: ts, zone: UTC, format: '%d.%m.%Y %H:%M:%S'}",
        "workload: service",
        "cpu: {column: cpu_total, unit: cores, of: sum}",
        "replicas: replicas",
    )
    return Make("per workload, decimal commas", text, "workload", expected)


def local_times() -> Make:
    text = lines(
        "time,deployment,pod_count,cpu_mean",
        lambda m, w: (
            f"{at(m) + timedelta(hours=2):%m/%d/%Y %I:%M:%S %p},{w},{size(w)},"
            f"{total(w, m) / size(w):.1f}"
        ),
        iter(WORKLOADS),
    )
    expected = (
        "time: {column: time, zone: UTC, format: '%m/%d/%Y %I:%M:%S %p'}",
        "replicas: pod_count",
        "cpu: {column: cpu_mean, unit: millicores, of: mean}",
        "name the zone, as in Europe/Berlin",
    )
    edit = ("zone: UTC", "zone: Europe/Berlin")
    return Make("local times, AM and PM", text, "workload", expected, edit=edit)


def wide_pods() -> Make:
    head = ["Time", *PODS]
    rows = [
        [f"{at(m).timestamp():.0f}", *(f"{cpu(p, m) / 1000:.3f}" for p in PODS)]
        for m in range(MINUTES)
    ]
    text = "\n".join(",".join(row) for row in [head, *rows]) + "\n"
    expected = (
        "unpivot: {keep: [Time], name: series, value: value}",
        "time: {column: Time, unit: s}",
        "pod: series",
        "cpu: {column: value, unit: cores}",
    )
    return Make("wide, a column per pod", text, "pod", expected)


def wide_workloads() -> Make:
    head = ["at", *(f"{w}_{what}" for w in WORKLOADS for what in ("cpu", "replicas"))]
    rows = [
        [at(m).isoformat(), *(f"{v}" for w in WORKLOADS for v in (total(w, m) / 1000, size(w)))]
        for m in range(MINUTES)
    ]
    text = "\n".join(",".join(row) for row in [head, *rows]) + "\n"
    expected = (
        "unpivot: {keep: [at], name: series, pattern: '^(.+?)_(replicas|cpu)$'}",
        "workload: series",
        "of: sum}",
    )
    return Make("wide, columns per workload", text, "workload", expected)


def units() -> Make:
    text = lines(
        "time_ms,ns,pod_name,cpu,mem",
        lambda m, p: (
            f"{at(m).timestamp() * 1000:.0f},shop,{p},{cpu(p, m) * 10**6},{memory(p, m) << 10}"
        ),
    )
    expected = (
        "time: {column: time_ms, unit: ms}",
        "namespace: ns",
        "cpu: {column: cpu, unit: nanocores}",
        "memory: {column: mem, unit: KiB}",
    )
    return Make("units by magnitude", text, "pod", expected, "shop")


def grafana() -> Make:
    series = [f'"{{container=""app"", namespace=""shop"", pod=""{pod}""}}"' for pod in PODS]
    rows = [
        [f"{at(m):%Y-%m-%d %H:%M:%S}", *(f"{cpu(p, m) / 1000:.3f}" for p in PODS)]
        for m in range(MINUTES)
    ]
    text = "\n".join(",".join(row) for row in [['"Time"', *series], *rows]) + "\n"
    expected = ("unpivot: {keep: [Time]", "column: series, pattern:", "zone: UTC")
    return Make("range query, Grafana's columns", text, "pod", expected, "shop")


def counters() -> Make:
    """Return a range query of a counter: a row's increase is that of the minute before."""
    used = dict.fromkeys(PODS, 1000.0)
    rows = []
    for minute in range(MINUTES):
        for pod in PODS:
            used[pod] += cpu(pod, minute) * 60 / 1000
            labels = f'"{{""namespace"":""shop"",""pod"":""{pod}"",""container"":""app""}}"'
            rows.append(f"{at(minute).timestamp():.3f},{labels},{used[pod]:.3f}")
    text = "\n".join(["timestamp,labels,value", *rows]) + "\n"
    file = "container_cpu_usage_seconds_total.csv"
    expected = ("cpu: {column: value, unit: cpu_seconds}", "time: {column: timestamp, unit: s}")
    return Make("range query, labels, a counter", text, "pod", expected, "shop", file, first=1)


def long_metrics() -> Make:
    text = lines(
        "time,pod,metric,value",
        lambda m, p: (
            f"{at(m) + timedelta(hours=2):%Y-%m-%dT%H:%M:%S+02:00},{p},cpu_usage,"
            f"{cpu(p, m) / 1000}\n{at(m).isoformat()},{p},memory_rss,{memory(p, m) << 20}"
        ),
    )
    expected = (
        "pivot: {name: metric, value: value}",
        "cpu: {column: cpu_usage, unit: cores}",
        "memory: {column: memory_rss, unit: bytes}",
    )
    return Make("long, a row per metric", text, "pod", expected)


def quantities() -> Make:
    text = lines(
        "time,pod,container,cpu,memory",
        lambda m, p: f"{at(m).timestamp() * 1e9:.0f},{p},app,{cpu(p, m)}m,{memory(p, m)}Mi",
    )
    expected = ("unit: ns}", "cpu: {column: cpu, unit: quantity}")
    return Make("Kubernetes quantities", text, "pod", expected)


def excel() -> Make:
    """Return what Excel and dashboards write: the separator's own line, units behind a space."""
    text = "sep=;\n" + lines(
        "time;pod;cpu;memory",
        lambda m, p: f"{at(m).isoformat()};{p};{cpu(p, m)} m;{memory(p, m) / 1024:.3f} GiB".replace(
            ".", ","
        ),
    )
    expected = (
        "format: {decimal: comma}",
        "cpu: {column: cpu, unit: quantity}",
        "memory: {column: memory, unit: quantity}",
    )
    return Make("Excel's first line, units behind a space", text, "pod", expected)


def percentages() -> Make:
    text = "sep=,\r\n" + lines(
        "time,service,replicas,cpu",
        lambda m, w: f"{at(m).isoformat()},{w},{size(w)},{total(w, m) / size(w) / 10:.2f} %",
        iter(WORKLOADS),
    )
    expected = ("'%', '')) AS DOUBLE) / 100 * 1".replace("'", "''"), "of: mean}")
    return Make("percent signs", text, "workload", expected)


MAKES = (
    per_pod(), per_workload(), local_times(), wide_pods(), wide_workloads(), units(), grafana(),
    counters(), long_metrics(), quantities(), excel(), percentages(),
)  # fmt: skip
