"""The column registry: every table of a history, its columns, their types, units and meaning.

A history is a folder of Parquet tables. A table is one file `pods.parquet` or a folder `pods/` of
Parquet files. Reader, writer, sources and documentation all follow this registry; nothing else
knows a column's type.

Conventions: times are `Datetime("ms", "UTC")`; quantities are whole numbers whose unit is the last
word of the name (`_ms`, `_milli`, `_bytes`); a null means "not there", never a magic number.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from hpabatch.errors import HistoryError

SCHEMA_VERSION = 1
"""The version that this package writes, and the newest that it reads."""

SCHEMA_KEY = "hpabatch.schema"
TABLE_KEY = "hpabatch.table"
"""Names in a file's Parquet key-value metadata: schema version and table name."""

TIME = pl.Datetime("ms", "UTC")
INT = pl.Int64()
TEXT = pl.String()

INT32_MAX = 2**31 - 1
# Kernels count memory in milli-bytes: a larger amount would not fit 64 bits.
MEMORY_BYTES_MAX = (2**63 - 1) // 1000


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        name: the name; its last word is the unit.
        dtype: the polars type that `History.read` returns.
        doc: what the value means.
        unit: "ms", "milli", "bytes", "pods", "time" or "".
        nullable: the column may hold nulls, and null means what `doc` says.
        optional: the column may be missing from a file; it is then all null (or all `fill`).
        fill: what a null in a file is read as; the column then never holds nulls.
        minimum, maximum: bounds of an integer column, both allowed.
        values: the only texts allowed, or () for any.
        json: "object" or "array" where the text is a JSON document of that type, else "".
    """

    name: str
    dtype: pl.DataType
    doc: str
    unit: str = ""
    nullable: bool = False
    optional: bool = False
    fill: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    values: tuple[str, ...] = ()
    json: str = ""

    @property
    def holds_nulls(self) -> bool:
        """Whether nulls can remain after reading."""
        return (self.nullable or self.optional) and self.fill is None


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its columns in order, its key and who needs it.

    `key` identifies a row and is at the same time the sort order (nulls first). `needed_by` names
    the commands that cannot work without the table; () is an optional table.
    """

    name: str
    doc: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    needed_by: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        """Whether an absent table is an error."""
        return bool(self.needed_by)

    @property
    def names(self) -> tuple[str, ...]:
        """All column names, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def schema(self) -> pl.Schema:
        """Names and types of all columns, in order."""
        return pl.Schema({column.name: column.dtype for column in self.columns})

    def column(self, name: str) -> Column:
        """Return a column by name (KeyError: no such column)."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


def _text(name: str, doc: str, *, nullable: bool = False, optional: bool = False) -> Column:
    return Column(name, TEXT, doc, nullable=nullable, optional=optional)


def _default_text(name: str, doc: str) -> Column:
    return Column(name, TEXT, doc, nullable=True, optional=True, fill="")


def _json(name: str, doc: str, *, kind: str = "object", optional: bool = False) -> Column:
    return Column(name, TEXT, doc, nullable=optional, optional=optional, json=kind)


def _time(name: str, doc: str, *, nullable: bool = False, optional: bool = False) -> Column:
    return Column(name, TIME, doc, "time", nullable=nullable, optional=optional)


def _amount(
    name: str, doc: str, unit: str, *, nullable: bool = True, maximum: int | None = None
) -> Column:
    return Column(name, INT, doc, unit, nullable=nullable, minimum=0, maximum=maximum)


def _replicas(name: str, doc: str) -> Column:
    return Column(name, INT, doc, "pods", minimum=0, maximum=INT32_MAX)


CLUSTER = _text("cluster", "name of the cluster")
NAMESPACE = _text("namespace", "namespace of the object")
UID = _text("uid", "uid of the pod; names recur, uids do not")
POD = _text("pod", "name of the pod")
TARGET = _text(
    "target",
    "name of the workload that owns the pod (Deployment, StatefulSet, …); null: a bare pod. "
    "Its kind is in `scales`",
    nullable=True,
)
TS = _time("ts", "time of the sample, as the metrics API gave it")
METRIC = _text("metric", "name of the metric")
METRIC_SELECTOR = _default_text(
    "selector",
    "selector of the metric's series in Kubernetes' string form, sorted by key "
    "(`queue=orders,tier in (a,b)`); empty or null: no selector",
)
FETCHED_AT = _time(
    "fetched_at",
    "when the sample was fetched, from which on it is visible; null: not recorded",
    nullable=True,
    optional=True,
)
WINDOW = Column(
    "window_ms",
    INT,
    "length of the interval that the sample is averaged over; null: the API gave none",
    "ms",
    nullable=True,
    optional=True,
    minimum=0,
)
VALUE = Column("value_milli", INT, "the value in thousandths; may be negative", "milli")

POD_METRICS = Table(
    "pod_metrics",
    "a container's usage sample (metrics.k8s.io)",
    (
        CLUSTER,
        NAMESPACE,
        TARGET,
        UID,
        POD,
        _text("container", "name of the container"),
        TS,
        WINDOW,
        _amount("cpu_milli", "cpu usage; null: the container's sample has no cpu", "milli"),
        _amount(
            "memory_bytes",
            "working set, rounded up to bytes; null: the container's sample has no memory",
            "bytes",
            maximum=MEMORY_BYTES_MAX,
        ),
        FETCHED_AT,
    ),
    key=("cluster", "namespace", "target", "pod", "uid", "ts", "container"),
    needed_by=("replay",),
)

POD_CUSTOM_METRICS = Table(
    "pod_custom_metrics",
    "a sample of a Pods metric (custom.metrics.k8s.io)",
    (
        CLUSTER,
        NAMESPACE,
        TARGET,
        UID,
        POD,
        METRIC,
        METRIC_SELECTOR,
        TS,
        WINDOW,
        VALUE,
        FETCHED_AT,
    ),
    key=("cluster", "namespace", "target", "metric", "selector", "pod", "uid", "ts"),
)

OBJECT_METRICS = Table(
    "object_metrics",
    "a sample of an Object metric (custom.metrics.k8s.io)",
    (
        CLUSTER,
        NAMESPACE,
        _text("kind", "kind of the described object"),
        _text("name", "name of the described object; of a Namespace metric: the HPA's namespace"),
        METRIC,
        METRIC_SELECTOR,
        TS,
        VALUE,
        FETCHED_AT,
    ),
    key=("cluster", "namespace", "kind", "name", "metric", "selector", "ts"),
)

EXTERNAL_METRICS = Table(
    "external_metrics",
    "a sample of one series of an External metric (external.metrics.k8s.io)",
    (
        CLUSTER,
        NAMESPACE,
        METRIC,
        METRIC_SELECTOR,
        _default_text("series", "name of the series; the metric is the sum over its series"),
        TS,
        VALUE,
        FETCHED_AT,
    ),
    key=("cluster", "namespace", "metric", "selector", "series", "ts"),
)

PODS = Table(
    "pods",
    "a pod's life",
    (
        CLUSTER,
        NAMESPACE,
        TARGET,
        UID,
        POD,
        _json("labels", 'labels as a JSON object of texts, e.g. {"app":"cart"}'),
        _text("owner", "controlling object as Kind/name; null: none", nullable=True, optional=True),
        _time("created", "metadata.creationTimestamp"),
        _time("started", "status.startTime, unset before; null: never", nullable=True),
        _time(
            "deletion_requested",
            "when metadata.deletionTimestamp appeared; null: never",
            nullable=True,
            optional=True,
        ),
        _time("gone", "when the object vanished; null: never", nullable=True, optional=True),
        _text("node", "spec.nodeName; null: not recorded", nullable=True, optional=True),
    ),
    key=("cluster", "namespace", "target", "pod", "uid"),
    needed_by=("replay",),
)

POD_REQUESTS = Table(
    "pod_requests",
    "requests and limits of a container (or of the pod as a whole) since `valid_from`",
    (
        CLUSTER,
        NAMESPACE,
        UID,
        Column(
            "container",
            TEXT,
            "name of the container; empty or null for the kinds pod and overhead",
            nullable=True,
            fill="",
        ),
        Column(
            "kind",
            TEXT,
            "app; sidecar (init container with restartPolicy Always); init; pod "
            "(spec.resources); overhead (spec.overhead)",
            values=("app", "sidecar", "init", "pod", "overhead"),
        ),
        Column("index", INT, "place in the pod spec's own list, from 0", minimum=0),
        _time("valid_from", "since when: the pod's creation, or a resize in place"),
        _amount("cpu_milli", "cpu request; null: none set", "milli"),
        _amount("memory_milli", "memory request in milli-bytes; null: none set", "milli"),
        _amount("cpu_limit_milli", "cpu limit; null: none set", "milli"),
        _amount("memory_limit_milli", "memory limit in milli-bytes; null: none set", "milli"),
    ),
    key=("cluster", "namespace", "uid", "valid_from", "kind", "index", "container"),
    needed_by=("replay",),
)

POD_STATES = Table(
    "pod_states",
    "a change of a pod's phase or of its Ready condition",
    (
        CLUSTER,
        NAMESPACE,
        UID,
        _time("ts", "when the change was seen"),
        Column(
            "phase",
            TEXT,
            "status.phase",
            values=("Pending", "Running", "Succeeded", "Failed", "Unknown", ""),
        ),
        Column(
            "ready",
            TEXT,
            "status of the Ready condition; null: the pod has no such condition",
            nullable=True,
            values=("True", "False", "Unknown"),
        ),
        _time(
            "last_transition",
            "lastTransitionTime of the Ready condition; null: no condition",
            nullable=True,
        ),
    ),
    key=("cluster", "namespace", "uid", "ts"),
    needed_by=("replay",),
)

SCALES = Table(
    "scales",
    "a change of a target's scale: its size or its selector",
    (
        CLUSTER,
        NAMESPACE,
        _text("target_kind", "kind of the target, as in scaleTargetRef"),
        _text("target", "name of the target"),
        _time("ts", "when the change was seen"),
        _replicas("spec_replicas", "spec.replicas of the scale"),
        _replicas("status_replicas", "status.replicas of the scale"),
        _text(
            "selector",
            "status.selector, Kubernetes' string form; null: not recorded; empty: the scale has "
            "none",
            nullable=True,
            optional=True,
        ),
    ),
    key=("cluster", "namespace", "target_kind", "target", "ts"),
    needed_by=("replay",),
)

HPAS = Table(
    "hpas",
    "an HPA's spec and when it was in force",
    (
        CLUSTER,
        NAMESPACE,
        _text("name", "name of the HPA"),
        _text("uid", "uid of the HPA"),
        _time("valid_from", "since when this spec was in force"),
        _time("valid_to", "until when, exclusive; null: still in force", nullable=True),
        _json("spec", "spec as autoscaling/v2 JSON"),
        _json("labels", "labels as a JSON object; null: not recorded", optional=True),
        _json("annotations", "annotations as a JSON object; null: not recorded", optional=True),
        _time("created", "metadata.creationTimestamp", nullable=True, optional=True),
        Column(
            "generation",
            INT,
            "metadata.generation; null: not recorded",
            nullable=True,
            optional=True,
            minimum=0,
        ),
    ),
    key=("cluster", "namespace", "name", "uid", "valid_from"),
    needed_by=("replay",),
)

HPA_STATUS = Table(
    "hpa_status",
    "what the cluster's own controller showed in an HPA's status",
    (
        CLUSTER,
        NAMESPACE,
        _text("name", "name of the HPA"),
        _text("uid", "uid of the HPA"),
        _time("ts", "when the status was seen"),
        _replicas("current_replicas", "status.currentReplicas"),
        _replicas("desired_replicas", "status.desiredReplicas"),
        _json(
            "current_metrics",
            "status.currentMetrics as a JSON array; null: not recorded",
            kind="array",
            optional=True,
        ),
        _json(
            "conditions",
            "status.conditions as a JSON array; null: not recorded",
            kind="array",
            optional=True,
        ),
        _time("last_scale_time", "status.lastScaleTime; null: never", nullable=True, optional=True),
        Column(
            "observed_generation",
            INT,
            "status.observedGeneration; null: unset",
            nullable=True,
            optional=True,
        ),
    ),
    key=("cluster", "namespace", "name", "uid", "ts"),
)

CONTROLLER = Table(
    "controller",
    "what is known of the cluster's controller, and when it lost its state",
    (
        CLUSTER,
        _time("ts", "when it was seen"),
        Column(
            "event",
            TEXT,
            "start: a process took over and its windows were empty; observed: flags were read",
            values=("start", "observed"),
        ),
        _text("version", "Kubernetes version; null: not recorded", nullable=True, optional=True),
        _json("flags", "flags as a JSON object; null: not recorded", optional=True),
    ),
    key=("cluster", "ts", "event"),
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        POD_METRICS,
        POD_CUSTOM_METRICS,
        OBJECT_METRICS,
        EXTERNAL_METRICS,
        PODS,
        POD_REQUESTS,
        POD_STATES,
        SCALES,
        HPAS,
        HPA_STATUS,
        CONTROLLER,
    )
}


def table_named(name: str) -> Table:
    """Return a registered table.

    Raises:
        HistoryError: no table has that name; the message lists those that exist.
    """
    if name not in TABLES:
        raise HistoryError(
            f"there is no history table {name!r}; the tables are {', '.join(TABLES)}"
        )
    return TABLES[name]


def empty_frame(name: str) -> pl.DataFrame:
    """Return a table without rows, with all registered columns (HistoryError: no such table)."""
    return pl.DataFrame(schema=table_named(name).schema)
