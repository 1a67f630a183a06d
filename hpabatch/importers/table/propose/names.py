"""Names of a table's rows: of pods, workloads, namespaces, clusters; wide and long tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from hpabatch.importers.table.map import Pivot, Unpivot
from hpabatch.importers.table.propose.sample import (
    NUMBERS,
    Column,
    Kind,
    Role,
    profile,
    words_of,
)
from hpabatch.importers.table.propose.text import Entry, flow, quoted_column, scalar

SERIES: Final = "series"
VALUE: Final = "value"
# Quotes may be doubled: polars leaves those of a CSV's header as they are.
_LABELS = re.compile(r'\b([A-Za-z_][A-Za-z0-9_.]*)"*\s*[=:]\s*"*[^",{}]+')
_LABELED: Final = r'[{,]?\s*"*\b[A-Za-z_]\w*"*\s*(=|":)\s*"*[^",{}]+'
_USED: Final = (
    "pod", "pod_name", "namespace", "container", "container_name", "deployment", "statefulset",
    "workload", "service", "app", "cluster", "instance", "name", "owner_name", "job",
)  # fmt: skip
_MEASURES: Final = (
    "cpu", "mem", "memory", "replicas", "pods", "cpu_usage", "memory_usage", "cpu_cores",
    "cpu_millicores", "memory_bytes", "mem_mib", "memory_mib", "cpu_sum", "cpu_mean", "cpu_avg",
    "mem_usage", "pod_count", "instances",
)  # fmt: skip
_NO_NAMES: Final = frozenset({
    "usage", "total", "avg", "mean", "max", "sum", "request", "limit", "container", "pod", "node",
    "requests", "limits", "current",
})  # fmt: skip
_PLAIN: Final = ("cpu", "mem", "memory", "replicas", "cores", "millicores", "rss", "bytes", "usage")
_METRIC: Final = Role(("metric", "metric_name", "name", "measurement", "field", "measure",
                       "variable", "resource"))  # fmt: skip
_MEASURED: Final = frozenset({
    "cpu", "memory", "mem", "rss", "replicas", "pods", "cores", "millicores", "bytes", "usage",
    "requests", "limits", "rate", "rps", "qps", "latency", "seconds", "network", "disk", "errors",
    "total", "count", "utilization",
})  # fmt: skip
_USAGE: Final = frozenset({"cpu", "memory", "mem"})
_NO_USAGE: Final = frozenset({"request", "requests", "limit", "limits", "throttled", "quota"})
_MOST_MEASURES: Final = 50
_MOST_METRICS: Final = 200
_MOST_COLUMNS: Final = 50


def find_wide(time: Column, columns: Sequence[Column]) -> Unpivot | None:
    """Return how the columns become rows; None: the table is not a wide one.

    Columns such as web_cpu, web_replicas and api_cpu become rows of web and api.
    """
    others = [column for column in columns if column is not time]
    numbers = [c for c in others if c.kind in (*NUMBERS, Kind.empty)]
    if not numbers or any(c.kind is Kind.text for c in others):
        return None
    if any("{" in c.name and re.search(_LABELED, c.name) for c in numbers):
        return Unpivot((time.name,), SERIES, VALUE)
    for separator in ("_", ".", ":", "/", " ", "-", " - "):
        ends = [
            (c.name[: -len(end)], c.name[-len(end) + len(separator) :])
            for c in numbers
            for end in (separator + measure for measure in _MEASURES)
            if c.name.lower().endswith(end) and not set(words_of(c.name[: -len(end)])) <= _NO_NAMES
        ]
        names, measures = {name for name, _ in ends}, {measure for _, measure in ends}
        if len(names) >= 2 and len(names) * len(measures) >= _MOSTLY * len(numbers):
            # Of cpu_usage and usage, the longer one is meant.
            longest = sorted(measures, key=lambda text: (-len(text), text))
            pattern = f"^(.+?){re.escape(separator)}({'|'.join(map(re.escape, longest))})$"
            return Unpivot((time.name,), SERIES, pattern=pattern)
    if len(numbers) < 2 or any(c.has(*_PLAIN) or c.key in _MEASURES for c in numbers):
        return None
    return Unpivot((time.name,), SERIES, VALUE)


def with_labels(columns: Sequence[Column]) -> Iterator[Column]:
    """Yield the columns; in the place of one of series' labels those that may name something."""
    for column in columns:
        if column.kind is not Kind.text or column.share(_LABELED) < _MOSTLY:
            yield column
            continue
        keys = [key for text in column.examples(20) for key in _LABELS.findall(text)]
        for key in dict.fromkeys(keys):
            if key in _USED:
                label = rf'\b{re.escape(key)}"*\s*[=:]\s*"*'
                values = column.values.str.extract(label_pattern(label), 1).alias(key)
                yield profile(values, origin=column.name, label=label)


def label_pattern(label: str) -> str:
    """Return the pattern of a label's value."""
    return f'{label}([^",}}]+)'


def long_metrics(columns: Sequence[Column]) -> tuple[Pivot, list[str]] | None:
    """Return how the rows of a long table become columns, and its metrics, those of usage first.

    The column of metrics is known by its name, or because a few values, most of which say what is
    measured, are in it: cpu_cores_total.
    """
    numbers = [c for c in columns if c.kind in NUMBERS and not c.has(*_USAGE)]
    # (250m and 1210 in one column are text)
    valued = [c for c in columns if c.key == VALUE and c.kind in (*NUMBERS, Kind.text)]
    value = next(iter(valued or (numbers if len(numbers) == 1 else ())), None)
    if value is None:
        return None
    texts = [column for column in columns if column.kind is Kind.text and column is not value]
    for column in sorted(texts, key=lambda item: _METRIC.rank(item) is None):
        names = column.distinct().sort().to_list()
        words = {name: set(words_of(name)) for name in names}
        said = sum(not _MEASURED.isdisjoint(found) for found in words.values())
        few = 2 <= len(names) <= _MOST_MEASURES and said >= _MOSTLY * len(names)
        if not few and _METRIC.rank(column) is None:
            continue
        if len(names) > _MOST_METRICS or any("{" in name for name in names[:5]):
            continue
        usage = [name for name in names if words[name] & _USAGE and not words[name] & _NO_USAGE]
        if usage:
            others = [name for name in names if name not in usage]
            return Pivot(column.name, value.name), [*usage, *others][:_MOST_COLUMNS]
    return None


_LABEL: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
_KIND_NAME: Final = r"^[A-Z][A-Za-z]+$"
_NAMESPACES: Final = ("namespace", "ns")
_TARGETS: Final = ("workload", "deployment", "statefulset")
_WORKLOADS: Final = ("service", "svc", "microservice", "app", "application")
_PLACES: Final = ("node", "nodename", "instance", "job", "host", "hostname", "server", "endpoint")
_ATTRIBUTES: Final = ("uid", "id", "ip", "kind", "type", "phase", "status", "version", "image",
                      "template", "hash", "label", "labels", "class")  # fmt: skip
_POD: Final = Role(
    ("pod", "pod_name", "podname", "k8s_pod_name", "kubernetes_pod_name", "exported_pod"),
    ("pod", "pods", "podname"),
    (*_NAMESPACES, *_TARGETS, *_WORKLOADS, *_PLACES, "owner", *_ATTRIBUTES),
    _LABEL,
)
_NUMBERED_POD: Final = Role(_POD.names[:3])
_NAMESPACE: Final = Role(
    ("namespace", "ns", "namespace_name", "kube_namespace", "k8s_namespace_name",
     "kubernetes_namespace", "exported_namespace"),
    _NAMESPACES, _ATTRIBUTES, _LABEL,
)  # fmt: skip
# Names of what an HPA scales; those of `_WORKLOAD` may also name a product, a Service or a machine.
_TARGET: Final = Role(
    ("workload", "workload_name", "deployment", "deployment_name", "statefulset",
     "statefulset_name"),
    _TARGETS, _ATTRIBUTES, _LABEL,
)  # fmt: skip
_WORKLOAD: Final = Role(
    ("service", "service_name", "svc", "owner_name", "owner", "controller", "target", "target_name",
     "microservice", "component", "function", "function_name", "app", "application", "app_name",
     "name", "hpa", "vm", SERIES, "id"),
    _WORKLOADS, _ATTRIBUTES, _LABEL,
)  # fmt: skip
_NUMBERED_WORKLOAD: Final = Role((*_TARGET.names, *_WORKLOAD.names, *_PLACES))
_CONTAINER: Final = Role(
    ("container", "container_name", "k8s_container_name", "exported_container")
)
_CLUSTER: Final = Role(("cluster", "cluster_name", "k8s_cluster_name"))
_KIND: Final = Role(
    ("workload_kind", "workload_type", "owner_kind", "target_kind", "controller_kind", "kind")
)
_UID: Final = Role(("pod_uid", "uid", "k8s_pod_uid"))
_REPLICAS: Final = Role(
    ("replicas", "replica_count", "current_replicas", "status_replicas", "num_replicas", "pods",
     "pod_count", "num_pods", "podcount", "instances", "instance_count", "size", "spec_replicas",
     "ready_replicas", "available_replicas", "desired_replicas", "replica"),
    ("replicas", "replica", "podcount"),
    ("min", "max", "minimum", "maximum", "unavailable", "limit", "cpu", "mem", "memory", "restarts",
     "requests", "updated", "target", "per"),
)  # fmt: skip
_READY: Final = Role(("ready", "is_ready", "pod_ready"))
_OBJECT: Final = "abcdefghijklmnopqrstuvwxyz0123456789-."
_MANY: Final = 10_000
_MOST_LETTERS: Final = 20
_MOSTLY: Final = 0.8

# apimachinery's util/rand.SafeEncodeString: no vowels, no 0, 1, 3; older hashes are decimal.
_SAFE: Final = "[b-df-hj-np-tv-xz0-9]"
_HASH: Final = f"-{_SAFE}{{6,10}}-{_SAFE}{{5}}"
# The order counts: a suffix also ends a hash with one.
_FORMS: Final = (
    ("Deployment", _HASH),
    ("StatefulSet", "-[0-9]{1,4}"),
    ("DaemonSet", f"-{_SAFE}{{5}}"),
)


@dataclass(frozen=True, slots=True)
class PodNames:
    """The workload and kind in the names of pods, by the suffixes that controllers give.

    `kinds` are kinds of workloads with the pattern of their pods' endings; the first that fits
    counts. `ending` is the pattern of all; `examples` are workloads with a pod.
    """

    ending: str
    kinds: tuple[tuple[str, str], ...]
    examples: tuple[tuple[str, str], ...]

    @property
    def pattern(self) -> str:
        """The pattern of a name, whose group is the workload."""
        return f"^(.+?){self.ending}$"

    @property
    def hashed(self) -> bool:
        """Whether a Deployment's hash is in names: what stands before it is surely its name."""
        return any(ending == _HASH for _, ending in self.kinds)


def _read_pod_names(column: Column | None) -> PodNames | None:
    """Return how workloads are named in a column of pods; None: its names have no such suffix."""
    if column is None:
        return None
    names = left = column.values.drop_nulls().cast(pl.String, strict=False).unique().sort()
    kinds: list[tuple[str, str]] = []
    for kind, form in _FORMS:
        mask = left.str.contains(f"^.+{form}$")
        if mask.any():
            kinds.append((kind, form))
            left = left.filter(~mask)
    if not len(names) or len(left) > (1 - _MOSTLY) * len(names):
        return None
    ending = kinds[0][1]
    if len(kinds) > 1 or len(left):
        ending = f"(?:{'|'.join(form for _, form in kinds)}){'?' if len(left) else ''}"
    named = pl.DataFrame({"workload": names.str.extract(f"^(.+?){ending}$", 1), "pod": names})
    first = named.drop_nulls().unique("workload", keep="first", maintain_order=True).head(2)
    return PodNames(ending, tuple(kinds), tuple(first.rows()))


@dataclass(frozen=True, slots=True)
class Names:
    """What names a row, as far as the table says it: `columns` by key of a map."""

    level: str
    columns: Mapping[str, Column]
    pod_names: PodNames | None

    def get(self, key: str) -> Column | None:
        """Return the column of a key."""
        return self.columns.get(key)

    def used(self) -> set[str]:
        """Return the names of the table's columns that these are read from."""
        return {item.origin for item in self.columns.values()}


def find_names(found: Sequence[Column]) -> Names:
    """Return which columns and labels name the rows; `found` are those without the time."""
    left = [item for item in found if item.kind is Kind.text]
    numbered = [item for item in found if item.kind is Kind.number]
    said: dict[str, Column] = {}

    def take(key: str, item: Column | None) -> None:
        if item is not None:
            said[key] = item
            left[:] = [other for other in left if other is not item]

    hashed = (item for item in left if item.share(f"^[a-z].*{_HASH}$") >= _MOSTLY)
    take("pod", _POD.best(left) or next(hashed, None))
    for key, role in (("container", _CONTAINER), ("namespace", _NAMESPACE), ("cluster", _CLUSTER)):
        take(key, role.best(left))
    take("kind", _KIND.best(item for item in left if item.share(_KIND_NAME) == 1))
    take("uid", _UID.best(left))
    if "pod" not in said:
        take("pod", _NUMBERED_POD.best(numbered))
    pod_names = _read_pod_names(said.get("pod"))
    take("workload", _workload_of(left, "pod" in said, pod_names))
    if not said.keys() & {"workload", "pod"}:
        take("workload", _NUMBERED_WORKLOAD.best(numbered))
    sizes = [item for item in numbered if not item.label]
    take("replicas", _REPLICAS.best(sorted(sizes, key=lambda item: item.has("desired", "spec"))))
    level = "workload" if "pod" not in said and "replicas" in said else "pod"
    if level == "workload":
        said.pop("uid", None)
    else:
        whole = (item for item in found if not item.label)
        flags = (i for i in whole if i.kind is Kind.boolean or i.known.is_in([0.0, 1.0]).all())
        take("ready", _READY.best(i for i in flags if i.kind in (Kind.boolean, Kind.number)))
        if "pod" not in said and "workload" in said and said["workload"].name == SERIES:
            # The series of a wide table may be pods; a suffix of letters alone may be a name's.
            read = _read_pod_names(said["workload"])
            if read is not None and read.kinds[0][0] != "DaemonSet":
                said["pod"], pod_names = said.pop("workload"), read
    return Names(level, said, pod_names)


def _workload_of(
    left: Sequence[Column], has_pod: bool, pod_names: PodNames | None
) -> Column | None:
    """Return the string that is a row's workload; None: the pods say it, or nothing does."""
    places = [item for item in left if item.has(*_PLACES)]
    own = [item for item in left if not item.has(*_PLACES)]
    found = _TARGET.best(own)
    if found is None and (pod_names is None or not pod_names.hashed):
        # (beside pods with a Deployment's hash in their names, an app may be several Deployments)
        found = _WORKLOAD.best(own)
    if found is None and not has_pod:
        # The string that tells most rows apart, other than one value for each row.
        several = [item for item in own if len(item.distinct()) > 1] or places
        found = max(several, key=lambda item: len(item.distinct()), default=None)
    return found


def name_entries(names: Names, fallback: str) -> dict[str, Entry]:
    """Return the entries of `columns` that name a row; `fallback` is a workload's name."""
    plain = {key: Entry(_source(item)) for key, item in names.columns.items()}
    found = {"cluster": plain["cluster"]} if "cluster" in plain else {}
    found["namespace"] = Entry(
        "{value: default}", assumed="no column is a namespace; write its name here"
    )
    if (space := names.get("namespace")) is not None:
        found["namespace"] = Entry(_source(space))
    found["workload"] = _workload(names, fallback)
    kind = plain.get("kind") or _kind(names)
    found |= {} if kind is None else {"kind": kind}
    if names.level == "workload":
        return found
    alone = (
        "each series is one pod; if it is the sum over several, a column with their number is "
        "needed: level: workload, columns.replicas"
    )
    series = plain.get("workload", Entry(f"{{value: {scalar(fallback + '-0')}}}"))
    found["pod"] = plain.get("pod") or Entry(series.value, assumed=alone)
    return found | {key: plain[key] for key in ("uid", "container", "ready") if key in plain}


def _source(item: Column) -> str:
    if not item.label:
        return scalar(item.origin)
    return flow(column=scalar(item.origin), pattern=scalar(label_pattern(item.label)))


def _object_entry(item: Column, assumed: str = "") -> Entry:
    """Return the entry of a workload; names that no object can have are changed to some."""
    if item.share(_LABEL) == 1 or item.label or item.kind is not Kind.text:
        return Entry(_source(item), assumed=assumed)
    values = item.distinct().cast(pl.String).str.to_lowercase()
    others = sorted(set("".join(values.head(_MANY))) - set(_OBJECT))
    sql = f"LOWER({quoted_column(item.origin)})"
    for letter in others[:_MOST_LETTERS]:
        sql = f"REPLACE({sql}, '{letter.replace(chr(39), chr(39) * 2)}', '-')"
    told = f"as names of objects: small letters, digits and -; {item.examples(1)[0]} is none"
    return Entry(flow(sql=scalar(sql)), told, assumed)


def _workload(names: Names, fallback: str) -> Entry:
    pod, read = names.get("pod"), names.pod_names
    if (workload := names.get("workload")) is not None:
        return _object_entry(workload)
    if pod is None:
        assumed = "all rows are of one workload, named as the file; write its name here"
        return Entry(f"{{value: {scalar(fallback)}}}", assumed=assumed)
    if read is None:
        return _object_entry(
            pod,
            "each pod is a workload of its own: no suffix of Kubernetes is in the names; for a "
            r"part of the name: pattern: '^(.*)-\d+$'",
        )
    pattern = read.pattern
    if pod.label:
        pattern = f'{pod.label}([^",}}]+?){read.ending}(?:[",}}]|$)'
    told = ", ".join(f"{workload} of {pod}" for workload, pod in read.examples)
    return Entry(
        flow(column=scalar(pod.origin), pattern=scalar(pattern)),
        f"the name of a pod without the suffixes that Kubernetes adds: {told}",
    )


def _kind(names: Names) -> Entry | None:
    """Return the entry of the kind where no column says it; None: all are Deployments."""
    pod, workload, read = names.get("pod"), names.get("workload"), names.pod_names
    if workload is not None and workload.has("statefulset"):
        return Entry("{value: StatefulSet}")
    if read is None or pod is None or (workload is not None and workload.has("deployment")):
        return None
    kinds = list(dict.fromkeys(kind for kind, _ in read.kinds))
    told = "by the suffixes of the pods"
    if len(kinds) == 1:
        return None if kinds == ["Deployment"] else Entry(f"{{value: {kinds[0]}}}", told)
    if workload is not None:
        assumed = f"{kinds[0]}; some names look like {kinds[1]}'s"
        told = "" if kinds[0] == "Deployment" else told
        return Entry(f"{{value: {kinds[0]}}}", told, assumed)
    begin, end = ("^.+", "$") if not pod.label else (f'{pod.label}[^",}}]+', '(?:[",}]|$)')
    column = quoted_column(pod.origin)
    cases = " ".join(
        f"WHEN {column} ~ '{begin}{ending}{end}' THEN '{kind}'" for kind, ending in read.kinds
    )
    return Entry(flow(sql=scalar(f"CASE {cases} ELSE '{kinds[0]}' END")), told)
