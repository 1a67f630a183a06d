"""The column registry: every table of a history with its columns, their types, units and meaning.

A history is a folder of Parquet tables. A table is one file `pods.parquet` or a folder `pods/` of
Parquet files. Reader, writer, sources and documentation follow this registry; no other module
knows a column's type.

Conventions: times are `Datetime("ms", "UTC")`; quantities are whole numbers whose unit is the last
word of the name (`_ms`, `_milli`, `_bytes`); a null means "not there", never a magic number.
"""

from __future__ import annotations

import polars as pl

from hpabatch.errors import HistoryError
from hpabatch.history.columns import (
    CLUSTER,
    CPU_MILLI_MAX,
    INT,
    MEMORY_BYTES_MAX,
    MEMORY_MILLI_MAX,
    NAMESPACE,
    TEXT,
    Column,
    Table,
    amount_column,
    choice_column,
    default_text_column,
    json_column,
    number_column,
    replicas_column,
    text_column,
    time_column,
    truth_column,
)

HPAS = Table(
    "hpas",
    "an HPA's spec and when it was in force",
    (
        CLUSTER,
        NAMESPACE,
        text_column("name", "name of the HPA"),
        text_column("uid", "uid of the HPA"),
        time_column("valid_from", "since when this spec was in force"),
        time_column("valid_to", "until when, exclusive; null: still in force", nullable=True),
        json_column("spec", "spec as autoscaling/v2 JSON"),
        json_column("labels", "labels as a JSON object; null: not recorded", optional=True),
        json_column(
            "annotations", "annotations as a JSON object; null: not recorded", optional=True
        ),
        time_column("created", "metadata.creationTimestamp", nullable=True, optional=True),
        number_column("generation", "metadata.generation; null: not recorded"),
    ),
    key=("cluster", "namespace", "name", "uid", "valid_from"),
    needed_by=("replay",),
)

HPA_CONTEXT = Table(
    "hpa_context",
    "what a cluster's objects say beside an HPA's spec: its owner, and what keeps the pods of its "
    "target available",
    (
        CLUSTER,
        NAMESPACE,
        text_column("name", "name of the HPA"),
        time_column("ts", "since when it is known"),
        text_column(
            "owner",
            "controlling object as Kind/name; the last row counts; null: none",
            nullable=True,
        ),
        json_column(
            "budgets",
            "PodDisruptionBudgets of the target's pods as a JSON array of objects: name, "
            "minAvailable, maxUnavailable, as written; null: as before, or never recorded",
            kind="array",
            optional=True,
        ),
        json_column(
            "spreads",
            "topologySpreadConstraints of the target's pods as a JSON array of objects: "
            "topologyKey, whenUnsatisfiable, minDomains, and domains, the values that nodes have "
            "of this key; null: as before, or never recorded",
            kind="array",
            optional=True,
        ),
    ),
    key=("cluster", "namespace", "name", "ts"),
)

HPA_STATUS = Table(
    "hpa_status",
    "an HPA's status as written by the cluster's own controller",
    (
        CLUSTER,
        NAMESPACE,
        text_column("name", "name of the HPA"),
        text_column("uid", "uid of the HPA"),
        time_column("ts", "when the status was seen"),
        replicas_column("current_replicas", "status.currentReplicas"),
        replicas_column("desired_replicas", "status.desiredReplicas"),
        json_column(
            "current_metrics",
            "status.currentMetrics as a JSON array; null: not recorded",
            kind="array",
            optional=True,
        ),
        json_column(
            "conditions",
            "status.conditions as a JSON array; null: not recorded",
            kind="array",
            optional=True,
        ),
        time_column(
            "last_scale_time", "status.lastScaleTime; null: never", nullable=True, optional=True
        ),
        number_column(
            "observed_generation", "status.observedGeneration; null: unset", minimum=None
        ),
    ),
    key=("cluster", "namespace", "name", "uid", "ts"),
    day="ts",
)

METRIC_FETCHES = Table(
    "metric_fetches",
    "a metrics API's response to an HPA's controller, for one metric of its spec",
    (
        CLUSTER,
        NAMESPACE,
        text_column("name", "name of the HPA"),
        number_column(
            "metric_index", "place of the metric in the spec's list, from 0", optional=False
        ),
        time_column("ts", "time of the response, which holds until the next one"),
        choice_column(
            "answer",
            "ok: values as recorded in the metric tables; empty: a list without items; error: the "
            "request failed",
            *("ok", "empty", "error"),
        ),
        text_column("error", "the error message; null: none", nullable=True, optional=True),
    ),
    key=("cluster", "namespace", "name", "metric_index", "ts"),
    day="ts",
)

CONTROLLER = Table(
    "controller",
    "a fact about the cluster's controller, or a time at which it lost its memory",
    (
        CLUSTER,
        time_column("ts", "when it was seen"),
        choice_column(
            "event",
            "start: a process took over and its windows were empty; observed: flags were read",
            *("start", "observed"),
        ),
        text_column(
            "version", "Kubernetes version; null: not recorded", nullable=True, optional=True
        ),
        json_column("flags", "flags as a JSON object; null: not recorded", optional=True),
    ),
    key=("cluster", "ts", "event"),
)

PASSES = Table(
    "passes",
    "a pass of a live loop, which decided every known HPA on what it had seen",
    (
        CLUSTER,
        time_column("ts", "instant of the pass, which does not use anything seen later"),
        truth_column("start", "whether the loop began then, with empty controller memory"),
        text_column(
            "k8s", "version whose rules it used; null: not stated", nullable=True, optional=True
        ),
        number_column("hpas", "number of decided HPAs; null: not stated"),
        number_column("duration_ms", "duration of the pass; null: not stated", "ms"),
    ),
    key=("cluster", "ts"),
    day="ts",
)

SIMULATED = "simulated"  # method of provenance

PROVENANCE = Table(
    "provenance",
    "the origin of a part of the history",
    (
        CLUSTER,
        default_text_column("namespace", "namespace that this holds for; empty: all"),
        default_text_column("name", "HPA or workload that this holds for; empty: all"),
        text_column(
            "subject",
            "a table, a column, or a field in a column (`pods`, `pod_metrics.cpu_milli`, "
            "`hpas.spec.behavior`)",
        ),
        time_column("valid_from", "since when"),
        time_column(
            "valid_to",
            "until when, exclusive; null: until a later row of the same subject",
            nullable=True,
            not_before="valid_from",
        ),
        text_column(
            "method",
            "a short code: `counter`, `rate`, `adapter`, `status`, `manifest`, `events`, …; "
            "`rows`: of the subject `scales`, from a workload's first to its last row in an "
            "imported table: an HPA whose creation is not recorded lives as long; "
            "`recorder`: seen live, so a sample holds until it is replaced or withdrawn; "
            "`simulated`: of the subject `run`, the time that a simulated run covers; "
            "`guessed`: proposed by `import table --init` and not yet stated; "
            "`assumed`: not recorded, a likely value is used; `absent`: not recorded",
        ),
        text_column("detail", "an explanation; null: none", nullable=True, optional=True),
    ),
    key=("cluster", "namespace", "name", "subject", "valid_from"),
)


SCHEMA_VERSION = 5
"""The version that this package writes, and the newest one that it reads."""

SCHEMA_KEY = "hpabatch.schema"
TABLE_KEY = "hpabatch.table"
"""Names in a file's Parquet key-value metadata: schema version and table name."""

UID = text_column("uid", "uid of the pod; names recur, uids do not")
POD = text_column("pod", "name of the pod")
TARGET = text_column(
    "target",
    "name of the workload that owns the pod (Deployment, StatefulSet, …); null: a bare pod. "
    "Its kind is in `scales`",
    nullable=True,
)
TARGET_OF_POD = default_text_column(
    "target", "target of the pod, as in `pods`; empty or null: not recorded, or a bare pod"
)
TS = time_column(
    "ts",
    "time of the sample, as the metrics API gave it; of a row that withdraws samples: later than "
    "those before it",
)
METRIC = text_column("metric", "name of the metric")
METRIC_SELECTOR = default_text_column(
    "selector",
    "selector of the metric's series in Kubernetes' string form, sorted by key "
    "(`queue=orders,tier in (a,b)`); empty or null: no selector",
)
FETCHED_AT = time_column(
    "fetched_at",
    "when the sample was fetched and became visible; null: not recorded",
    nullable=True,
    optional=True,
)
WINDOW = number_column(
    "window_ms",
    "length of the interval that the sample is averaged over; null: the API gave none",
    "ms",
)
VALUE = Column(
    "value_milli",
    INT,
    "the value in thousandths; may be negative; null: from then on not in the API's response",
    "milli",
    nullable=True,
)

POD_METRICS = Table(
    "pod_metrics",
    "a container's usage sample (metrics.k8s.io); if cpu and memory are null in all rows of a pod "
    "and time, the API's response no longer lists the pod",
    (
        CLUSTER,
        NAMESPACE,
        TARGET,
        UID,
        POD,
        text_column("container", "name of the container"),
        TS,
        WINDOW,
        amount_column(
            "cpu_milli",
            "cpu usage; null: the container's sample has no cpu",
            "milli",
            maximum=CPU_MILLI_MAX,
        ),
        amount_column(
            "memory_bytes",
            "working set, rounded up to bytes; null: the container's sample has no memory",
            "bytes",
            maximum=MEMORY_BYTES_MAX,
        ),
        FETCHED_AT,
    ),
    key=("cluster", "namespace", "target", "pod", "uid", "ts", "container"),
    needed_by=("replay",),
    day="ts",
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
    day="ts",
)

OBJECT_METRICS = Table(
    "object_metrics",
    "a sample of an Object metric (custom.metrics.k8s.io)",
    (
        CLUSTER,
        NAMESPACE,
        text_column("kind", "kind of the described object"),
        text_column(
            "name", "name of the described object; of a Namespace metric: the HPA's namespace"
        ),
        METRIC,
        METRIC_SELECTOR,
        TS,
        VALUE,
        FETCHED_AT,
    ),
    key=("cluster", "namespace", "kind", "name", "metric", "selector", "ts"),
    day="ts",
)

EXTERNAL_METRICS = Table(
    "external_metrics",
    "a sample of one series of an External metric (external.metrics.k8s.io)",
    (
        CLUSTER,
        NAMESPACE,
        METRIC,
        METRIC_SELECTOR,
        default_text_column("series", "name of the series; the metric is the sum over its series"),
        TS,
        VALUE,
        FETCHED_AT,
    ),
    key=("cluster", "namespace", "metric", "selector", "series", "ts"),
    day="ts",
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
        json_column("labels", 'labels as a JSON object of strings, e.g. {"app":"cart"}'),
        text_column(
            "owner", "controlling object as Kind/name; null: none", nullable=True, optional=True
        ),
        time_column(
            "created", "metadata.creationTimestamp, or when a recorder saw it appear, if later"
        ),
        # It is before `created` for a pod that runs when a recording begins.
        time_column("started", "status.startTime, unset before; null: never", nullable=True),
        time_column(
            "deletion_requested",
            "when metadata.deletionTimestamp appeared; null: never",
            nullable=True,
            optional=True,
            not_before="created",
        ),
        time_column(
            "gone",
            "when the object vanished; null: never",
            nullable=True,
            optional=True,
            not_before="created",
        ),
        text_column("node", "spec.nodeName; null: not recorded", nullable=True, optional=True),
        Column(
            "origin",
            TEXT,
            "recorded: a pod of the cluster; generated: stands for a pod of a workload with only "
            "its size recorded; null: recorded",
            nullable=True,
            optional=True,
            fill="recorded",
            values=("recorded", "generated"),
        ),
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
        TARGET_OF_POD,
        UID,
        Column(
            "container",
            TEXT,
            "name of the container; empty or null for the kinds pod and overhead",
            nullable=True,
            fill="",
        ),
        choice_column(
            "kind",
            "app; sidecar (init container with restartPolicy Always); init; pod "
            "(spec.resources); overhead (spec.overhead)",
            *("app", "sidecar", "init", "pod", "overhead"),
        ),
        number_column("index", "place in the pod spec's own list, from 0", optional=False),
        time_column("valid_from", "since when: the pod's creation, or a resize in place"),
        amount_column("cpu_milli", "cpu request; null: none set", "milli", maximum=CPU_MILLI_MAX),
        amount_column(
            "memory_milli",
            "memory request in milli-bytes; null: none set",
            "milli",
            maximum=MEMORY_MILLI_MAX,
        ),
        amount_column(
            "cpu_limit_milli", "cpu limit; null: none set", "milli", maximum=CPU_MILLI_MAX
        ),
        amount_column(
            "memory_limit_milli",
            "memory limit in milli-bytes; null: none set",
            "milli",
            maximum=MEMORY_MILLI_MAX,
        ),
    ),
    key=("cluster", "namespace", "target", "uid", "valid_from", "kind", "index", "container"),
    needed_by=("replay",),
)

POD_STATES = Table(
    "pod_states",
    "a change of a pod's phase or of its Ready condition",
    (
        CLUSTER,
        NAMESPACE,
        TARGET_OF_POD,
        UID,
        time_column("ts", "when the change was seen"),
        choice_column(
            *("phase", "status.phase", "Pending", "Running", "Succeeded", "Failed", "Unknown", "")
        ),
        choice_column(
            "ready",
            "status of the Ready condition; null: the pod has no such condition",
            *("True", "False", "Unknown"),
            nullable=True,
        ),
        time_column(
            "last_transition",
            "lastTransitionTime of the Ready condition; null: no condition",
            nullable=True,
        ),
    ),
    key=("cluster", "namespace", "target", "uid", "ts"),
    needed_by=("replay",),
    day="ts",
)

SCALES = Table(
    "scales",
    "a change of a target's scale: its size, its selector, or whether it can be read",
    (
        CLUSTER,
        NAMESPACE,
        text_column("target_kind", "kind of the target, as in scaleTargetRef"),
        text_column("target", "name of the target"),
        time_column("ts", "when the change was seen"),
        replicas_column("spec_replicas", "spec.replicas of the scale"),
        replicas_column("status_replicas", "status.replicas of the scale"),
        text_column(
            "selector",
            "status.selector, Kubernetes' string form; null: not recorded; empty: the scale has "
            "none",
            nullable=True,
            optional=True,
        ),
        text_column(
            "error",
            "why the scale could not be read from then on (sizes and selector as before; 0 if it "
            "never could), in the API server's words; null: it was read",
            nullable=True,
            optional=True,
        ),
    ),
    key=("cluster", "namespace", "target", "target_kind", "ts"),
    needed_by=("replay",),
    day="ts",
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
        HPA_CONTEXT,
        HPA_STATUS,
        METRIC_FETCHES,
        CONTROLLER,
        PASSES,
        PROVENANCE,
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
